"""What follows from canaries' scores where they are unlike all others: nothing is printed that
is not a number.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from algorithms.auditing import finding
from algorithms.auditing.epsilon import epsilon_gdp, epsilon_two_gaussians
from algorithms.auditing.finding import separation


def scores(inside: np.ndarray, values: np.ndarray) -> dict[str, np.ndarray]:
    count = np.ones(1, np.int64)
    one = {"audited": count, "released": count, "squares": np.ones(1), "inside": inside[None]}
    return one | {"scores": values[None].astype(np.float64)}


@pytest.mark.parametrize(
    ("far", "epsilon", "verdict"), [(3.0, math.inf, "refuted"), (0.0, 0.0, "loose")]
)
def test_canaries_that_nothing_hides_are_told_for_certain_unless_they_change_nothing(
    far, epsilon, verdict
):
    """Scores of those that are out are all alike, as without noise and without any other update."""
    inside = np.arange(64) % 2 == 0
    kept = scores(inside, np.where(inside, far, 0.0))
    found = finding.find(kept, 0, 1e-5, 4.0, opposite=False, sampled=False)
    assert found is not None and found.epsilon == found.low == found.mu == epsilon
    assert (found.certified > 2) == (far > 0) and found.verdict(4.0) == verdict
    told = finding.metrics(kept, 1e-5, {0: 4.0})
    json.dumps(told, allow_nan=False)
    assert ("epsilon_audit" in told) == (far == 0) and told["audit_verdict"] == verdict


@pytest.mark.parametrize("models", [1, 8])
def test_the_bounds_of_several_models_hold_together(models):
    """Else the lower end of the one that tells most would exceed an exact claim in 18 % of the
    runs of eight models.
    """
    inside = np.arange(64) % 2 == 0
    values = np.random.default_rng(0).normal(3.0 * inside, 1.0)
    kept = {
        name: np.repeat(array, models, axis=0) for name, array in scores(inside, values).items()
    }
    found = finding.find(kept, 0, 1e-5, 4.0, opposite=False, sampled=False)
    apart = separation(values[inside], values[~inside])
    assert found is not None and (found.low, found.high) == apart.limits(1e-5, 1 - 0.05 / models)
    assert found.sure == apart.limits(1e-5, 1 - 2e-4 / models)[0]


def told_by_level(presence: list[list[float]], there: list[list[int]]) -> dict[str, np.ndarray]:
    """Canaries one at a time of two models, of which the first leaves more to be told of a
    canary.
    """
    counts = {name: np.array([2, 2]) for name in ("audited", "released")}
    squares = {
        "direction": np.array([[9.0], [1.0]]),
        "scale": np.zeros((2, 1)),
        "presence": np.array(presence),
    }
    return (
        squares
        | counts
        | {"set": (np.array(presence) > 0).astype(np.int64), "there": np.array(there)}
    )


def test_the_median_client_is_one_that_was_there():
    """Three of eight clients used the model; the five others, with 0, would make the median 0."""
    found = finding.lone_metrics(
        told_by_level([[16.0, 4.0, 1.0] + [0.0] * 5, [0.0] * 8], [[2, 1, 2] + [0] * 5, [0] * 8]),
        1e-5,
    )
    assert found["epsilon_scale_median"] == pytest.approx(epsilon_gdp(2.0, 1e-5))
    assert (
        found["epsilon_scale_outlier"] == pytest.approx(epsilon_gdp(4.0, 1e-5))
        and found["scale_clients"] == 3
    )


def test_the_outlier_is_of_the_model_whose_noise_tells_most_of_a_client():
    """Not of the model that leaves most to be told of a canary."""
    kept = told_by_level(
        [[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 25.0]], [[2, 2, 0, 0], [0, 0, 2, 2]]
    )
    found = finding.lone_metrics(kept, 1e-5)
    assert (found["scale_outlier"], found["scale_clients"]) == ("client_3", 2)
    assert found["epsilon_scale_outlier"] == pytest.approx(epsilon_gdp(5.0, 1e-5))
    assert found["epsilon_scale_median"] == pytest.approx(epsilon_gdp(math.sqrt(13), 1e-5))
    assert found["epsilon_audit"] == pytest.approx(epsilon_gdp(3.0, 1e-5))


@pytest.mark.parametrize("z", [0.5, 1.0, 2.0, 4.0])
def test_the_estimate_is_right_on_average_and_its_interval_holds(z):
    """What the issue asks for: within 10 % on average, and the 95 % lower end below the truth in
    18 of 20 repetitions.
    """
    truth, found = epsilon_gdp(1 / z, 1e-5), []
    for repetition in range(100):
        rng = np.random.default_rng([1, repetition])
        one = separation(rng.normal(1 / z, 1, 256), rng.normal(0, 1, 2000))
        found.append((one.epsilon(1e-5), *one.limits(1e-5)))
    middle, low, high = np.array(found).T
    assert middle.mean() == pytest.approx(truth, rel=0.1)
    assert (low < truth).sum() >= 92 and (truth < high).sum() >= 92
    assert (low < middle).all() and (middle < high).all()


def test_deviations_that_differ_beyond_doubt_are_taken_as_they_are():
    rng = np.random.default_rng(0)
    inside, outside = rng.normal(1, 2, 4000), rng.normal(0, 1, 4000)
    one, truth = separation(inside, outside), epsilon_two_gaussians(0, 1, 1, 2, 1e-5)
    assert one.ratio == pytest.approx(2, rel=0.05)
    assert one.epsilon(1e-5) == pytest.approx(truth, rel=0.1)
    low, high = one.limits(1e-5)
    assert low < truth < high
    assert separation(inside, outside, unequal=False).epsilon(1e-5) == pytest.approx(
        epsilon_gdp(1, 1e-5), rel=0.1
    )
