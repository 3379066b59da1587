"""From a separation of two hypotheses, "the client took part" and "it did not", to an epsilon.

A Gaussian mechanism is mu-GDP: telling the hypotheses apart is as hard as telling N(0, 1) from
N(mu, 1) (Dong, Roth and Su 2022). An attack's success is a mu as well:

    AUC            mu = sqrt(2) Phi^-1(AUC)             of two normal scores of equal deviation
    (TPR, FPR)     mu = Phi^-1(TPR) - Phi^-1(FPR)       of the mechanism with such a trade-off curve

Both give estimates, and say of whom only what the attack says: an attack on clients gives an
epsilon of a client, to be held against the claim for a client; one on examples gives an epsilon of
an example, averaged over the attacked ones. Neither says anything of the other's claim. An epsilon
from one model is no bound at all, because its examples were not trained on by the tosses of coins;
runs that differ in the attacked client only certify one
(`algorithms.auditing.bounds.classic_bound`).

Where the two distributions have different deviations, epsilon follows from the privacy loss of the
two normal distributions (Steinke 2022, used so by Andrew et al. 2024).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from algorithms.core.messages import Doubles

# of attacks' epsilons and audits without a claim; the default of global_dp and dp_sgd, whose claims
# may differ
DELTA = 1e-5
LARGEST_MU = 1e100  # beyond it, epsilon has no finite float


@dataclass(frozen=True)
class Estimate:
    """An estimated epsilon and its 95 % interval; an end that is not known is NaN, and one
    without a limit is infinite.
    """

    epsilon: float
    low: float = math.nan
    high: float = math.nan


def epsilon_gdp(mu: float, delta: float) -> float:
    """Compute the epsilon at ``delta`` of a mu-GDP mechanism, such as Gaussian noise of
    multiplier 1/mu.

    >>> round(epsilon_gdp(2.0, 1e-5), 4), epsilon_gdp(-0.1, 1e-5)
    (9.9973, 0.0)

    Raises ValueError if ``delta`` is 0 (no Gaussian mechanism has an epsilon then) or not below 1.
    """
    _check(delta)
    return float(epsilons_gdp(np.array(mu), delta))


def epsilons_gdp(mu: Doubles, delta: float) -> Doubles:
    """Compute `epsilon_gdp` of many mu [...].

    It bisects on delta(epsilon) (Balle and Wang 2018, theorem 8).
    """
    from scipy.special import log_ndtr

    inner = np.where(
        (mu > 0) & (mu < LARGEST_MU),
        mu,
        1.0,
    )
    low = np.zeros_like(inner)
    root = math.sqrt(2 * math.log(1 / delta))
    high = inner**2 / 2 + inner * root
    for _ in range(60):
        middle = (low + high) / 2
        above = log_ndtr(inner / 2 - middle / inner)
        less = middle + log_ndtr(-inner / 2 - middle / inner) - above  # below 0
        share = -np.expm1(np.minimum(less, -1e-300))
        too_low = above + np.log(share) > math.log(delta)
        low = np.where(too_low, middle, low)
        high = np.where(too_low, high, middle)
    epsilons = np.where(mu < LARGEST_MU, high, np.inf)
    epsilons = np.where(mu > 0, epsilons, 0.0)
    return np.where(np.isnan(mu), np.nan, epsilons)


def mu_gdp(epsilon: float, delta: float) -> float:
    """Compute the mu at which a mu-GDP mechanism has this epsilon at ``delta``: the inverse of
    `epsilon_gdp`.

    >>> round(mu_gdp(9.9973, 1e-5), 4)
    2.0
    """
    from dp_accounting import get_sigma_gaussian

    sigma = float(get_sigma_gaussian(epsilon, delta))
    return 1 / sigma if sigma else math.inf


def mu_of_auc(auc: float) -> float:
    """Compute the mu of two normal distributions of equal deviation that an attack separates
    with this AUC.

    >>> round(mu_of_auc(0.76), 3)
    0.999
    """
    from scipy.special import ndtri

    return math.sqrt(2) * float(ndtri(auc))


def estimate_of_auc(
    auc: float,
    low: float = math.nan,
    high: float = math.nan,
    comparisons: int = 0,
    either_way: bool = False,
) -> Estimate:
    """Estimate the epsilon at `DELTA` of an AUC, given the ends of its 95 % interval.

    >>> round(estimate_of_auc(0.76025).epsilon, 3), estimate_of_auc(0.4).epsilon
    (4.377, 0.0)
    >>> round(estimate_of_auc(0.4, either_way=True).epsilon, 3)
    1.377

    With so many ``comparisons`` of scores behind it, a perfect AUC counts as half a comparison
    short of it, so that the estimate is finite. An attacker may decide ``either_way`` where it is
    not known beforehand which scores are the higher ones. The interval then begins at 0 if an AUC
    of 1/2 is in it.
    """
    nearest = 0.5 / comparisons if comparisons else 0.0
    if either_way and auc < 0.5:
        auc = 1 - auc
        low, high = 1 - high, 1 - low
    largest = max(high, 1 - low) if either_way else high
    middle = min(max(auc, nearest), 1 - nearest)
    mus = [mu_of_auc(area) for area in (middle, low, largest)]
    return Estimate(*epsilons_gdp(np.array(mus), DELTA).tolist())


def estimate_of_rates(
    true_positive: float,
    false_positive: float,
    low: float = math.nan,
    high: float = math.nan,
) -> Estimate:
    """Estimate the epsilon at `DELTA` of a decision with these rates; the interval is that of
    the true positive rate.

    >>> round(estimate_of_rates(0.0923, 0.01).epsilon, 2)
    4.38
    """
    from scipy.special import ndtri

    mus = ndtri([true_positive, low, high]) - ndtri(false_positive)
    return Estimate(*epsilons_gdp(mus, DELTA).tolist())


def epsilon_of_rates(false_positive: float, false_negative: float, delta: float) -> float:
    """Compute the smallest epsilon at which a test may have these error rates.

    The formula is that of Kairouz et al. (2015).

    >>> round(epsilon_of_rates(0.01, 0.5, 0.0), 3), epsilon_of_rates(0.5, 0.5, 0.0)
    (3.912, 0.0)

    It is infinite if one error never happens.
    """
    least = 0.0
    rates = (false_positive, false_negative)
    for rate, other in (rates, rates[::-1]):
        if not other < 1 - delta:
            continue
        if not rate > 0:
            return math.inf
        ratio = (1 - delta - other) / rate
        least = max(least, math.log(ratio))
    return least


def epsilon_two_gaussians(
    mean: float, sd: float, other_mean: float, other_sd: float, delta: float
) -> float:
    """Compute the smallest epsilon at ``delta`` of a mechanism whose result is normal in two
    ways (Steinke 2022).

    >>> round(epsilon_two_gaussians(0.0, 1.0, 2.0, 1.0, 1e-5), 4)
    9.9973

    Raises ValueError if ``delta`` is not above 0 and below 1.
    """
    from scipy.optimize import brentq

    _check(delta)
    first = (mean, sd)
    second = (other_mean, other_sd)
    if sd == other_sd:
        return epsilon_gdp(abs(mean - other_mean) / sd, delta)

    def excess(epsilon: float) -> float:
        one_way = _log_delta(first, second, epsilon)
        worst = max(one_way, _log_delta(second, first, epsilon))
        return max(worst, -1e3) - math.log(delta)  # finite, so that the root can be bracketed

    if excess(0.0) <= 0:
        return 0.0
    high = 1.0
    while excess(high) > 0:
        high *= 10
    return float(brentq(excess, 0.0, high, xtol=1e-10))


def _log_delta(
    first: tuple[float, float],
    second: tuple[float, float],
    epsilon: float,
) -> float:
    """Compute the log of P1[loss > epsilon] - e^epsilon P2[loss > epsilon].

    The privacy loss of y is a y^2 + b y + c; the deviations differ, so a is not 0.
    """
    m1, s1 = first
    m2, s2 = second
    # In units of the first: N(0, 1) against N(d, r^2).
    d = (m2 - m1) / s1
    r = s2 / s1
    a = (1 - r) * (1 + r) / (2 * r**2)
    b = -d / r**2
    c = d**2 / (2 * r**2) + math.log(r)
    square = b**2 - 4 * a * (c - epsilon)
    # The loss is above epsilon everywhere, which is impossible for epsilon >= 0, or nowhere.
    if square <= 0:
        return -math.inf
    # Of the root that loses no digits where a is next to 0.
    root = math.copysign(math.sqrt(square), b)
    q = -(b + root) / 2
    left, right = sorted((q / a, (c - epsilon) / q))
    p1 = _log_mass(left, right, 0.0, 1.0, outside=a > 0)
    p2 = _log_mass(left, right, d, r, outside=a > 0)
    drop = epsilon + p2 - p1
    if not drop < 0:
        return -math.inf
    return p1 + float(np.log1p(-np.exp(drop)))


def _log_mass(
    left: float,
    right: float,
    mean: float,
    sd: float,
    outside: bool,
) -> float:
    """Compute the log of a normal distribution's mass outside or inside an interval.

    It is precise far in the tails.
    """
    from scipy.special import log_ndtr

    low = (left - mean) / sd
    high = (right - mean) / sd
    if outside:
        return float(np.logaddexp(log_ndtr(low), log_ndtr(-high)))
    if low > 0:  # the mirror image has the same mass and keeps its digits
        low, high = -high, -low
    above = float(log_ndtr(high))
    below = float(log_ndtr(low))
    if not below < above:
        return -math.inf
    return above + float(np.log1p(-np.exp(below - above)))


def _check(delta: float) -> None:
    if not 0 < delta < 1:
        raise ValueError(
            f"delta must be above 0 and below 1, because the bound is Gaussian; got {delta:g}"
        )
