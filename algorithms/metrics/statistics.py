"""Means, confidence intervals, paired tests and Holm's correction: the one rule for tables,
figures and comparisons.

From three values on, the mean is shown with its 95 % interval. Below three there is no interval,
and the values themselves are shown: with two values, Student's t is 12.7, and the interval would
say more about this than about the values. An interval ends where values end, as a metric declares:
a rate lies between 0 and 1, a count is not negative.

A partition of the data is hard or easy for every method. In the difference of two methods on the
same partition, with the same seed, this common part cancels, so that its interval is much narrower
than those of the two means suggest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from statistics import stdev

from algorithms.core.metric import Bound, Metric

CONFIDENCE = 0.95
NAN = float("nan")
FEWEST = 3  # the fewest values for which intervals and boxes are shown
INFINITY = math.inf
UNLIMITED = (-INFINITY, INFINITY)
DECIMALS = Context(prec=400)  # digits enough for every float
SMALL = 6  # decimals from which a number is written with an exponent


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval.

    Attributes:
        mean: the mean; NaN without values.
        half: half the width of the interval; NaN with fewer than three values.
        n: the number of values.
        values: the values themselves, which are shown if there are too few for an interval.
        lowest: the smallest possible value, at which the interval ends.
        highest: the largest possible value.
        bound: "upper" if the values are guarantees, bounds that are proved: the largest holds for
            all runs, they are no sample of anything and have no interval. "lower" if they are
            rounded down.
    """

    mean: float
    half: float
    n: int
    values: tuple[float, ...] = ()
    lowest: float = -INFINITY
    highest: float = INFINITY
    bound: Bound = None

    @property
    def low(self) -> float:
        """The lower end of the interval, not below ``lowest``."""
        return max(self.mean - self.half, self.lowest)

    @property
    def high(self) -> float:
        """The upper end of the interval, not above ``highest``."""
        return min(self.mean + self.half, self.highest)

    def text(self, digits: int) -> str:
        """The mean, such as "0.812"; of claims the smallest and the largest value, rounded up.

        NaN gives an empty text.

        >>> claims([18.76, 18.76, 22.51]).text(1)
        '18.8 to 22.6'
        """
        if self.bound != "upper":
            return number(self.mean, digits, self.bound)
        ends = (min(self.values), max(self.values)) if self.values else ()
        return " to ".join(dict.fromkeys(number(value, digits, self.bound) for value in ends))

    def cell(self, digits: int) -> tuple[str, str]:
        """What a table shows, in two parts: the mean and its interval, or the values and nothing.

        >>> estimate([0.7, 0.8, 0.9]).cell(3), estimate([0.81, 0.84]).cell(2)
        (('0.800', '± 0.248'), ('0.81, 0.84', ''))
        >>> estimate([0.7, 0.9, 1.0], (0, 1)).cell(2)  # 0.87 + 0.38 is not possible
        ('0.87', '(0.49 to 1.00)')
        """
        if self.bound != "upper" and self.n < FEWEST:
            return ", ".join(number(value, digits, self.bound) for value in self.values), ""
        mean = self.text(digits)
        ends = f"({number(self.low, digits)} to {number(self.high, digits)})"
        if math.isnan(self.half):
            return mean, ""
        symmetric = math.isclose(
            self.high - self.mean, self.mean - self.low, rel_tol=1e-9, abs_tol=1e-12
        )
        return mean, f"± {number(self.high - self.mean, digits)}" if symmetric else ends


def estimate(values: Sequence[float], limits: tuple[float, float] = UNLIMITED) -> Estimate:
    """The mean and Student's t interval of independent values: ``half = t(0.975, n - 1) * s /
    sqrt(n)``.

    ``s`` is the sample standard deviation. Fewer than three values have no interval; equal values
    have one of width 0.

    The limits, the smallest and the largest possible value, are ignored if a value lies outside.

    >>> found = estimate([0.7, 0.8, 0.9])  # s = 0.1, t(0.975, 2) = 4.302653
    >>> round(found.mean, 6), round(found.half, 6), found.n
    (0.8, 0.248414, 3)
    """
    n = len(values)
    if n == 0:
        return Estimate(NAN, NAN, 0)
    mean = sum(values) / n if any(map(math.isinf, values)) else math.fsum(values) / n
    within = all(limits[0] <= value <= limits[1] for value in values)
    lowest, highest = limits if within else UNLIMITED
    half = NAN
    if n >= FEWEST and math.isfinite(mean):
        half = quantile(n - 1) * stdev(values) / math.sqrt(n)
    return Estimate(mean, half, n, tuple(values), lowest, highest)


def claims(values: Sequence[float]) -> Estimate:
    """Guarantees of several runs: an estimate without an interval, whose texts are the smallest
    and the largest value.
    """
    return replace(estimate(values), half=NAN, bound="upper")


def limits(metric: Metric) -> tuple[float, float]:
    """The smallest and the largest possible value of a metric, as it declares them.

    >>> limits(Metric("loss", "Accuracy", "loss", limits=(0, None))), limits(Metric("loss_change", "Accuracy", "change"))
    ((0, inf), (-inf, inf))
    """
    lowest, highest = metric.limits
    return (-INFINITY if lowest is None else lowest, INFINITY if highest is None else highest)


def quantile(degrees: int, confidence: float = CONFIDENCE) -> float:
    """Student's t for the two-sided interval: 4.3027 for 95 % and 2 degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + confidence) / 2))


def number(value: float, digits: int, bound: Bound = None) -> str:
    """A number as text; NaN gives an empty text, and -0.0 is 0.0.

    Bounds are rounded to the side on which they hold. An upper bound keeps two significant digits,
    so that a small one is not printed as many times what was proved.

    >>> number(3.035, 1), number(3.035, 1, "upper"), number(0.926, 1, "upper"), number(0.3, 1, "upper")
    ('3.0', '3.1', '0.93', '0.3')
    >>> number(0.57, 1, "lower"), number(2.5e-9, 5, "upper")
    ('0.5', '2.5e-9')
    """
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return str(value).replace("inf", "∞")
    if bound is None:
        return f"{round(value, digits) + 0.0:.{digits}f}"
    exact = Decimal(repr(float(value)))
    rounding = ROUND_CEILING if bound == "upper" else ROUND_FLOOR
    decimal = exact.quantize(Decimal(1).scaleb(-digits), rounding, DECIMALS)
    if bound == "upper" and decimal != exact:
        digits = max(digits, 1 - exact.adjusted())
        decimal = exact.quantize(Decimal(1).scaleb(-digits), rounding, DECIMALS)
    return f"{decimal.normalize(DECIMALS):g}" if digits > SMALL else f"{decimal:f}"


def p_text(p: float) -> str:
    """A p value as text; NaN gives an empty text.

    >>> p_text(0.0004), p_text(0.0499), p_text(0.0501)
    ('<0.001', '<0.050', '0.050')
    """
    near = p < SIGNIFICANT <= round(p, 3)
    return "" if math.isnan(p) else "<0.001" if p < 0.001 else f"{'<' * near}{p:.3f}"


SIGNIFICANT = 0.05  # of p values, after Holm's correction
ROUNDING = 1e-12  # smaller differences come from adding in another order


def paired_test(differences: Sequence[float]) -> float:
    """The two-sided p value of the paired t test, which agrees with the t interval: p < 0.05 if
    it excludes 0.

    An exact test by signs is of no use here: with five pairs, its smallest p value is 0.0625. It is
    used only for equal
    differences, to which the t test does not apply: p = 2 / 2^n, or 1 if all of them are 0. Fewer
    than three have none, NaN.

    >>> round(paired_test([1.0, 2.0, 3.0]), 4)  # t = 2 / (1 / sqrt(3)) = 3.4641 with 2 degrees of freedom
    0.0742
    """
    from scipy.special import stdtr

    n = len(differences)
    if n < FEWEST or not all(map(math.isfinite, differences)):
        return NAN
    mean = math.fsum(differences) / n
    error = stdev(differences) / math.sqrt(n)
    if max(map(abs, differences)) < ROUNDING:
        return 1.0
    if error < ROUNDING * abs(mean):
        return 2.0 ** (1 - n)
    return float(2 * stdtr(n - 1, -abs(mean) / error))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p values (1979): below 0.05, a comparison is significant in the whole family.

    The smallest of m values is multiplied by m, the next by m - 1, and so on; none is smaller than
    one before it. NaN values stay and do not count.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03, 0.005])]
    [0.03, 0.06, 0.06, 0.02]
    """
    order = sorted(
        (at for at, p in enumerate(p_values) if not math.isnan(p)), key=lambda at: p_values[at]
    )
    adjusted = [NAN] * len(p_values)
    reached = 0.0
    for rank, at in enumerate(order):
        reached = max(reached, min(1.0, (len(order) - rank) * p_values[at]))
        adjusted[at] = reached
    return adjusted


def least_significant(pairs: int, tests: int = 1) -> float:
    """How many times its standard deviation over pairs a mean difference must be for the first
    test of Holm's to reject.

    >>> [round(least_significant(pairs, tests), 1) for pairs in (3, 10) for tests in (1, 2)]
    [2.5, 3.6, 0.7, 0.8]
    """
    return quantile(pairs - 1, 1 - SIGNIFICANT / tests) / math.sqrt(pairs)
