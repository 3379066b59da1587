"""Directions of canaries: orthogonal vectors of random signs, of which thousands cost two
transforms.

The directions are rows of a randomized Hadamard matrix. With H the Hadamard matrix of size b, H[i,
j] = (-1)^|i & j| (the bits that i and j share), and random signs s:

    c_j = s * H[j] / sqrt(b)                           of norm 1, and orthogonal to all others
    sum_j g_j c_j     = s * (H g) / sqrt(b)            a transform of the coefficients g
    <c_j, x> for all j = H (s * x) / sqrt(b)           a transform of the vector x

b is the largest power of two that fits into the model's d parameters, and the canaries lie in b of
its coordinates, which begin at a random place and go round. Rows of a larger matrix that are cut to
d would cover every coordinate, but no longer be orthogonal: each canary would then see the others
as noise of variance k/d, and only d z^2 / 50 of them could be added at noise multiplier z. Noise is
the same in every coordinate, so nothing is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from algorithms.core.messages import Doubles, Floats


@dataclass(frozen=True)
class CanaryPlan:
    """How canaries take part."""

    # rounds from one audited round to the next; auto: as few as take little time
    every: Literal["auto"] | int
    # L2 norm of what a canary sends, so large that clipping bites if they are many. None, where
    # nothing is clipped: the median norm of the updates of the round.
    norm: float | None
    # Whether a canary that is out sends the opposite instead of nothing, which is the furthest that
    # a client that replaces another can move the release.
    opposite: bool = False
    # Whether canaries take part one at a time, because the noise depends on the updates
    # (`algorithms.engine.lone_canaries`).
    alone: bool = False


def number_of_directions(d: int) -> int:
    """Return b, the largest power of two that fits into ``d`` parameters; 0 if there are none."""
    return 1 << d.bit_length() - 1 if d else 0


def walsh_hadamard(x: Floats) -> Floats:
    """Multiply a vector [b] by the Hadamard matrix, without scaling, in b log2(b) additions.

    b is a power of two. The halves of the index's bits are transformed in turn, so that every
    addition runs over a long piece of memory.

    >>> walsh_hadamard(np.array([1, 0, 2, 0], np.float32)).tolist()
    [3.0, 3.0, -1.0, -1.0]
    """
    bits = len(x).bit_length() - 1
    rows = 1 << (bits + 1) // 2
    first = _columns(x.reshape(rows, -1))
    both = _columns(np.ascontiguousarray(first.T))
    return np.ascontiguousarray(both.T).reshape(-1)


def _columns(x: Floats) -> Floats:
    """Transform along the first axis of [n, m]."""
    half = 1
    while half < len(x):
        pairs = x.reshape(-1, 2, half * x.shape[1])
        first = pairs[:, 0]
        second = pairs[:, 1]
        x = np.empty_like(x)
        image = x.reshape(pairs.shape)
        np.add(first, second, out=image[:, 0])
        np.subtract(first, second, out=image[:, 1])
        half *= 2
    return x


@dataclass(frozen=True, eq=False)
class Directions:
    """Orthogonal directions in the space of a model's d parameters.

    They lie in the coordinates from ``start`` on, and go on at 0 after the last one; ``signs`` [b]
    are 1 or -1.
    """

    d: int
    start: int
    signs: Floats

    @staticmethod
    def draw(d: int, rng: np.random.Generator) -> Directions:
        """Draw the directions for a model of ``d`` parameters, one at least."""
        start = int(rng.integers(d))
        coins = rng.integers(0, 2, number_of_directions(d), dtype=np.int8)
        return Directions(d, start, (1 - 2 * coins).astype(np.float32))

    @property
    def number(self) -> int:
        """The number of directions, b."""
        return len(self.signs)

    def combine(self, coefficients: Doubles) -> Floats:
        """Return the sum [d] of the first directions times ``coefficients`` [at most b]."""
        spread = np.zeros(self.number, np.float32)
        spread[: len(coefficients)] = coefficients
        return self._place(walsh_hadamard(spread))

    def row(self, index: int) -> Floats:
        """Return direction ``index``, a vector [d]."""
        signs = np.ones(1, np.float32)
        # One more bit of the column's index at a time, the lowest first.
        while len(signs) < self.number:
            shared = index & len(signs)
            signs = np.concatenate([signs, -signs if shared else signs])
        return self._place(signs)

    def products(self, x: Floats) -> Doubles:
        """Return the inner products [b] of all directions with a vector ``x`` [d]."""
        inside = np.roll(x, -self.start)[: self.number]
        products = walsh_hadamard(inside.astype(np.float32) * self.signs)
        return products.astype(np.float64) * self.number**-0.5

    def _place(self, values: Floats) -> Floats:
        """Place values [b], with the directions' signs and norm, in a vector of zeros [d]."""
        inside = values * self.signs * np.float32(self.number**-0.5)
        padded = np.pad(inside, (0, self.d - self.number))
        return np.roll(padded, self.start)
