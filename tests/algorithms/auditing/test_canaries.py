"""Directions of canaries against the Hadamard matrix itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import hadamard

from algorithms.auditing.canaries import Directions, walsh_hadamard


@pytest.mark.parametrize("bits", range(10))
def test_the_transform_is_the_product_with_the_hadamard_matrix(bits):
    x = np.random.default_rng(bits).normal(size=1 << bits).astype(np.float32)
    before = x.copy()
    assert walsh_hadamard(x) == pytest.approx(hadamard(1 << bits) @ x, abs=1e-4)
    assert (x == before).all()


@settings(deadline=None, max_examples=30)
@given(d=st.integers(1, 300), seed=st.integers(0, 100))
def test_directions_are_orthonormal_and_both_transforms_agree_with_them(d, seed):
    rng = np.random.default_rng(seed)
    directions = Directions.draw(d, rng)
    rows = np.array([directions.row(j) for j in range(directions.number)], np.float64)
    assert d / 2 < directions.number <= d
    assert rows @ rows.T == pytest.approx(np.eye(directions.number), abs=1e-5)
    coefficients, x = (
        rng.normal(size=rng.integers(1, directions.number + 1)),
        rng.normal(size=d).astype(np.float32),
    )
    assert directions.combine(coefficients) == pytest.approx(
        coefficients @ rows[: len(coefficients)], abs=1e-4
    )
    assert directions.products(x) == pytest.approx(rows @ x, abs=1e-4)
