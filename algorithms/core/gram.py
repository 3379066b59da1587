"""Inner products of the clients' updates, array by array: all that distances between models depend on.

    G_a[i, j] = <u_i[a], u_j[a]>            ||u_i[a] - u_j[a]||^2 = G_a[i, i] + G_a[j, j] - 2 G_a[i, j]

The updates [clients, d] are read once, in pieces that fit a processor's cache, and never copied as a whole. All clients start
from the same model, so distances of their updates are those of their models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from algorithms.core.messages import Doubles, Floats

PIECE = 1 << 15  # float64 numbers that are worked on at a time: a quarter of a megabyte
COLUMNS = 1 << 12  # of every row that are worked on at a time where rows do not meet
# A squared distance below this share of the squared norms is rounding: float32 models that differ by more than their last
# digits lie above it, and equal ones must have distance zero, because noise may be divided by it.
ROUNDING = 1e-14


def gram(rows: Floats, sizes: Sequence[int] | None = None) -> Doubles:
    """Inner products [arrays, clients, clients] of ``rows`` [clients, d], each array's by itself, in float64.

    ``sizes`` are the lengths of the arrays, which lie one after another in [d]; without them all of [d] is one array.

    >>> gram(np.array([[3, 4, 1], [0, 2, 5]], np.float32), [2, 1]).tolist()
    [[[25.0, 8.0], [8.0, 4.0]], [[1.0, 5.0], [5.0, 25.0]]]

    Raises ValueError where the sizes do not add up to d.
    """
    clients, length = rows.shape
    sizes = (length,) if sizes is None else tuple(sizes)
    if sum(sizes) != length:
        raise ValueError(f"the arrays' sizes add up to {sum(sizes)}, but an update has {length} numbers")
    products = np.zeros((len(sizes), clients, clients))
    with np.errstate(invalid="ignore", over="ignore"):  # a model that has diverged shows in the result
        for array, columns in _pieces(sizes, max(1, PIECE // max(1, clients))):
            piece = rows[:, columns].astype(np.float64)
            products[array] += piece @ piece.T
    return products


def lengths(rows: Floats) -> Doubles:
    """L2 norms [clients] of ``rows`` [clients, d], in float64; each depends on its own row alone, to the bit.

    >>> lengths(np.array([[3, 4], [0, 2]], np.float32)).tolist()
    [5.0, 2.0]
    """
    squares = np.zeros(len(rows))
    with np.errstate(invalid="ignore", over="ignore"):
        for at in range(0, rows.shape[1], COLUMNS):
            piece = rows[:, at : at + COLUMNS].astype(np.float64)
            squares += np.einsum("ij,ij->i", piece, piece)
    return np.sqrt(squares)


def distances(products: Doubles) -> Doubles:
    """L2 distances [..., clients, clients] of the rows that have these inner products.

    Symmetric, 0 on the diagonal; what is no more than rounding is 0, what is not a number stays so.

    >>> distances(np.array([[25.0, 8.0], [8.0, 4.0]])).round(3).tolist()
    [[0.0, 3.606], [3.606, 0.0]]
    """
    squares = np.diagonal(products, axis1=-2, axis2=-1)
    either = squares[..., :, None] + squares[..., None, :]
    apart = either - (products + products.swapaxes(-1, -2))
    return np.sqrt(np.where(apart <= ROUNDING * either, 0, apart))


def pairwise(products: Doubles, scales: Doubles) -> Doubles:
    """`distances` after each row has been multiplied by its scale [clients]."""
    return distances(scale_products(products, scales))


def scale_products(products: Doubles, scales: Doubles) -> Doubles:
    """Inner products [..., clients, clients] after each row has been multiplied by its scale [clients]."""
    return products * np.outer(scales, scales)


def center_products(products: Doubles) -> Doubles:
    """Inner products [..., clients, clients] of the rows less their mean: C G C with C = I - 1/K."""
    mean = products.mean(axis=-1, keepdims=True)
    return products - mean - mean.swapaxes(-1, -2) + mean.mean(axis=-2, keepdims=True)


def _pieces(sizes: Sequence[int], width: int) -> Iterator[tuple[int, slice]]:
    """Columns of each array, at most ``width`` at a time, with the number of the array."""
    start = 0
    for array, size in enumerate(sizes):
        for at in range(start, start + size, width):
            yield array, slice(at, min(at + width, start + size))
        start += size
