"""How unequally clients are exposed to an attack (Zhao et al. 2025, section 5.2).

A disparity is NaN where it is undefined: its reference mean is 0, or a value is not finite.
Standard deviations are those of a population (ddof 0), because the clients are the whole
population.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from algorithms.core.messages import Doubles, Ints

NAN = float("nan")
Z95 = 1.959963984540054  # the 97.5 % quantile of the standard normal distribution
EXCHANGES = 50  # how often it is exchanged who was trained on
ROUNDING = 1e-20  # below, a variance is rounding error


def cov(values: ArrayLike) -> Doubles:
    """Return the coefficient of variation, standard deviation over mean, of ``values`` [..., n]:
    [...].

    >>> float(cov([1.0, 3.0]))
    0.5
    """
    x = _known(values)
    mean = x.mean(axis=-1)
    return np.divide(x.std(axis=-1), mean, out=np.full(mean.shape, NAN), where=mean != 0)[()]


def fairness_index(variation: Doubles | float) -> Doubles | float:
    """Return Jain's index 1 / (1 + CoV^2) of coefficients of variation.

    It is 1 if all n values are equal, and 1/n if one of them has everything.

    >>> fairness_index(0.5)
    0.8
    """
    return 1 / (1 + variation**2)


def eod(values: ArrayLike) -> Doubles:
    """Return the equal opportunity difference of ``values`` [..., n]: the largest minus the
    smallest, [...].

    >>> float(eod([0.25, 0.5, 0.375]))
    0.25
    """
    x = _known(values)
    return x.max(axis=-1) - x.min(axis=-1)


def mad(values: ArrayLike) -> Doubles:
    """Return the mean absolute difference ``1/n^2 sum_ij |x_i - x_j|`` of ``values`` [..., n],
    pairs i = j included.

    >>> float(mad([0.0, 1.0]))
    0.5
    """
    x = np.sort(_known(values), axis=-1)
    n = x.shape[-1]
    below = np.arange(1, n)  # so many values lie below a gap, and n - below above it
    return np.asarray(2 * (np.diff(x, axis=-1) * below * (n - below)).sum(axis=-1) / n**2)


def sen_welfare(values: ArrayLike) -> Doubles:
    """Return Sen's welfare of ``values`` [..., n]: mean times (1 - Gini), where Gini is `mad`
    over twice the mean.

    It is computed without the quotient, so that it is 0 if every value is 0.

    >>> float(sen_welfare([0.0, 1.0]))
    0.25
    """
    return _known(values).mean(axis=-1) - mad(values) / 2


def auc_interval(
    auc: ArrayLike, variance: ArrayLike, squares: ArrayLike
) -> tuple[Doubles, Doubles]:
    """Return both ends of the 95 % interval of AUCs [...]: Wilson's for as many pairs as vary
    like them.

    These are AUC (1 - AUC) / ``variance``, but no more than the pairs that guessing comes to, 3 /
    ``squares``: estimated near 0 and 1, a variance is too small (Korn and Graubard 1998 limit the
    effective size of a sample alike). ``squares`` [...] is the sum of the squared weights of
    members and of non-members, which is 1 / m + 1 / n if all weigh the same.

    >>> low, high = auc_interval(1.0, 0.0, 1 / 20 + 1 / 20)
    >>> round(float(low), 3), float(high)
    (0.886, 1.0)
    """
    area = np.asarray(auc, np.float64)
    spread = np.asarray(variance, np.float64)
    known = np.asarray(squares) > 0  # else there are no pairs, and the AUC is NaN
    most = np.divide(3, squares, out=np.full(np.shape(squares), NAN), where=known)
    pairs = np.divide(
        area * (1 - area), spread, out=np.full(area.shape, np.inf), where=spread > ROUNDING
    )
    pairs = np.minimum(pairs, most)
    return wilson(area * pairs, pairs)


def exchanged(groups: Ints, draws: int, rng: np.random.Generator) -> Ints:
    """Draw orders [draws, n] in which the positions of each of the ``groups`` [n] are permuted
    among themselves.

    >>> exchanged(np.array([0, 1, 0]), 3, np.random.default_rng(0))[:, 1].tolist()
    [1, 1, 1]
    """
    orders = np.tile(np.arange(len(groups)), (draws, 1))
    for group in np.unique(groups):
        here = np.flatnonzero(groups == group)
        orders[:, here] = rng.permuted(orders[:, here], axis=1)
    return orders


def _known(values: ArrayLike) -> Doubles:
    """Return ``values`` [..., n], all n of them NaN where one is not finite."""
    x = np.asarray(values, np.float64)
    return np.where(np.isfinite(x).all(axis=-1, keepdims=True), x, NAN)


def wilson(hits: ArrayLike, targets: ArrayLike, z: float = Z95) -> tuple[Doubles, Doubles]:
    """Return both ends of Wilson's interval for ``hits`` [...] of ``targets`` [...], at the
    normal quantile z.

    >>> low, high = wilson(30, 100)
    >>> round(float(low), 3), round(float(high), 3)
    (0.219, 0.396)
    """
    n = np.asarray(targets, np.float64)
    share = np.asarray(hits, np.float64) / n
    center = share + z**2 / (2 * n)
    reach = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    shrunk = 1 + z**2 / n
    # Rounding must not exclude the observed share from its own interval when it is 0 or 1.
    return np.clip((center - reach) / shrunk, 0, share), np.clip(
        (center + reach) / shrunk, share, 1
    )
