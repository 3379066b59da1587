"""Lower bounds on epsilon against jax_privacy's auditor, from stored scores of canaries."""

import numpy as np
import pytest

from algorithms.auditing import bounds
from tests.support.audit_oracles import comparison, oracles

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
