"""The transforms that set groups of clients apart: rotation and brightness, one strength per
image, in NumPy alone.

Unless they say otherwise, functions take and return float32 images [n, channels, height, width] and
do not modify their arguments. The result may be the argument itself where there is nothing to do,
so treat it as read-only.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Transform = Literal["none", "rotation", "brightness"]

ANGLES_AT_ONCE = (
    16  # enough to amortize NumPy's cost per call, few enough to stay in the processor's cache
)


def scale(x: NDArray[Any]) -> Floats:
    """Scale pixels to [0, 1]: uint8 [n, ...] is divided by 255, float32 is returned unchanged."""
    return (
        np.divide(x, 255, dtype=np.float32)
        if x.dtype == np.uint8
        else np.ascontiguousarray(x, np.float32)
    )


def rotate(x: Floats, degrees: ArrayLike, fill: float = 0.0) -> Floats:
    """Rotate images counter-clockwise about their center, at their own size, with bilinear
    interpolation.

    ``degrees`` has one angle per image, [n], or a single one for all; pixels from outside the image
    have the value ``fill``. Without a fill, the result equals torchvision's ``rotate(...,
    BILINEAR)`` to 1e-5. An angle of 0 changes no bit. The sampling of each distinct angle is
    computed once.
    """
    angles, which = np.unique(np.broadcast_to(np.asarray(degrees), len(x)), return_inverse=True)
    by_angle = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
    pixels = x.reshape(*x.shape[:2], x.shape[2] * x.shape[3])
    turned = np.empty(pixels.shape, np.float32)
    for start in range(0, len(angles), ANGLES_AT_ONCE):
        block = slice(start, start + ANGLES_AT_ONCE)
        sampling = _sampling(angles[block], *x.shape[2:])
        for rows, neighbors, weights, uncovered in zip(by_angle[block], *sampling, strict=True):
            total = np.float32(fill) * uncovered
            images = pixels[rows]
            for neighbor, weight in zip(neighbors, weights, strict=True):
                total = total + images.take(neighbor, axis=-1) * weight
            turned[rows] = total
    return turned.reshape(x.shape)


def _sampling(degrees: NDArray[Any], height: int, width: int) -> tuple[Ints, Floats, Floats]:
    """Compute how rotations by ``degrees`` [a] read an image of p = height * width pixels.

    Returns neighbors [a, 4, p], their weights [a, 4, p], and the uncovered share of each pixel [a,
    p].
    """
    angle = np.deg2rad(degrees.astype(np.float64))[:, None, None]
    y = np.arange(height)[:, None] - (height - 1) / 2
    x = np.arange(width) - (width - 1) / 2
    # The inverse mapping: where in the original image each pixel of the rotated image lies.
    row, row_weight = _two_nearest(np.sin(angle) * x + np.cos(angle) * y + (height - 1) / 2, height)
    column, column_weight = _two_nearest(
        np.cos(angle) * x - np.sin(angle) * y + (width - 1) / 2, width
    )
    neighbors = row[:, :, None] * width + column[:, None]
    weights = row_weight[:, :, None] * column_weight[:, None]
    covered = weights.sum(axis=(1, 2), keepdims=True)
    # The image lies on an infinite background. With a fill, torchvision blends a second time by the
    # covered share, which draws a rim around images whose own background is the fill; the rim would
    # reveal the angle.
    uncovered = (1 - covered).astype(np.float32).reshape(len(degrees), height * width)
    each = (len(degrees), 4, height * width)
    return neighbors.reshape(each), weights.astype(np.float32).reshape(each), uncovered


def _two_nearest(position: NDArray[np.float64], length: int) -> tuple[Ints, NDArray[np.float64]]:
    """Return the two of ``length`` grid lines next to each position [a, h, w], and their
    weights, each [a, 2, h, w].

    Weights are 0 outside the image.
    """
    below = np.floor(position)
    above = position - below
    line = np.stack([below, below + 1], axis=1).astype(np.int64)
    inside = (line >= 0) & (line < length)
    return line.clip(0, length - 1), np.stack([1 - above, above], axis=1) * inside


def brighten(x: Floats, factors: ArrayLike) -> Floats:
    """Multiply images [n, ...] by brightness factors, one each [n] or one for all, and clip the
    result to [0, 1].
    """
    each = np.broadcast_to(np.asarray(factors, np.float32), len(x)).reshape(-1, *[1] * (x.ndim - 1))
    bright = x * each
    return np.clip(bright, 0.0, 1.0, out=bright)


def apply(name: Transform, x: Floats, strengths: ArrayLike, fill: float = 0.0) -> Floats:
    """Apply the transform of a name to examples [n, ...], with ``strengths`` [n] in degrees or
    as brightness factors.

    "none" ignores the strengths; ``fill`` is the background value for rotations.

    >>> apply("brightness", np.full((2, 1, 1, 1), 0.5, np.float32), [0.5, 3.0]).ravel().tolist()
    [0.25, 1.0]
    """
    if name == "rotation":
        return rotate(x, strengths, fill)
    return brighten(x, strengths) if name == "brightness" else x


def identity(name: Transform) -> float:
    """Return the strength under which a transform leaves every image unchanged: factor 1, or 0
    degrees.

    >>> identity("brightness"), identity("rotation")
    (1.0, 0.0)
    """
    return 1.0 if name == "brightness" else 0.0


def normalize(x: Floats, mean: tuple[float, ...] | None, std: tuple[float, ...] | None) -> Floats:
    """Subtract the mean and divide by the standard deviation of each channel of examples [n,
    channels, ...]; None: do not.
    """
    along = (1, -1, *[1] * (x.ndim - 2))
    if mean is not None:
        x = x - np.asarray(mean, np.float32).reshape(along)
    if std is not None:
        x = x / np.asarray(std, np.float32).reshape(along)
    return x
