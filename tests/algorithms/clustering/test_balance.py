"""A cap on leaving a model and a price for it, and risks of the clients' own: by hand, and against a slow version."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.clustering import ifca_mir, random_migration
from algorithms.clustering.ifca_mir import Config
from algorithms.core.choices import Preferences, View

fast = settings(max_examples=100, deadline=None)
seeds = st.integers(0, 2**32 - 1)
limits = st.one_of(st.integers(0, 4), st.floats(0, 1), st.just("all"))


def view(losses: Any, previous: Any, risks: Any = None, **more: Any) -> View:
    table = np.asarray(losses, np.float64)
    known = np.full(table.shape[1], 0.5) if risks is None else np.asarray(risks, np.float64)
    return View(table, known, np.asarray(previous), 10, **more)


def indifferent(clients: int) -> Preferences:
    """They choose by loss, so that what a client gains is the difference of its losses."""
    return Preferences(np.full(clients, 0.6), np.zeros(clients))


def chosen(config: Config, seen: View, preferences: Preferences | None = None) -> list[int]:
    found, _ = ifca_mir.choose(config, seen, preferences or indifferent(len(seen.losses)))
    return found.tolist()


# Gains of 0.2, 0.5, 0.5 and 0.1 nats for four clients of model 0; a client of model 1 gains 0.3, a new one has no model.
LEAVING = view([[0.7, 0.5], [0.9, 0.4], [0.9, 0.4], [0.5, 0.4], [0.1, 0.4], [0.9, 0.1]], [0, 0, 0, 0, 1, -1])


@pytest.mark.parametrize(
    ("most", "price", "expected"),
    [
        ("all", 0.0, [1, 1, 1, 1, 0, 1]),
        (0, 0.0, [0, 0, 0, 0, 1, 1]),  # the new client leaves nothing
        (1, 0.0, [0, 1, 0, 0, 0, 1]),  # equal gains: the lower number goes
        (3, 0.0, [1, 1, 1, 0, 0, 1]),
        (4, 0.0, [1, 1, 1, 1, 0, 1]),
        (0.25, 0.0, [0, 1, 0, 0, 1, 1]),  # of four clients one; of one client none, because shares are rounded down
        (0.7, 0.0, [0, 1, 1, 0, 1, 1]),
        (1.0, 0.0, [1, 1, 1, 1, 0, 1]),
        ("all", 0.15, [1, 1, 1, 0, 0, 1]),
        ("all", 0.4, [0, 1, 1, 0, 1, 1]),  # whoever has no model pays nothing
        ("all", 1.0, [0, 0, 0, 0, 1, 1]),
        (1, 0.15, [0, 1, 0, 0, 0, 1]),
    ],
)
def test_by_hand_those_who_gain_most_leave_first_and_who_gains_less_than_the_price_stays(most, price, expected):
    assert chosen(Config(most_leaving=most, leaving_price=price), LEAVING) == expected


@pytest.mark.parametrize(("share", "clients", "leaving"), [(0.3, 10, 3), (0.29, 100, 29)])
def test_a_share_is_not_lost_to_rounding(share, clients, leaving):
    """Both products fall short of a whole number in floating point."""
    assert sum(chosen(Config(most_leaving=share), view([[0.9, 0.1]] * clients, [0] * clients))) == leaving


def test_by_hand_the_price_is_added_to_every_model_but_the_one_used_last():
    seen = view([[0.7, 0.5, 0.6], [0.7, 0.5, 0.6]], [0, -1])
    _, costs = ifca_mir.choose(Config(leaving_price=0.25), seen, indifferent(2))
    assert costs == pytest.approx(np.array([[0.7, 0.75, 0.85], [0.7, 0.5, 0.6]]))


def test_neither_applies_while_risk_does_not_count():
    """Clients are sorted by loss first; there is nothing yet that they would leave a model for."""
    config = Config(most_leaving=0, leaving_price=100, risk_from="own")
    seen = replace(LEAVING, risk_counts=False)
    assert chosen(config, seen) == chosen(Config(), LEAVING)


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
        leaving = sorted((i for i in users if wish[i] != model), key=lambda i: (cost[i][wish[i]] - cost[i][model], i))
        most = config.most_leaving
        allowed = len(users) if most == "all" else most if isinstance(most, int) else int(most * len(users) + 1e-9)
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
    rng, clients, models = np.random.default_rng(seed), 12, 3
    losses, risks = rng.integers(0, 4, (clients, models)) / 4 * 3, 0.5 + rng.integers(0, 4, models) / 8
    own = np.where(rng.random((clients, models)) < 0.2, np.nan, 0.5 + rng.integers(0, 4, (clients, models)) / 8)
    seen = view(losses, rng.integers(-1, models, clients), risks, own_risks=own if rng.random() < 0.8 else None)
    preferences = Preferences(np.full(clients, 0.6), rng.integers(0, 3, clients) / 2)
    config = Config(most_leaving=most, leaving_price=price, scale=scale, risk_from=source)
    found, costs = ifca_mir.choose(config, seen, preferences)
    assert found.tolist() == slow(config, seen, preferences)
    rows = np.arange(clients)
    assert (costs[rows, found] == costs.min(axis=1)).all() and np.isfinite(costs[rows, found]).all()
    if most != "all":
        for model in range(models):
            users = seen.previous == model
            most_of_it = most if isinstance(most, int) else most * users.sum() + 1e-9
            assert (users & (found != model)).sum() <= most_of_it


@fast
@given(seeds)
def test_by_default_the_choice_and_the_costs_are_those_of_the_paper_to_the_bit(seed):
    rng = np.random.default_rng(seed)
    seen = view(rng.uniform(0, 3, (9, 3)), rng.integers(-1, 3, 9), rng.uniform(0.5, 1, 3), own_risks=rng.random((9, 3)))
    beta = rng.random(9)
    costs = (1 - beta[:, None]) * seen.losses + beta[:, None] * seen.published_risks[None, :]
    found, ours = ifca_mir.choose(Config(), seen, Preferences(np.full(9, 0.6), beta))
    assert ours.tobytes() == costs.tobytes()
    assert found.tolist() == costs.argmin(axis=1).tolist()


def test_by_hand_each_client_weighs_the_risk_that_it_found_itself():
    """Equal losses: who found model 0 riskier takes 1, and who could not attack takes every model for a guess."""
    seen = view([[1.0, 1.0]] * 3, [0, 0, 1], [0.9, 0.5], own_risks=np.array([[0.8, 0.6], [0.6, 0.8], [np.nan, np.nan]]))
    certain = Preferences(np.full(3, 0.6), np.ones(3))
    assert chosen(Config(risk_from="own"), seen, certain) == [1, 0, 1]
    assert chosen(Config(), seen, certain) == [1, 1, 1]
    assert chosen(Config(risk_from="own"), replace(seen, own_risks=None), certain) == [0, 0, 1]


@fast
@given(
    seeds, limits, st.sampled_from([0.0, 0.05, 0.5]), st.sampled_from(["raw", "normalized"]), st.sampled_from([0, 1, 3])
)
def test_of_each_model_as_many_leave_at_random_as_by_the_rule(seed, most, price, scale, turns):
    """And as many come to each other model; only who they are differs."""
    rng, clients, models = np.random.default_rng(seed), 12, 3
    losses, risks = rng.integers(0, 4, (clients, models)) / 4 * 3, 0.5 + rng.integers(0, 4, models) / 8
    seen = view(losses, rng.integers(-1, models, clients), risks)
    turn = rng.permutation(clients) if turns else None
    preferences = Preferences(np.full(clients, 0.6), rng.integers(0, 3, clients) / 2, turn)
    config = random_migration.Config(most_leaving=most, leaving_price=price, scale=scale)
    found, costs = random_migration.choose(config, seen, preferences)
    rule, _ = ifca_mir.choose(config, seen, preferences)
    assert np.bincount(found, minlength=models).tolist() == np.bincount(rule, minlength=models).tolist()
    if most != "all" or price:
        for model in range(-1, models):
            users = seen.previous == model
            assert sorted(found[users].tolist()) == sorted(rule[users].tolist())
    assert (costs[np.arange(clients), found] == costs.min(axis=1)).all()


@fast
@given(seeds)
def test_without_limits_the_first_in_turn_move(seed):
    rng, clients, models = np.random.default_rng(seed), 12, 3
    losses, risks = rng.integers(0, 4, (clients, models)) / 4 * 3, 0.5 + rng.integers(0, 4, models) / 8
    seen = view(losses, rng.integers(-1, models, clients), risks)
    preferences = Preferences(np.full(clients, 0.6), rng.integers(0, 3, clients) / 2, rng.permutation(clients))
    rule, _ = ifca_mir.choose(Config(), seen, preferences)
    by_loss = [min(range(models), key=lambda j: (losses[i, j], j != seen.previous[i], j)) for i in range(clients)]
    expected, turn = list(by_loss), preferences.turn.tolist()
    for a in range(models):
        waiting = sorted((i for i in range(clients) if by_loss[i] == a), key=lambda i: turn[i])
        for b in range(models):
            for _ in range(sum(by_loss[i] == a and rule[i] == b for i in range(clients)) if a != b else 0):
                expected[waiting.pop(0)] = b
    assert random_migration.choose(random_migration.Config(), seen, preferences)[0].tolist() == expected
