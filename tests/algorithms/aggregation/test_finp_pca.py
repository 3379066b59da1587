"""FinP's PCA weights: the released PCA as an oracle, the closed form for orthogonal updates, and
what must not matter.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from algorithms.aggregation.finp_pca import Config, distances, reweigh, search, value_and_gradient
from algorithms.core import gram
from tests.support.received import received

OBJECTIVES = ["ssd", "eq4", "eq10"]
every_objective = pytest.mark.parametrize("objective", OBJECTIVES)
few = settings(max_examples=25, deadline=None)


def drawn(clients: int, length: int, seed: int) -> np.ndarray:
    """Updates of unlike lengths with something in common."""
    rng = np.random.default_rng(seed)
    lengths = rng.lognormal(0, 0.5, (clients, 1))
    return (lengths * rng.normal(size=(clients, length)) + rng.normal(size=length)).astype(
        np.float32
    )


def orthogonal(lengths: list[float]) -> np.ndarray:
    return np.diag(lengths).astype(np.float32)


def weights_of(updates: Any, objective: Any = "ssd", **of: Any) -> np.ndarray:
    weights, metrics = reweigh(Config(objective=objective), received(updates, **of))
    assert metrics["pca_fallback"] == 0
    return weights


# The distance


def released_distances(models: np.ndarray, w: np.ndarray) -> np.ndarray:
    """As released: a PCA with K components of the global and the K local models, then distances
    between projections.
    """
    from sklearn.decomposition import PCA

    points = PCA(n_components=len(models)).fit_transform(np.vstack([w @ models, models]))
    return np.linalg.norm(points[1:] - points[0], axis=1)


def released_objective(models: np.ndarray, w: np.ndarray) -> float:
    p = released_distances(models, w)
    return float(((p - p.mean()) ** 2).sum())


@pytest.mark.parametrize("clients", [2, 3, 10])
def test_the_released_pca_measures_the_distance_to_the_weighted_mean(clients):
    rng = np.random.default_rng(clients)
    start, updates = 5 * rng.normal(size=60), drawn(clients, 60, clients).astype(np.float64)
    for w in (np.full(clients, 1 / clients), rng.dirichlet(np.ones(clients))):
        p, _ = distances(updates @ updates.T, w)
        np.testing.assert_allclose(p, released_distances(start + updates, w), rtol=1e-9)
        np.testing.assert_allclose(p, np.linalg.norm(updates - w @ updates, axis=1), rtol=1e-9)
        value, _ = value_and_gradient("ssd", updates @ updates.T, w)
        assert value == pytest.approx(released_objective(start + updates, w), rel=1e-9)


def test_the_weights_are_those_of_the_released_search():
    """SLSQP on the objective with the PCA inside, numerical gradient and default tolerance."""
    from scipy.optimize import minimize

    updates = drawn(5, 40, 4)
    theirs = minimize(
        lambda w: released_objective(updates.astype(np.float64), w),
        np.full(5, 0.2),
        method="SLSQP",
        bounds=[(0, 1)] * 5,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
    )
    assert theirs.success
    np.testing.assert_allclose(weights_of(updates), theirs.x, atol=2e-3)


@every_objective
def test_the_gradient_is_that_of_finite_differences(objective):
    updates = drawn(6, 30, 1).astype(np.float64)
    products = updates @ updates.T / 30
    for seed in range(5):
        w = np.random.default_rng(seed).dirichlet(np.ones(6))
        _, gradient = value_and_gradient(objective, products, w)
        numerical = approx_fprime(
            w, lambda at: value_and_gradient(objective, products, at)[0], 1e-7
        )
        np.testing.assert_allclose(gradient, numerical, rtol=1e-4, atol=1e-5)


@every_objective
def test_objectives_by_hand(objective):
    """Updates (0, 0), (0, 0), (6, 0) under weights (0, 0, 1): p = (6, 6, 0), mean 4, deviations
    (2, 2, -4).
    """
    products = np.diag([0.0, 0.0, 36.0])
    value, gradient = value_and_gradient(objective, products, np.array([0.0, 0.0, 1.0]))
    root = np.sqrt(24)
    assert value == pytest.approx(
        {"ssd": 24, "eq4": root + 4, "eq10": root + np.sqrt(3) * 4}[objective]
    )
    assert np.isfinite(gradient).all()  # although the third client's distance is 0


# The weights


def test_equal_distances_draw_the_model_towards_an_outlier():
    """Nine orthogonal updates of length 1 and one of length 3: 1/2 - 8 / (2 r^2 (9 + 1/9)) =
    0.061 and 0.4512.
    """
    updates = orthogonal([1] * 9 + [3])
    r = np.array([1.0] * 9 + [3.0])
    closed = 0.5 - 8 / (2 * r**2 * (r**-2).sum())
    assert closed[[0, -1]] == pytest.approx([0.061, 0.4512], abs=1e-4)
    for objective in ("ssd", "eq4"):
        np.testing.assert_allclose(weights_of(updates, objective), closed, atol=1e-4)
    assert weights_of(updates, "eq10")[-1] == pytest.approx(0.28, abs=5e-3)


@given(
    st.integers(2, 10),
    st.sampled_from([1, 3, 200]),
    st.sampled_from(OBJECTIVES),
    st.integers(0, 99),
)
@few
def test_weights_lie_on_the_simplex_and_are_no_worse_than_uniform_ones(
    clients, length, objective, seed
):
    updates = drawn(clients, length, seed)
    weights = weights_of(updates, objective, weights=np.arange(1, clients + 1))
    assert (weights >= 0).all() and weights.sum() == pytest.approx(1, abs=1e-12)
    products = updates.astype(np.float64) @ updates.T
    found, uniform = (
        value_and_gradient(objective, products, w)[0]
        for w in (weights, np.full(clients, 1 / clients))
    )
    assert found <= uniform * (1 + 1e-6) + 1e-9


@every_objective
def test_weights_do_not_depend_on_client_order_unit_or_starting_point(objective):
    updates, order = drawn(7, 50, 2), np.random.default_rng(0).permutation(7)
    weights = weights_of(updates, objective)
    np.testing.assert_allclose(weights_of(updates[order], objective), weights[order], atol=1e-4)
    for unit in (1e-6, 1e6):
        np.testing.assert_allclose(weights_of(unit * updates, objective), weights, atol=1e-4)
    np.testing.assert_allclose(weights_of(updates + 3, objective), weights, atol=1e-3)


def test_a_client_counts_as_far_as_the_privacy_slot_lets_it():
    updates, scales = drawn(5, 50, 3), np.array([1, 0.2, 1, 0.5, 1])
    theirs = weights_of(updates, scales=scales)
    np.testing.assert_allclose(theirs, weights_of(scales[:, None] * updates), atol=1e-6)
    assert np.abs(theirs - weights_of(updates)).max() > 0.01


# Where there is nothing to find


@pytest.mark.parametrize(
    ("updates", "objective", "value", "fallback"),
    [
        ([[1, 2]], "ssd", 0, 0),
        ([[0, 0]] * 3, "ssd", 0, 0),
        ([[0.1, 0.7]] * 3, "ssd", 0, 0),
        ([[1, np.inf], [2, 0], [0, 1]], "ssd", np.nan, 1),
    ],
)
def test_one_client_equal_updates_and_broken_ones_are_weighed_by_size(
    updates, objective, value, fallback
):
    sizes = np.arange(1.0, len(updates) + 1)
    weights, metrics = reweigh(Config(objective=objective), received(updates, weights=sizes))
    assert weights.tolist() == pytest.approx((sizes / sizes.sum()).tolist())
    assert metrics == {"pca_objective": pytest.approx(value, nan_ok=True), "pca_fallback": fallback}


def test_the_value_is_in_units_of_the_spread():
    """Three unit vectors: from their mean each is sqrt(2/3) away, which is the unit; eq. 4 has
    no deviation and mean 1.
    """
    _, metrics = reweigh(Config(objective="eq4"), received(orthogonal([1, 1, 1])))
    assert metrics["pca_objective"] == pytest.approx(1) and metrics["pca_fallback"] == 0
    assert (metrics["pca_cov"], metrics["pca_fi"]) == pytest.approx((0, 1))


def test_how_unequal_distances_are_beside_those_from_the_mean():
    """Two clients: weights 1/2 make them equal; with weights 1/4 and 3/4 the distances are 3 and
    1, CoV 1/2.
    """
    _, metrics = reweigh(Config(), received([[0.0], [4.0]], weights=[1, 3]))
    assert metrics["pca_cov"] == pytest.approx(0, abs=1e-4) and metrics[
        "pca_cov_by_size"
    ] == pytest.approx(0.5)


def test_a_search_that_fails_leaves_weights_by_size_and_says_so():
    updates = orthogonal([1, 1, 1, 3])
    products = gram.center_products(updates.astype(np.float64) @ updates.T)
    assert search(Config(iterations=1), products) is None
    assert search(Config(), products) is not None
    weights, metrics = reweigh(Config(iterations=1), received(updates, weights=[1, 2, 3, 4]))
    assert weights.tolist() == [0.1, 0.2, 0.3, 0.4]
    assert metrics["pca_fallback"] == 1 and np.isfinite(metrics["pca_objective"])
