"""Disparity of exposure: numbers by hand, a second library, and simulation."""

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from attacks.metrics import disparity

shares = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def test_the_numbers_in_the_docstrings_are_what_comes_out():
    assert doctest.testmod(disparity).attempted >= 10
    assert doctest.testmod(disparity).failed == 0


@given(shares)
def test_disparities_are_those_of_the_slow_definitions(values):
    n, mean = len(values), sum(values) / len(values)
    pairs = sum(abs(a - b) for a in values for b in values)
    assert disparity.mad(values) == pytest.approx(pairs / n**2, abs=1e-12)
    assert disparity.eod(values) == max(values) - min(values)
    if mean > 1e-6:
        gini = pairs / (2 * n**2 * mean)
        assert disparity.sen_welfare(values) == pytest.approx(mean * (1 - gini), abs=1e-12)
        variance = sum((value - mean) ** 2 for value in values) / n
        assert disparity.cov(values) == pytest.approx(variance**0.5 / mean, abs=1e-9)
        jain = sum(values) ** 2 / (n * sum(value**2 for value in values))
        assert disparity.fairness_index(disparity.cov(values)) == pytest.approx(jain)


def test_one_client_who_bears_all_has_the_lowest_fairness():
    assert disparity.cov([1.0, 0, 0, 0]) == pytest.approx(3**0.5)
    assert disparity.fairness_index(disparity.cov([1.0, 0, 0, 0])) == pytest.approx(1 / 4)


def test_what_is_undefined_is_nan_and_warns_of_nothing():
    with np.errstate(all="raise"):
        assert np.isnan(disparity.cov([0.0, 0.0]))
        assert np.isnan(disparity.fairness_index(disparity.cov([0.0, 0.0])))
        assert disparity.sen_welfare([0.0, 0.0]) == 0
        for bad in (float("nan"), float("inf")):
            for measure in (disparity.cov, disparity.eod, disparity.mad, disparity.sen_welfare):
                assert np.isnan(measure([1.0, bad]))


# The null value of max - min


def enumerated(targets, rate):
    """E[max - min] over every outcome of a few small binomials."""
    sizes = [n + 1 for n in targets]
    total = 0.0
    for outcome in np.ndindex(*sizes):
        chance = np.prod([stats.binom.pmf(k, n, rate) for k, n in zip(outcome, targets, strict=True)])
        found = [k / n for k, n in zip(outcome, targets, strict=True)]
        total += chance * (max(found) - min(found))
    return total


@pytest.mark.parametrize("targets", [[1, 1], [3, 3, 3], [2, 3, 6], [1, 4, 4, 5], [7]])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.83, 1.0])
def test_the_null_value_is_the_mean_over_all_outcomes(targets, rate):
    assert disparity.eod_null(targets, rate) == pytest.approx(enumerated(targets, rate), abs=1e-12)


def test_two_fair_coins_differ_half_of_the_time():
    assert disparity.eod_null([1, 1], 0.5) == pytest.approx(0.5)


@pytest.mark.parametrize("targets", [[100] * 10, [20, 100, 300, 1000]])
def test_the_null_value_is_what_simulation_gives(targets):
    found = np.random.default_rng(0).binomial(targets, 0.1, (40_000, len(targets))) / targets
    spread = found.max(axis=1) - found.min(axis=1)
    assert disparity.eod_null(targets, 0.1) == pytest.approx(spread.mean(), abs=4 * spread.std() / 200)


def test_the_null_value_holds_for_many_targets_and_falls_with_them():
    values = [disparity.eod_null([n] * 10, 0.3) for n in (10, 100, 1000, 5000)]
    assert np.isfinite(values).all() and (np.diff(values) < 0).all()
    # The expected range of 10 normals is 3.078 standard deviations.
    assert values[-1] == pytest.approx(3.078 * (0.3 * 0.7 / 5000) ** 0.5, rel=0.01)


def test_the_null_value_of_no_rate_is_nan_and_of_no_targets_refused():
    assert np.isnan(disparity.eod_null([10, 10], float("nan")))
    for targets in ([10, 0], []):
        with pytest.raises(ValueError, match="1 target or more"):
            disparity.eod_null(targets, 0.1)


# The null values of CoV and FI


def enumerated_cov(targets, rate):
    """E[CoV] and E[FI] over every outcome of a few small binomials in which there is a hit."""
    masses, variations = [], []
    for outcome in np.ndindex(*[n + 1 for n in targets]):
        if any(outcome):
            masses.append(np.prod([stats.binom.pmf(k, n, rate) for k, n in zip(outcome, targets, strict=True)]))
            variations.append(disparity.cov([k / n for k, n in zip(outcome, targets, strict=True)]))
    masses, variations = np.array(masses) / np.sum(masses), np.array(variations)
    return masses @ variations, masses @ (1 / (1 + variations**2))


@pytest.mark.parametrize("targets", [[1, 1], [3, 3, 3], [2, 3, 6], [1, 4, 4, 5]])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.83])
def test_cov_and_fi_by_chance_are_the_means_over_all_outcomes(targets, rate):
    variation, index = enumerated_cov(targets, rate)
    assert disparity.cov_null(targets, rate) == pytest.approx(variation, abs=0.06)  # 4 deviations of 0.6 in 1 600 draws
    assert disparity.fi_null(targets, rate) == pytest.approx(index, abs=0.03)


@pytest.mark.parametrize(("clients", "n", "rate"), [(10, 100, 0.1), (5, 400, 0.5), (200, 100, 0.05)])
def test_cov_by_chance_is_that_of_other_random_numbers_and_near_its_approximation(clients, n, rate):
    found = np.random.default_rng(7).binomial(n, rate, (3000, clients)) / n
    variations = found.std(axis=1) / found.mean(axis=1)
    error = 4 * variations.std() * (1 / 3000 + 1 / disparity.NULL_DRAWS) ** 0.5
    assert disparity.cov_null([n] * clients, rate) == pytest.approx(variations.mean(), abs=error)
    assert disparity.fi_null([n] * clients, rate) == pytest.approx((1 / (1 + variations**2)).mean(), abs=2 * error)
    roughly = ((1 - rate) / (n * rate) * (clients - 1) / clients) ** 0.5
    assert disparity.cov_null([n] * clients, rate) == pytest.approx(roughly, rel=0.1)


def test_cov_by_chance_without_a_hit_or_a_rate_is_nan_and_without_targets_refused():
    for null in (disparity.cov_null, disparity.fi_null):
        assert np.isnan(null([10, 10], 0.0)) and np.isnan(null([10, 10], float("nan")))
        assert null([10, 30], 0.3) == null(np.array([10, 30]), 0.3)
        for targets in ([10, 0], []):
            with pytest.raises(ValueError, match="1 target or more"):
                null(targets, 0.1)
    assert disparity.cov_null([10, 10], 1.0) == 0 and disparity.fi_null([10, 10], 1.0) == 1


# Intervals and ranks


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_is_scipys_and_holds_the_share(drawn):
    hits, n = drawn
    theirs = stats.binomtest(hits, n).proportion_ci(method="wilson")
    low, high = disparity.wilson(hits, n)
    assert (float(low), float(high)) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert 0 <= low <= hits / n <= high <= 1
