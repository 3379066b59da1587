"""A stratified test set for data whose publisher made none."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.federation import Examples, Ints

# A split that belongs to the data set, like a publisher's own, must not change with the seed of a run.
SEED = 0


def one_in(n: int, y: Ints) -> NDArray[np.bool_]:
    """Choose a fixed random 1/n of the examples, stratified: each class has its share, to within one example.

    Args:
        n: the reciprocal of the share.
        y: [examples] labels.

    Returns:
        [examples] whether each example is chosen.

    >>> picked = one_in(3, np.array([0, 1] * 6))
    >>> int(picked.sum()), int(picked[::2].sum())
    (4, 2)
    """
    shuffled = np.random.default_rng(SEED).permutation(len(y))
    by_class = shuffled[np.argsort(y[shuffled], kind="stable")]
    chosen = np.zeros(len(y), np.bool_)
    chosen[by_class[::n]] = True
    return chosen


def split(x: NDArray[Any], y: Ints, n: int) -> tuple[Examples, Examples]:
    """Split examples into training examples and a stratified 1/n of test examples.

    Args:
        x: [examples, ...] the examples.
        y: [examples] labels.
        n: the reciprocal of the share of test examples.

    Returns:
        The training examples and the test examples.
    """
    test = one_in(n, y)
    return Examples(x[~test], y[~test]), Examples(x[test], y[test])
