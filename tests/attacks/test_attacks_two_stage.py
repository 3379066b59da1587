"""Membership, then source: memories that are planted, a slow version, rates by hand, and chance
where nothing is learned.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from attacks import _queries, two_stage
from attacks.interfaces import SeenRound
from attacks.metrics.disparity import wilson
from attacks.two_stage import (
    Config,
    Sides,
    by_chance,
    conclude,
    data_problems,
    fedmia_fields,
    observe,
    rates,
)
from datasets.federation import Examples
from orchestrator.config.run import check
from orchestrator.trial.random_streams import stream
from tests.support.passive import EVERYONE, fixed, seen_by
from tests.support.planted import given as run_of
from tests.support.toy_federation import CLIENTS, EACH, NONMEMBERS, columns_of, memorized

CONFIG = Config(compared=NONMEMBERS)


def found_of(config, data, observed, seed=0, kept=None):
    seeded = lambda purpose, *place: stream(seed, purpose, *place)  # noqa: E731
    return conclude(config, SeenRound(data, observed, EVERYONE, 0, seeded, kept or {}))


@pytest.mark.parametrize("score", ["fedmia", "loss"])
def test_what_clients_learned_by_heart_is_flagged_and_traced_to_them(
    noise, network, experts, score
):
    config = CONFIG.model_copy(update={"score": score})
    found = found_of(config, noise, observe(config, seen_by(noise, network, experts)))
    assert columns_of(found)["two_stage_tpr"] > 0.95 and columns_of(found)["two_stage_sia"] > 0.95
    assert (found.clients["two_stage_traced"] > 0.9).all()
    tpr, traced, false = (
        columns_of(found)[f"two_stage_{name}"] for name in ("tpr", "traced", "tpr_null")
    )
    assert 0.05 < false < 0.06 and columns_of(found)["two_stage_traced_null"] == pytest.approx(
        false / CLIENTS
    )
    assert columns_of(found)["two_stage_precision_10"] == pytest.approx(traced / (tpr + 9 * false))
    named = {(one.of.name, one.metric): one for one in found.measures}
    assert named["client_3", "traced"].value == found.clients["two_stage_traced"][3]
    assert named["clients", "traced"].low == columns_of(found)["two_stage_traced_low"] < traced


def test_rounds_are_averaged_and_nothing_is_changed_in_place(noise, network, experts):
    observed = observe(CONFIG, seen_by(noise, network, experts))
    once = found_of(CONFIG, noise, observed)
    before = {name: array.copy() for name, array in once.kept.items()}
    saved = {name: once.kept[name] for name in sorted(once.kept, reverse=True)}
    assert columns_of(found_of(CONFIG, noise, observed, kept=saved)) == columns_of(once)
    assert all((array == before[name]).all() for name, array in once.kept.items())
    # What was told by one round and not by the next is told by both, and a round of two clients
    # does not count.
    rng = np.random.default_rng(0)
    empty = observed | {"confidences": rng.normal(size=observed["confidences"].shape)}
    after = columns_of(found_of(CONFIG, noise, empty, kept=once.kept))["two_stage_traced"]
    assert columns_of(found_of(CONFIG, noise, empty))["two_stage_traced"] < 0.05 < after
    but_one = {name: values[:-1] for name, values in observed.items()}
    first = conclude(CONFIG, SeenRound(noise, but_one, EVERYONE[:-1], 0, fixed, {}))
    assert np.isnan(first.clients["two_stage_traced"]).tolist() == [False] * (CLIENTS - 1) + [True]
    assert {one.of.name for one in first.measures} == {
        "clients",
        *(f"client_{i}" for i in range(CLIENTS - 1)),
    }
    then = conclude(
        CONFIG, SeenRound(noise, observed, EVERYONE, 1, fixed, first.kept)
    )  # the last one's means are of fewer
    chances = {one.of.name: one.chance for one in then.measures if one.metric == "traced"}
    assert (
        chances.pop("clients") > 0
        and len(chances) == CLIENTS
        and np.isnan([*chances.values()]).all()
    )
    of_two = SeenRound(
        noise,
        {name: values[:2] for name, values in empty.items()},
        EVERYONE[:2],
        1,
        fixed,
        once.kept,
    )
    assert conclude(CONFIG, of_two).kept["rounds"].tolist() == [[1.0]] * CLIENTS


def test_an_expert_alone_is_traced_alone(noise, network, experts):
    """Only client 2 has trained on its examples: nothing of the others is flagged more often
    than a non-member.
    """
    strange = [memorized(network, noise.nonmembers[40 * i : 40 * i + 40]) for i in range(3)]
    weights = [*strange[:2], experts[2], strange[2], *strange[:2]]
    data = replace(
        noise, nonmembers=noise.nonmembers[120:], nonmember_owner=noise.nonmember_owner[120:]
    )
    found = found_of(Config(), data, observe(Config(), seen_by(data, network, weights)))
    traced = found.clients["two_stage_traced"]
    assert traced[2] > 0.95 and (np.delete(traced, 2) < 0.1).all()


def test_the_slow_version_finds_the_same(noise, network, experts):
    """Example by example with torch's own losses, on models that half of the clients' examples
    were learned by.
    """
    mixed = [memorized(network, noise.client(i)[:20]) for i in EVERYONE]
    config = Config(score="loss", fpr=0.1, compared=50)
    found = found_of(config, noise, observe(config, seen_by(noise, network, mixed)))
    queries = _queries.queries_of(fedmia_fields(config), noise, fixed)

    def losses(x, y):
        values = []
        for weights in mixed:
            network.load(weights)
            logits = network.module(torch.from_numpy(x[None])).double()
            values.append(torch.nn.functional.cross_entropy(logits, torch.tensor([y])).item())
        return values

    outside = [losses(x, y) for x, y in zip(queries.outside.x, queries.outside.y, strict=True)]
    labels, shares = queries.outside.y, []
    weight = np.zeros(len(labels))
    for c in EVERYONE:
        own = noise.train.y[queries.members[c]]
        known = [y for y in own if y in labels]
        weight += [known.count(y) / len(known) / (labels == y).sum() for y in labels]
        shares.append([1 / len(known) if y in labels else 0 for y in own])
    order, threshold, passed = np.argsort([min(one) for one in outside]), None, 0.0
    for j in order:
        passed += weight[j] / weight.sum()
        if passed > config.fpr + 1e-9:
            threshold = min(outside[j])
            break
    tpr = traced = sia = 0.0
    for c in EVERYONE:
        for i, share in zip(queries.members[c], shares[c], strict=True):
            of_models = losses(noise.train.x[i], noise.train.y[i])
            flagged, right = min(of_models) < threshold, int(np.argmin(of_models)) == c
            tpr, sia = tpr + share * flagged / CLIENTS, sia + share * right / CLIENTS
            traced += share * flagged * right / CLIENTS
    assert 0.4 < tpr < 0.9
    for name, value in (
        ("tpr", tpr),
        ("traced", traced),
        ("apart", tpr * sia),
        ("sia", traced / tpr),
    ):
        assert columns_of(found)[f"two_stage_{name}"] == pytest.approx(value), name


def test_rates_by_hand():
    """Two clients with two members each; one non-member of four is let through, so what scores
    more than 2 is flagged.
    """
    sides = Sides(
        members=np.array([[9.0, 1.0], [8.0, 3.0]]),
        right=np.array([[True, True], [False, True]]),
        u=np.full((2, 2), 0.5),
        others=np.array([7.0, 2.0, 1.5, 0.0]),
        w=np.ones(4),
        example=np.arange(4),
    )
    values = rates(0.25, 0.4, sides)
    expected = {"tpr": 3 / 4, "traced": 2 / 4, "sia": 2 / 3, "apart": 9 / 16}
    expected |= {"precision_50": 0.5 / (0.75 + 0.4), "precision_1": 0.005 / (0.0075 + 0.99 * 0.4)}
    assert {name: values[name] for name in expected} == pytest.approx(expected)
    nothing = rates(0.25, 0.4, replace(sides, members=np.zeros((2, 2))))
    assert nothing["traced"] == nothing["precision_50"] == 0 and np.isnan(nothing["sia"])
    none = two_stage.intervals(
        0.25, 0.4, replace(sides, right=np.zeros((2, 2), bool)), np.random.default_rng(0)
    )
    assert none["sia"][1] > none["traced"][1], (
        "none of three that are flagged says less than none of four"
    )
    # With the transforms of two clients, of whom both say the same, four non-members are no more
    # than four.
    twice = replace(
        sides, others=np.tile(sides.others, 2), w=np.ones(8), example=np.tile(sides.example, 2)
    )
    ends = [two_stage.intervals(0.25, 0.4, one, np.random.default_rng(0)) for one in (sides, twice)]
    assert ends[0] == ends[1] and (
        sides.worth,
        twice.worth,
        replace(twice, example=np.arange(8)).worth,
    ) == (4, 4, 8)


@given(st.integers(0, 2**32 - 1))
@example(9941)  # no member is flagged
def test_no_more_is_named_rightly_than_is_flagged_and_where_members_are_rare_less(seed):
    rng = np.random.default_rng(seed)
    members, right, u = rng.normal(1, 1, (3, 9)), rng.random((3, 9)) < 0.5, rng.random((3, 9))
    sides = Sides(members, right, u, rng.normal(size=20), rng.random(20), np.arange(20))
    values, null = rates(0.2, 0.25, sides), by_chance(0.25, 3)
    assert 0 <= values["traced"] <= values["tpr"] <= 1
    rising = [
        *(values[f"precision_{percent}"] for percent in (1, 10, 50)),
        values["sia"] if values["tpr"] else 1,
    ]
    assert (np.diff(rising) >= -1e-12).all()
    assert null["precision_10"] == pytest.approx(
        0.1 * null["traced"] / (0.1 * null["tpr"] + 0.9 * 0.25)
    )


@pytest.mark.slow
@pytest.mark.parametrize("score", ["fedmia", "loss"])
def test_where_nothing_is_learned_all_is_at_chance_and_intervals_cover_it(noise, score):
    """300 audits of models that differ, on examples that differ, whose owners' models know
    nothing of them.
    """
    config, rng, rows, covered = (
        Config(score=score, fpr=0.1, targets=EACH),
        np.random.default_rng(3),
        [],
        [],
    )
    names = ("traced", "tpr", "sia", "precision_50", "precision_10")
    for audit in range(300):
        size = CLIENTS * EACH + 100 + fedmia_fields(config).references
        confidences = (
            rng.normal(size=(CLIENTS, size))
            + rng.normal(0, 2, size)
            + rng.normal(0, 0.1, (CLIENTS, 1))
        )
        found = found_of(
            config,
            noise,
            {"assignment": np.zeros(CLIENTS, int), "confidences": confidences},
            seed=audit,
        )
        named = {one.metric: one for one in found.measures if one.of.name == "clients"}
        rows.append([named[name].value / named[name].chance - 1 for name in names])
        rows[-1].append(named["traced"].value - named["apart"].value)
        covered.append(
            [named[name].low <= named[name].chance <= named[name].high for name in names]
        )
    means, errors, coverage = (
        np.mean(rows, axis=0),
        np.std(rows, axis=0) / len(rows) ** 0.5,
        np.mean(covered, axis=0),
    )
    print(
        score,
        "over chance",
        means.round(3),
        "errors",
        errors.round(3),
        "coverage",
        coverage.round(3),
    )
    assert (np.abs(means) < 4 * errors).all() and np.isfinite(errors).all()
    margin = 2 * (0.95 * 0.05 / len(rows)) ** 0.5
    assert (coverage > 0.93 - margin).all() and (coverage < 0.97 + margin).all()


def test_rates_that_cannot_be_seen_and_labels_in_common_with_nobody(noise, network, experts):
    assert [field for field, _ in data_problems(Config(fpr=0.001), noise)] == ["fpr"]
    without = replace(noise, nonmembers=noise.train[:0], nonmember_owner=np.empty(0, np.int64))
    assert [field for field, _ in data_problems(Config(), without)] == ["compared"]
    assert data_problems(Config(fpr=0.01), noise) == []
    other = Examples(noise.nonmembers.x, np.full(NONMEMBERS, 9))
    train = Examples(noise.train.x, noise.train.y % 9)
    data = replace(noise, nonmembers=other, train=train)
    found = found_of(Config(), data, observe(Config(), seen_by(data, network, experts)))
    assert np.isnan(list(columns_of(found).values())).all() and not found.measures
    # An interval is of the members that count: those whose label a non-member has.
    data = replace(
        noise, nonmembers=Examples(noise.nonmembers.x, np.full(NONMEMBERS, 1)), train=train
    )
    config = Config(score="loss", targets=EACH, fpr=0.3)
    found = found_of(config, data, observe(config, seen_by(data, network, experts)))
    for client in EVERYONE.tolist():
        (one,) = (one for one in found.measures if one.of.name == f"client_{client}")
        count = int((train.y[client * EACH : (client + 1) * EACH] == 1).sum())
        assert [one.low, one.high] == pytest.approx(
            np.array(wilson(one.value * count, count))
        ) and 0 < count < 12


def test_the_lowest_loss_is_compared_with_no_references_and_center_is_refused_beside_it(noise):
    bare = replace(noise, shadow=noise.shadow[:0])
    assert [field for field, _ in data_problems(CONFIG, bare)] == ["center"]
    assert data_problems(CONFIG.model_copy(update={"score": "loss"}), bare) == []
    _, problems = check(run_of(attacks=[{"name": "two_stage", "score": "loss", "center": "none"}]))
    assert [problem.key for problem in problems] == [("attacks", 0, "center")]


@pytest.mark.parametrize(
    "fields", [{"server_sees": "sum"}, {"participation": "fixed", "participation_rate": 0.05}]
)
@pytest.mark.parametrize("name", ["two_stage", "sia", "remapped_sia"])
def test_a_server_that_sees_no_updates_and_one_client_a_round_are_refused(fields, name):
    _, problems = check(run_of(attacks=[name], **fields))
    assert [problem.key for problem in problems] == [("attacks", 0)]
