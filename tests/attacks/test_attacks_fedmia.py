"""The passive server over rounds: planted memories, exchangeable records, a slow version, and
what it keeps.
"""

from __future__ import annotations

from dataclasses import replace
from math import erf, sqrt

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from attacks import _queries, fedmia
from attacks.fedmia import Config, data_problems, observe
from attacks.metrics import client_auc, membership
from attacks.metrics.out_worlds import others, standing
from datasets.federation import Examples
from orchestrator.config.errors import ConfigError
from orchestrator.config.run import resolve
from orchestrator.trial.random_streams import stream
from tests.support.passive import EVERYONE, concluded, fixed, seen_by, start_of
from tests.support.toy_federation import CLIENTS, EACH, NONMEMBERS, columns_of, memorized

ALL = Config(signals="all", compared=NONMEMBERS)


@pytest.fixture(scope="module")
def measured(noise, network, experts):
    return observe(ALL, seen_by(noise, network, experts))


def scores_of(config, data, observed):
    return fedmia.round_scores(config, observed, _queries.queries_of(config, data, fixed), EVERYONE)


def test_clients_who_learn_by_heart_are_given_away_by_every_comparison(noise, measured):
    found = concluded(ALL, noise, measured)
    for signal in ("fedmia_loss", "loss_series", "fedmia_cosine", "mean_cosine"):
        assert columns_of(found)[f"{signal}_auc"] > 0.95, signal
    assert 0 < columns_of(found)["gradient_difference_auc"] < 1
    assert columns_of(found)["fedmia_tpr_at_1_fpr"] > 0.9
    assert (found.clients["fedmia_auc"] > 0.95).all() and (
        found.clients["fedmia_auc_low"] > 0.9
    ).all()
    assert columns_of(found)["fedmia_auc"] == columns_of(found)["fedmia_loss_auc"]
    assert columns_of(found)["fedmia_auc"] == pytest.approx(found.clients["fedmia_auc"].mean())
    scores = scores_of(ALL, noise, measured)["fedmia_loss"]
    expected = [membership.tpr_at_fpr(own, np.arange(len(own)) < EACH, 0.01) for own in scores]
    np.testing.assert_allclose(found.clients["fedmia_tpr_at_1_fpr"], expected)
    named = {(one.of.name, one.metric): one for one in found.measures}
    assert named["client_2", "fedmia_loss_auc"].value == found.clients["fedmia_auc"][2]
    assert named["clients", "mean_cosine_auc"].low <= columns_of(found)["mean_cosine_auc"]


@pytest.mark.parametrize("nonmembers", ["outside", "other_client"])
def test_where_members_are_like_nonmembers_it_is_at_a_half(noise, network, experts, nonmembers):
    """Every client's examples are replaced by fresh ones after it was trained, so that nobody
    has trained on a record.
    """
    rng = np.random.default_rng(8)
    fresh = Examples(
        rng.normal(size=noise.train.x.shape).astype(np.float32),
        rng.integers(0, 10, len(noise.train)),
    )
    config = ALL.model_copy(update={"nonmembers": nonmembers})
    data = replace(noise, train=fresh)
    found = concluded(config, data, observe(config, seen_by(data, network, experts)))
    means = [one for one in found.measures if one.of.name == "clients"]
    assert means and all(one.low <= 0.5 <= one.high and one.high - one.low < 0.15 for one in means)
    assert columns_of(found)["fedmia_eod"] == pytest.approx(
        columns_of(found)["fedmia_eod_null"], rel=0.6
    )


def test_who_is_exposed_is_who_learned_by_heart(noise, network, experts):
    """Only client 2 has trained on its examples; the others hold models of examples that belong
    to nobody.
    """
    strange = [memorized(network, noise.nonmembers[40 * i : 40 * i + 40]) for i in range(3)]
    weights = [*strange[:2], experts[2], strange[2], *strange[:2]]
    data = replace(
        noise, nonmembers=noise.nonmembers[120:], nonmember_owner=noise.nonmember_owner[120:]
    )
    found = concluded(Config(), data, observe(Config(), seen_by(data, network, weights)))
    exposed = found.clients["fedmia_auc"]
    assert exposed[2] > 0.95 and (np.delete(exposed, 2) < 0.65).all()
    assert (
        columns_of(found)["fedmia_auc_max"]
        == exposed[2]
        > columns_of(found)["fedmia_auc_max_null"] + 0.1
    )
    assert columns_of(found)["fedmia_cov"] > 2 * columns_of(found)["fedmia_cov_null"]


def test_the_slow_version_finds_the_same(noise, network, experts):
    """Record by record, with torch's own losses and gradients, as the docstring says it
    (published distribution).
    """
    config = Config(signals="all", targets=3, compared=10, center="none", world="gaussian")
    start = start_of(network)
    records = _queries.queries_of(config, noise, fixed)
    inside, outside = noise.train[records.members.ravel()], records.outside
    x, y = np.concatenate([inside.x, outside.x]), np.concatenate([inside.y, outside.y])
    observed = observe(config, seen_by(noise, network, experts, sent=[start]))
    scores = scores_of(config, noise, observed)

    def loss_and_gradient(weights, r):
        network.load(weights)
        network.grads.zero_()
        outputs = network.module(torch.from_numpy(x[r : r + 1]))
        loss = torch.nn.functional.cross_entropy(outputs, torch.from_numpy(y[r : r + 1]))
        loss.backward()
        return loss.item(), network.grads.numpy().astype(np.float64).copy()

    for c in (0, 4):
        for position in (0, 2, 3, 12):
            r = records.numbers[c, position]
            losses = np.array([loss_and_gradient(one, r)[0] for one in experts])
            gradient = loss_and_gradient(start, r)[1]
            updates = [start.params.astype(np.float64) - one.params for one in experts]
            cosines = np.array(
                [one @ gradient / np.linalg.norm(one) / np.linalg.norm(gradient) for one in updates]
            )
            others = np.arange(CLIENTS) != c
            expected = {"loss_series": -losses[c], "mean_cosine": cosines[c]}
            expected["gradient_difference"] = 2 * updates[c] @ gradient - gradient @ gradient
            for name, values in (("fedmia_loss", -losses), ("fedmia_cosine", cosines)):
                apart = (values[c] - values[others].mean()) / np.sqrt(values[others].var() + 1e-8)
                expected[name] = stats.norm.cdf(apart)
            for name, value in expected.items():
                assert scores[name][c, position] == pytest.approx(value, rel=2e-3, abs=2e-4), name


def test_scores_are_summed_over_the_rounds_and_nothing_is_changed_in_place(noise, measured):
    quiet = {
        name: np.roll(values, 1, axis=0) if name != "assignment" else values
        for name, values in measured.items()
    }
    first = concluded(ALL, noise, measured)
    second = concluded(ALL, noise, quiet, kept=first.kept)
    scores = [scores_of(ALL, noise, one)["fedmia_loss"] for one in (measured, quiet)]
    np.testing.assert_allclose(second.kept["fedmia_loss"], scores[0] + scores[1])
    assert (set(first.kept["rounds"]), set(second.kept["rounds"])) == ({1}, {2})
    assert 0.5 < columns_of(second)["fedmia_auc"] < columns_of(first)["fedmia_auc"]


def test_exchangeable_records_stay_at_chance_however_many_rounds_are_averaged(noise):
    """Models differ on every record in the same way in all rounds.

    Non-members drawn anew are found less extreme.
    """
    config, rng = Config(targets=EACH, compared=NONMEMBERS, center="none"), np.random.default_rng(0)
    lasting = rng.normal(size=(CLIENTS, CLIENTS * EACH + NONMEMBERS))
    rates = {}
    for drawn_anew in (False, True):
        kept = {}
        for _ in range(10):
            records = np.arange(lasting.shape[1])
            if drawn_anew:
                records[CLIENTS * EACH :] = rng.permutation(records[CLIENTS * EACH :])
            values = (lasting[:, records] + 0.3 * rng.normal(size=lasting.shape)).astype(np.float32)
            found = concluded(
                config,
                noise,
                {"assignment": np.zeros(CLIENTS, int), "confidences": values},
                kept=kept,
            )
            kept = found.kept
        assert columns_of(found)["fedmia_auc_low"] < 0.5 < columns_of(found)["fedmia_auc_high"]
        rates[drawn_anew] = columns_of(found)["fedmia_tpr_at_1_fpr"]
    assert rates[False] == pytest.approx(0.01, abs=4 * (0.01 / CLIENTS / EACH) ** 0.5)
    assert rates[True] > 0.1  # the defect of the released code, which this test would see


def test_absent_clients_are_neither_attacked_nor_compared_with(noise, network, experts, measured):
    present = np.array([0, 2, 3, 5])
    partial = observe(ALL, seen_by(noise, network, experts, present))
    for name, values in measured.items():
        np.testing.assert_allclose(partial[name], values[present], rtol=1e-4, atol=1e-6)
    found = concluded(ALL, noise, partial, present)
    assert np.flatnonzero(~np.isnan(found.clients["fedmia_auc"])).tolist() == present.tolist()
    assert {one.of.name for one in found.measures} == {"clients", *(f"client_{i}" for i in present)}
    later = concluded(
        ALL, noise, observe(ALL, seen_by(noise, network, experts, [1, 4, 0])), [1, 4, 0], found.kept
    )
    assert later.kept["rounds"].tolist() == [2, 1, 1, 1, 1, 1]
    assert not np.isnan(later.clients["fedmia_auc"]).any()
    assert {str(one.chance) for one in later.measures if one.metric == "tpr_at_1_fpr"} == {
        "nan"
    }  # of one and two rounds
    few = concluded(
        ALL, noise, observe(ALL, seen_by(noise, network, experts, [1, 4])), [1, 4], found.kept
    )
    assert columns_of(few) == columns_of(found)  # two clients are no world for each other
    nobody = concluded(ALL, noise, observe(ALL, seen_by(noise, network, experts, [1, 4])), [1, 4])
    assert (
        np.isnan(list(columns_of(nobody).values())).all()
        and np.isnan(nobody.clients["fedmia_auc"]).all()
    )


@pytest.mark.parametrize(
    ("fields", "run", "sentence"),
    [
        ({"headline": "mean_cosine"}, {}, "set signals: all"),
        (
            {},
            {"data": {"name": "digits", "clients": 2}},
            "fedmia needs at least 3 .* 2 of 2 take part; raise data.clients",
        ),
        (
            {},
            {"participation": "fixed", "participation_rate": 0.1},
            "1 of 10 take part; raise .*_rate, which is 0.1",
        ),
    ],
)
def test_what_cannot_be_combined_and_too_few_nonmembers_are_refused(noise, fields, run, sentence):
    few = replace(noise, nonmembers=noise.nonmembers[:9], nonmember_owner=noise.nonmember_owner[:9])
    bare, most = replace(noise, shadow=noise.shadow[:0]), NONMEMBERS - 9
    cases = [
        (Config(), few, "nonmembers"),
        (Config(nonmembers="other_client", targets=1), noise, "nonmembers"),
    ]
    cases += [
        (Config(compared=most), bare, "center"),
        (Config(compared=most, center="none"), bare, None),
    ]
    for config, federation, field in cases:
        assert [key for key, _ in data_problems(config, federation)] == (
            [] if field is None else [field]
        )
    data = {"name": "digits", "clients": 10}
    with pytest.raises(ConfigError, match=sentence):
        resolve(
            {"rounds": 1, "data": data, "model": "mlp", "attacks": [{"name": "fedmia", **fields}]}
            | run
        )


def test_the_rate_is_at_the_threshold_that_one_in_a_hundred_of_all_nonmembers_passes():
    rng = np.random.default_rng(3)
    scores, labels, own = (
        rng.normal(size=(20, 300)),
        rng.integers(0, 4, (20, 300)),
        np.arange(6000).reshape(20, 300),
    )
    found = [client_auc.tprs(rng.normal(size=(20, 300)), labels, own, 100)[0] for _ in range(200)]
    assert np.mean(found) == pytest.approx(0.01, abs=4 * np.std(found) / 4000**0.5 + 0.0005)
    same = np.zeros((20, 300), int)
    limit = np.sort(scores[:, 100:].ravel())[::-1][40]  # 1 % of 4000
    np.testing.assert_allclose(
        client_auc.tprs(scores, same, own, 100)[0], (scores[:, :100] > limit).mean(axis=1)
    )
    rates, null, trials = client_auc.tprs(scores[:1, :200], same[:1, :200], own[:1, :200], 100)
    assert trials == pytest.approx(50)  # a hundred members at a threshold of a hundred others
    assert rates == (
        scores[0, :100] > np.sort(scores[0, 100:200])[-2]
    ).mean() and null == pytest.approx(2 / 101)
    common = np.concatenate([own[:, :100], np.tile(own[:1, 100:200], (20, 1))], axis=1)
    # A hundred of which all clients' scores are the same remain a hundred, and 99 too few; where
    # they differ, they are 2000.
    alike = np.concatenate([scores[:, :100], np.tile(scores[:1, 100:200], (20, 1))], axis=1)
    nulls = [
        client_auc.tprs(part, same[:, :200], common, 100)[1] for part in (alike, scores[:, :200])
    ]
    assert nulls == pytest.approx([2 / 101, 21 / 2001], abs=5e-4)
    assert np.isnan(client_auc.tprs(alike[:, :199], same[:, :199], common[:, :199], 100)[0]).all()


def slow(values, records, worlds, kind):
    """One client and one record at a time, from the formulas of the module's docstring."""
    found = np.empty(records.shape)
    for c in range(len(values)):
        world = [k for k in range(len(values)) if k != c and worlds[k] == worlds[c]]
        if len(world) < 2:
            world = [k for k in range(len(values)) if k != c]
        samples = [[values[k, x] for k in world] for x in records[c]]
        pooled = float(np.mean([np.var(sample, ddof=1) for sample in samples]))
        for r, sample in enumerate(samples):
            n, mean = len(sample), float(np.mean(sample))
            apart, square = (
                values[c, records[c, r]] - mean,
                sum((one - mean) ** 2 for one in sample),
            )
            if kind == "gaussian":
                found[c, r] = (1 + erf(apart / sqrt(square / n + 1e-8) / sqrt(2))) / 2
            else:
                shape = 2 + (n - 1) / 2
                scale = sqrt((pooled + square / 2) / shape * (1 + 1 / n))
                found[c, r] = stats.t.cdf(apart / scale, 2 * shape)
    return found


@given(
    st.integers(3, 7),
    st.integers(1, 6),
    st.integers(1, 3),
    st.sampled_from(["student", "gaussian"]),
    st.integers(0, 9999),
)
def test_the_slow_loop_finds_the_same(clients, each, models, kind, seed):
    rng = np.random.default_rng(seed)
    values, records = rng.normal(3, 2, (clients, 8)), rng.integers(0, 8, (clients, each))
    worlds = rng.integers(0, models, clients)
    own = np.take_along_axis(values, records, axis=1)
    found = standing(own, others(values, records, worlds), kind)
    np.testing.assert_allclose(found, slow(values, records, worlds, kind), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("clients", [3, 5, 10, 20])
def test_where_nobody_differs_standings_are_uniform(clients):
    """The published normal with ddof 0 calls many more records extreme than are, 20 % instead of
    1 with three clients.
    """
    values = np.random.default_rng(clients).normal(size=(clients, 4000))
    world = others(values, np.tile(np.arange(4000), (clients, 1)), np.zeros(clients, int))
    student, gaussian = (standing(values, world, kind).ravel() for kind in ("student", "gaussian"))
    assert student.mean() == pytest.approx(0.5, abs=1e-3) and gaussian.mean() == pytest.approx(
        0.5, abs=1e-3
    )
    assert 0.007 < (student > 0.99).mean() < 0.015
    assert (gaussian > 0.99).mean() > {3: 0.18, 5: 0.07, 10: 0.03, 20: 0.018}[clients]
    assert abs((student > 0.9).mean() - 0.1) < abs((gaussian > 0.9).mean() - 0.1)


def test_nonmembers_of_clients_who_hold_out_are_their_own_and_all_are_dressed(images):
    owners = np.repeat(EVERYONE, 30)
    held = replace(images, nonmembers=images.nonmembers[:180], nonmember_owner=owners)
    config = Config(targets=5, compared=200)
    records = _queries.queries_of(config, held, fixed)
    own, outside = records.numbers[:, 5:], records.outside
    assert own.shape == (CLIENTS, 30) and len(outside) == 180
    assert sorted(own.ravel() - CLIENTS * 5) == list(range(180))
    other = _queries.queries_of(config, images, lambda *place: stream(1, *place)).outside
    records = _queries.queries_of(config, images, fixed)
    assert (other.y != records.outside.y).any()  # nothing is remembered of another seed
    dressed = held.prepare(held.nonmembers.x, held.strengths[owners])
    np.testing.assert_array_equal(outside.x, dressed)
    # Nobody's: the same examples for all clients, with the angle of each.
    own, same, outside = records.numbers[:, 5:], records.examples[:, 5:], records.outside
    assert own.shape == same.shape == (CLIENTS, 200) and len(outside) == CLIENTS * 200
    assert (same == same[0]).all() and len(np.unique(own)) == CLIENTS * 200
    parts = outside.x.reshape(CLIENTS, 200, -1)
    assert (parts[0] != parts[1]).any() and (
        outside.y.reshape(CLIENTS, 200) == outside.y[:200]
    ).all()


def test_clients_with_labels_of_their_own_are_not_found_by_their_labels(noise):
    """What is measured depends on a record's label and on the client alone, not on membership."""
    rng, n = np.random.default_rng(4), min(EACH, 20)
    skewed = replace(
        noise,
        train=Examples(
            noise.train.x,
            np.where(rng.random(len(noise.train)) < 0.8, noise.owner() % 3, noise.train.y % 3),
        ),
        nonmembers=Examples(noise.nonmembers.x, noise.nonmembers.y % 3),
    )
    config = Config(targets=n, compared=NONMEMBERS)
    records = _queries.queries_of(config, skewed, fixed)
    evaluated = np.concatenate([records.labels, records.reference_labels])
    plain = rng.normal(size=(CLIENTS, len(evaluated)))
    own = 4.0 * (evaluated == EVERYONE[:, None] % 3)
    trained = (
        np.arange(len(evaluated)) // n == EVERYONE[:, None]
    )  # members come first, client by client

    def found(values, center):
        one = config.model_copy(update={"center": center})
        values = values if center == "label" else values[:, : len(records.labels)]
        observed = {"assignment": np.zeros(CLIENTS, int), "confidences": values.astype(np.float32)}
        return columns_of(concluded(one, skewed, observed))

    for center in ("label", "none"):
        control = found(plain + own, center)
        assert control["fedmia_auc_low"] < 0.5 < control["fedmia_auc_high"]
    without, centered, published = (
        found(values + trained, center)["fedmia_auc"]
        for values, center in ((plain, "label"), (plain + own, "label"), (plain + own, "none"))
    )
    assert centered == pytest.approx(without, abs=1e-6) and centered > published + 0.05


def test_references_wear_what_the_records_wear_and_are_none_of_them(images):
    config = Config(targets=5, compared=30, references=20)
    stored, records = images.shadow, _queries.queries_of(config, images, fixed)
    references = records.references
    assert len(references) == CLIENTS * 20 and len(records.reference_labels) == 20
    assert records.transforms.tolist() == [*np.repeat(EVERYONE, 5), *np.repeat(EVERYONE, 30)]
    first = images.prepare(stored.x, np.full(len(stored), images.strengths[0]))
    rows = [next(i for i, one in enumerate(first) if (one == x).all()) for x in references.x[:20]]
    assert len(set(rows)) == 20
    dressed = images.prepare(stored.x[np.tile(rows, CLIENTS)], np.repeat(images.strengths, 20))
    np.testing.assert_array_equal(references.x, dressed)


def test_other_clients_members_are_never_the_clients_own(noise):
    config = Config(nonmembers="other_client", targets=10, compared=50)
    queries = _queries.queries_of(config, noise, fixed)
    others = queries.numbers[:, 10:]
    assert (others // 10 != EVERYONE[:, None]).all() and others.max() < CLIENTS * 10
    assert all(len(set(own)) == 50 for own in others.tolist()) and len(queries.outside) == 0
    assert _queries.queries_of(config.model_copy(update={"every": 3}), noise, fixed) is queries
    every = Config(nonmembers="other_client", targets=10, compared=1000)
    assert _queries.queries_of(every, noise, fixed).numbers[0, 10:].tolist() == list(range(10, 60))


def test_without_a_shadow_set_references_are_nonmembers_that_are_not_compared(noise):
    bare, config = (
        replace(noise, shadow=noise.shadow[:0]),
        Config(targets=5, compared=NONMEMBERS - 40),
    )
    queries = _queries.queries_of(config, bare, fixed)
    together = np.concatenate([queries.outside.x, queries.references.x])
    assert len(queries.references) == 40 and len(np.unique(together, axis=0)) == NONMEMBERS


@pytest.mark.parametrize(
    ("alpha", "nonmembers"), [(1000.0, 100), (1.0, 100), (1000.0, 300), (0.3, 300)]
)
def test_the_rate_by_chance_is_that_of_members_like_nonmembers(
    alpha: float, nonmembers: int
) -> None:
    """All clients share non-members with one score each, as on one model; some weigh more,
    because labels are weighed.
    """
    rng, clients, members, found = np.random.default_rng(3), 12, 15, []
    own = np.arange(clients * members).reshape(clients, members)
    numbers = np.concatenate([own, own.size + np.tile(np.arange(nonmembers), (clients, 1))], axis=1)
    for _ in range(400):
        mixes = rng.dirichlet(np.full(10, alpha), clients)
        inside = np.stack([rng.choice(10, members, p=mix) for mix in mixes])
        outside = np.tile(rng.integers(0, 10, nonmembers), (clients, 1))
        shared = np.tile(rng.normal(size=nonmembers), (clients, 1))
        scores = np.concatenate([rng.normal(size=inside.shape), shared], axis=1)
        rates, null, _ = client_auc.tprs(
            scores, np.concatenate([inside, outside], axis=1), numbers, members
        )
        found.append(np.nanmean(rates) - null)
    error = np.std(found) / len(found) ** 0.5
    print(alpha, nonmembers, "over chance", np.mean(found).round(5), "error", error.round(5))
    assert abs(np.mean(found)) < 3 * error
