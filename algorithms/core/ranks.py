"""The rank correlation of two series of numbers (Spearman 1904)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from algorithms.core.messages import Doubles

NAN = float("nan")


def spearman(a: ArrayLike, b: ArrayLike) -> float:
    """Return Spearman's rank correlation of ``a`` [n] and ``b`` [n]; NaN if one of them is constant.

    Ties share their mean rank.

    >>> spearman([1, 2, 3, 4], [10, 100, 30, 1000])
    0.8
    """
    x, y = (_centered_ranks(np.asarray(values, np.float64)) for values in (a, b))
    spread = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / spread if spread > 0 else NAN


def _centered_ranks(values: Doubles) -> Doubles:
    """Return ranks minus their mean, which does not depend on ties; NaN if a value is NaN."""
    if np.isnan(values).any():
        return np.full(len(values), NAN)
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place] - (len(values) + 1) / 2
