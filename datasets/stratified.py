"""A stratified test set for data whose publisher made none."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.federation import Examples, Ints

# A split that belongs to the data set, like a publisher's own, must not change with the seed of a
# run.
SEED = 0


def one_in(n: int, y: Ints) -> NDArray[np.bool_]:
    """Choose a fixed random 1/n of the examples with labels ``y``, stratified: each class has
    its share, to within one.

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
    """Split examples [n, ...] and their labels [n] into training examples and a stratified 1/n
    of test examples.
    """
    test = one_in(n, y)
    return Examples(x[~test], y[~test]), Examples(x[test], y[test])


def part(share: float, y: Ints, owner: Ints | None = None) -> NDArray[np.bool_]:
    """Choose a fixed random share, within (0, 1), of everybody's examples, stratified by class.

    Of each example, ``y`` [n] is the label, and ``owner`` [n] whose it is; None: all are of one
    person. Returns whether each is chosen, [n]. Of two examples or more, each person has at least
    one that is chosen and at least one that is not; a single example is not chosen.

    >>> part(0.25, np.array([0, 0, 0, 0, 1, 1, 1, 1])).reshape(2, 4).sum(axis=1).tolist()
    [1, 1]
    >>> part(0.1, np.zeros(5, np.int64), np.array([0, 0, 0, 1, 1])).tolist().count(True)
    2
    """
    owner = np.zeros(len(y), np.int64) if owner is None else owner
    rng = np.random.default_rng(SEED)
    shuffled = rng.permutation(len(y))
    in_order = shuffled[np.lexsort((y[shuffled], owner[shuffled]))]
    chosen = np.zeros(len(y), np.bool_)
    for rows in np.split(in_order, np.flatnonzero(np.diff(owner[in_order])) + 1):
        if len(rows) > 1:
            count = min(max(round(share * len(rows)), 1), len(rows) - 1)
            # Evenly spaced from a random start, or those who have few would all be left the same
            # class.
            chosen[
                rows[((np.arange(count) + rng.random()) * len(rows) / count).astype(np.int64)]
            ] = True
    return chosen
