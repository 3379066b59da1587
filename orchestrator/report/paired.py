"""Statistics of paired repetitions: differences with intervals and tests, quotients with intervals, Holm's correction.

A deal of the data is hard or easy for every method. In the difference of two methods on the same deal, with the same
seed, this common part cancels, so that its interval is much narrower than those of the two means suggest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.report.estimate import FEWEST, INFINITY, NAN, UNLIMITED, Estimate, deviation, estimate, quantile

SIGNIFICANT = 0.05  # of p values, after Holm's correction
ROUNDING = 1e-12  # smaller differences come from adding in another order


@dataclass(frozen=True)
class Quotient:
    """A quotient of two means with its 95 % interval.

    Attributes:
        value: mean of the dividends over mean of the divisors; NaN if this is not defined.
        low: the lower end of the interval; NaN with fewer than three pairs.
        high: the upper end; infinite if the mean of the divisors cannot be told from 0.
        n: the number of pairs.
    """

    value: float
    low: float
    high: float
    n: int


def paired_test(differences: Sequence[float]) -> float:
    """The two-sided p value of the paired t test, which agrees with the t interval: p < 0.05 if it excludes 0.

    An exact test by signs is of no use here: with five pairs, its smallest p value is 0.0625. It is used only for equal
    differences, to which the t test does not apply: p = 2 / 2^n, or 1 if all of them are 0.

    Args:
        differences: one per independent pair.

    Returns:
        The p value; NaN with fewer than three differences.

    >>> round(paired_test([1.0, 2.0, 3.0]), 4)  # t = 2 / (1 / sqrt(3)) = 3.4641 with 2 degrees of freedom
    0.0742
    """
    from scipy.special import stdtr

    n = len(differences)
    if n < FEWEST or not all(map(math.isfinite, differences)):
        return NAN
    mean, error = math.fsum(differences) / n, deviation(differences) / math.sqrt(n)
    if max(map(abs, differences)) < ROUNDING:
        return 1.0
    if error < ROUNDING * abs(mean):
        return 2.0 ** (1 - n)
    return float(2 * stdtr(n - 1, -abs(mean) / error))


def paired_difference(differences: Sequence[float], limits: tuple[float, float] = UNLIMITED) -> tuple[Estimate, float]:
    """The mean difference with its t interval, and the p value of `paired_test`.

    Args:
        differences: one per independent pair.
        limits: the smallest and the largest possible difference.
    """
    return estimate(differences, limits), paired_test(differences)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p values (1979): below 0.05, a comparison is significant in the whole family.

    The smallest of m values is multiplied by m, the next by m - 1, and so on; none is smaller than one before it. NaN
    values stay and do not count.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03, 0.005])]
    [0.03, 0.06, 0.06, 0.02]
    """
    order = sorted((at for at, p in enumerate(p_values) if not math.isnan(p)), key=lambda at: p_values[at])
    adjusted, reached = [NAN] * len(p_values), 0.0
    for rank, at in enumerate(order):
        reached = max(reached, min(1.0, (len(order) - rank) * p_values[at]))
        adjusted[at] = reached
    return adjusted


def least_significant(pairs: int, tests: int = 1) -> float:
    """How many times its standard deviation over pairs a mean difference must be for the first test of Holm's to reject.

    >>> [round(least_significant(pairs, tests), 1) for pairs in (3, 10) for tests in (1, 2)]
    [2.5, 3.6, 0.7, 0.8]

    Args:
        pairs: the number of independent pairs, two or more.
        tests: the number of tests in the family.
    """
    return quantile(pairs - 1, 1 - SIGNIFICANT / tests) / math.sqrt(pairs)


def quotient(dividends: Sequence[float], divisors: Sequence[float]) -> Quotient:
    """The quotient of two means of pairs of numbers that are not negative, with Fieller's interval (1954).

    The interval has every q >= 0 for which the paired t test does not reject ``mean(a - q * b) = 0``:

        (mean a - q mean b)^2 <= t^2 / n * (s_aa - 2 q s_ab + q^2 s_bb)

    Two ends solve this quadratic equation. If the mean of the divisors cannot be told from 0, there is no upper end.

    Args:
        dividends: a, one per independent pair.
        divisors: b, in the same order.
    """
    n = len(dividends)
    if n == 0 or math.fsum(divisors) <= 0:
        return Quotient(NAN, NAN, NAN, n)
    above, below = math.fsum(dividends) / n, math.fsum(divisors) / n
    if n < FEWEST:
        return Quotient(above / below, NAN, NAN, n)
    factor = quantile(n - 1) ** 2 / n
    s_aa, s_bb = deviation(dividends) ** 2, deviation(divisors) ** 2
    s_ab = math.fsum((a - above) * (b - below) for a, b in zip(dividends, divisors, strict=True)) / (n - 1)
    square, half, constant = below**2 - factor * s_bb, above * below - factor * s_ab, above**2 - factor * s_aa
    root = math.sqrt(max(half**2 - square * constant, 0.0))
    if square > 0:
        return Quotient(above / below, max((half - root) / square, 0.0), max((half + root) / square, 0.0), n)
    # No upper end. If 0 is possible, too, there is no lower one; otherwise it is the larger of the two solutions.
    low = 0.0 if constant <= 0 or square == 0 else (half - root) / square
    return Quotient(above / below, low, INFINITY, n)
