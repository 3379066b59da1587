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


def told_by_level(presence: list[list[float]], there: list[list[int]]) -> dict[str, np.ndarray]:
    """Canaries one at a time of two models, of which the first leaves more to be told of a canary."""
    counts = {name: np.array([2, 2]) for name in ("audited", "released")}
    squares = {"direction": np.array([[9.0], [1.0]]), "scale": np.zeros((2, 1)), "presence": np.array(presence)}
    return squares | counts | {"set": (np.array(presence) > 0).astype(np.int64), "there": np.array(there)}


def test_the_median_client_is_one_that_was_there():
    """Three of eight clients used the model; the five others, with 0, would make the median 0."""
    found = finding.lone_metrics(
        told_by_level([[16.0, 4.0, 1.0] + [0.0] * 5, [0.0] * 8], [[2, 1, 2] + [0] * 5, [0] * 8]), 1e-5
    )
    assert found["epsilon_scale_median"] == pytest.approx(epsilon_gdp(2.0, 1e-5))
    assert found["epsilon_scale_outlier"] == pytest.approx(epsilon_gdp(4.0, 1e-5)) and found["scale_clients"] == 3


def test_the_outlier_is_of_the_model_whose_noise_tells_most_of_a_client():
    """Not of the model that leaves most to be told of a canary."""
    kept = told_by_level([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 25.0]], [[2, 2, 0, 0], [0, 0, 2, 2]])
    found = finding.lone_metrics(kept, 1e-5)
    assert (found["scale_outlier"], found["scale_clients"]) == ("client_3", 2)
    assert found["epsilon_scale_outlier"] == pytest.approx(epsilon_gdp(5.0, 1e-5))
    assert found["epsilon_scale_median"] == pytest.approx(epsilon_gdp(math.sqrt(13), 1e-5))
    assert found["epsilon_audit"] == pytest.approx(epsilon_gdp(3.0, 1e-5))


def test_a_run_that_an_older_version_began_has_no_numbers_of_its_clients():
    kept = told_by_level([[1.0, 1.0], [0.0, 0.0]], [[2, 2], [0, 0]])
    del kept["there"]
    found = finding.lone_metrics(kept, 1e-5)
    assert found["epsilon_audit"] > 0 and not any("scale_" in name and "audit" not in name for name in found)
