"""What sets groups of clients apart: images turned or made brighter, one strength for each image, in NumPy alone.

All functions take and return float32 images [n, channels, height, width] (unless they say otherwise) and leave their
arguments as they are. The result may be the argument itself where there is nothing to do: treat it as read-only.
"""

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Transform = Literal["none", "rotation", "brightness"]

ANGLES_AT_ONCE = 16  # enough to share out NumPy's cost of a call, few enough to stay in the processor's cache


def scale(x: NDArray[Any]) -> Floats:
    """Pixels in [0, 1]: uint8 [n, ...] divided by 255; float32 is passed on unchanged.

    Raises TypeError for any other type, whose scale nobody could guess.
    """
    if x.dtype == np.uint8:
        return np.divide(x, 255, dtype=np.float32)
    if x.dtype == np.float32:
        return np.ascontiguousarray(x)
    raise TypeError(f"examples are stored as uint8 or float32; got {x.dtype}")


def rotate(x: Floats, degrees: ArrayLike, fill: float = 0.0) -> Floats:
    """Images turned counter-clockwise about their center, at their own size, with bilinear interpolation.

    ``degrees`` is one angle for each image, [n], or a single one for all. What comes from outside the
    image has the value ``fill``; without a fill it equals torchvision's ``rotate(..., BILINEAR)`` to 1e-5. An angle of 0
    changes no bit. Each distinct angle is worked out once.
    """
    if x.ndim != 4:
        raise ValueError(
            f"only images [n, channels, height, width] can be rotated; got examples of shape {x.shape[1:]}"
        )
    angles, which = np.unique(np.broadcast_to(np.asarray(degrees), len(x)), return_inverse=True)
    by_angle = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
    pixels = x.reshape(*x.shape[:2], x.shape[2] * x.shape[3])
    turned = np.empty(pixels.shape, np.float32)
    for start in range(0, len(angles), ANGLES_AT_ONCE):
        block = slice(start, start + ANGLES_AT_ONCE)
        sampling = _sampling(angles[block], *x.shape[2:])
        for rows, neighbors, weights, uncovered in zip(by_angle[block], *sampling, strict=True):
            turned[rows] = _sample(pixels[rows], neighbors, weights, np.float32(fill) * uncovered)
    return turned.reshape(x.shape)


def _sample(pixels: Floats, neighbors: Ints, weights: Floats, background: Floats) -> Floats:
    """Pixels [n, channels, p] read at four neighbors each [4, p] with weights [4, p], on a background [p]."""
    total = background
    for neighbor, weight in zip(neighbors, weights, strict=True):
        total = total + pixels.take(neighbor, axis=-1) * weight
    return total


def _sampling(degrees: NDArray[Any], height: int, width: int) -> tuple[Ints, Floats, Floats]:
    """How rotations by a angles read an image of p pixels: neighbors and weights [a, 4, p], share uncovered [a, p]."""
    angle = np.deg2rad(degrees.astype(np.float64))[:, None, None]
    y, x = np.arange(height)[:, None] - (height - 1) / 2, np.arange(width) - (width - 1) / 2
    # Read backwards: where in the given image each pixel of the turned image lies.
    row, row_weight = _two_nearest(np.sin(angle) * x + np.cos(angle) * y + (height - 1) / 2, height)
    column, column_weight = _two_nearest(np.cos(angle) * x - np.sin(angle) * y + (width - 1) / 2, width)
    neighbors = row[:, :, None] * width + column[:, None]
    weights = row_weight[:, :, None] * column_weight[:, None]
    covered = weights.sum(axis=(1, 2), keepdims=True)
    # The image lies on an endless background. Blending a second time by the share covered, as torchvision does where it is
    # given a fill, draws a rim around images whose own background is the fill, from which the angle can be read.
    uncovered = (1 - covered).astype(np.float32).reshape(len(degrees), height * width)
    each = (len(degrees), 4, height * width)
    return neighbors.reshape(each), weights.astype(np.float32).reshape(each), uncovered


def _two_nearest(position: NDArray[np.float64], length: int) -> tuple[Ints, NDArray[np.float64]]:
    """The grid lines on either side of each position [a, h, w], and the weight of each, [a, 2, h, w]; 0 if outside."""
    below = np.floor(position)
    above = position - below
    line = np.stack([below, below + 1], axis=1).astype(np.int64)
    inside = (line >= 0) & (line < length)
    return line.clip(0, length - 1), np.stack([1 - above, above], axis=1) * inside


def brighten(x: Floats, factors: ArrayLike) -> Floats:
    """Images times one factor for each, [n] (or a single one for all), clipped to [0, 1]."""
    each = np.broadcast_to(np.asarray(factors, np.float32), len(x)).reshape(-1, *[1] * (x.ndim - 1))
    bright = x * each
    return np.clip(bright, 0.0, 1.0, out=bright)


def apply(name: Transform, x: Floats, strengths: ArrayLike, fill: float = 0.0) -> Floats:
    """The transform called ``name`` with one strength for each example, [n]: degrees, brightness factors, or ignored.

    >>> apply("brightness", np.full((2, 1, 1, 1), 0.5, np.float32), [0.5, 3.0]).ravel().tolist()
    [0.25, 1.0]
    """
    ways: dict[str, Callable[[], Floats]] = {
        "none": lambda: x,
        "rotation": lambda: rotate(x, strengths, fill),
        "brightness": lambda: brighten(x, strengths),
    }
    if name not in ways:
        raise ValueError(f"transform must be one of {', '.join(get_args(Transform))}; got {name!r}")
    return ways[name]()


def identity(name: Transform) -> float:
    """The strength under which the transform called ``name`` leaves every image as it is: factor 1, or 0 (degrees).

    >>> identity("brightness"), identity("rotation")
    (1.0, 0.0)
    """
    return 1.0 if name == "brightness" else 0.0


def normalize(x: Floats, mean: tuple[float, ...] | None, std: tuple[float, ...] | None) -> Floats:
    """Examples minus ``mean``, divided by ``std``, each [channels] along axis 1; ``None`` leaves that step out."""
    along = (1, -1, *[1] * (x.ndim - 2))
    if mean is not None:
        x = x - np.asarray(mean, np.float32).reshape(along)
    if std is not None:
        x = x / np.asarray(std, np.float32).reshape(along)
    return x
