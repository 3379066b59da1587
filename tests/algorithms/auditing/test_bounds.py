"""Lower bounds: printed numbers, slow versions, what they never exceed, and that they are bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from algorithms.auditing import bounds
from algorithms.auditing.bounds import (
    SHARES,
    _expected_right,
    _one_run_p,
    classic_bound,
    clopper_pearson,
    gdp_bound,
    guesses,
    one_run_bound,
    one_run_fdp_bound,
    right_guesses,
)
from algorithms.auditing.epsilon import epsilon_gdp, epsilon_of_rates
from tests.support.audit_oracles import comparison, oracles

SEED = 0xBAD5EED


@pytest.mark.parametrize(
    ("m", "r", "v", "delta", "alpha", "epsilon"),
    [
        (500, 100, 100, 1e-5, 0.05, 3.4792),
        (500, 100, 100, 1e-5, 0.01, 3.0232),
        (1000, 100, 90, 1e-5, 0.05, 1.6261),
        (1000, 1000, 600, 1e-5, 0.05, 0.2972),
        (128, 64, 64, 1e-5, 0.05, 3.0346),
        (64, 32, 32, 0, 0.05, 2.3214),
    ],
)
def test_the_bound_of_one_run_is_that_of_others(m, r, v, delta, alpha, epsilon):
    assert one_run_bound(m, r, v, delta, alpha) == pytest.approx(epsilon, abs=6e-5)


@pytest.mark.parametrize(
    "case", [(10, 10, 9, 0.5, 1e-3), (100, 20, 15, 1.0, 1e-2), (50, 5, 0, 0.0, 0.1), (9, 1, 1, 1, 0)]
)
def test_the_p_value_of_one_run_as_it_is_written(case):
    m, r, v, epsilon, delta = case
    right = stats.binom(r, 1 / (1 + math.exp(-epsilon)))
    beta = right.sf(v - 1)
    alpha = max([sum(right.pmf(j) for j in range(v - i, v)) / i for i in range(1, v + 1)], default=0)
    assert _one_run_p(*case) == pytest.approx(min(1, beta + 2 * m * delta * alpha), rel=1e-9)


def test_all_guesses_right_has_a_ceiling():
    for r in (5, 32, 200):
        assert one_run_bound(400, r, r, 0.0) == pytest.approx(math.log(1 / (0.05 ** (-1 / r) - 1)), rel=1e-6)


@pytest.mark.parametrize(("k", "epsilon"), [(16, 1.35), (32, 2.10), (64, 2.83), (100, 3.28), (1000, 5.60)])
def test_what_perfectly_separated_canaries_certify_at_most(k, epsilon):
    assert classic_bound(np.ones(k), np.zeros(k), 0.5, 0.0) == pytest.approx(epsilon, abs=0.02)


@pytest.mark.parametrize(("k", "epsilon"), [(16, 7.9), (100, 21)])
def test_what_they_certify_of_a_gaussian_at_most(k, epsilon):
    assert gdp_bound(np.ones(k), np.zeros(k), 0.5, 1e-5) == pytest.approx(epsilon, rel=0.03)


def test_clopper_pearson_as_the_quantile_of_a_beta_distribution():
    for count, trials, alpha in ((0, 10, 0.05), (3, 10, 0.05), (99, 100, 0.01)):
        expected = stats.beta.ppf(1 - alpha, count + 1, trials - count)
        assert clopper_pearson(count, trials, alpha) == pytest.approx(expected)
    assert clopper_pearson(10, 10, 0.05) == 1


def best_threshold(seen: np.ndarray, unseen: np.ndarray | int, alpha: float, delta: float) -> float:
    """The search of Andrew et al.'s code, with its Jeffreys limits; a maximum over thresholds, so no bound."""
    upper = lambda k, n: stats.beta.ppf(1 - alpha, 0.5 + k, 0.5 + n - k)  # noqa: E731
    found = []
    if isinstance(unseen, int):
        for missed, t in enumerate(np.sort(seen)):
            tail = stats.norm.sf(t, scale=unseen**-0.5)
            if unseen < 1000:
                half = 0.5 * stats.beta.cdf(1 - t**2, (unseen - 1) / 2, 0.5)
                tail = half if t > 0 else 1 - half
            found.append(epsilon_of_rates(tail, upper(missed, len(seen)), delta))
        return max(found)
    for t in [-np.inf, *np.concatenate([seen, unseen])]:
        rates = upper((unseen > t).sum(), len(unseen)), upper((seen <= t).sum(), len(seen))
        found.append(epsilon_of_rates(*rates, delta))
    return max(found)


@pytest.mark.parametrize(("dim", "epsilon"), [(200, 1.394838), (2000, 1.3880321)])
def test_andrew_et_als_regression_test_with_a_closed_form_null(dim, epsilon):
    s = dim**-0.5
    seen = np.random.default_rng(SEED).normal(s, s, 100)
    assert best_threshold(seen, dim, 1e-2, 1e-2) == pytest.approx(epsilon, abs=1e-6)


def test_andrew_et_als_regression_test_with_two_samples():
    rng = np.random.default_rng(SEED)
    seen, unseen = rng.normal(1, 1, 100), rng.normal(0, 1, 100)
    assert best_threshold(seen, unseen, 1e-2, 1e-2) == pytest.approx(0.6839449, abs=1e-6)


@settings(deadline=None, max_examples=6)
@given(seed=st.integers(0, 1000), shift=st.floats(-3, 3), scale=st.floats(0.2, 5))
def test_bounds_grow_with_alpha_fall_with_delta_and_do_not_know_units(seed, shift, scale):
    rng = np.random.default_rng(seed)
    inside, outside = rng.normal(2, 1, 60), rng.normal(0, 1, 60)
    for bound in (classic_bound, gdp_bound):
        found = bound(inside, outside, 1.0, 1e-5)
        assert bound(inside, outside, 1.0, 1e-5, 0.01) <= found <= bound(inside, outside, 1.0, 1e-5, 0.1)
        assert bound(inside, outside, 1.0, 1e-2) <= found + 1e-9
        assert bound(scale * inside + shift, scale * outside + shift, scale + shift, 1e-5) == pytest.approx(found)
    right = right_guesses(np.concatenate([inside, outside]), np.arange(120) < 60, 40)
    assert right == right_guesses(scale * np.concatenate([inside, outside]) + shift, np.arange(120) < 60, 40)
    for one_run in (one_run_bound, one_run_fdp_bound):
        found = one_run(120, 40, right, 1e-5)
        assert one_run(120, 40, right, 1e-5, 0.01) <= found <= one_run(120, 40, right, 1e-5, 0.1)
        assert one_run(120, 40, right, 1e-2) <= found + 1e-9


def coin_flipped(mu: float, rng: np.random.Generator, m: int = 800) -> tuple[np.ndarray, np.ndarray]:
    inside = rng.random(m) < 0.5
    return inside * mu + rng.normal(0, 1, m), inside


@pytest.mark.parametrize("z", [0.5, 1.0, 2.0, 4.0])
def test_bounds_stay_below_the_truth_and_the_one_for_gaussians_comes_closer(z):
    truth, found = epsilon_gdp(1 / z, 1e-5), []
    for repetition in range(20):
        scores, inside = coin_flipped(1 / z, np.random.default_rng([3, repetition]))
        right = right_guesses(scores, inside, 50)
        found.append(
            (
                one_run_bound(800, 50, right, 1e-5),
                one_run_fdp_bound(800, 50, right, 1e-5),
                gdp_bound(scores[inside], scores[~inside], 0.5 / z, 1e-5),
            )
        )
    assert ((np.array(found) <= truth).sum(axis=0) >= 18).all()
    one_run, fdp, _ = np.mean(found, axis=0)
    assert fdp >= one_run


def test_the_mean_bounds_of_the_notes_on_auditing():
    """d = 16384, 800 canaries, z = 1, r = m/16: 1.44 by one run, 3.02 by Clopper-Pearson limits at a preset threshold."""
    found = []
    for repetition in range(40):
        scores, inside = coin_flipped(1.0, np.random.default_rng([4, repetition]))
        one_run = one_run_bound(800, 50, right_guesses(scores, inside, 50), 1e-5)
        found.append((one_run, gdp_bound(scores[inside], scores[~inside], 0.5, 1e-5)))
    assert np.mean(found, axis=0) == pytest.approx([1.44, 3.02], abs=0.25)


def test_the_number_of_guesses_is_chosen_from_the_claim_alone():
    for mu in (0.5, 1.0, 2.0, 4.0, 50.0):
        runs, means = [coin_flipped(mu, np.random.default_rng([5, i]), 512) for i in range(20)], {}
        for r in (int(512 * share) for share in SHARES):
            means[r] = np.mean([one_run_bound(512, r, right_guesses(*run, r), 1e-5) for run in runs])
        assert means[guesses(512, mu, 1e-5)] > 0.85 * max(means.values())
    for mu in (0.5, 2.0):
        scores, inside = coin_flipped(mu, np.random.default_rng(0), 200_000)
        share = right_guesses(scores - mu / 2, inside, 20_000) / 20_000
        assert share == pytest.approx(_expected_right(0.1, mu), abs=0.01)


def test_guesses_by_hand():
    scores, inside = np.array([0.1, 5, 3, 1, 2]), np.array([False, True, False, True, False])
    assert right_guesses(scores, inside, 2) == 2  # 5 was in, 0.1 was out
    assert right_guesses(scores, inside, 4) == 2  # 3 was out, 1 was in
    assert right_guesses(scores, inside, 1) == 1


SAID = comparison()
DELTA, ALPHA = SAID["delta"], SAID["alpha"]
INSIDE, OUTSIDE = oracles()["canaries_in"], oracles()["canaries_out"]


@pytest.mark.parametrize("row", SAID["bounds"], ids=lambda row: f"threshold {row['threshold']:g}")
def test_bounds_at_a_threshold_that_was_set_beforehand_are_those_of_jax_privacy(row):
    threshold, canaries = row["threshold"], len(INSIDE) + len(OUTSIDE)
    assert bounds.classic_bound(INSIDE, OUTSIDE, threshold, DELTA, ALPHA) == pytest.approx(row["classic"], rel=1e-9)
    right, wrong = (int((scores > threshold).sum()) for scores in (INSIDE, OUTSIDE))
    found = bounds.one_run_bound(canaries, right + wrong, right, DELTA, ALPHA)
    assert found == pytest.approx(row["one_run"], abs=1e-5)
    found = bounds.one_run_fdp_bound(canaries, right + wrong, right, DELTA, ALPHA)
    assert found == pytest.approx(row["one_run_fdp"], abs=1e-5)
    # jax_privacy divides alpha by the number of thresholds, of which decisions have three.
    found = bounds.gdp_bound(INSIDE, OUTSIDE, threshold, DELTA, ALPHA / row["gdp_thresholds"])
    assert found == pytest.approx(row["gdp"], abs=1e-5)


def test_the_largest_bound_over_all_numbers_of_guesses_is_no_bound():
    """A maximum without a correction, as in ML Privacy Meter, refutes what is true more often than it may."""
    rng = np.random.default_rng(0)
    largest, preset = [], []
    for _ in range(200):
        scores, inside = rng.normal(size=100), rng.random(100) < 0.5  # epsilon is 0
        found = [
            bounds.one_run_bound(100, r, bounds.right_guesses(scores, inside, r), 0.0) > 0 for r in range(8, 101, 4)
        ]
        largest.append(any(found))
        preset.append(found[10])
    assert np.mean(preset) <= 0.07 < 0.12 < np.mean(largest)
