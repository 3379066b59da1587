"""Slopes of losses over rounds: the toy's closed form, least squares by numpy, slow losses,
chance, windows and views.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from algorithms.core.columns import register
from attacks import loss_slope
from attacks._queries import queries_of
from attacks.interfaces import SeenRound
from attacks.loss_slope import Config, conclude, data_problems, observe, slopes
from attacks.metrics import membership
from orchestrator.config.run import check, resolve
from tests.support.passive import EVERYONE, fixed, seen_by, start_of
from tests.support.toy_federation import CLIENTS, EACH, NONMEMBERS, columns_of, memorized

ROUNDS = 20


def concluded(config, data, observed, round_=0, kept=None, clients=EVERYONE):
    return conclude(
        config, SeenRound(data, observed, np.asarray(clients), round_, fixed, kept or {})
    )


def slopes_of(y):
    """Slopes [c, r] of a series [c, r, rounds], by the sums that the attack keeps."""
    t, each = np.arange(1, y.shape[2] + 1), np.ones(len(y))
    return slopes(len(t) * each, t.sum() * each, (t**2).sum() * each, y.sum(axis=2), y @ t)


@pytest.mark.parametrize(("offsets", "by_mean"), [(0, 0.976), (1, 0.590), (3, 0.533)])
def test_in_the_toy_the_slope_finds_the_same_however_much_examples_differ_and_the_mean_does_not(
    offsets, by_mean
):
    rng, n = np.random.default_rng(offsets), 20_000
    member, t = np.arange(2 * n) < n, np.arange(1, ROUNDS + 1)
    trend = np.where(member, -0.05, -0.02)[:, None] * t
    y = trend + offsets * rng.normal(size=(2 * n, 1)) + 0.5 * rng.normal(size=(2 * n, ROUNDS))
    expected = norm.cdf(0.03 * sqrt(((t - t.mean()) ** 2).sum()) / (0.5 * sqrt(2)))
    assert expected == pytest.approx(0.863, abs=5e-4)
    assert membership.auc(-slopes_of(y[None])[0], member) == pytest.approx(expected, abs=0.006)
    assert membership.auc(-y.mean(axis=1), member) == pytest.approx(by_mean, abs=0.009)


@given(st.integers(0, 1000), st.integers(2, 30), st.integers(0, 500))
def test_slopes_are_those_of_least_squares_from_any_round_on(seed, rounds, first):
    t, y = np.arange(first, first + rounds), np.random.default_rng(seed).normal(size=(1, 4, rounds))
    sums = (np.array([s]) for s in (rounds, t.sum(), (t**2).sum()))
    expected = np.polyfit(t - t.mean(), y[0].T, 1)[0]
    np.testing.assert_allclose(slopes(*sums, y.sum(axis=2), y @ t)[0], expected, atol=1e-6)


@pytest.fixture(scope="module")
def before(network):
    return [start_of(network)] * CLIENTS


def in_rounds(config, data, network, by_round, sent=None, absent=()):
    """The result after rounds in which clients sent the models of ``by_round``; ``absent``
    clients miss the second.
    """
    kept = {}
    for number, weights in enumerate(by_round):
        there = np.setdiff1d(EVERYONE, absent if number == 1 else ())
        seen = seen_by(data, network, weights, there, sent=sent and sent[number])
        found = concluded(config, data, observe(config, seen), number, kept, there)
        kept = dict(found.kept)
    return found


def test_what_is_learned_by_heart_falls_faster(noise, network, before, experts):
    found = in_rounds(Config(compared=NONMEMBERS), noise, network, [before, experts])
    assert 1 / 100 < columns_of(found)["slope_tpr_at_1_fpr_null"] < 2 / 100  # by chance
    assert columns_of(found)["slope_auc"] > 0.95 and columns_of(found)["slope_tpr_at_1_fpr"] > 0.9
    assert (found.clients["slope_auc"] > 0.95).all()
    assert (
        columns_of(found)["slope_auc_low"]
        < columns_of(found)["slope_auc"]
        <= columns_of(found)["slope_auc_high"]
    )
    named = {(one.of.name, one.metric): one for one in found.measures}
    assert named["client_2", "slope_auc"].value == found.clients["slope_auc"][2]
    # The model that was sent was the same in both rounds: nothing falls, and all examples are tied.
    assert columns_of(found)["slope_model_auc"] == pytest.approx(0.5)


def test_the_slow_version_finds_the_same_by_what_was_sent_and_what_came_back(
    noise, network, before, experts
):
    config = Config(targets=4, compared=10)
    start, late = before[0], memorized(network, noise.train[np.arange(0, len(noise.train), 7)])
    found = in_rounds(
        config, noise, network, [before, experts, experts], [[start], [start], [late]], absent=[3]
    )
    queries = queries_of(config, noise, fixed)
    inside = noise.train[queries.members.ravel()]
    x, y = (
        np.concatenate([inside.x, queries.outside.x]),
        np.concatenate([inside.y, queries.outside.y]),
    )

    def loss(weights, r):
        network.load(weights)
        outputs = network.module(torch.from_numpy(x[r : r + 1]))
        return torch.nn.functional.cross_entropy(outputs, torch.from_numpy(y[r : r + 1])).item()

    for client, rounds in ((0, [1, 2, 3]), (3, [1, 3])):
        auc = {}
        for name, series in (
            ("slope", [start, experts[client], experts[client]]),
            ("slope_model", [start, start, late]),
        ):
            scores = [
                -np.polyfit(rounds, [loss(series[t - 1], r) for t in rounds], 1)[0]
                for r in queries.numbers[client]
            ]
            members = np.array(scores[:4])[:, None]
            w = np.zeros((4, 10))  # non-members with a member's label stand for it
            labels = y[queries.numbers[client]]
            for i in range(4):
                same = labels[4:] == labels[i]
                w[i] = same / max(same.sum(), 1)
            u = w.any(axis=1) / max(w.any(axis=1).sum(), 1)
            of_label = (w * u[:, None]).sum(axis=0)
            auc[name] = float(u @ (np.array(scores[4:]) < members) @ of_label)
            assert w.any()
            assert found.clients[f"{name}_auc"][client] == pytest.approx(auc[name], abs=1e-6)
    assert found.kept["rounds"].tolist() == [3, 3, 3, 2, 3, 3]


def test_outside_the_window_nothing_changes_and_before_two_rounds_there_is_no_slope(
    noise, network, before, experts
):
    one = in_rounds(Config(), noise, network, [experts])
    assert (
        np.isnan(list(columns_of(one).values())).all() and np.isnan(one.clients["slope_auc"]).all()
    )
    late = in_rounds(Config(first=2), noise, network, [experts, before, experts])
    early = in_rounds(Config(last=2), noise, network, [before, experts, before])
    whole = in_rounds(Config(), noise, network, [before, experts])
    assert columns_of(late)["slope_auc"] == pytest.approx(columns_of(whole)["slope_auc"])
    assert columns_of(early) == columns_of(whole)


def test_whoever_sees_the_models_alone_does_not_look_at_updates(noise, network, before, experts):
    config = Config(view="models")
    blind = [replace(one, params=np.full_like(one.params, np.nan)) for one in experts]
    sent = [[before[0]], [experts[0]]]
    found = in_rounds(config, noise, network, [blind, blind], sent)
    both = in_rounds(Config(), noise, network, [experts, experts], sent)
    assert set(columns_of(found)) == set(register(config.metrics)) and not any(
        name.startswith("updates") for name in found.kept
    )
    np.testing.assert_equal(
        {name: columns_of(both)[name] for name in columns_of(found)}, dict(columns_of(found))
    )
    exposed = found.clients["slope_model_auc"]
    assert (
        exposed[0] > 0.95 and (np.delete(exposed, 0) < 0.7).all()
    )  # all got the model that knows client 0 by heart


@pytest.mark.parametrize("signal", ["loss", "probability", "logit"])
def test_by_every_signal_members_fall_faster(noise, network, before, experts, signal):
    assert (
        columns_of(in_rounds(Config(signal=signal), noise, network, [before, experts]))["slope_auc"]
        > 0.9
    )


def test_with_nothing_to_find_it_is_at_chance_and_intervals_hold_it(noise):
    """Exchangeable examples of different difficulty, non-members being the same for all, in 400
    audits of five rounds.
    """
    config, found, hits, audits = Config(view="models", targets=EACH), [], 0, 400
    numbers, examples = (
        getattr(queries_of(config, noise, fixed), name) for name in ("numbers", "labels")
    )
    for seed in range(audits):
        rng, kept = np.random.default_rng([seed, 3]), {}
        offset = rng.normal(size=len(examples))
        for t in range(5):
            y = offset + rng.normal(size=len(examples))
            result = concluded(config, noise, {"models": y[numbers]}, t, kept)
            kept = dict(result.kept)
        value, low, high = (
            columns_of(result)[f"slope_model_auc{end}"] for end in ("", "_low", "_high")
        )
        found.append(value)
        hits += low <= 0.5 <= high
    print(f"mean {np.mean(found):.4f}, coverage {hits / audits:.3f}")
    assert abs(np.mean(found) - 0.5) < 3 * np.std(found, ddof=1) / sqrt(audits) < 0.01
    assert 0.95 - 3 * sqrt(0.95 * 0.05 / audits) <= hits / audits <= 0.985


@pytest.mark.parametrize(
    ("fields", "rounds", "field"),
    [
        ({}, 2, None),
        ({}, 1, "first"),
        ({"first": 5}, 5, "first"),
        ({"every": 3, "last": 4}, 9, "first"),
        ({"every": 3, "last": 6}, 9, None),
    ],
)
def test_a_window_without_two_attacked_rounds_is_refused(fields, rounds, field):
    run = resolve({"rounds": 9, "data": "digits", "model": "mlp", "attacks": ["loss_slope"]})
    conflicts = loss_slope.problems(Config(**fields), replace(run, rounds=rounds))
    assert [key for key, _ in conflicts] == ([] if field is None else [field])


def test_what_is_refused_besides(noise):
    run = {"rounds": 3, "data": "digits", "model": "mlp", "server_sees": "models"}
    for fields, refused in (
        ({"view": "models"}, 0),
        ({}, 1),
        ({"view": "models", "first": 3, "last": 2}, 1),
    ):
        assert len(check(run | {"attacks": [{"name": "loss_slope", **fields}]})[1]) == refused
    few = replace(noise, nonmembers=noise.nonmembers[:5], nonmember_owner=noise.nonmember_owner[:5])
    assert [key for key, _ in data_problems(Config(), few)] == ["compared"]
