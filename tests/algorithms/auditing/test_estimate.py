"""The estimate of mu: closed forms by simulation, its interval, and deviations that differ."""

from __future__ import annotations

import numpy as np
import pytest

from algorithms.auditing.epsilon import epsilon_gdp, epsilon_two_gaussians
from algorithms.auditing.finding import separation


@pytest.mark.parametrize("z", [0.5, 1.0, 2.0, 4.0])
def test_the_estimate_is_right_on_average_and_its_interval_holds(z):
    """What the issue asks for: within 10 % on average, and the 95 % lower end below the truth in 18 of 20 repetitions."""
    truth, found = epsilon_gdp(1 / z, 1e-5), []
    for repetition in range(100):
        rng = np.random.default_rng([1, repetition])
        one = separation(rng.normal(1 / z, 1, 256), rng.normal(0, 1, 2000))
        found.append((one.epsilon(1e-5), *one.limits(1e-5)))
    middle, low, high = np.array(found).T
    assert middle.mean() == pytest.approx(truth, rel=0.1)
    assert (low < truth).sum() >= 92 and (truth < high).sum() >= 92
    assert (low < middle).all() and (middle < high).all()


def test_the_error_of_mu_is_that_of_repetitions():
    """At a large mu most of it is the uncertain deviation."""
    for mu in (0.5, 8.0):
        rng = np.random.default_rng(2)
        found = [separation(rng.normal(mu, 1, 100), rng.normal(0, 1, 150)) for _ in range(600)]
        assert np.std([one.mu for one in found]) == pytest.approx(np.mean([one.error for one in found]), rel=0.12)


def test_deviations_that_differ_beyond_doubt_are_taken_as_they_are():
    rng = np.random.default_rng(0)
    inside, outside = rng.normal(1, 2, 4000), rng.normal(0, 1, 4000)
    one, truth = separation(inside, outside), epsilon_two_gaussians(0, 1, 1, 2, 1e-5)
    assert one.ratio == pytest.approx(2, rel=0.05)
    assert one.epsilon(1e-5) == pytest.approx(truth, rel=0.1)
    low, high = one.limits(1e-5)
    assert low < truth < high
    assert separation(inside, outside, unequal=False).epsilon(1e-5) == pytest.approx(epsilon_gdp(1, 1e-5), rel=0.1)


def test_equal_deviations_are_hardly_ever_taken_for_different_ones():
    rng = np.random.default_rng(1)
    differ = [separation(rng.normal(1, 1, 100), rng.normal(0, 1, 300)).ratio != 1 for _ in range(300)]
    assert np.mean(differ) < 0.01


def test_scores_know_no_units():
    rng = np.random.default_rng(0)
    inside, outside = rng.normal(1, 1, 100), rng.normal(0, 1, 100)
    one, other = separation(inside, outside), separation(3 * inside + 7, 3 * outside + 7)
    assert (other.mu, other.error) == pytest.approx((one.mu, one.error))


def test_a_release_that_ignores_canaries_has_an_epsilon_of_0_in_its_interval():
    rng = np.random.default_rng(0)
    low, high = separation(rng.normal(0, 1, 300), rng.normal(0, 1, 900)).limits(1e-5)
    assert low == 0 < high < 1


def test_scores_without_a_scale_are_refused():
    with pytest.raises(ValueError, match="no scale"):
        separation(np.arange(5.0), np.ones(5))
