"""Inner products of the clients' updates for each array, from which all distances between models
follow.

    G_a[i, j] = <u_i[a], u_j[a]>         ||u_i[a] - u_j[a]||^2 = G_a[i, i] + G_a[j, j] - 2 G_a[i, j]

The updates [clients, d] are read once, in pieces that fit a processor's cache, and never copied as
a whole. All clients start from the same model, so the distances between their updates are the
distances between their models.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from algorithms.core.messages import Doubles, Floats

PIECE = 1 << 15  # float64 numbers that are processed at a time: a quarter of a megabyte
COLUMNS = 1 << 12  # columns that are processed at a time where rows are not combined
# A squared distance below this share of the squared norms is rounding error: float32 models that
# differ by more than their last digits lie above it, and equal ones must have distance zero,
# because noise may be divided by it.
ROUNDING = 1e-14


def gram(
    rows: Floats,
    sizes: Sequence[int] | None = None,
) -> Doubles:
    """Compute the inner products of all pairs of rows, separately for each array, in float64.

    >>> gram(np.array([[3, 4, 1], [0, 2, 5]], np.float32), [2, 1]).tolist()
    [[[25.0, 8.0], [8.0, 4.0]], [[1.0, 5.0], [5.0, 25.0]]]

    ``rows`` are [clients, d], the result is [arrays, clients, clients]; the arrays of these
    ``sizes`` follow one another in [d], and None treats all of [d] as one.
    """
    clients, length = rows.shape
    sizes = (length,) if sizes is None else tuple(sizes)
    width = max(1, PIECE // max(1, clients))
    products = np.zeros((len(sizes), clients, clients))
    start = 0
    with np.errstate(invalid="ignore", over="ignore"):  # the result shows a model that has diverged
        for product, size in zip(products, sizes, strict=True):
            end = start + size
            for at in range(start, end, width):
                piece = rows[:, at : min(at + width, end)].astype(np.float64)
                product += piece @ piece.T
            start = end
    return products


def lengths(rows: Floats) -> Doubles:
    """Compute the L2 norm of every row in float64; the bits of a norm depend on its own row only.

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
    """Compute the L2 distances between rows from their inner products.

    >>> distances(np.array([[25.0, 8.0], [8.0, 4.0]])).round(3).tolist()
    [[0.0, 3.606], [3.606, 0.0]]

    Both are [..., clients, clients]. Distances within rounding error are 0, NaN stays NaN.
    """
    squares = np.diagonal(products, axis1=-2, axis2=-1)
    either = squares[..., :, None] + squares[..., None, :]
    apart = either - (products + products.swapaxes(-1, -2))
    return np.sqrt(np.where(apart <= ROUNDING * either, 0, apart))


def spread(products: Doubles) -> float:
    """Compute the largest mean distance, over arrays, between two rows.

    >>> spread(gram(np.array([[3, 4, 0], [0, 0, 1]], np.float32), [2, 1]))
    3.0
    """
    return float(distances(products).mean(axis=0).max())


def join_layers(products: Doubles, names: tuple[str, ...]) -> Doubles:
    """Add up inner products [arrays, ...] of the arrays of each layer, whose ``names`` are equal
    up to the last dot.
    """
    layers: dict[str, Doubles] = {}
    for name, product in zip(names, products, strict=True):
        layer = name.rpartition(".")[0]
        layers[layer] = layers.get(layer, 0.0) + product
    return np.stack(list(layers.values()))


def scale_products(products: Doubles, scales: Doubles) -> Doubles:
    """Compute the inner products [..., clients, clients] of rows after each has been multiplied
    by its scale [clients].
    """
    return products * np.outer(scales, scales)


def center_products(products: Doubles) -> Doubles:
    """Compute the inner products [..., K, K] of K rows after their mean has been subtracted: C G
    C with C = I - 1/K.
    """
    mean = products.mean(axis=-1, keepdims=True)
    whole = mean.mean(axis=-2, keepdims=True)
    return products - mean - mean.swapaxes(-1, -2) + whole
