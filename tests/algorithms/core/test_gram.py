"""Inner products and distances of updates: by hand, and against two loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.core import gram
from algorithms.core.gram import center_products, distances, scale_products

fast = settings(max_examples=60, deadline=None)


def updates(clients: int, length: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(clients, length)).astype(np.float32)


def slowly(rows: np.ndarray, sizes: list[int]) -> np.ndarray:
    """Distances [arrays, clients, clients], one pair and one array at a time."""
    apart, start = np.zeros((len(sizes), len(rows), len(rows))), 0
    for a, size in enumerate(sizes):
        for i, left in enumerate(rows.astype(np.float64)):
            for j, right in enumerate(rows.astype(np.float64)):
                apart[a, i, j] = np.linalg.norm(
                    left[start : start + size] - right[start : start + size]
                )
        start += size
    return apart


def test_by_hand():
    """(3, 4 | 1) and (0, 0 | 1): 5 apart in the first array, equal in the second; halved and
    doubled, (1.5, 2 | 0.5).
    """
    products = gram.gram(np.array([[3, 4, 1], [0, 0, 1]], np.float32), [2, 1])
    assert products.tolist() == [[[25, 0], [0, 0]], [[1, 1], [1, 1]]]
    assert distances(products).tolist() == [[[0, 5], [5, 0]], [[0, 0], [0, 0]]]
    scaled = distances(scale_products(products, np.array([0.5, 2.0])))
    assert scaled.tolist() == [[[0, 2.5], [2.5, 0]], [[0, 1.5], [1.5, 0]]]


@given(
    st.integers(1, 7),
    st.lists(st.integers(0, 30), min_size=1, max_size=5),
    st.integers(1, 90),
    st.integers(0, 9),
)
@fast
def test_distances_are_those_of_two_loops_however_the_rows_are_cut(clients, sizes, piece, seed):
    rows = updates(clients, sum(sizes), seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gram, "PIECE", piece)
        products = gram.gram(rows, sizes)
    assert (products.dtype, products.shape) == (np.float64, (len(sizes), clients, clients))
    apart = distances(products)
    np.testing.assert_allclose(apart, slowly(rows, sizes), rtol=1e-6, atol=1e-6)
    assert (apart == apart.swapaxes(1, 2)).all() and (apart >= 0).all()
    assert (np.diagonal(apart, axis1=1, axis2=2) == 0).all()
    np.testing.assert_allclose(gram.gram(rows)[0], products.sum(axis=0), rtol=1e-12, atol=1e-12)


@given(st.integers(1, 6), st.integers(0, 9))
@fast
def test_scaling_and_centering_products_is_scaling_and_centering_rows(clients, seed):
    rows, scales = (
        updates(clients, 40, seed).astype(np.float64),
        np.random.default_rng(seed).uniform(0, 2, clients),
    )
    products, after = rows @ rows.T, (scales[:, None] * rows) @ (scales[:, None] * rows).T
    np.testing.assert_allclose(scale_products(products, scales), after, atol=1e-12)
    away = rows - rows.mean(axis=0)
    np.testing.assert_allclose(center_products(products), away @ away.T, atol=1e-12)
    apart = distances(scale_products(products, scales))
    np.testing.assert_allclose(apart, slowly(scales[:, None] * rows, [40])[0], atol=1e-6)


@pytest.mark.parametrize("clients", [2, 7, 17])
def test_equal_updates_are_no_distance_apart_and_close_ones_are(clients):
    """Noise may be divided by a distance: what rounding leaves of equal rows must not pass for
    one.
    """
    row = updates(1, 200_003, 1)
    assert (distances(gram.gram(np.repeat(row, clients, axis=0))) == 0).all()
    near = np.concatenate([row, row * np.float32(1 + 1e-6)])
    assert distances(gram.gram(near))[0, 0, 1] == pytest.approx(1e-6 * np.linalg.norm(row), rel=0.1)


def test_sums_are_taken_in_float64():
    """In float32 a million times 1e-8 is lost beside 1; here it is a hundredth."""
    row = np.full((1, 1_000_001), 1e-4, np.float32)
    row[0, 0] = 1
    assert gram.gram(row)[0, 0, 0] == pytest.approx(1.01, rel=1e-6)


def test_an_update_that_is_not_finite_spoils_its_own_distances_only():
    rows = updates(3, 10, 2)
    rows[1, 4] = np.nan
    apart = distances(gram.gram(rows))[0]
    assert np.isnan(apart[1]).all() and np.isnan(apart[:, 1]).all()
    assert apart[0, 2] == pytest.approx(np.linalg.norm(rows[0] - rows[2]), rel=1e-6)


@given(st.integers(1, 9), st.integers(1, 2 * gram.COLUMNS + 5), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_the_length_of_a_row_is_numpys_and_owes_nothing_to_the_others(clients, d, seed):
    rows = np.random.default_rng(seed).normal(size=(clients, d)).astype(np.float32)
    found = gram.lengths(rows)
    np.testing.assert_allclose(found, np.linalg.norm(rows.astype(np.float64), axis=1), rtol=1e-12)
    alone = np.concatenate([gram.lengths(rows[i : i + 1]) for i in range(clients)])
    assert found.tobytes() == alone.tobytes()
