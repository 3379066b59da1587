"""An estimate of epsilon from the scores of canaries, if these are normal: mu, its interval, and what epsilon it comes to.

Under a Gaussian mechanism the scores of canaries that were in and of others have the same deviation s, and differ by mu
of it in the mean:

    mu = (mean in - mean out) / s out        variance: 1/n_in + 1/n_out + mu^2 / (2 n_out)

The deviation of those that were in is not estimated: at a small delta, epsilon depends on it so strongly that a
deviation from some hundred canaries makes the estimate noisy and too high. Where the two deviations differ beyond doubt
(Brown and Forsythe's test, p < 0.001), the mechanism is no such Gaussian, and epsilon is that of two normal distributions
of unequal deviations. At p < 0.01, one run in a hundred of a Gaussian mechanism would be taken for such a one, with an
epsilon of 2.4 where 0.9 is true, which lifts the average by 2 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from algorithms.auditing.epsilon import epsilon_gdp, epsilon_two_gaussians
from algorithms.core.messages import Doubles

DOUBT = 0.001  # the deviations count as equal unless their test has a smaller p value
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Separation:
    """How far apart the scores of canaries that were in lie from those of others.

    Attributes:
        mu: difference of the means, in deviations of the scores that were out.
        error: standard error of ``mu``.
        ratio: deviation of the scores that were in over that of the others; 1 unless they differ beyond doubt.
        ratio_error: standard error of the log of that ratio; 0 unless they differ.
    """

    mu: float
    error: float
    ratio: float = 1.0
    ratio_error: float = 0.0

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at ``delta`` that this separation comes to."""
        return _epsilon(self.mu, self.ratio, delta)

    def over(self, factor: float) -> Separation:
        """Return the separation ``factor`` times as far, with its error."""
        return replace(self, mu=self.mu * factor, error=self.error * factor)

    def limits(self, delta: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Return the ends of the interval of epsilon at ``delta``.

        Args:
            delta: the delta of the claim.
            confidence: the probability with which the interval has the truth in it, if scores are normal.
        """
        from scipy.special import ndtri

        reach = float(ndtri((1 + confidence) / 2))
        side, wide = math.copysign(1.0, math.log(self.ratio)), abs(math.log(self.ratio))
        spread = reach * self.ratio_error
        nearer, farther = math.exp(side * max(0.0, wide - spread)), math.exp(side * (wide + spread))
        low, high = self.mu - reach * self.error, self.mu + reach * self.error
        return _epsilon(max(0.0, low), nearer, delta), _epsilon(high, farther, delta)


def separation(inside: Doubles, outside: Doubles, unequal: bool = True) -> Separation:
    """Estimate how far apart two sets of scores lie.

    Args:
        inside: scores of the canaries that were in, two at least.
        outside: scores of the others, two at least.
        unequal: whether the deviations may differ. They differ where a canary takes part in some rounds only, which
            widens its scores and is no other kind of noise; there they count as equal.

    Raises:
        ValueError: the scores of the others are all the same, so that there is no scale.
    """
    from scipy.stats import levene

    count, others = len(inside), len(outside)
    sd = float(outside.std(ddof=1))
    if not sd > 0:
        raise ValueError("the scores of canaries that were out are all the same, so there is no scale")
    mu = (float(inside.mean()) - float(outside.mean())) / sd
    own = float(inside.std(ddof=1)) / sd
    differ = unequal and own > 0 and float(levene(inside, outside, center="median").pvalue) < DOUBT
    error = math.sqrt((own**2 if differ else 1.0) / count + 1 / others + mu**2 / (2 * others))
    if not differ:
        return Separation(mu, error)
    return Separation(mu, error, own, math.sqrt(1 / (2 * count) + 1 / (2 * others)))


def _epsilon(mu: float, ratio: float, delta: float) -> float:
    if ratio == 1:
        return epsilon_gdp(mu, delta)
    return epsilon_two_gaussians(0.0, 1.0, max(mu, 0.0), ratio, delta)
