"""The rank correlation of two series of numbers (Spearman 1904)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

NAN = float("nan")


def spearman(a: ArrayLike, b: ArrayLike) -> float:
    """Return Spearman's rank correlation of ``a`` [n] and ``b`` [n]; NaN if one of them is constant.

    Ties share their mean rank.

    >>> spearman([1, 2, 3, 4], [10, 100, 30, 1000])
    0.8
    """
    from scipy.stats import rankdata

    x, y = (ranks - (len(ranks) + 1) / 2 for ranks in map(rankdata, (a, b)))  # NaN if a value is NaN
    spread = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / spread if spread > 0 else NAN
