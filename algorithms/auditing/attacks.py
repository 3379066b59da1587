"""The epsilon that an attack's success comes to: of an AUC, of a pair of rates, and what independent runs certify.

    AUC            mu = sqrt(2) Phi^-1(AUC)               of two normal scores of equal deviation
    (TPR, FPR)     mu = Phi^-1(TPR) - Phi^-1(FPR)         of the mechanism with such a trade-off curve (Dong et al. 2022)
    certified      the classic bound of `algorithms.auditing.bounds`, of runs that are independent of each other

The first two are estimates, and say of whom only what the attack says: an attack on clients gives an epsilon of a client,
to be held against the claim for a client; one on examples gives an epsilon of an example, averaged over the attacked ones.
Neither says anything of the other's claim. An epsilon from one model is no bound at all, because its examples were not
trained on by the tosses of coins; runs that differ in the attacked client only are needed for that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from algorithms.auditing import bounds
from algorithms.auditing.epsilon import epsilon_gdp, epsilon_of_rates, mu_of_auc, mu_of_rates
from algorithms.core.messages import Doubles

DELTA = 1e-5  # of all epsilons that attacks store; the default of global_dp and dp_sgd, whose claims may have another


@dataclass(frozen=True)
class Estimate:
    """An estimated epsilon; an end that is not known is NaN, and one without a limit is infinite.

    Attributes:
        epsilon: the estimate.
        low: the lower end of its 95 % interval.
        high: the upper end.
    """

    epsilon: float
    low: float = math.nan
    high: float = math.nan


def of_auc(
    auc: float,
    low: float = math.nan,
    high: float = math.nan,
    comparisons: int = 0,
    either_way: bool = False,
    delta: float = DELTA,
) -> Estimate:
    """Estimate the epsilon of an AUC.

    >>> round(of_auc(0.76025).epsilon, 3), of_auc(0.4).epsilon, round(of_auc(0.4, either_way=True).epsilon, 3)
    (4.377, 0.0, 1.377)

    Args:
        auc: the area under the ROC curve.
        low: the lower end of its 95 % interval.
        high: the upper end.
        comparisons: number of pairs of scores behind the AUC. A perfect one counts as half a comparison short of it, so
            that the estimate is finite; 0: it does not.
        either_way: whether the attacker may decide the other way round, as where it is not known beforehand which scores
            are the higher ones. The interval then begins at 0 if an AUC of 1/2 is in it.
        delta: the delta of the claim.
    """
    nearest = 0.5 / comparisons if comparisons else 0.0
    if either_way and auc < 0.5:
        auc, low, high = 1 - auc, 1 - high, 1 - low
    largest = max(high, 1 - low) if either_way else high
    middle = min(max(auc, nearest), 1 - nearest)
    return Estimate(*(epsilon_gdp(mu_of_auc(one), delta) for one in (middle, low, largest)))


def of_rates(
    true_positive: float, false_positive: float, low: float = math.nan, high: float = math.nan, delta: float = DELTA
) -> Estimate:
    """Estimate the epsilon of a decision with these rates.

    >>> round(of_rates(0.0923, 0.01).epsilon, 2)
    4.38

    Args:
        true_positive: the rate at which those that took part are found.
        false_positive: the rate at which others are taken for them; above 0.
        low: the lower end of the 95 % interval of the true positive rate.
        high: the upper end.
        delta: the delta of the claim.
    """
    return Estimate(*(epsilon_gdp(mu_of_rates(one, false_positive), delta) for one in (true_positive, low, high)))


def certified(inside: Doubles, outside: Doubles, threshold: float, delta: float = DELTA) -> float:
    """Compute the epsilon that independent runs certify with a probability of 95 %, whatever the mechanism.

    Args:
        inside: one score of each run in which the attacked client took part.
        outside: one of each run in which it did not. These may be paired with the former.
        threshold: runs with a higher score are taken for the former; chosen without these scores.
        delta: the delta of the claim.
    """
    return bounds.classic_bound(inside, outside, threshold, delta)


def most(runs: int, delta: float = 0.0) -> float:
    """Compute the largest epsilon that so many independent runs of either kind can certify: that without any error.

    >>> [round(most(runs), 2) for runs in (16, 32, 64, 100, 1000)]
    [1.35, 2.1, 2.82, 3.28, 5.6]
    """
    missed = bounds.clopper_pearson(0, runs, bounds.ALPHA / 2)
    return epsilon_of_rates(missed, missed, delta)
