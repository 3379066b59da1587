"""What choices reveal: Bayes bounds, intervals of the weight of risk against brute force, chance
where nothing is told.
"""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.clustering import ifca, ifca_mir, random_migration
from algorithms.core.choices import Preferences, View
from attacks import choice_inference
from attacks.choice_inference import (
    Config,
    bounds,
    counts,
    follow,
    guessed,
    halves,
    hits,
    infer,
    mix_gains,
    summaries,
)
from attacks.interfaces import SeenChoice, SeenChoices
from datasets.federation import Examples
from orchestrator.config.run import check, resolve
from orchestrator.trial.attack_round import follow_choices
from orchestrator.trial.random_streams import stream
from tests.support.federations import federation
from tests.support.planted import clustered
from tests.support.planted import given as run_of
from tests.support.toy_federation import columns_of, measure

seeds = st.integers(0, 2**32 - 1)
NAMES = ("majority", "minority")


def preferring(beta, turn=None):
    beta = np.asarray(beta, float)
    return Preferences(0.5 + 0.1 * (1 - beta), beta, turn)


def dealt(groups, labels=None, each=4):
    """Clients of these groups; ``labels`` [clients, each] are those of their examples, by
    default two of either class.
    """
    groups = np.asarray(groups)
    labels = (
        np.tile(np.arange(each) % 2, (len(groups), 1)) if labels is None else np.asarray(labels)
    )
    train = Examples(np.zeros((labels.size, 1), np.float32), labels.ravel())
    names = NAMES if len(set(groups.tolist())) > 1 else ("all",)
    return federation(
        train, [labels.shape[1]] * len(groups), groups=groups, group_names=names, classes=3
    )


def found_of(choices, data, preferences=None, config=None, kept=None, seed=0):
    choices = np.asarray(choices, np.int16)
    n = choices.shape[1]
    kept = kept or {"low": np.zeros(n), "high": np.ones(n)}
    preferences = preferences or preferring(np.linspace(0, 1, n))
    fixed = lambda purpose, *place: stream(seed, purpose, *place)  # noqa: E731
    return infer(config or Config(), SeenChoices(data, choices, preferences, fixed, kept))


# Bounds


@pytest.mark.parametrize(
    ("moved", "bayes", "bits"), [(0, 1.0, 0.7219), (0.5, 0.9, 0.2690), (1, 0.8, 0.0)]
)
def test_a_minority_that_moves_is_hidden_as_the_formula_says(moved, bayes, bits):
    """A minority of 20 of 100, of whom a share uses the majority's model: the law, and 100
    clients who follow it exactly.
    """
    joint = np.array([[0.8, 0.2 * moved], [0, 0.2 * (1 - moved)]])
    assert bounds(joint) == pytest.approx((bayes, 0.8, bits), abs=5e-5)
    groups, model = np.arange(100) >= 80, np.arange(100) >= 80 + 20 * moved
    exposure = found_of([model], dealt(groups.astype(int)))
    assert measure(exposure, "group", "bayes_accuracy").value == pytest.approx(bayes)
    assert columns_of(exposure)["choice_group_gain"] == pytest.approx(bayes - 0.8)
    null = columns_of(exposure)["choice_group_bits"] - bits
    assert -0.03 < null <= 0.0001  # what permutations of so few clients seem to tell
    assert columns_of(exposure)["choice_group_p"] == (1 if moved == 1 else 0.005)


def test_who_was_with_the_minority_at_first_is_of_it_wherever_it_is_now():
    groups = np.repeat([0, 1], [12, 8])
    first, last = groups.copy(), np.zeros(20, int)
    exposure = found_of([first, last, last], dealt(groups))
    assert exposure.clients["choice_group_hit"].tolist() == [1.0] * 20
    assert columns_of(found_of([last, last], dealt(groups)))["choice_group_gain"] == 0


@given(seeds, st.integers(1, 4), st.integers(1, 3))
@settings(deadline=None)
def test_choices_tell_no_more_than_their_number_allows_and_no_more_than_there_is(
    seed, rounds, models
):
    rng = np.random.default_rng(seed)
    history, secret = summaries(rng.integers(0, models, (rounds, 30))), rng.integers(0, 3, 30)
    bayes, prior, bits = bounds(counts(history, secret, history.max() + 1, 3) / 30)
    entropy = -sum(p * np.log2(p) for p in np.bincount(secret) / 30 if p)
    assert -1e-12 <= bits <= min(rounds * np.log2(models), entropy) + 1e-12
    assert prior <= bayes + 1e-12


# Guesses


def slow_hits(history, secret, half):
    """By counting, client by client."""
    right = []
    for i in range(len(secret)):
        known = [k for k in range(len(secret)) if half[k] != half[i]]
        votes = {
            g: sum(history[k] == history[i] and secret[k] == g for k in known)
            for g in set(secret.tolist())
        }
        sizes = {g: sum(secret[k] == g for k in known) for g in votes}
        best = [
            g for g in votes if (votes[g], sizes[g]) == max((votes[h], sizes[h]) for h in votes)
        ]
        right.append((secret[i] in best) / len(best))
    return right


@given(seeds, st.integers(4, 25), st.integers(1, 4), st.integers(1, 4))
@settings(deadline=None)
def test_guesses_by_a_slow_loop(seed, clients, histories, secrets):
    rng = np.random.default_rng(seed)
    history, secret = rng.integers(0, histories, clients), rng.integers(0, secrets, clients)
    half = halves(secret, rng)
    assert hits(history, secret, half).tolist() == slow_hits(history, secret, half)
    sizes = counts(half, secret, 2, secrets)
    assert np.abs(sizes[0] - sizes[1]).max() <= 1 and abs(sizes[0].sum() - sizes[1].sum()) <= 1


def slow_summary(choices):
    present = [int(j) for j in choices if j >= 0]
    moves = sum(a != b for a, b in pairwise(present))
    return (present[0], present[-1], moves > (present[0] != present[-1])) if present else None


@given(seeds, st.integers(1, 6), st.integers(1, 3))
def test_histories_are_alike_if_first_last_and_whether_there_was_another_are(seed, rounds, models):
    choices = np.random.default_rng(seed).integers(-1, models, (rounds, 12))
    numbers, slow = summaries(choices), [slow_summary(column) for column in choices.T]
    for i, one in enumerate(slow):
        assert [number == numbers[i] for number in numbers] == [other == one for other in slow]


def test_a_mix_of_labels_by_hand():
    """Two of each half: those of model 0 have class 0 only, those of model 1 are mixed; the mean
    mix is (3/4, 1/4).
    """
    mixes, half = np.array([[1, 0], [1, 0], [0.5, 0.5], [0.5, 0.5]]), np.array([0, 1, 0, 1])
    assert mix_gains(np.array([0, 0, 1, 1]), mixes, half).tolist() == [0.25] * 4
    assert mix_gains(np.zeros(4, int), mixes, half).tolist() == [0] * 4
    assert (
        mix_gains(np.arange(4), mixes, half).tolist() == [0] * 4
    )  # a history that the other half does not have


# The weight of risk


@pytest.mark.parametrize(("rounds", "bits"), [(1, 0.7213), (10, 2.9141)])
def test_uniform_thresholds_tell_of_a_uniform_weight_what_the_formula_says(rounds, bits):
    rng, n = np.random.default_rng(0), 20_000
    beta, kept = rng.random(n), {}
    for threshold in rng.random((rounds, n)):
        instead = lambda who, weights, u=threshold: (weights > u[who]).astype(int)  # noqa: E731
        chosen = instead(np.arange(n), beta)
        kept = follow(Config(), SeenChoice(chosen, preferring(beta), instead, kept))
    assert ((kept["low"] <= beta) & (beta <= kept["high"])).all()
    length = kept["high"] - kept["low"]
    assert length.mean() == pytest.approx(2 / (rounds + 2), abs=4 * length.std() / n**0.5)
    told = choice_inference.bits_of_interval(kept["low"], kept["high"])
    assert told.mean() == pytest.approx(bits, abs=4 * told.std() / n**0.5)
    assert told.mean() <= rounds


def chosen_by(module, view, preferences, **fields):
    return module.choose(module.Config(**fields), view, preferences)[0]


def followed(module, views, preferences, present=None, **fields):
    """The interval of every weight, from the orchestrator's own function."""
    attack = SimpleNamespace(name="choice_inference", module=choice_inference, config=Config())
    state = SimpleNamespace(attacks={}, history=None)
    for t, view in enumerate(views):
        chosen = chosen_by(module, view, preferences, **fields)
        state.history = np.where(True if present is None else present[t], chosen, -1)[None].astype(
            np.int16
        )
        again = lambda other, view=view: chosen_by(module, view, other, **fields)  # noqa: E731
        follow_choices(SimpleNamespace(attacks=[attack]), state, preferences, again)
    return state.attacks["choice_inference.low"], state.attacks["choice_inference.high"]


def views_of(seed, n=12, rounds=3):
    rng = np.random.default_rng(seed)
    losses, risks = rng.uniform(0, 0.3, (rounds, n, 3)), rng.uniform(0.5, 0.8, (rounds, 3))
    return [
        View(losses[t], risks[t], rng.integers(0, 3, n), 10) for t in range(rounds)
    ], rng.permutation(n) / (n - 1)


@pytest.mark.parametrize(
    "fields", [{}, {"most_leaving": 1}, {"most_leaving": 0.5, "leaving_price": 0.02}]
)
@pytest.mark.parametrize("seed", range(3))
def test_the_interval_is_that_of_trying_every_weight(seed, fields):
    """Each client's weight is replaced by each of a grid, the others' being as they are, with
    and without a cap.
    """
    (views, beta), grid = views_of(seed, n=8), np.linspace(0, 1, 101)
    preferences = preferring(beta)
    low, high = followed(ifca_mir, views, preferences, **fields)
    actual = [chosen_by(ifca_mir, view, preferences, **fields) for view in views]
    narrowed = 0
    for i in range(len(beta)):
        alike = []
        for b in grid:
            one = np.where(np.arange(len(beta)) == i, b, beta)
            again = [chosen_by(ifca_mir, view, preferring(one), **fields)[i] for view in views]
            alike.append(again == [chosen[i] for chosen in actual])
        inside = grid[alike]
        narrowed += len(inside) < len(grid)
        ends = (inside.min(), inside.max()) if len(inside) else (beta[i], beta[i])
        assert low[i] == pytest.approx(ends[0], abs=2 / 100) and high[i] == pytest.approx(
            ends[1], abs=2 / 100
        )
    assert narrowed > 3


def test_absent_clients_and_choices_that_do_not_follow_from_the_weight_tell_nothing():
    views, beta = views_of(0)
    present = np.zeros((3, len(beta)), bool)
    present[:, 0] = True
    everybody, first = (
        followed(ifca_mir, views, preferring(beta)),
        followed(ifca_mir, views, preferring(beta), present),
    )
    for all_of_them, some in zip(everybody, first, strict=True):
        assert some[0] == all_of_them[0] and set(some[1:]) <= {0.0, 1.0}
    for module, preferences in (
        (ifca, preferring(beta)),
        (ifca_mir, preferring(np.full(len(beta), 0.5))),  # known before
        (random_migration, preferring(beta, turn=np.random.default_rng(0).permutation(len(beta)))),
    ):
        low, high = followed(module, views, preferences)
        assert (low == 0).all() and (high == 1).all()


# Chance


@pytest.mark.slow
def test_random_choices_tell_nothing_and_intervals_cover_it():
    """300 federations in which everything is drawn: gains and bits at chance, p values uniform,
    intervals that cover.
    """
    rng, rows, covered = np.random.default_rng(1), [], []
    for audit in range(300):
        groups = np.arange(40) < rng.integers(8, 21)
        data = dealt(rng.permutation(groups).astype(int), rng.integers(0, 3, (40, 5)))
        exposure = found_of(rng.integers(0, 2, (3, 40)), data, config=Config(), seed=audit)
        found = columns_of(exposure)
        secrets = ("group", "tolerance", "label")
        rows.append(
            [found[f"choice_{s}_gain"] - found[f"choice_{s}_gain_null"] for s in secrets]
            + [found[f"choice_{s}_bits"] for s in secrets]
            + [found["choice_mix_gain"] - found["choice_mix_gain_null"]]
            + [found[f"choice_{s}_p"] <= 0.1 for s in secrets]
        )
        gains = [measure(exposure, s, "gain") for s in secrets] + [measure(exposure, "mix", "gain")]
        covered.append([one.low <= one.chance <= one.high for one in gains])
    means, errors = np.mean(rows, axis=0), np.std(rows, axis=0) / len(rows) ** 0.5
    expected = [0] * 7 + [0.1] * 3
    print(
        "means",
        means.round(4),
        "errors",
        errors.round(4),
        "coverage",
        np.mean(covered, axis=0).round(3),
    )
    assert (np.abs(means - expected) < 4 * errors).all()
    coverage, error = np.mean(covered, axis=0), (0.95 * 0.05 / len(rows)) ** 0.5
    assert ((coverage > 0.93 - 2 * error) & (coverage < 0.97 + error)).all()


@pytest.mark.parametrize("minority", [20, 8])
def test_planted_gains_are_covered_and_would_not_be_by_the_spread_of_permutations(minority):
    """Three in five of 40 clients choose by their group; what is covered is the mean gain over
    the federations.
    """
    rng, gains, ends, spreads = np.random.default_rng(7), [], [], []
    for _ in range(300):
        secret = rng.permutation(np.arange(40) < minority).astype(int)
        choices = np.where(rng.random(40) < 0.6, secret, rng.integers(0, 2, (3, 40)))
        history, half = choice_inference.summaries(choices), choice_inference.halves(secret, rng)
        exchanged = np.stack([rng.permutation(history) for _ in range(59)])
        (gain,) = [
            one
            for one in guessed("group", secret, history, exchanged, half)[1]
            if one.metric == "gain"
        ]
        gains.append(gain.value)
        ends.append((gain.low, gain.high))
        spreads.append(np.std([hits(other, secret, half).mean() for other in exchanged]))
    (low, high), apart = np.transpose(ends), np.abs(np.array(gains) - np.mean(gains))
    assert np.mean((low <= np.mean(gains)) & (np.mean(gains) <= high)) > 0.94
    assert (np.mean(apart <= 1.96 * np.array(spreads)) < 0.9) == (minority == 8)


# Refused, or left out


def test_what_cannot_be_inferred_is_refused_if_it_is_named_and_left_out_otherwise():
    alike = dealt([0] * 8)
    assert [field for field, _ in choice_inference.data_problems(Config(), alike)] == []
    named = Config(secrets=("group", "label"))
    assert [field for field, _ in choice_inference.data_problems(named, alike)] == [
        "secrets",
        "secrets",
    ]
    metrics = columns_of(found_of([np.arange(8) % 2], alike))
    assert "choice_tolerance_gain" in metrics and not any(
        "group" in name or "label" in name for name in metrics
    )
    few = choice_inference.data_problems(Config(), dealt([0, 1, 1]))
    assert [field for field, _ in few] == [""]


@pytest.mark.parametrize(
    ("clustering", "attack"),
    [
        ("none", {}),
        (clustered(clusters=1), {}),
        (clustered(), {"secrets": []}),
        (clustered(), {"secrets": ["group", "group"]}),
    ],
)
def test_a_run_without_a_choice_and_secrets_named_twice_are_refused(clustering, attack):
    _, problems = check(
        run_of(clustering=clustering, attacks=[{"name": "choice_inference", **attack}])
    )
    assert [problem.key[:2] for problem in problems] == [("attacks", 0)]


def test_whoever_sees_models_alone_does_not_see_choices():
    run = run_of(clustering=clustered(), attacks=["choice_inference"], server_sees="sum")
    assert resolve(run).server_sees == "sum"
    assert check(run | {"server_sees": "models"})[1]
