"""Means and their confidence intervals: the one rule for tables, figures and the comparison with published numbers.

From three values on, the mean is shown with its 95 % interval. Below three there is no interval, and the values
themselves are shown: with two values, Student's t is 12.7, and the interval would say more about this than about the
values. An interval ends where values end: a rate lies between 0 and 1, a count is not negative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from algorithms.core.metric import Metric

CONFIDENCE = 0.95
NAN = float("nan")
FEWEST = 3  # the fewest values for which intervals and boxes are shown
INFINITY = math.inf
UNLIMITED = (-INFINITY, INFINITY)
# Units of numbers that are not negative. (A gap in nats or a difference without a unit can be.)
COUNTS = ("clients", "federations", "round", "seconds")
# What names say of a number: a difference can be negative; the others lie between 0 and 1, or are not negative.
DIFFERENCES = ("_gap", "_signed", "_difference")
SHARES = ("fi", "sen")
MAGNITUDES = ("cov", "epsilon", "mad", "norm", "distance", "loss", "delta", "step", "noise")
# Guarantees: upper bounds that are proved, of which the largest holds for all runs. They are no sample of anything.
CLAIMS = ("epsilon", "epsilon_example")


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
        claim: whether the values are guarantees, which have a largest one and no interval.
    """

    mean: float
    half: float
    n: int
    values: tuple[float, ...] = ()
    lowest: float = -INFINITY
    highest: float = INFINITY
    claim: bool = False

    @property
    def low(self) -> float:
        """The lower end of the interval, not below ``lowest``."""
        return max(self.mean - self.half, self.lowest)

    @property
    def high(self) -> float:
        """The upper end of the interval, not above ``highest``."""
        return min(self.mean + self.half, self.highest)

    def parts(self, digits: int) -> tuple[str, str]:
        """Mean and half width as texts, such as ("0.812", "0.011"); NaN gives an empty text. Claims have their range."""
        if self.claim:
            return self.range(digits), ""
        return number(self.mean, digits), number(self.half, digits)

    def shown(self, digits: int) -> tuple[str, str]:
        """What a table shows, in two parts: the mean and its interval, or the values and nothing.

        >>> estimate([0.7, 0.8, 0.9]).shown(3), estimate([0.81, 0.84]).shown(2)
        (('0.800', '± 0.248'), ('0.81, 0.84', ''))
        >>> estimate([0.7, 0.9, 1.0], (0, 1)).shown(2)  # 0.87 + 0.38 is not possible
        ('0.87', '(0.49 to 1.00)')
        """
        if self.claim:
            return self.range(digits), ""
        if self.n < FEWEST:
            return ", ".join(number(value, digits) for value in self.values) or number(self.mean, digits), ""
        return number(self.mean, digits), spread(self.mean, self.low, self.high, digits)

    def range(self, digits: int) -> str:
        """The smallest and the largest value.

        >>> claims([18.76, 18.76, 22.51]).range(1)
        '18.8 to 22.5'
        """
        ends = (min(self.values), max(self.values)) if self.values else ()
        return " to ".join(dict.fromkeys(number(value, digits) for value in ends))


def estimate(values: Sequence[float], limits: tuple[float, float] = UNLIMITED) -> Estimate:
    """The mean and Student's t interval of independent values: ``half = t(0.975, n - 1) * s / sqrt(n)``.

    ``s`` is the sample standard deviation. Fewer than three values have no interval; equal values have one of width 0.

    Args:
        values: one value per repetition.
        limits: the smallest and the largest possible value. They are ignored if a value lies outside.

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
        half = quantile(n - 1) * deviation(values) / math.sqrt(n)
    return Estimate(mean, half, n, tuple(values), lowest, highest)


def claims(values: Sequence[float]) -> Estimate:
    """Guarantees of several runs: an estimate without an interval, whose texts are the smallest and the largest value."""
    return replace(estimate(values), half=NAN, claim=True)


def claim_words(found: Estimate, shown: Callable[[float], str]) -> str:
    """Guarantees of some runs: the one that all have, or the largest, which holds for all of them, and their range."""
    low, high = shown(min(found.values)), shown(max(found.values))
    return high if low == high else f"{high}, the largest of {found.n} runs ({low} to {high})"


def limits(metric: Metric) -> tuple[float, float]:
    """The smallest and the largest possible value of a metric, as far as its unit and its name say them.

    A fraction is a rate; a fairness index, too. Gaps and signed differences have no such limits.

    >>> limits(Metric("accuracy", "Accuracy", "accuracy", "higher")), limits(Metric("risk_gap", "Clustering", "gap"))
    ((0.0, 1.0), (-inf, inf))
    """
    if metric.name.endswith(DIFFERENCES):
        return UNLIMITED
    words = metric.name.split("_")
    if metric.unit == "fraction" or any(word in SHARES for word in words):
        return (0.0, 1.0)
    if words[0] == "rho" and "reliability" not in words:  # correlations of ranks
        return (-1.0, 1.0)
    return (0.0, INFINITY) if metric.unit in COUNTS or any(word in MAGNITUDES for word in words) else UNLIMITED


def deviation(values: Sequence[float]) -> float:
    """The sample standard deviation of at least two finite values."""
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def quantile(degrees: int) -> float:
    """Student's t for the two-sided 95 % interval: 4.3027 for 2 degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + CONFIDENCE) / 2))


def spread(mean: float, low: float, high: float, digits: int) -> str:
    """An interval as text: "± 0.011" if it is symmetric, otherwise its ends; empty if it has no ends."""
    if math.isnan(low) or math.isnan(high):
        return ""
    if math.isclose(high - mean, mean - low, rel_tol=1e-9, abs_tol=1e-12):
        return f"± {number(high - mean, digits)}"
    return f"({number(low, digits)} to {number(high, digits)})"


def number(value: float, digits: int) -> str:
    """A number as text; NaN gives an empty text, and -0.0 is 0.0."""
    if math.isnan(value):
        return ""
    return str(value).replace("inf", "∞") if math.isinf(value) else f"{round(value, digits) + 0.0:.{digits}f}"
