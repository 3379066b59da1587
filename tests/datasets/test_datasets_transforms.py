"""Rotation against an oracle written pixel by pixel and against torchvision; brightness, scale
and normalization.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from datasets import transforms


def images(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).random(shape, dtype=np.float32)


def rotated_by_hand(image: np.ndarray, degrees: float, fill: float) -> np.ndarray:
    """One gray image [h, w], turned pixel by pixel: slow and obvious."""
    height, width = image.shape
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    turned = np.empty(image.shape)
    for i, j in np.ndindex(image.shape):
        y, x = i - (height - 1) / 2, j - (width - 1) / 2
        row, column = sin * x + cos * y + (height - 1) / 2, cos * x - sin * y + (width - 1) / 2
        value = covered = 0.0
        for r, c in np.ndindex(image.shape):
            weight = max(0.0, 1 - abs(row - r)) * max(0.0, 1 - abs(column - c))
            value, covered = value + weight * image[r, c], covered + weight
        turned[i, j] = value + fill * (1 - covered)
    return turned


@pytest.mark.parametrize("degrees", [-170, -45, -3.5, 0, 10, 30, 90, 135, 180])
@pytest.mark.parametrize("fill", [0.0, 1.0])
def test_rotation_equals_the_rotation_by_hand(degrees, fill):
    image = images(1, 1, 5, 4)
    expected = rotated_by_hand(image[0, 0], degrees, fill)
    np.testing.assert_allclose(transforms.rotate(image, degrees, fill)[0, 0], expected, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("fill", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("shape", [(6, 1, 28, 28), (6, 3, 32, 32), (6, 1, 8, 8), (6, 2, 7, 12)])
def test_rotation_equals_torchvision(shape, fill):
    import torch
    from torchvision.transforms.functional import InterpolationMode
    from torchvision.transforms.functional import rotate as published

    x, degrees = images(*shape), np.array([-33.0, 0.0, 12.5, 25.0, 49.9, 180.0])
    ours = transforms.rotate(x, degrees, fill)
    for image, angle, turned in zip(x, degrees, ours, strict=True):
        # Without a fill torchvision samples an image that is zero outside; its own blending with a
        # fill would weigh the rim twice.
        expected = (
            published(torch.from_numpy(image) - fill, float(angle), InterpolationMode.BILINEAR)
            + fill
        )
        np.testing.assert_allclose(turned, expected.numpy(), atol=1e-5)


def test_a_positive_angle_turns_counter_clockwise():
    x = images(2, 3, 9, 9)
    np.testing.assert_allclose(transforms.rotate(x, 90), np.rot90(x, axes=(2, 3)), atol=1e-6)


@given(
    arrays(
        np.float32,
        st.tuples(st.integers(0, 6), *[st.integers(1, 6)] * 3),
        elements=st.floats(0, 1, width=32),
    )
)
def test_an_angle_of_zero_changes_no_bit(x):
    np.testing.assert_array_equal(transforms.rotate(x, 0.0, fill=1.0), x)


def test_more_angles_than_are_worked_out_at_once():
    count = 2 * transforms.ANGLES_AT_ONCE + 1
    x, degrees = images(count, 1, 4, 4), np.random.default_rng(0).uniform(-180, 180, count)
    degrees[::5] = degrees[0]  # several images of one angle
    expected = [
        rotated_by_hand(image[0], angle, 0.0) for image, angle in zip(x, degrees, strict=True)
    ]
    np.testing.assert_allclose(transforms.rotate(x, degrees)[:, 0], expected, atol=1e-6)


def test_brightness_multiplies_and_clips():
    x = np.array([0.2, 0.6, 1.0], np.float32).reshape(3, 1, 1, 1)
    bright = transforms.brighten(x, np.array([0.5, 2.0, 0.75]))
    np.testing.assert_allclose(bright.ravel(), [0.1, 1.0, 0.75], rtol=1e-6)


@pytest.mark.parametrize("name", ["none", "rotation", "brightness"])
def test_results_are_contiguous_float32_and_arguments_stay(name):
    x = images(4, 3, 6, 5)[:, ::-1]
    before = x.copy()
    result = transforms.apply(
        name, transforms.scale(x), np.array([1.1, 0.2, 30, 0.5], np.float32), fill=0.2
    )
    assert result.dtype == np.float32 and result.flags.c_contiguous and result.shape == x.shape
    np.testing.assert_array_equal(x, before)


def test_bytes_are_scaled_and_floats_are_not():
    np.testing.assert_array_equal(
        transforms.scale(np.array([[0, 51, 255]], np.uint8)), np.float32([[0, 0.2, 1]])
    )
    np.testing.assert_array_equal(
        transforms.scale(np.float32([[-3, 400]])), np.float32([[-3, 400]])
    )


@pytest.mark.parametrize("shape", [(4, 2, 3, 3), (4, 2, 5)])
def test_normalization_is_per_channel(shape):
    x = images(*shape)
    result = transforms.normalize(x, (0.5, 0.1), (0.2, 2.0))
    assert result.dtype == np.float32
    np.testing.assert_allclose(result[:, 0], (x[:, 0] - 0.5) / 0.2, rtol=1e-5)
    np.testing.assert_allclose(result[:, 1], (x[:, 1] - 0.1) / 2.0, rtol=1e-5)
    assert transforms.normalize(x, None, None) is x
