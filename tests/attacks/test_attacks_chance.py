"""What guessing shows: enumerated for a few examples, known for equal numbers, simulated for many clients."""

import doctest
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from attacks.metrics import chance

LIMITS = np.array([-0.1, 0.0, 0.25, 0.5, 0.55, 0.6, 2 / 3, 0.75, 0.999, 1.0, 1.1])


def test_the_numbers_in_the_docstrings_are_what_comes_out():
    assert doctest.testmod(chance) == (0, 2)


@pytest.mark.parametrize(("members", "nonmembers"), [(1, 1), (3, 3), (2, 5), (6, 1), (4, 9)])
def test_the_chance_to_exceed_a_limit_is_that_of_every_outcome(members, nonmembers):
    expected = np.zeros(len(LIMITS))
    for found, refused in product(range(members + 1), range(nonmembers + 1)):
        accuracy = (found / members + refused / nonmembers) / 2
        mass = comb(members, found) * comb(nonmembers, refused) / 2 ** (members + nonmembers)
        expected += mass * (accuracy > LIMITS + 1e-12)
    np.testing.assert_allclose(chance.guessing(members, nonmembers, LIMITS), expected, atol=1e-14)
    # Finding members and refusing non-members are the same to a coin.
    np.testing.assert_array_equal(
        chance.guessing(nonmembers, members, LIMITS), chance.guessing(members, nonmembers, LIMITS)
    )


@pytest.mark.parametrize("n", [10, 80, 700, 5000, 200_000])
def test_equal_numbers_are_one_binomial_however_large(n):
    """2n heads in a row: the accuracy is Bin(2n, 1/2) / 2n."""
    limits = 0.5 + np.array([-2, -0.3, 0, 0.5, 1, 2, 3]) / np.sqrt(n)
    expected = stats.binom.sf(np.floor(limits * 2 * n + 1e-6), 2 * n, 0.5)
    np.testing.assert_allclose(chance.guessing(n, n, limits), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(("members", "nonmembers"), [(80, 80), (300, 40), (700, 650)])
def test_measured_coins_exceed_a_limit_as_often(members, nonmembers):
    rng, draws = np.random.default_rng(0), 4000
    member = np.arange(members + nonmembers) < members
    said = rng.random((draws, len(member))) < 0.5
    measured = (said[:, member].mean(axis=1) + (~said[:, ~member]).mean(axis=1)) / 2
    for limit in (0.45, 0.5, 0.52, 0.55, 0.6):
        expected = float(chance.guessing(members, nonmembers, limit))
        assert (measured > limit + 1e-12).mean() == pytest.approx(expected, abs=4 * 0.5 / draws**0.5)


@settings(deadline=None)
@given(st.integers(1, 50), st.integers(1, 50))
def test_an_accuracy_that_equals_the_limit_does_not_exceed_it(members, nonmembers):
    """Every accuracy that can occur is a limit here, computed as an attack's is, with its rounding."""
    found, refused = np.mgrid[0 : members + 1, 0 : nonmembers + 1]
    accuracy = (found / members + refused / nonmembers) / 2
    mass = stats.binom.pmf(found, members, 0.5) * stats.binom.pmf(refused, nonmembers, 0.5)
    at = np.unique(accuracy)[:: max(1, accuracy.size // 40)]
    expected = [(mass * (accuracy > limit + 1e-9)).sum() for limit in at]
    np.testing.assert_allclose(chance.guessing(members, nonmembers, at), expected, atol=1e-12)


def test_without_examples_or_a_limit_nothing_is_known():
    assert np.isnan(chance.guessing(0, 5, [0.5, 0.6])).all() and np.isnan(chance.guessing(5, 0, 0.5))
    found = chance.guessing(5, 5, [np.nan, 0.5, np.inf, -np.inf])
    assert np.isnan(found[0]) and found[2:].tolist() == [0.0, pytest.approx(1.0)]
    assert np.isnan(chance.worst_by_chance([], [])) and np.isnan(chance.worst_by_chance([0, 3], [4, 0]))


@pytest.mark.parametrize(
    ("members", "nonmembers"),
    [([8] * 40, [8] * 40), ([20] * 200, [20] * 200), ([3, 10, 50, 200] * 5, [10, 7, 50, 90] * 5), ([30], [12])],
)
def test_the_worst_of_many_coins_is_what_simulation_gives(members, nonmembers):
    rng, draws = np.random.default_rng(1), 20_000
    tpr = rng.binomial(members, 0.5, (draws, len(members))) / members
    tnr = rng.binomial(nonmembers, 0.5, (draws, len(members))) / nonmembers
    worst = ((tpr + tnr) / 2).max(axis=1)
    found = chance.worst_by_chance(members, nonmembers)
    assert found == pytest.approx(worst.mean(), abs=4 * worst.std() / draws**0.5 + 1e-4)


def test_clients_without_either_kind_of_example_are_nobodys_worst():
    assert chance.worst_by_chance([8, 0, 8, 5], [8, 9, 8, 0]) == chance.worst_by_chance([8, 8], [8, 8])
    assert chance.worst_by_chance([8], [8]) == pytest.approx(0.5, abs=1e-4)


def test_shared_nonmembers_make_the_worst_smaller():
    """The value for independent clients is an upper bound where all clients are set against the same non-members."""
    rng = np.random.default_rng(2)
    tpr = rng.binomial(10, 0.5, (20_000, 40)) / 10
    tnr = rng.binomial(10, 0.5, (20_000, 1)) / 10
    assert ((tpr + tnr) / 2).max(axis=1).mean() < chance.worst_by_chance([10] * 40, [10] * 40) - 0.01
