"""The epsilon that an attack's success comes to: of an AUC, and of a pair of rates.

    AUC            mu = sqrt(2) Phi^-1(AUC)               of two normal scores of equal deviation
    (TPR, FPR)     mu = Phi^-1(TPR) - Phi^-1(FPR)         of the mechanism with such a trade-off curve (Dong et al. 2022)

Both are estimates, and say of whom only what the attack says: an attack on clients gives an epsilon of a client, to be held
against the claim for a client; one on examples gives an epsilon of an example, averaged over the attacked ones. Neither says
anything of the other's claim. An epsilon from one model is no bound at all, because its examples were not trained on by the
tosses of coins; runs that differ in the attacked client only certify one (`algorithms.auditing.bounds.classic_bound`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from algorithms.auditing.epsilon import epsilon_gdp, mu_of_auc, mu_of_rates

DELTA = 1e-5  # of all epsilons that attacks store; the default of global_dp and dp_sgd, whose claims may have another


@dataclass(frozen=True)
class Estimate:
    """An estimated epsilon and its 95 % interval; an end that is not known is NaN, and one without a limit is infinite."""

    epsilon: float
    low: float = math.nan
    high: float = math.nan


def of_auc(
    auc: float, low: float = math.nan, high: float = math.nan, comparisons: int = 0, either_way: bool = False
) -> Estimate:
    """Estimate the epsilon at `DELTA` of an AUC with its 95 % interval.

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
    """
    nearest = 0.5 / comparisons if comparisons else 0.0
    if either_way and auc < 0.5:
        auc, low, high = 1 - auc, 1 - high, 1 - low
    largest = max(high, 1 - low) if either_way else high
    middle = min(max(auc, nearest), 1 - nearest)
    return Estimate(*(epsilon_gdp(mu_of_auc(one), DELTA) for one in (middle, low, largest)))


def of_rates(true_positive: float, false_positive: float, low: float = math.nan, high: float = math.nan) -> Estimate:
    """Estimate the epsilon at `DELTA` of a decision with these rates; the interval is that of the true positive rate.

    >>> round(of_rates(0.0923, 0.01).epsilon, 2)
    4.38
    """
    return Estimate(*(epsilon_gdp(mu_of_rates(one, false_positive), DELTA) for one in (true_positive, low, high)))
