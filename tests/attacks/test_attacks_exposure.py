"""Disparity of exposure: numbers by hand, a second library, and simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from attacks.metrics import disparity

shares = st.lists(st.floats(0, 1), min_size=1, max_size=12)


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


def test_what_is_undefined_is_nan_and_warns_of_nothing():
    with np.errstate(all="raise"):
        assert np.isnan(disparity.cov([0.0, 0.0]))
        assert np.isnan(disparity.fairness_index(disparity.cov([0.0, 0.0])))
        assert disparity.sen_welfare([0.0, 0.0]) == 0
        for bad in (float("nan"), float("inf")):
            for measure in (disparity.cov, disparity.eod, disparity.mad, disparity.sen_welfare):
                assert np.isnan(measure([1.0, bad]))


def test_many_federations_at_once_have_the_disparities_of_each_alone():
    many = np.random.default_rng(0).random((3, 5, 7))
    many[0, 0], many[1, 1, 2] = 0, np.nan
    for measure in (disparity.cov, disparity.eod, disparity.mad, disparity.sen_welfare):
        each = [[measure(own) for own in some] for some in many]
        np.testing.assert_array_equal(measure(many), each)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_is_scipys_and_holds_the_share(drawn):
    hits, n = drawn
    theirs = stats.binomtest(hits, n).proportion_ci(method="wilson")
    low, high = disparity.wilson(hits, n)
    assert (float(low), float(high)) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert 0 <= low <= hits / n <= high <= 1
