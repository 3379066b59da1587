"""The paired test's statistics: the slow, obvious versions, closed forms, golden numbers, and
coverage by simulation.
"""

from __future__ import annotations

from itertools import product
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from attacks.metrics import paired

SCORES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=7)


def columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    ins, outs = np.array(pairs, float).T
    return ins, outs


def slowly(ins: np.ndarray, outs: np.ndarray) -> float:
    """All comparisons one by one, but for those within a pair."""
    k = len(ins)
    wins = [
        (ins[i] > outs[j]) + 0.5 * (ins[i] == outs[j]) for i in range(k) for j in range(k) if i != j
    ]
    return sum(wins) / len(wins)


@settings(max_examples=60, deadline=None)
@given(SCORES)
def test_p_and_what_is_found_by_chance_are_those_of_all_swaps_one_by_one(pairs):
    ins, outs = columns(pairs)
    masks = product([False, True], repeat=len(pairs))
    worlds = [(np.where(mask, outs, ins), np.where(mask, ins, outs)) for mask in masks]
    swapped = [slowly(*sides) for sides in worlds]
    away = np.abs(np.array(swapped) - 0.5)
    assert paired.auc(ins, outs) == pytest.approx(slowly(ins, outs))
    assert paired.swap_p(ins, outs) == pytest.approx(
        (away >= abs(slowly(ins, outs) - 0.5) - 1e-9).mean()
    )
    assert paired.null_advantage(ins, outs) == pytest.approx(2 * away.mean())
    first = dict(zip(swapped, worlds, strict=True))
    epsilons = {area: paired.epsilon(*sides).epsilon for area, sides in first.items()}
    assert paired.null_epsilon(ins, outs) == pytest.approx(
        np.mean([epsilons[area] for area in swapped]), abs=1e-6
    )


@settings(max_examples=60, deadline=None)
@given(SCORES)
def test_an_attacker_who_decides_the_other_way_round_is_as_good(pairs):
    ins, outs = columns(pairs)
    low, high = paired.interval(ins, outs)
    assert low - 1e-9 <= paired.auc(ins, outs) <= high + 1e-9
    assert paired.interval(outs, ins) == pytest.approx((1 - high, 1 - low))
    assert paired.swap_p(outs, ins) == pytest.approx(paired.swap_p(ins, outs))


def test_scores_far_below_are_told_apart_as_well():
    low, high = np.arange(8.0), np.arange(8.0) + 100
    assert paired.auc(low, high) == 0
    assert paired.swap_p(low, high) == paired.least_p(8) == 2 / 2**8
    assert paired.balanced_accuracy(low, high) == paired.balanced_accuracy(high, low) == 1
    equal = np.ones(8), np.ones(8)
    assert paired.balanced_accuracy(*equal) == 0.5 and (
        paired.swap_p(*equal),
        paired.null_advantage(*equal),
    ) == (1, 0)


def test_noise_that_a_pair_shares_hides_a_small_difference():
    """Every score under IN is a little above its partner.

    Whoever sees one model cannot tell, and nothing says so.
    """
    shared = 100 * np.random.default_rng(0).normal(size=16)
    ins, outs = shared + 1e-3, shared
    assert paired.auc(ins, outs) == 0.5
    assert paired.swap_p(ins, outs) == 1


@pytest.mark.parametrize("k", [8, 16, 32])
def test_the_score_interval_solves_its_equation(k):
    """At its ends the AUC is z standard deviations away (Newcombe 2006, method 5)."""

    def deviation(theta: float) -> float:
        more = (k - 2) * ((1 - theta) / (2 - theta) + theta / (1 + theta))
        return sqrt(theta * (1 - theta) * (1 + more)) / k

    for found in (0.3, 0.5, 0.8, 0.95):
        low, high = paired.score_interval(found, k)
        assert found - low == pytest.approx(1.959964 * deviation(low), rel=1e-5)
        assert high - found == pytest.approx(1.959964 * deviation(high), rel=1e-5)
    low, high = paired.score_interval(1.0, k)
    assert high == 1
    assert 1 - low == pytest.approx(1.959964 * deviation(low), rel=1e-5)


def coverage(k: int, area: float, correlation: float, spread: float, draws: int) -> float:
    """The share of intervals that hold the AUC of normal scores, those under IN with ``spread``
    times the deviation.
    """
    rng = np.random.default_rng(
        [k, round(100 * area), round(10 * correlation) + 10, round(10 * spread)]
    )
    shift, held = float(ndtri(area)) * sqrt(1 + spread**2), 0
    for _ in range(draws):
        outs = rng.normal(size=k)
        ins = shift + spread * (correlation * outs + sqrt(1 - correlation**2) * rng.normal(size=k))
        low, high = paired.interval(ins, outs)
        held += low <= area <= high
    return held / draws


FEW = (400, 0.93, (0.0, 0.5, 0.9), (1.0,))
MANY = (3000, 0.94, (-0.5, 0.0, 0.5, 0.9), (0.2, 0.5, 1.0, 2.0, 5.0))


@pytest.mark.parametrize(
    "how", [FEW, pytest.param(MANY, marks=pytest.mark.slow)], ids=["few", "many"]
)
@pytest.mark.parametrize("k", [8, 16, 32])
@pytest.mark.parametrize("area", [0.5, 0.7, 0.8, 0.95])
def test_the_interval_covers_whatever_the_spread_and_the_correlation(k, area, how):
    draws, least, correlations, spreads = how
    covered = {at: coverage(k, area, *at, draws) for at in product(correlations, spreads)}
    assert min(covered.values()) >= least, covered


TRUTH = 4.3772  # the epsilon at delta 1e-5 of a Gaussian mechanism of multiplier 1


def test_what_pairs_certify_is_below_the_truth_and_below_what_half_of_them_can():
    """Of 200 repetitions of a Gaussian mechanism with shared randomness in the pairs, 5 % may
    exceed the truth.
    """
    bounds = []
    for repetition in range(200):
        rng = np.random.default_rng([5, repetition])
        shared = rng.normal(size=32)
        ins, outs = (0.8 * shared + 0.6 * rng.normal(size=32) + mean for mean in (1.0, 0.0))
        bounds.append(paired.certified_epsilon(ins, outs))
    assert np.mean(np.array(bounds) > TRUTH) <= 0.05
    assert max(bounds) <= paired.most_epsilon(16)
    far = np.arange(32.0)
    for sides in ((far + 100, far), (far, far + 100)):
        assert paired.certified_epsilon(*sides) == pytest.approx(paired.most_epsilon(16), abs=1e-3)
