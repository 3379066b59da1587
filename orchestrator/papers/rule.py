"""The rule for verdicts on claims: from the effect in each pair of trials to one of a few words.

A claim is a relation and not a number: FinP lowers CoV; metric privacy costs at most so much. Its
effect is the mean difference over pairs of trials with the same partition and seed; pairs on one
partition are averaged first, because they are not independent. The rule, in this order, at 95 %,
with Holm's correction over the claims of a paper in one reading of each field (those without
readings count in each):

1. fewer than five pairs: one run, or inconclusive;
2. within the margin (two one-sided tests): no effect, or one that is too small to matter, unless as
   small a one is printed;
3. the claim's side of zero: supported; smaller or larger than printed, if more than the margin from
   the printed effect;
4. the other side: reversed;
5. more than the margin from the printed effect: contradicted as printed, effect undecided;
6. else inconclusive. Of 1, 5 and 6 the page says how many pairs would decide.

A claim that two methods do not differ, that one is not below the other, or that a value is the
printed one, is supported if the effect is shown to be within the margin, and contradicted (a value:
not reproduced) if it is shown to be beyond; it is inconclusive if the interval touches the margin.
A value at the end of its range is asked to be at least the printed one less the margin. In steps 2
to 4 half of the interval must not be wider than the margin, unless all of it lies beyond.

A claim with several parts is supported, or contradicted, in part if some are and the others are
not, or were not tested; contradicted in part where one is reversed and another is supported. It is
supported in part at most where the measured baseline is farther from the printed one than the
printed effect and the margin, and this is said first.
"""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import dataclass
from functools import cached_property
from statistics import stdev
from typing import Literal

from algorithms.metrics.statistics import NAN, SIGNIFICANT, quantile

FEWEST_PAIRS = 5
SUPPORTED = "supported"
REVERSED = "reversed"
SMALLER = "smaller than printed"
LARGER = "larger than printed"
NO_EFFECT = "no effect"
TINY = "too small to matter"
BEYOND = "contradicted"
OTHER_VALUE = "value not reproduced"
CONTRADICTED = "contradicted as printed, effect undecided"
INCONCLUSIVE = "inconclusive"
ONE_RUN = "one run"
NOT_TESTED = "not tested"
IN_PART = "supported in part"
AGAINST_IN_PART = "contradicted in part"
# From what says least. A claim of parts that differ gets the first that one of them has, if nothing
# is said in part.
OPEN = (NOT_TESTED, ONE_RUN, INCONCLUSIVE, CONTRADICTED)
AGAINST = (OTHER_VALUE, BEYOND, NO_EFFECT, TINY, REVERSED)
FOR = (SMALLER, LARGER, SUPPORTED)
WEAKEST_FIRST = (*OPEN, *AGAINST, *FOR)
DECIDED = (IN_PART, AGAINST_IN_PART, *WEAKEST_FIRST[3:])

Kind = Literal["lower", "higher", "within", "not lower", "value", "at least"]
SIDES: dict[str, float] = {"higher": 1.0, "lower": -1.0}  # of the kinds of claims that have one
VALUES = ("value", "at least")
ONE_SIDED = ("not lower", "at least")


@dataclass(frozen=True)
class Effect:
    """What the pairs say of one part of a claim.

    Attributes:
        values: the effect in each independent pair; for a value, the measured values.
        printed: the printed effect; NaN if none is printed.
        margin: the smallest effect that matters.
        kind: the claim's, see ``claims.yaml``.
    """

    values: tuple[float, ...]
    printed: float
    margin: float
    kind: str

    @property
    def side(self) -> float:
        """1 if the claim says higher, -1 lower, 0 within the margin of ``target``."""
        return SIDES.get(self.kind, 0.0)

    @property
    def target(self) -> float:
        """What the effect is compared with: 0, or the printed value."""
        return self.printed if self.kind in VALUES else 0.0

    @property
    def above(self) -> bool:
        """Whether the claim allows any effect above the margin, too."""
        return self.kind in ONE_SIDED

    @property
    def n(self) -> int:
        """The number of independent pairs."""
        return len(self.values)

    @property
    def enough(self) -> bool:
        """Whether there are pairs enough for a verdict."""
        return self.n >= FEWEST_PAIRS

    @property
    def mean(self) -> float:
        """The mean effect."""
        return math.fsum(self.values) / self.n if self.values else NAN

    @cached_property
    def deviation(self) -> float:
        """The sample standard deviation; NaN of fewer than two values."""
        return stdev(self.values) if self.n > 1 else NAN

    def half(self, confidence: float = 0.95) -> float:
        """Half the width of Student's interval of the mean."""
        if self.n < 2:
            return NAN
        return quantile(self.n - 1, confidence) * self.deviation / math.sqrt(self.n)

    def p_beyond(self, bound: float, above: bool) -> float:
        """The one-sided p value of the t test against a mean at ``bound``, for a mean above or
        below it.

        Of the sign test if all values are equal.
        """
        from scipy.special import stdtr

        if self.n < 2:
            return NAN
        distance = self.mean - bound if above else bound - self.mean
        error = self.deviation / math.sqrt(self.n)
        if error:
            return float(stdtr(self.n - 1, -distance / error))
        return 0.5**self.n if distance > 0 else 1.0

    def p_outside(self, center: float, margin: float) -> float:
        """The two-sided p value of a mean within ``margin`` of ``center``."""
        high = 1.0 if self.above else self.p_beyond(center + margin, True)
        low = self.p_beyond(center - margin, False)
        return min(1.0, 2 * min(high, low))

    @property
    def p_difference(self) -> float:
        """The two-sided p value of no effect; where the claim is that there is none, of none
        beyond the margin.
        """
        return self.p_outside(self.target, 0.0 if self.side else self.margin)

    @property
    def p_equivalence(self) -> float:
        """The p value of two one-sided tests for an effect within the margin of the target
        (Schuirmann 1987).
        """
        high = 0.0 if self.above else self.p_beyond(self.target + self.margin, False)
        return max(self.p_beyond(self.target - self.margin, True), high)

    @property
    def p_size(self) -> float:
        """The two-sided p value of an effect within the margin of the printed one.

        NaN if none is printed, or if this is what the claim itself says.
        """
        if math.isnan(self.printed) or self.kind in VALUES:
            return NAN
        return self.p_outside(self.printed, self.margin)

    def pairs_needed(self, tests: int = 1) -> int | None:
        """The pairs with which this mean and deviation would decide in four of five cases; None
        if that is not known.

        As the first of ``tests`` in Holm's correction, and by Student's t (Guenther 1981, The
        American Statistician 35).
        """
        from scipy.stats import norm

        mean = self.mean - self.target
        size = -mean if self.above else abs(mean)
        away = abs(self.margin - size)  # from the nearer end of the margin
        alike = size < self.margin and away > abs(mean * self.side)  # the one-sided tests decide
        distance = away if alike or not self.side else abs(mean)
        if math.isnan(self.deviation) or distance == 0:
            return None
        level = float(norm.ppf(1 - (0.05 if alike else 0.025) / tests))
        width = float(norm.ppf(0.975))
        power = float(norm.ppf(0.8))
        reach = level + power
        if alike:
            farther = math.inf if self.above else (self.margin + size) / away
            reach = _reach_of_both(level, farther, power)
        error = distance / reach
        if self.side:  # and the interval must be narrow, or beyond the margin, see `decide`
            narrow = max(self.margin / width, away / (width + power))
            error = min(error, narrow)
        return max(FEWEST_PAIRS, math.ceil((self.deviation / error) ** 2 + level**2 / 2))


def _reach_of_both(level: float, farther: float, power: float) -> float:
    """The distance, in standard errors, at which both one-sided tests reject in four of five
    cases; the other end is ``farther`` times as far away.
    """
    from scipy.optimize import brentq
    from scipy.stats import norm

    def missing(reach: float) -> float:
        return float(norm.cdf([reach - level, reach * farther - level]).sum()) - 1.8

    return float(brentq(missing, 0.1, level + power + 1))


def decide(effect: Effect, p_difference: float, p_equivalence: float, p_size: float) -> str:
    """The verdict on one part, from its effect and its p values after Holm's correction, see
    `Effect`.
    """
    if not effect.enough:
        return {0: NOT_TESTED, 1: ONE_RUN}.get(effect.n, INCONCLUSIVE)
    differs = p_difference < SIGNIFICANT
    alike = p_equivalence < SIGNIFICANT
    resized = p_size < SIGNIFICANT
    half = effect.half()
    precise = half <= effect.margin or abs(effect.mean) - half > effect.margin
    if effect.side and precise and (alike or differs):
        return _of_a_side(effect, differs, alike, resized)
    if not effect.side and alike:
        return SUPPORTED
    if not effect.side and differs:
        return OTHER_VALUE if effect.kind in VALUES else BEYOND
    return CONTRADICTED if resized else INCONCLUSIVE


def _of_a_side(effect: Effect, differs: bool, alike: bool, resized: bool) -> str:
    """The same for a claim of a direction, if an effect is shown or that it is within the
    margin.
    """
    gain = effect.side * effect.mean
    printed = effect.side * effect.printed
    claimed = differs and gain > 0
    if not claimed:
        return NO_EFFECT if alike else REVERSED
    if alike:
        return SUPPORTED if printed <= effect.margin else TINY
    if resized:
        return LARGER if gain > printed else SMALLER
    return SUPPORTED


def together(verdicts: Set[str], other_baseline: bool = False) -> str:
    """The verdict on a claim of parts: in part if some are supported or contradicted, else the
    weakest. ``other_baseline`` says that one is measured from another baseline than printed.
    """
    supported = verdicts & {*FOR}
    whole = verdicts <= {*FOR} and not other_baseline
    if supported and not whole and not verdicts & {REVERSED, BEYOND}:
        return IN_PART
    if verdicts & {*AGAINST} and verdicts & {*OPEN, *FOR}:
        return AGAINST_IN_PART
    return min(verdicts - {NOT_TESTED} or verdicts, key=WEAKEST_FIRST.index)
