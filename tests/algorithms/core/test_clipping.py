"""Clipping for privacy bounds whatever floats it is given; plain clipping lets a divergence be
seen.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from torch.func import vmap
from torch.nn.functional import cross_entropy

from algorithms.core.gradients import IGNORED, clip_for_privacy, clip_gradients, mean_cross_entropy

INFINITY, NAN, LARGEST = math.inf, math.nan, torch.finfo(torch.float32).max
ROUNDING = 1 + 1e-5
floats = st.floats(width=32, allow_nan=True, allow_infinity=True)


@given(
    arrays.arrays("float32", st.tuples(st.integers(0, 4), st.integers(1, 6)), elements=floats),
    st.floats(1e-6, 1e6),
)
@example(np.array([[3.0278372e34]], np.float32), 1e-6)  # the factor 3e-41 has four digits
@settings(max_examples=300, deadline=None)
def test_no_example_moves_the_sum_by_more_than_the_clip_whatever_its_floats(grads, clip):
    clipped = clip_for_privacy(torch.from_numpy(grads), clip)
    assert clipped.shape == grads.shape
    assert clipped.isfinite().all()
    assert (clipped.double().norm(dim=1) <= clip * ROUNDING).all()


@pytest.mark.parametrize(
    "broken", [[NAN, 1.0], [INFINITY, 1.0], [-INFINITY, NAN], [LARGEST, LARGEST], [1e20, 0.0]]
)
def test_a_norm_that_is_not_finite_leaves_zero_and_the_other_rows_alone(broken):
    """The plain clip passes on what is not finite, so that a divergence is noticed."""
    rows = torch.tensor([[3.0, 4.0], broken, [0.3, 0.4]])
    assert np.isfinite(broken).all() or not clip_gradients(rows, 1.0)[1].isfinite().all()
    assert clip_for_privacy(rows, 1.0).tolist() == [
        pytest.approx([0.6, 0.8]),
        [0.0, 0.0],
        pytest.approx([0.3, 0.4]),
    ]


@pytest.mark.parametrize("together", [False, True])
def test_values_and_slopes_are_those_of_torch(together: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    logits, labels = (
        5 * torch.randn(6, 9, 4, generator=generator),
        torch.randint(0, 4, (6, 9), generator=generator),
    )
    labels[1, 5:] = IGNORED
    a, b = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    if together:
        values, expected = vmap(mean_cross_entropy)(a, labels), vmap(cross_entropy)(b, labels)
    else:
        values = torch.stack([mean_cross_entropy(x, y) for x, y in zip(a, labels, strict=True)])
        expected = torch.stack([cross_entropy(x, y) for x, y in zip(b, labels, strict=True)])
    torch.testing.assert_close(values, expected, rtol=1e-6, atol=0)
    gradient, wanted = (
        torch.autograd.grad(values.sum(), a)[0],
        torch.autograd.grad(expected.sum(), b)[0],
    )
    torch.testing.assert_close(gradient, wanted, rtol=1e-6, atol=1e-9)


def test_halves_are_widened() -> None:
    assert (
        mean_cross_entropy(torch.zeros(2, 3, dtype=torch.bfloat16), torch.tensor([0, 1])).dtype
        == torch.float32
    )
