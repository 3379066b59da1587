"""How clients choose a model: by hand, and as properties over random views."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.clustering import ifca, ifca_mir, none, random_migration
from algorithms.clustering._choice import thresholds
from algorithms.clustering.ifca_mir import Config
from algorithms.core.choices import Preferences, View, random_partition
from algorithms.core.configs import ClusteringConfig
from tests.support.stand_ins import StandIn

fast = settings(max_examples=100, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def view(losses: Any, risks: Any, previous: Any = None, classes: int = 10) -> View:
    table = np.asarray(losses, np.float64)
    before = np.full(len(table), -1) if previous is None else np.asarray(previous)
    return View(table, np.asarray(risks, np.float64), before, classes)


def preferring(beta: Any) -> Preferences:
    weights = np.atleast_1d(np.asarray(beta, np.float64))
    return Preferences(np.full(len(weights), 0.6), weights)


CLIENTS, MODELS = 12, 3


def random_view(seed: int) -> View:
    """Losses and risks from a coarse grid, so that ties are frequent."""
    draw = rng(seed)
    losses, risks = (
        draw.integers(0, 4, (CLIENTS, MODELS)) / 4 * 3,
        0.5 + draw.integers(0, 4, MODELS) / 8,
    )
    return view(losses, risks, draw.integers(-1, MODELS, CLIENTS))


# IFCA-MIR


def test_by_hand_nats_and_attack_accuracy_are_added_as_printed():
    """Costs of the two models: 0.25 * 2 + 0.75 * 0.5 = 0.875 and 0.25 * 1 + 0.75 * 0.7 = 0.775."""
    seen = view([[2.0, 1.0], [2.0, 1.0]], risks=[0.5, 0.7])
    chosen, costs = ifca_mir.choose(ifca_mir.Config(), seen, preferring([0.75, 1.0]))
    assert costs == pytest.approx(np.array([[0.875, 0.775], [0.5, 0.7]]))
    assert chosen.tolist() == [1, 0]


@given(seeds)
@fast
def test_beta_zero_is_ifca_to_the_bit(seed):
    seen = random_view(seed)
    chosen, costs = ifca_mir.choose(ifca_mir.Config(), seen, preferring(np.zeros(12)))
    expected, losses = ifca.choose(ifca.Config(), seen, preferring(np.zeros(12)))
    assert costs.tobytes() == losses.tobytes()
    assert chosen.tolist() == expected.tolist()


# Tolerances and what follows from them


@pytest.mark.parametrize("clients", [1, 2, 7, 200])
@pytest.mark.parametrize("component", [none, ifca, ifca_mir])
def test_tolerances_are_an_even_grid_and_the_same_for_every_component(component, clients):
    tolerated = component.preferences(component.Config(), clients, rng(3)).threshold
    np.testing.assert_allclose(np.sort(tolerated), np.linspace(0.5, 0.8, clients), atol=1e-12)
    assert tolerated.tolist() == thresholds(ClusteringConfig(), clients, rng(3)).tolist()
    beta = component.preferences(
        component.Config(), clients, rng(3)
    ).beta  # falls from 1 at the lowest tolerance
    np.testing.assert_allclose(
        beta, (0.8 - tolerated) / 0.3 if component is ifca_mir else 0, atol=1e-12
    )


def test_the_order_of_tolerances_is_drawn():
    orders = {tuple(thresholds(ClusteringConfig(), 6, rng(seed))) for seed in range(20)}
    assert len(orders) > 15
    grid = ClusteringConfig(lowest_threshold=0.25, highest_threshold=0.75)
    assert sorted(thresholds(grid, 3, rng())) == [0.25, 0.5, 0.75]


def test_the_constant_preference_is_equal_and_the_uniform_one_drawn():
    constant = ifca_mir.preferences(ifca_mir.Config(preference="constant", beta=0.3), 4, rng())
    assert constant.beta.tolist() == [0.3] * 4
    uniform = ifca_mir.preferences(ifca_mir.Config(preference="uniform"), 4000, rng(1))
    assert uniform.beta.min() >= 0 and uniform.beta.max() <= 1
    assert np.abs(np.sort(uniform.beta) - np.linspace(0, 1, 4000)).max() < 0.03
    assert abs(np.corrcoef(uniform.beta, uniform.threshold)[0, 1]) < 0.05
    again = ifca_mir.preferences(ifca_mir.Config(preference="uniform"), 4000, rng(1))
    assert again.beta.tolist() == uniform.beta.tolist()


@given(st.integers(1, 5), st.integers(1, 40), seeds)
@fast
def test_a_random_partition_has_equal_parts(clusters, clients, seed):
    assigned = random_partition(clusters, clients, rng(seed))
    sizes = np.bincount(assigned, minlength=clusters)
    assert (len(sizes), sizes.sum()) == (clusters, clients)
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"signal": "nobody"}, "signal"),
        (
            {"lowest_threshold": 0.7, "highest_threshold": 0.7},
            "lowest_threshold",
        ),  # beta falls between them
        ({"lowest_threshold": 0.7, "highest_threshold": 0.7, "preference": "constant"}, None),
        ({"risk_from": "own"}, "risk_from"),
    ],
)
def test_a_preference_that_cannot_be_computed_is_refused(fields, field):
    run = SimpleNamespace(attacks=[StandIn(name="shadow_mia", module=SimpleNamespace(RISK=True))])
    problems = ifca_mir.problems(ifca_mir.Config(**fields), run)
    assert [found for found, _ in problems] == ([field] if field else [])


def test_who_moves_is_drawn_without_regard_to_the_weight_of_risk() -> None:
    """Over many draws, every client of the risky model moves equally often, though only half of
    them mind the risk.
    """
    seen = view([[0.0, 0.1]] * 20, [0.9, 0.5])
    moved = np.zeros(20)
    for seed in range(400):
        own = random_migration.preferences(random_migration.Config(), 20, rng(seed))
        half = Preferences(own.threshold, np.repeat([0.0, 1.0], 10), own.turn)
        chosen, _ = random_migration.choose(random_migration.Config(), seen, half)
        assert chosen.sum() == 10
        moved += chosen
    assert np.abs(moved / 400 - 0.5).max() < 0.11  # four standard errors and a bit


# A cap on leaving a model and a price for it, and risks of the clients' own

limits = st.one_of(st.integers(0, 4), st.floats(0, 1), st.just("all"))


def by_rule(config: Config, seen: View, preferences: Preferences | None = None) -> list[int]:
    return ifca_mir.choose(config, seen, preferences or preferring(np.zeros(len(seen.losses))))[
        0
    ].tolist()


def seen_from(losses: Any, previous: Any, risks: Any = None, **more: Any) -> View:
    table = np.asarray(losses, np.float64)
    return replace(
        view(table, np.full(table.shape[1], 0.5) if risks is None else risks, previous), **more
    )


# Gains of 0.2, 0.5, 0.5 and 0.1 nats for four clients of model 0; a client of model 1 gains 0.3, a
# new one has no model.
LEAVING = seen_from(
    [[0.7, 0.5], [0.9, 0.4], [0.9, 0.4], [0.5, 0.4], [0.1, 0.4], [0.9, 0.1]], [0, 0, 0, 0, 1, -1]
)


@pytest.mark.parametrize(
    ("most", "price", "expected"),
    [
        ("all", 0.0, [1, 1, 1, 1, 0, 1]),
        (0, 0.0, [0, 0, 0, 0, 1, 1]),  # the new client leaves nothing
        (1, 0.0, [0, 1, 0, 0, 0, 1]),  # equal gains: the lower number goes
        (3, 0.0, [1, 1, 1, 0, 0, 1]),
        (4, 0.0, [1, 1, 1, 1, 0, 1]),
        (
            0.25,
            0.0,
            [0, 1, 0, 0, 1, 1],
        ),  # of four clients one; of one client none, because shares are rounded down
        (0.7, 0.0, [0, 1, 1, 0, 1, 1]),
        (1.0, 0.0, [1, 1, 1, 1, 0, 1]),
        ("all", 0.15, [1, 1, 1, 0, 0, 1]),
        ("all", 0.4, [0, 1, 1, 0, 1, 1]),  # whoever has no model pays nothing
        ("all", 1.0, [0, 0, 0, 0, 1, 1]),
        (1, 0.15, [0, 1, 0, 0, 0, 1]),
    ],
)
def test_by_hand_those_who_gain_most_leave_first_and_who_gains_less_than_the_price_stays(
    most, price, expected
):
    assert by_rule(Config(most_leaving=most, leaving_price=price), LEAVING) == expected


@pytest.mark.parametrize(("share", "clients", "leaving"), [(0.3, 10, 3), (0.29, 100, 29)])
def test_a_share_is_not_lost_to_rounding(share, clients, leaving):
    """Both products fall short of a whole number in floating point."""
    assert (
        sum(by_rule(Config(most_leaving=share), seen_from([[0.9, 0.1]] * clients, [0] * clients)))
        == leaving
    )


def test_neither_applies_while_risk_does_not_count():
    """Clients are sorted by loss first; there is nothing yet that they would leave a model for."""
    config = Config(most_leaving=0, leaving_price=100, risk_from="own")
    seen = replace(LEAVING, risk_counts=False)
    assert by_rule(config, seen) == by_rule(Config(), LEAVING)


def slow(config: Config, seen: View, preferences: Preferences) -> list[int]:
    """One client after the other, with sets and sorted lists."""
    clients, models = seen.losses.shape
    cost: list[list[float]] = []
    for i in range(clients):
        beta, row = float(preferences.beta[i]), []
        for j in range(models):
            risk = float(seen.published_risks[j])
            if config.risk_from == "own":
                unknown = seen.own_risks is None or math.isnan(seen.own_risks[i, j])
                risk = 0.5 if unknown else float(seen.own_risks[i, j])
            f = float(seen.losses[i, j])
            if config.scale == "normalized":
                f, risk = f / math.log(seen.classes), 2 * (risk - 0.5)
            away = seen.previous[i] not in (-1, j)
            row.append((1 - beta) * f + beta * risk + (config.leaving_price if away else 0))
        cost.append(row)
    wish = [
        min(range(models), key=lambda j: (cost[i][j], seen.losses[i, j], j != seen.previous[i], j))
        for i in range(clients)
    ]
    for model in range(models):
        users = [i for i in range(clients) if seen.previous[i] == model]
        leaving = sorted(
            (i for i in users if wish[i] != model),
            key=lambda i: (cost[i][wish[i]] - cost[i][model], i),
        )
        most = config.most_leaving
        allowed = (
            len(users)
            if most == "all"
            else most
            if isinstance(most, int)
            else int(most * len(users) + 1e-9)
        )
        for i in leaving[allowed:]:
            wish[i] = model
    return wish


@fast
@given(
    seeds,
    limits,
    st.sampled_from([0.0, 0.05, 0.5]),
    st.sampled_from(["raw", "normalized"]),
    st.sampled_from(["server", "own"]),
)
def test_the_choice_is_that_of_the_slow_version(seed, most, price, scale, source):
    draw, size = rng(seed + 1), (CLIENTS, MODELS)
    own = np.where(draw.random(size) < 0.2, np.nan, 0.5 + draw.integers(0, 4, size) / 8)
    seen = replace(random_view(seed), own_risks=own if draw.random() < 0.8 else None)
    preferences = preferring(draw.integers(0, 3, CLIENTS) / 2)
    config = Config(most_leaving=most, leaving_price=price, scale=scale, risk_from=source)
    found, costs = ifca_mir.choose(config, seen, preferences)
    assert found.tolist() == slow(config, seen, preferences)
    rows = np.arange(CLIENTS)
    assert (costs[rows, found] == costs.min(axis=1)).all() and np.isfinite(costs[rows, found]).all()


@fast
@given(
    seeds,
    limits,
    st.sampled_from([0.0, 0.05, 0.5]),
    st.sampled_from(["raw", "normalized"]),
    st.sampled_from([0, 1, 3]),
)
def test_of_each_model_as_many_leave_at_random_as_by_the_rule(seed, most, price, scale, turns):
    """And as many come to each other model; only who they are differs."""
    draw, seen = rng(seed + 1), random_view(seed)
    turn = draw.permutation(CLIENTS) if turns else None
    preferences = replace(preferring(draw.integers(0, 3, CLIENTS) / 2), turn=turn)
    config = random_migration.Config(most_leaving=most, leaving_price=price, scale=scale)
    found, costs = random_migration.choose(config, seen, preferences)
    rule, _ = ifca_mir.choose(config, seen, preferences)
    assert (
        np.bincount(found, minlength=MODELS).tolist()
        == np.bincount(rule, minlength=MODELS).tolist()
    )
    if most != "all" or price:
        for model in range(-1, MODELS):
            users = seen.previous == model
            assert sorted(found[users].tolist()) == sorted(rule[users].tolist())
    assert (costs[np.arange(CLIENTS), found] == costs.min(axis=1)).all()


@fast
@given(seeds)
def test_without_limits_the_first_in_turn_move(seed):
    draw, seen = rng(seed + 1), random_view(seed)
    preferences = replace(
        preferring(draw.integers(0, 3, CLIENTS) / 2), turn=draw.permutation(CLIENTS)
    )
    rule, _ = ifca_mir.choose(Config(), seen, preferences)
    cost = [
        [(seen.losses[i, j], j != seen.previous[i], j) for j in range(MODELS)]
        for i in range(CLIENTS)
    ]
    by_loss = [min(own)[2] for own in cost]
    expected, turn = list(by_loss), preferences.turn.tolist()
    for a in range(MODELS):
        waiting = sorted((i for i in range(CLIENTS) if by_loss[i] == a), key=lambda i: turn[i])
        for b in range(MODELS):
            for _ in range(
                sum(by_loss[i] == a and rule[i] == b for i in range(CLIENTS)) if a != b else 0
            ):
                expected[waiting.pop(0)] = b
    assert (
        random_migration.choose(random_migration.Config(), seen, preferences)[0].tolist()
        == expected
    )
