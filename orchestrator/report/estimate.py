"""Means over seeds and their confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

CONFIDENCE = 0.95
NAN = float("nan")
FEWEST = 3  # the fewest values for which intervals and boxes are shown


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval.

    Attributes:
        mean: the mean; NaN without values.
        half: half the width of the interval; NaN with fewer than two values.
        n: the number of values.
    """

    mean: float
    half: float
    n: int

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.mean - self.half

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.mean + self.half

    def parts(self, digits: int) -> tuple[str, str]:
        """Mean and half width as texts, such as ("0.812", "0.011"); NaN gives an empty text."""
        # Adding 0.0 after rounding turns -0.0 into 0.0.
        mean, half = ("" if math.isnan(v) else f"{round(v, digits) + 0.0:.{digits}f}" for v in (self.mean, self.half))
        return mean, half


def estimate(values: Sequence[float]) -> Estimate:
    """The mean and Student's t interval of independent values, one per seed: ``half = t(0.975, n - 1) * s / sqrt(n)``.

    ``s`` is the sample standard deviation. One value has no interval; equal values have an interval of width 0.

    >>> found = estimate([0.7, 0.8, 0.9])  # s = 0.1, t(0.975, 2) = 4.302653
    >>> round(found.mean, 6), round(found.half, 6), found.n
    (0.8, 0.248414, 3)
    """
    n = len(values)
    if n == 0:
        return Estimate(NAN, NAN, 0)
    mean = sum(values) if any(map(math.isinf, values)) else math.fsum(values) / n
    if n == 1 or not math.isfinite(mean):
        return Estimate(mean, NAN, n)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    return Estimate(mean, quantile(n - 1) * deviation / math.sqrt(n), n)


def plottable(values: Sequence[float]) -> Estimate:
    """The estimate that a figure shows: for two values, their range replaces the interval.

    With one degree of freedom (t = 12.7), the interval is 12.7 times as wide as the range of the two values, and would
    dominate the axis.
    """
    found = estimate(values)
    return replace(found, half=(max(values) - min(values)) / 2) if found.n == FEWEST - 1 else found


def quantile(degrees: int) -> float:
    """Student's t for the two-sided 95 % interval: 4.3027 for 2 degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + CONFIDENCE) / 2))
