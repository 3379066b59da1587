"""Clipping for privacy bounds whatever floats it is given; plain clipping lets a divergence be seen."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from algorithms.core.gradients import clip_for_privacy, clip_gradients

INFINITY, NAN, LARGEST = math.inf, math.nan, torch.finfo(torch.float32).max
ROUNDING = 1 + 1e-5
floats = st.floats(width=32, allow_nan=True, allow_infinity=True)


@given(arrays.arrays("float32", st.tuples(st.integers(0, 4), st.integers(1, 6)), elements=floats), st.floats(1e-6, 1e6))
@example(np.array([[3.0278372e34]], np.float32), 1e-6)  # the factor 3e-41 has four digits
@settings(max_examples=300, deadline=None)
def test_no_example_moves_the_sum_by_more_than_the_clip_whatever_its_floats(grads, clip):
    clipped = clip_for_privacy(torch.from_numpy(grads), clip)
    assert clipped.shape == grads.shape
    assert clipped.isfinite().all()
    assert (clipped.double().norm(dim=1) <= clip * ROUNDING).all()


@given(arrays.arrays("float32", (3, 4), elements=st.floats(-1e6, 1e6, width=32)), st.floats(1e-3, 1e3))
@settings(max_examples=100, deadline=None)
def test_ordinary_gradients_are_clipped_to_the_same_bytes_for_privacy_and_otherwise(grads, clip):
    rows = torch.from_numpy(grads)
    assert clip_for_privacy(rows, clip).numpy().tobytes() == clip_gradients(rows, clip).numpy().tobytes()


@pytest.mark.parametrize("broken", [[NAN, 1.0], [INFINITY, 1.0], [-INFINITY, NAN], [LARGEST, LARGEST], [1e20, 0.0]])
def test_a_norm_that_is_not_finite_leaves_zero_and_the_other_rows_alone(broken):
    rows = torch.tensor([[3.0, 4.0], broken, [0.3, 0.4]])
    assert clip_for_privacy(rows, 1.0).tolist() == [pytest.approx([0.6, 0.8]), [0.0, 0.0], pytest.approx([0.3, 0.4])]


@pytest.mark.parametrize("broken", [[NAN, 1.0], [INFINITY, 1.0]])
def test_the_plain_clip_passes_on_what_is_not_finite_so_that_a_divergence_is_noticed(broken):
    assert not clip_gradients(torch.tensor(broken), 1.0).isfinite().all()
