"""Epsilon from separations: printed numbers, the privacy loss by simulation, and what must hold
whatever the scores.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from algorithms.auditing.epsilon import (
    epsilon_gdp,
    epsilon_of_rates,
    epsilon_two_gaussians,
    epsilons_gdp,
    estimate_of_auc,
    estimate_of_rates,
    mu_gdp,
    mu_of_auc,
)

MULTIPLIERS = [(0.5, 9.9973), (1.0, 4.3772), (2.0, 1.9931), (4.0, 0.9263)]


@pytest.mark.parametrize(("z", "epsilon"), MULTIPLIERS)
def test_the_gaussian_mechanism_at_delta_1e_5(z, epsilon):
    assert epsilon_gdp(1 / z, 1e-5) == pytest.approx(epsilon, abs=6e-5)
    assert epsilon_two_gaussians(0, z, 1, z * (1 + 1e-12), 1e-5) == pytest.approx(epsilon, abs=6e-5)
    assert mu_gdp(epsilon, 1e-5) == pytest.approx(1 / z, rel=1e-4)


@pytest.mark.parametrize(
    ("mu", "epsilon"),
    [(1 / 4.22, 1.001), (1 / 1.54, 3.008), (1 / 0.541, 10.002), (1e37, 5e73), (1e160, math.inf)],
)
def test_the_noise_levels_of_andrew_et_al_at_delta_1e_6_and_separations_beyond_all_bounds(
    mu, epsilon
):
    assert epsilon_gdp(mu, 1e-6) == pytest.approx(epsilon, rel=6e-4)


@pytest.mark.parametrize("mu", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-2])
def test_the_closed_form_of_delta_gives_back_delta(mu, delta):
    epsilon = epsilon_gdp(mu, delta)
    found = stats.norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * stats.norm.cdf(
        -epsilon / mu - mu / 2
    )
    assert found == pytest.approx(delta, rel=1e-4)


def test_andrew_et_als_epsilon_of_a_normal_against_the_gaussian_null():
    """Their regression test at dimension 2000: mu = s = dim^-1/2, delta 1e-2."""
    s = 2000**-0.5
    assert epsilon_two_gaussians(0, s, s, s, 1e-2) == pytest.approx(2.317789, abs=1e-6)


@pytest.mark.parametrize(
    "pair", [(0, 1, 1, 1.5), (0, 1.5, 1, 1), (2, 0.3, 0, 0.5), (0, 1, 0, 2), (0, 1, 3, 0.2)]
)
def test_two_gaussians_against_the_privacy_loss_integrated(pair):
    """delta = integral of max(0, p1 - e^epsilon p2), the larger of both ways."""
    m1, s1, m2, s2 = pair
    epsilon = epsilon_two_gaussians(*pair, 1e-2)
    y = np.linspace(-40, 40, 800_001)
    p1, p2 = stats.norm.pdf(y, m1, s1), stats.norm.pdf(y, m2, s2)
    both = [
        integrate.trapezoid(np.maximum(0, a - math.exp(epsilon) * b), y)
        for a, b in ((p1, p2), (p2, p1))
    ]
    assert max(both) == pytest.approx(1e-2, rel=1e-4)


@settings(deadline=None, max_examples=50)
@given(
    pair=st.tuples(st.floats(-5, 5), st.floats(0.2, 5), st.floats(-5, 5), st.floats(0.2, 5)),
    shift=st.floats(-3, 3),
    scale=st.floats(0.3, 3),
)
def test_two_gaussians_know_neither_order_nor_units_and_fall_with_delta(pair, shift, scale):
    m1, s1, m2, s2 = pair
    epsilon = epsilon_two_gaussians(*pair, 1e-4)
    assert epsilon == pytest.approx(epsilon_two_gaussians(m2, s2, m1, s1, 1e-4), rel=1e-6, abs=1e-8)
    moved = epsilon_two_gaussians(
        scale * m1 + shift, scale * s1, scale * m2 + shift, scale * s2, 1e-4
    )
    assert epsilon == pytest.approx(moved, rel=1e-5, abs=1e-6)
    assert epsilon_two_gaussians(*pair, 1e-2) <= epsilon + 1e-9


@pytest.mark.parametrize("apart", [1e-6, 1e-9, 1e-12, 2e-16])
def test_nearly_equal_deviations_are_as_good_as_equal_ones(apart):
    """The loss is nearly linear then, and its one near root has to keep its digits."""
    pairs = (0, 0.2, 1, 0.2 * (1 + apart)), (1, 0.2, 0, 0.2 - apart)
    epsilons = [epsilon_two_gaussians(*pair, 1e-4) for pair in pairs]
    assert epsilons == pytest.approx([epsilon_gdp(5.0, 1e-4)] * 2, rel=1e-4)


@pytest.mark.parametrize(("z", "epsilon"), MULTIPLIERS)
def test_the_success_of_an_attack_on_a_gaussian_mechanism_comes_to_its_epsilon(z, epsilon):
    inside, outside = np.random.default_rng(0).normal([[1 / z], [0.0]], 1, (2, 4000))
    auc = (inside[:, None] > outside).mean()
    assert mu_of_auc(auc) == pytest.approx(1 / z, abs=0.06)
    assert estimate_of_auc(stats.norm.cdf(1 / z / math.sqrt(2))).epsilon == pytest.approx(
        epsilon, rel=1e-4
    )
    assert estimate_of_rates(
        stats.norm.sf(0.7 - 1 / z), stats.norm.sf(0.7)
    ).epsilon == pytest.approx(epsilon, rel=1e-4)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1])
@pytest.mark.parametrize(
    "call", [partial(epsilon_gdp, 1.0), partial(epsilon_two_gaussians, 0, 1, 1, 2)]
)
def test_no_gaussian_bound_at_delta_0(call, delta):
    with pytest.raises(ValueError, match="delta must be above 0"):
        call(delta)


def test_what_cannot_be_told_has_no_epsilon_and_what_is_certain_has_no_limit():
    assert epsilon_gdp(0.0, 1e-5) == epsilon_gdp(-1.0, 1e-5) == 0
    assert math.isnan(epsilon_gdp(math.nan, 1e-5))
    assert epsilon_gdp(math.inf, 1e-5) == epsilon_of_rates(0.0, 0.5, 0.0) == math.inf
    assert epsilon_of_rates(0.6, 0.6, 0.0) == epsilon_of_rates(0.2, 1.0, 0.0) == 0


@pytest.mark.parametrize("delta", [1e-8, 1e-5, 0.3])
def test_many_epsilons_at_once_are_those_one_by_one(delta):
    mu = np.array([-math.inf, -1.0, 0.0, 1e-6, 1e-3, 0.1, 1.0, 5.0, 30.0, 1e4, 1e101, math.inf])
    expected = [epsilon_gdp(float(one), delta) for one in mu]
    np.testing.assert_allclose(epsilons_gdp(mu, delta), expected, rtol=1e-6, atol=1e-9)


def test_an_attack_below_chance_counts_only_if_it_may_decide_the_other_way_round():
    assert estimate_of_auc(0.3, 0.2, 0.4).epsilon == 0.0
    turned, plain = (
        estimate_of_auc(0.3, 0.2, 0.45, either_way=True),
        estimate_of_auc(0.7, 0.55, 0.8, either_way=True),
    )
    assert (turned.epsilon, turned.low, turned.high) == pytest.approx(
        (plain.epsilon, plain.low, plain.high)
    )
    perfect = estimate_of_auc(1.0, 0.8, 1.0, comparisons=240)
    assert perfect.low < perfect.epsilon < perfect.high == estimate_of_auc(1.0).epsilon == math.inf
    both = estimate_of_auc(0.52, 0.3, 0.7, either_way=True)
    assert both.low == 0.0 and both.high == pytest.approx(estimate_of_auc(0.7).epsilon)
