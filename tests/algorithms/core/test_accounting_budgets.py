"""Noise for a target, what rounds have spent, and the epsilon of a search: printed numbers, and
formulas by hand.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from algorithms.core.accounting import (
    PrivacyEvent,
    calibrate,
    epsilon,
    epsilon_so_far,
    rounded_up,
    schedule,
)
from algorithms.core.private_search import LAWS, epsilon_of_search

DELTA, ADD = 1e-5, "add_or_remove_one"
PRINTED = {
    "logarithmic": (4.0803, 4.5670, 4.9603),
    "geometric": (4.8203, 5.6147, 6.2592),
    "poisson": (5.5259, 13.3741, 28.1177),
}


def gaussian(z: float, rounds: int = 20) -> float:
    return epsilon([PrivacyEvent(z)] * rounds, DELTA, ADD)


@pytest.mark.parametrize(("target", "z"), [(1, 16.6839), (2, 8.9166), (4, 4.8351), (8, 2.6843)])
def test_the_noise_for_a_target_after_twenty_rounds(target, z):
    found = calibrate(gaussian, target, 1e6)
    assert found == pytest.approx(z, abs=5e-5)
    assert gaussian(found) <= target < gaussian(found * (1 - 2e-6))


@pytest.mark.parametrize("target", [0.0, -1.0, math.nan, math.inf])
def test_no_noise_reaches_a_target_that_is_no_number_above_zero(target):
    with pytest.raises(ValueError, match="above 0"):
        calibrate(gaussian, target, 1e6)


@pytest.mark.parametrize(
    ("target", "delta", "z"), [(1e-9, 1e-5, 178404.0), (1e-3, 0.05, 35.3242), (1e-3, 0.3, 5.79604)]
)
def test_a_target_beyond_which_an_account_is_exactly_zero(target, delta, z):
    found = calibrate(lambda noise: epsilon([PrivacyEvent(noise)] * 20, delta, ADD), target, 1e6)
    assert found == pytest.approx(z, rel=1e-5)


def test_what_no_noise_within_its_range_reaches_is_not_found():
    assert calibrate(lambda z: gaussian(z, 1000), 1e-9, 1e6) is None  # 39 894 sqrt(1000) is more
    assert calibrate(gaussian, 2.0, 8.9) is None and calibrate(gaussian, 2.0, 8.92) is not None


def test_what_the_rounds_of_one_noise_cost():
    spent = [gaussian(8.0, rounds) for rounds in (1, 5, 10, 16, 17, 20)]
    assert spent == pytest.approx([0.4344, 1.0471, 1.5347, 1.9931, 2.0617, 2.2581], abs=5e-5)


def test_a_number_that_is_rounded_up_is_never_less():
    for value in np.random.default_rng(0).lognormal(0, 5, 300):
        assert (
            value <= rounded_up(value, 3) <= value * (1 + 1e-2)
            and float(f"{rounded_up(value, 3):.3g}") >= value
        )
    assert [rounded_up(value, 3) for value in (3.035, 3.03, math.inf)] == [3.04, 3.03, math.inf]


@pytest.mark.parametrize(("sampler", "relation"), [("poisson", ADD), ("fixed", "replace_one")])
def test_what_was_spent_so_far_is_a_bound_and_exact_at_the_end(sampler, relation):
    event = PrivacyEvent(2.0, sampler, 0.1, 10)
    exact = {rounds: epsilon([event] * rounds, DELTA, relation) for rounds in (1, 2, 4, 5)}
    told = [epsilon_so_far([event] * done, 5, DELTA, relation) for done in range(1, 6)]
    assert told == [exact[schedule(done, 5)] for done in range(1, 6)]
    assert all(later >= now for now, later in pairwise(told)) and told[-1] == exact[5]
    assert told[2] > epsilon([event] * 3, DELTA, relation)


def test_without_sampling_what_was_spent_so_far_is_exact():
    assert [epsilon_so_far([PrivacyEvent(8.0)] * k, 20, DELTA, ADD) for k in (1, 3, 20)] == [
        gaussian(8.0, k) for k in (1, 3, 20)
    ]


@pytest.mark.parametrize("law", LAWS)
def test_the_winner_of_a_search_costs_what_is_printed(law):
    one = [PrivacyEvent(8.0)] * 20
    spent = [epsilon_of_search(one, DELTA, ADD, law, mean) for mean in (10, 40, 150)]
    assert spent == pytest.approx(PRINTED[law], abs=5e-5)
    assert min(spent) > 2.4515  # one run, by the same divergences
    assert epsilon([PrivacyEvent(8.0)] * 800, DELTA, ADD) == pytest.approx(
        20.6755, abs=5e-5
    )  # all forty, published


def test_the_renyi_divergence_of_a_search_follows_from_the_theorem():
    """rho = T / (2 z^2), gamma = 1 / mean: at order 20 and mean 40 it is 6.04346; every order
    bounds epsilon.
    """
    rho, mean, shape = 20 / (2 * 8.0**2), 40, 1.0
    orders = np.linspace(1 + math.sqrt(math.log(mean) / rho), 60, 4000)[1:]

    def divergence(order):
        return (
            rho * (order - 1)
            + np.log(mean) / (order - 1)
            + 2 * (1 + shape) * math.sqrt(rho * math.log(mean))
            - shape * rho
        )

    assert divergence(20.0) == pytest.approx(6.04346, abs=5e-6)
    # Canonne, Kamath and Steinke 2020, proposition 12: from Renyi divergences to epsilon.
    bounds = divergence(orders) + np.log1p(-1 / orders) - np.log(DELTA * orders) / (orders - 1)
    found = epsilon_of_search([PrivacyEvent(8.0)] * 20, DELTA, ADD, "geometric", mean)
    assert found == pytest.approx(bounds.min(), rel=2e-3)


@pytest.mark.parametrize(("mean", "z"), [(10, 19.246), (40, 22.420)])
def test_the_noise_for_a_target_that_covers_the_search(mean, z):
    searched = lambda z: epsilon_of_search([PrivacyEvent(z)] * 20, DELTA, ADD, "geometric", mean)  # noqa: E731
    assert calibrate(searched, 2.0, 1e6) == pytest.approx(z, abs=5e-4)


def test_a_search_without_events_costs_nothing_and_one_without_noise_everything():
    assert epsilon_of_search([], DELTA, ADD, "geometric", 10) == 0
    assert epsilon_of_search([PrivacyEvent(0.0)], DELTA, ADD, "geometric", 10) == math.inf
    sampled = [PrivacyEvent(2.0, "poisson", 0.1)] * 20, [PrivacyEvent(2.0, "fixed", 0.1, 10)] * 20
    for events, relation in zip(sampled, (ADD, "replace_one"), strict=True):
        found = epsilon_of_search(events, DELTA, relation, "geometric", 10)
        assert epsilon(events, DELTA, relation) < found < epsilon(events * 40, DELTA, relation) * 10
