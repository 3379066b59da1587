"""What follows from canaries' scores where they are unlike all others: nothing is printed that is not a number."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from algorithms.auditing import finding
from algorithms.auditing.epsilon import epsilon_gdp


def scores(inside: np.ndarray, values: np.ndarray) -> dict[str, np.ndarray]:
    count = np.ones(1, np.int64)
    one = {"audited": count, "released": count, "squares": np.ones(1), "inside": inside[None]}
    return one | {"scores": values[None].astype(np.float64)}


def test_canaries_that_nothing_hides_are_told_for_certain():
    """Scores of those that are out are all alike, as without noise and without any other update."""
    inside = np.arange(64) % 2 == 0
    found = finding.find(scores(inside, np.where(inside, 3.0, 0.0)), 0, 1e-5, 4.0, opposite=False, sampled=False)
    assert found is not None and found.epsilon == found.low == math.inf and found.certified > 2
    assert found.verdict(4.0) == "refuted"
    told = finding.metrics(scores(inside, np.where(inside, 3.0, 0.0)), 1e-5, {0: 4.0})
    json.dumps(told, allow_nan=False)
    assert "epsilon_audit" not in told and told["audit_verdict"] == "refuted"


def test_canaries_that_change_nothing_at_all_are_not_told():
    found = finding.find(scores(np.arange(64) % 2 == 0, np.zeros(64)), 0, 1e-5, 4.0, opposite=False, sampled=False)
    assert found is not None and found.mu == found.epsilon == 0.0


@pytest.mark.parametrize(("mu", "epsilon"), [(1e37, 5e73), (1e160, math.inf), (math.nan, math.nan)])
def test_a_separation_beyond_all_bounds_has_an_epsilon(mu, epsilon):
    assert epsilon_gdp(mu, 1e-5) == pytest.approx(epsilon, nan_ok=True)
