"""Lower bounds: printed numbers, slow versions, what they never exceed, and that they are
bounds.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from algorithms.auditing.bounds import (
    SHARES,
    _one_run_p,
    classic_bound,
    guesses,
    one_run_bound,
    right_guesses,
)
from algorithms.auditing.epsilon import epsilon_gdp
from tests.support.audit_oracles import comparison, oracles

SAID = comparison()
DELTA, ALPHA = SAID["delta"], SAID["alpha"]
INSIDE, OUTSIDE = oracles()["canaries_in"], oracles()["canaries_out"]


@pytest.mark.parametrize(
    ("m", "r", "v", "delta", "alpha", "epsilon"),
    [
        (500, 100, 100, 1e-5, 0.05, 3.4792),
        (500, 100, 100, 1e-5, 0.01, 3.0232),
        (1000, 100, 90, 1e-5, 0.05, 1.6261),
        (1000, 1000, 600, 1e-5, 0.05, 0.2972),
        (128, 64, 64, 1e-5, 0.05, 3.0346),
        (64, 32, 32, 0, 0.05, 2.3214),
        (400, 200, 200, 0, 0.05, math.log(1 / (0.05 ** (-1 / 200) - 1))),  # all right: its ceiling
    ],
)
def test_the_bound_of_one_run_is_that_of_others(m, r, v, delta, alpha, epsilon):
    assert one_run_bound(m, r, v, delta, alpha) == pytest.approx(epsilon, abs=6e-5)


@pytest.mark.parametrize(
    "case",
    [(10, 10, 9, 0.5, 1e-3), (100, 20, 15, 1.0, 1e-2), (50, 5, 0, 0.0, 0.1), (9, 1, 1, 1, 0)],
)
def test_the_p_value_of_one_run_as_it_is_written(case):
    m, r, v, epsilon, delta = case
    right = stats.binom(r, 1 / (1 + math.exp(-epsilon)))
    alpha = max(
        [sum(right.pmf(j) for j in range(v - i, v)) / i for i in range(1, v + 1)], default=0
    )
    assert _one_run_p(*case) == pytest.approx(
        min(1, right.sf(v - 1) + 2 * m * delta * alpha), rel=1e-9
    )


@settings(deadline=None, max_examples=6)
@given(seed=st.integers(0, 1000), shift=st.floats(-3, 3), scale=st.floats(0.2, 5))
def test_bounds_grow_with_alpha_fall_with_delta_and_do_not_know_units(seed, shift, scale):
    rng = np.random.default_rng(seed)
    inside, outside = rng.normal(2, 1, 60), rng.normal(0, 1, 60)
    scores, member = np.concatenate([inside, outside]), np.arange(120) < 60
    right = right_guesses(scores, member, 40)
    assert right == right_guesses(scale * scores + shift, member, 40)
    for bound in (
        lambda delta, alpha: classic_bound(inside, outside, 1.0, delta, alpha),
        lambda delta, alpha: one_run_bound(120, 40, right, delta, alpha),
    ):
        assert bound(1e-5, 0.01) <= (found := bound(1e-5, 0.05)) <= bound(1e-5, 0.1)
        assert bound(1e-2, 0.05) <= found + 1e-9
    moved = classic_bound(scale * inside + shift, scale * outside + shift, scale + shift, 1e-5)
    assert moved == pytest.approx(classic_bound(inside, outside, 1.0, 1e-5))


def coin_flipped(
    mu: float, rng: np.random.Generator, m: int = 800
) -> tuple[np.ndarray, np.ndarray]:
    inside = rng.random(m) < 0.5
    return inside * mu + rng.normal(0, 1, m), inside


@pytest.mark.parametrize("z", [0.5, 1.0, 2.0, 4.0])
def test_bounds_stay_below_the_truth(z):
    """At z = 1 and r = m/16, the mean of one run's is the 1.44 of the notes on auditing."""
    truth, found = epsilon_gdp(1 / z, 1e-5), []
    for repetition in range(40):
        scores, inside = coin_flipped(1 / z, np.random.default_rng([3, repetition]))
        one_run = one_run_bound(800, 50, right_guesses(scores, inside, 50), 1e-5)
        found.append((one_run, classic_bound(scores[inside], scores[~inside], 0.5 / z, 1e-5)))
    assert ((np.array(found) <= truth).sum(axis=0) >= 36).all()
    if z == 1.0:
        assert np.mean(found, axis=0)[0] == pytest.approx(1.44, abs=0.25)


def test_the_number_of_guesses_is_chosen_from_the_claim_alone():
    for mu in (0.5, 1.0, 2.0, 4.0, 50.0):
        runs, means = [coin_flipped(mu, np.random.default_rng([5, i]), 512) for i in range(20)], {}
        for r in (int(512 * share) for share in SHARES):
            means[r] = np.mean(
                [one_run_bound(512, r, right_guesses(*run, r), 1e-5) for run in runs]
            )
        assert means[guesses(512, mu, 1e-5)] > 0.85 * max(means.values())


@pytest.mark.parametrize("row", SAID["bounds"], ids=lambda row: f"threshold {row['threshold']:g}")
def test_bounds_at_a_threshold_that_was_set_beforehand_are_those_of_jax_privacy(row):
    threshold, canaries = row["threshold"], len(INSIDE) + len(OUTSIDE)
    assert classic_bound(INSIDE, OUTSIDE, threshold, DELTA, ALPHA) == pytest.approx(
        row["classic"], rel=1e-9
    )
    right, wrong = (int((scores > threshold).sum()) for scores in (INSIDE, OUTSIDE))
    assert one_run_bound(canaries, right + wrong, right, DELTA, ALPHA) == pytest.approx(
        row["one_run"], abs=1e-5
    )
