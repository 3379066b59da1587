"""The attack on sums: printed values, a slow version, planted examples, and chance where there
is nothing to find.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binomtest, norm

from algorithms.core.messages import Weights
from algorithms.core.network import Network
from algorithms.models import mlp
from attacks import sum_mia
from attacks.interfaces import SeenRound, SeenSum, Sum
from attacks.sum_mia import Config, parts, sources
from datasets.federation import Examples
from orchestrator.config.run import check, resolve
from orchestrator.conformance.example_runs import described, finished, inline_trial
from tests.support.federations import federation
from tests.support.passive import fixed
from tests.support.stand_ins import StandIn
from tests.support.toy_federation import columns_of

PLAIN = Config(center="none", targets=1000, compared=1000)


def vectors(clients, each, features, nonmembers=200, seed=0):
    """Isotropic examples with one label.

    A linear model of two classes has gradients -x / 2 and x / 2 of them at 0.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(clients * each + nonmembers, features)).astype(np.float32)
    every = Examples(x, np.zeros(len(x), np.int64))
    inside, outside = every[: clients * each], every[clients * each :]
    return federation(
        inside, [each] * clients, nonmembers=outside, nonmember_owner=np.full(nonmembers, -1)
    )


def linear(features):
    network = Network(StandIn(module=mlp, config=mlp.Config(hidden=())), (features,), 2)
    return network, Weights(np.zeros(len(network.params), np.float32), np.zeros(0, np.float32))


def update(x):
    """What a step of size 1 on examples [n, features] adds to a linear model of zeros."""
    g = np.concatenate([-x.sum(axis=0), x.sum(axis=0), [-len(x), len(x)]]) / 2
    return -g.astype(np.float64)


def summed(start, updates, clients, weights=None, model=0):
    """The sum of updates [all clients, d] of some clients."""
    weights = np.ones(len(clients)) if weights is None else np.asarray(weights, float)[clients]
    weights = weights / weights.sum()
    return Sum(model, start, weights @ updates[clients], np.asarray(clients), weights)


def attacked(data, network, rounds, config=PLAIN):
    """The exposure after rounds, each a list of sums."""
    kept = {}
    for t, sums in enumerate(rounds):
        observed = [sum_mia.observe(config, SeenSum(data, network, one, fixed, t)) for one in sums]
        clients = np.concatenate([one.clients for one in sums])
        found = sum_mia.conclude(
            config, SeenRound(data, observed, clients, t, fixed, kept, sums=sums)
        )
        kept = found.kept
    return found


def cohorts(n, m, rounds, rng):
    return [np.sort(rng.choice(n, m, replace=False)) for _ in range(rounds)]


def took_part(n, there):
    return np.array([np.isin(np.arange(n), cohort) for cohort in there], float)


# Printed values


@pytest.mark.parametrize(("number", "printed"), [(100, 0.9873), (1000, 0.7602)])
def test_the_sum_of_isotropic_gradients_gives_members_away_as_computed(number, printed):
    d, network_of = 1000, linear(1000)
    assert norm.cdf(sqrt(d / (2 * number))) == pytest.approx(printed, abs=5e-5)
    found = []
    for seed in range(6):
        data = vectors(10, number // 10, d, seed=seed)
        updates = np.stack([update(data.train.x[data.owner() == k]) for k in range(10)])
        once = attacked(data, network_of[0], [[summed(network_of[1], updates, np.arange(10))]])
        found.append(columns_of(once)["sum_auc"])
    assert np.mean(found) == pytest.approx(printed, abs=3 * np.std(found, ddof=1) / sqrt(6) + 0.002)
    assert np.std(found) < 0.03


def variance(n, m, rounds):
    """Of a client's part by least squares, for noise sqrt(m)."""
    p = m / n
    a, b = p * (n - m) / (n - 1), p * (m - 1) / (n - 1)
    return m / rounds / a * (1 - b / (a + n * b)) * rounds / (rounds - n - 1)


def regressed(n, m, rounds, ridge, having, rng, columns=100):
    """Parts [n, columns] where ``having`` clients have a part of 1 in each column, and who they
    are.
    """
    there = took_part(n, cohorts(n, m, rounds, rng))
    truth = rng.permuted(np.tile((np.arange(n) < having)[:, None], columns), axis=0)
    scores = there @ truth + sqrt(m) * rng.normal(size=(rounds, columns))
    return parts(there.T @ there, there.T @ scores, ridge), truth


@pytest.mark.parametrize(
    ("rounds", "formula", "least_squares", "ridge"),
    [(100, 0.738, 0.736, 0.770), (300, 0.925, 0.924, 0.931)],
)
def test_the_part_of_a_client_is_told_as_printed_of_least_squares(
    rounds, formula, least_squares, ridge
):
    assert norm.cdf(1 / sqrt(2 * variance(50, 10, rounds))) == pytest.approx(formula, abs=5e-4)
    rng, found = np.random.default_rng(0), {0.0: [], 5.0: []}
    for penalty, aucs in found.items():
        for _ in range(20):
            p, truth = regressed(50, 10, rounds, penalty, 5, rng)
            aucs += [
                (column[one][:, None] > column[~one]).mean()
                for column, one in zip(p.T, truth.T, strict=True)
            ]
    assert np.mean(found[0.0]) == pytest.approx(least_squares, abs=0.012)
    assert (
        ridge - 0.012 < np.mean(found[5.0]) < ridge + 0.02
    )  # drawn to the mean, it is a little better than to 0


def test_the_source_is_named_as_printed():
    def accuracy(n, m):
        return quad(lambda u: norm.pdf(u) * norm.cdf(u + m) ** (n - 1), -9, 9)[0]

    assert accuracy(20, 1 / sqrt(variance(20, 10, 100))) == pytest.approx(0.375, abs=5e-4)
    rng, right = np.random.default_rng(0), []
    for _ in range(50):
        p, truth = regressed(20, 10, 100, 0.0, 1, rng)
        right += (sources(p, rng) == truth.argmax(axis=0)).tolist()
    assert np.mean(right) == pytest.approx(0.388, abs=0.02)


# A slow version


def slow_parts(present, scores, ridge):
    """The penalty as further rows of a least squares problem."""
    n = present.shape[1]
    rows = np.vstack([present, sqrt(ridge) * (np.eye(n) - 1 / n)])
    return np.linalg.lstsq(rows, np.vstack([scores, np.zeros((n, scores.shape[1]))]), rcond=None)[0]


def test_what_is_kept_from_round_to_round_is_all_that_the_slow_version_needs():
    """Weights, absences and two models: the scores as sums of inner products, the regression on
    the whole matrix.
    """
    n, each, d, rng = 6, 8, 20, np.random.default_rng(3)
    data, (network, start), members = vectors(n, each, d, nonmembers=30), linear(d), n * each
    weights, rounds, rows, scores = rng.uniform(1, 3, n), [], [], []
    gradients = np.stack(
        [-update(x[None]) for x in np.concatenate([data.train.x, data.nonmembers.x])]
    )
    for _ in range(9):
        sums, updates = [], rng.normal(size=(n, 2 * d + 2))
        for j, group in enumerate(
            (np.arange(4), np.array([4]))
        ):  # the last client never takes part
            if len(there := group[rng.random(len(group)) < 0.6]):
                sums.append(summed(start, updates, there, weights, j))
                rows.append(np.zeros(n))
                rows[-1][there] = len(there) * weights[there] / weights[there].sum()
                scores.append(-gradients @ (rows[-1] @ updates))
        rounds.append(sums)
    present, signal = np.array(rows)[:, :5], np.array(scores)
    found = attacked(data, network, [sums for sums in rounds if sums])
    for k in range(5):
        mean = present[:, k] @ signal / present[:, k].sum()
        own, outside = mean[k * each : (k + 1) * each], mean[members:]
        assert found.clients["sum_auc"][k] == pytest.approx(
            (own[:, None] > outside).mean(), abs=1e-9
        )
    p = slow_parts(present, signal[:, :members], PLAIN.ridge).reshape(5, n, each)
    expected = [(p[k, k][:, None] > np.delete(p[k], k, axis=0).ravel()).mean() for k in range(5)]
    np.testing.assert_allclose(found.clients["sum_part_auc"][:5], expected, atol=1e-9)
    hits = [(p.argmax(axis=0)[k] == k).mean() for k in range(5)]
    np.testing.assert_allclose(found.clients["sum_source"][:5], hits)
    assert (columns_of(found)["sum_source"], columns_of(found)["sum_source_chance"]) == (
        pytest.approx(np.mean(hits)),
        1 / 5,
    )
    assert np.isnan(found.clients["sum_auc"][5]) and np.isnan(found.clients["sum_source"][5])


def test_cosines_are_products_of_unit_vectors():
    data, (network, start) = vectors(2, 5, 30), linear(30)
    direction = np.random.default_rng(0).normal(size=62)
    network.load(start)
    g = np.stack([-update(one[None]) for one in data.train.x])
    expected = g @ direction / np.linalg.norm(g, axis=1) / np.linalg.norm(direction)
    np.testing.assert_allclose(
        sum_mia.cosines(network, data.train.x, data.train.y, direction), expected, rtol=1e-4
    )
    one = [summed(start, np.zeros((2, 62)), np.arange(2))]
    nothing = attacked(data, network, [one], PLAIN.model_copy(update={"signal": "cosine"}))
    assert columns_of(nothing)["sum_auc"] == pytest.approx(0.5)  # a sum of zero has no direction


# What is there, and what is not


@pytest.fixture(scope="module")
def fitted():
    """A federation whose clients repeat the same step on their own examples, and the updates of
    each.
    """
    data, (network, start) = vectors(10, 10, 300, nonmembers=100), linear(300)
    return (
        data,
        network,
        start,
        np.stack([update(data.train.x[data.owner() == k]) for k in range(10)]),
    )


def test_only_the_client_whose_examples_are_in_the_sum_is_found(fitted):
    data, network, start, updates = fitted
    others = [update(np.random.default_rng(k).normal(size=(10, 300))) for k in range(10)]
    mixed = np.stack([*others[:4], updates[4], *others[5:]])
    rounds = [
        [summed(start, mixed, there)] for there in cohorts(10, 5, 30, np.random.default_rng(0))
    ]
    found = attacked(data, network, rounds)
    named = {(one.of.name, one.metric): one for one in found.measures}
    for metric, chance in (("sum_auc", 0.5), ("sum_part_auc", 0.5), ("sum_source", 0.1)):
        assert found.clients[metric][4] == named["client_4", metric].value > 0.9, metric
        assert abs(np.delete(found.clients[metric], 4).mean() - chance) < 0.12, metric
        assert (
            named["clients", metric].low < columns_of(found)[metric]
            and named["clients", metric].chance == chance
        )


@pytest.mark.parametrize("rounds", [1, 30])
@pytest.mark.parametrize("heaviest", [1, 4])
def test_if_all_always_take_part_nobody_is_told_from_others(fitted, rounds, heaviest):
    """Members are found; whose they are is a guess, also if one client weighs more than the
    others.
    """
    data, network, start, updates = fitted
    one = summed(start, updates, np.arange(10), np.linspace(1, heaviest, 10))
    found = attacked(data, network, [[one]] * rounds)
    assert columns_of(found)["sum_auc"] > 0.85
    assert columns_of(found)["sum_part_auc"] == pytest.approx(
        0.5, abs=1e-3
    )  # one score for all, up to rounding
    assert columns_of(found)["sum_source_low"] <= 0.1 <= columns_of(found)["sum_source_high"]
    guessed = sources(np.ones((10, 10_000)), np.random.default_rng(0))
    assert np.bincount(guessed, minlength=10).min() > 850


def test_under_a_permuted_list_of_who_took_part_nobody_is_told_from_others(fitted):
    data, network, start, updates = fitted
    there = cohorts(10, 4, 40, np.random.default_rng(0))
    sums = [[summed(start, updates, cohort)] for cohort in there]
    values = []
    for seed in range(12):
        order = np.random.default_rng(seed).permutation(40)
        false = [
            [Sum(0, start, one[0].mean, there[t], one[0].weights)]
            for one, t in zip(sums, order, strict=True)
        ]
        found = attacked(data, network, false)
        values.append((columns_of(found)["sum_part_auc"], columns_of(found)["sum_source"]))
        assert columns_of(found)["sum_auc"] > 0.85
    errors = np.std(values, axis=0, ddof=1) / sqrt(12)
    assert (np.abs(np.mean(values, axis=0) - [0.5, 0.1]) < 3.1 * errors).all()


@pytest.mark.slow
def test_on_examples_of_nobody_it_is_at_chance_and_intervals_cover_it():
    """400 audits; clients train on other examples than those that are asked about."""
    n, each, d, audits = 10, 12, 30, 400
    network, start = linear(d)
    chances, values, covered = {"sum_auc": 0.5, "sum_part_auc": 0.5, "sum_source": 1 / n}, [], []
    for seed in range(audits):
        rng, data = (
            np.random.default_rng(seed),
            vectors(n, each, d, nonmembers=60, seed=1000 + seed),
        )
        rounds = []
        for there in cohorts(n, 4, 12, rng):
            updates = np.stack([update(rng.normal(size=(each, d))) for _ in range(n)])
            rounds.append([summed(start, updates, there)])
        found = columns_of(attacked(data, network, rounds))
        values.append([found[name] for name in chances])
        covered.append(
            [found[f"{name}_low"] <= c <= found[f"{name}_high"] for name, c in chances.items()]
        )
    means, errors = np.mean(values, axis=0), np.std(values, axis=0, ddof=1) / sqrt(audits)
    assert (np.abs(means - list(chances.values())) < 3 * errors).all(), (means, errors)
    for name, hits in zip(chances, np.sum(covered, axis=0), strict=True):
        assert binomtest(int(hits), audits, 0.93).pvalue > 0.01 or hits / audits > 0.93, (
            name,
            hits / audits,
        )
        assert binomtest(int(hits), audits, 0.97).pvalue > 0.01 or hits / audits < 0.97, (
            name,
            hits / audits,
        )
    print(
        dict(zip(chances, zip(means, errors, np.mean(covered, axis=0), strict=True), strict=True))
    )


# In a run


def first_sum(monkeypatch, folder, **fields):
    """The sum of the first round of a run that attacks it, the models before and after, and the
    finished run.
    """
    seen, observe = [], sum_mia.observe
    monkeypatch.setattr(
        sum_mia, "observe", lambda config, one: seen.append(one.sum) or observe(config, one)
    )
    trial = inline_trial(
        described() | {"attacks": [{"name": "sum_mia", "targets": 5}]} | fields, folder
    )
    before = trial.state.models[0].params
    trial.advance()
    monkeypatch.undo()
    return seen[0], trial.state.models[0].params.astype(np.float64) - before, trial


def test_it_is_what_the_server_receives_and_not_what_it_makes_of_it(monkeypatch, tmp_path):
    def ran(name, **fields):
        return first_sum(monkeypatch, tmp_path / name, **fields)[:2]

    plain, difference = ran("plain")
    np.testing.assert_allclose(plain.mean, difference, atol=1e-6)
    assert list(plain.clients) == list(range(6)) and plain.weights.sum() == pytest.approx(1)
    for name, fields in {
        "adam": {"aggregation": "fedadam"},
        "noise": {"privacy": {"name": "global_dp", "clip": 1e6, "noise_multiplier": 1e-6}},
    }.items():
        received, moved = ran(name, **fields)
        np.testing.assert_allclose(received.mean, plain.mean, atol=1e-6)
        assert np.abs(moved - plain.mean).max() > 1e-3
    private, moved = ran(
        "local", privacy={"name": "local_dp", "clip": 1e3, "noise_multiplier": 1e-3}
    )
    np.testing.assert_allclose(
        private.mean, moved, atol=1e-5
    )  # clients add this noise, so the sum has it, too
    assert np.abs(private.mean - plain.mean).max() > 1e-2


def test_each_model_has_a_sum_and_its_clients(monkeypatch, tmp_path):
    fields = {
        "clustering": "ifca",
        "server_sees": "sum",
        "participation": "fixed",
        "participation_rate": 0.5,
    }
    _, _, trial = first_sum(monkeypatch, tmp_path, **fields)
    finished(trial)
    history = trial.state.history
    gram = trial.state.attacks["sum_mia.gram"]
    together = np.array(
        [
            [(history[:, i] == history[:, j])[history[:, i] >= 0].any() for j in range(6)]
            for i in range(6)
        ]
    )
    assert ((gram > 0) == together).all()
    rows = trial.rows("rounds").to_pylist()
    assert rows[-1]["sum_source_chance"] == 1 / (history >= 0).any(axis=0).sum()


def test_what_cannot_be_attacked_is_refused():
    attack = {"name": "sum_mia"}
    assert resolve(described() | {"attacks": [attack], "server_sees": "sum"}).server_sees == "sum"
    for fields in {"server_sees": "models"}, {"attacks": [attack | {"ridge": 0}], "rounds": 6}:
        _, problems = check(described() | {"attacks": [attack]} | fields)
        assert [problem.key[:2] for problem in problems] == [("attacks", 0)]
    nobody = vectors(3, 5, 4, nonmembers=3)
    assert [field for field, _ in sum_mia.data_problems(PLAIN, nobody)] == ["compared"]
    assert [
        field for field, _ in sum_mia.data_problems(Config(), vectors(3, 5, 4, nonmembers=25))
    ] == ["center"]
