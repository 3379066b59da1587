"""Statistics of k pairs of scores: each pair has one score under IN and one under OUT, and
shares its randomness.

    AUC          P(a score under IN > one under OUT of another pair), ties half (Mann and Whitney 1947): what an attacker
                 can do who sees one model. Scores of one pair are never compared, because they share the noise that
                 hides the difference; k such comparisons would add up to 1/(2k) to the AUC
    p            exact, two-sided: the share of all 2^k ways to swap IN and OUT within pairs whose AUC is at least as far
                 from 1/2. With random signs s_i, the AUC is 1/2 + sum_i s_i c_i / (2 k (k - 1)), where c_i counts the
                 scores of other pairs between in_i and out_i; its law is computed by convolution
    interval     95 %: the smallest that holds these two,
                     |AUC - theta| <= z sqrt(V(theta))            Newcombe (2006), method 5, with k - 1 in place of k,
                     V = theta (1 - theta) (1 + (k - 2) ((1 - theta) / (2 - theta) + theta / (1 + theta))) / k^2
                     logit(AUC) +- t(k - 1) sd(placements) / (sqrt(k) AUC (1 - AUC))        DeLong et al. (1988)
                 where the placement of pair i is the share of scores under OUT that in_i beats plus the share of scores
                 under IN that beat out_i, so that correlation within pairs counts. The first alone covers 0.90 if the
                 two kinds of scores spread unequally, and the second alone 0.5 near 0 and 1
    advantage    |2 AUC - 1|: an attacker whose AUC is near 0 decides the other way round and succeeds as well

In simulations of normal scores with an AUC of 0.5 to 0.95 the intervals cover 0.94 to 1 at 8, 16
and 32 pairs (``tests/attacks/test_attacks_paired.py``); for scores of another kind they may cover a
little less.
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np

from algorithms.auditing import bounds
from algorithms.auditing.epsilon import DELTA, Estimate, epsilons_gdp, estimate_of_auc
from algorithms.core.messages import Doubles
from attacks.metrics.disparity import NAN, Z95

FEWEST = 8  # pairs; the coverage of the interval was simulated for no fewer
FEWEST_CERTIFYING = 4  # pairs; with fewer, one of the halves has no two pairs to compare
BISECTIONS = 60


def auc(ins: Doubles, outs: Doubles) -> float:
    """Return the probability that a score under IN [k >= 2] is above one under OUT of another
    pair, ties half.

    >>> auc(np.array([1.0, 2.0]), np.array([0.0, 2.0]))
    0.5
    """
    return float(_wins(ins, outs).sum() / (len(ins) * (len(ins) - 1)))


def _wins(ins: Doubles, outs: Doubles) -> Doubles:
    """Return [k, k]: 1 where the row's score under IN is above the column's under OUT, 0.5 where
    equal; diagonal 0.
    """
    wins: Doubles = (ins[:, None] > outs) + 0.5 * (ins[:, None] == outs)
    np.fill_diagonal(wins, 0.0)
    return wins


def swap_law(ins: Doubles, outs: Doubles) -> tuple[Doubles, Doubles, float]:
    """Return the law of the AUC of scores [k] if IN and OUT are swapped at random within every
    pair.

    These are possible values of AUC - 1/2, their probabilities, and the value without any swap.
    """
    pooled = np.concatenate([ins, outs])
    k = len(ins)
    below = (pooled[:, None] > pooled).sum(axis=1) + (pooled[:, None] >= pooled).sum(
        axis=1
    )  # ties count half
    # Twice c_i: twice the scores below in_i, less twice those below out_i, without the two of the
    # pair itself.
    steps = below[:k] - below[k:] - 2 * np.sign(ins - outs).astype(np.int64)
    largest = int(np.abs(steps).sum())
    law = np.zeros(
        2 * largest + 1
    )  # of the sum of the steps with random signs, from -largest to largest
    law[largest] = 1.0
    for step in np.abs(steps[steps != 0]).tolist():
        moved = np.zeros_like(law)
        moved[step:] += law[:-step] / 2
        moved[:-step] += law[step:] / 2
        law = moved
    scale = 4.0 * k * (k - 1)
    return np.arange(-largest, largest + 1) / scale, law, float(steps.sum()) / scale


def swap_p(ins: Doubles, outs: Doubles) -> float:
    """Return the exact two-sided p value of the permutation test; arguments as in `swap_law`.

    >>> swap_p(np.arange(8.0) + 8, np.arange(8.0))  # 2 / 2^8
    0.0078125
    """
    values, law, unswapped = swap_law(ins, outs)
    return min(1.0, float(law[np.abs(values) >= abs(unswapped) - 1e-12].sum()))


def null_advantage(ins: Doubles, outs: Doubles) -> float:
    """Return the expected |2 AUC - 1| under random swaps within pairs; arguments as in
    `swap_law`.
    """
    values, law, _ = swap_law(ins, outs)
    return float((2 * np.abs(values) * law).sum())


def interval(ins: Doubles, outs: Doubles) -> tuple[float, float]:
    """Return the 95 % interval of the AUC over pairs, which holds the AUC; arguments as in
    `swap_law`.
    """
    from scipy.special import expit, stdtrit

    area = auc(ins, outs)
    k = len(ins)
    low, high = score_interval(area, k)
    if not 0 < area < 1:
        return low, high
    wins = _wins(ins, outs) / (k - 1)
    spread = (wins.sum(axis=1) + wins.sum(axis=0)).std(ddof=1) / sqrt(k)
    middle = log(area / (1 - area))
    half = float(stdtrit(k - 1, 0.975)) * spread / (area * (1 - area))
    return min(low, float(expit(middle - half))), max(high, float(expit(middle + half)))


def score_interval(area: float, k: int) -> tuple[float, float]:
    """Return Newcombe's 95 % interval of an AUC of k scores against k.

    >>> [round(end, 3) for end in score_interval(1.0, 8)]
    [0.78, 1.0]
    """

    def end(limit: float) -> float:
        """Bisect between the AUC, which is in the interval, and ``limit``, 0 or 1, which is not
        unless it is the AUC.
        """
        inside = area
        outside = limit
        for _ in range(BISECTIONS if area != limit else 0):
            theta = (inside + outside) / 2
            pairs = (k - 2) * ((1 - theta) / (2 - theta) + theta / (1 + theta))
            if abs(area - theta) <= Z95 * sqrt(theta * (1 - theta) * (1 + pairs)) / k:
                inside = theta
            else:
                outside = theta
        return inside

    return end(0.0), end(1.0)


def balanced_accuracy(ins: Doubles, outs: Doubles) -> float:
    """Return the balanced accuracy on every second pair, with a threshold and a direction chosen
    on the others.

    It is NaN for fewer than `FEWEST_CERTIFYING` pairs.
    """
    if len(ins) < FEWEST_CERTIFYING:
        return NAN
    sign, threshold = _decision(ins[::2], outs[::2])
    return float(
        ((sign * ins[1::2] >= threshold).mean() + (sign * outs[1::2] < threshold).mean()) / 2
    )


def _decision(ins: Doubles, outs: Doubles) -> tuple[float, float]:
    """Return the sign by which scores are multiplied, and the lowest that counts as IN then.

    It is the cut with the best balanced accuracy, midway between two scores.
    """
    sign = 1.0 if auc(ins, outs) >= 0.5 else -1.0
    ranked = np.sort(sign * np.concatenate([ins, outs]))
    candidates = np.concatenate([[-np.inf], (ranked[1:] + ranked[:-1]) / 2, [np.inf]])
    merit = [(sign * ins >= cut).mean() + (sign * outs < cut).mean() for cut in candidates]
    return sign, float(candidates[int(np.argmax(merit))])


# What k pairs can show at most


def least_p(k: int) -> float:
    """Return the smallest p value that k pairs can have: two of 2^k ways to swap.

    >>> least_p(8)
    0.0078125
    """
    return min(1.0, 2.0 ** (1 - k))


def most_epsilon(k: int) -> float:
    """Return the largest epsilon that k models of either kind can certify at 95 %, if a
    threshold makes no error.

    The classic bound (`algorithms.auditing.bounds`) for no error among k of either kind, at delta
    0.

    >>> [round(most_epsilon(k), 2) for k in (16, 32, 64, 100, 1000)]
    [1.35, 2.1, 2.82, 3.28, 5.6]
    """
    return bounds.classic_bound(np.ones(k), np.zeros(k), 0.5, 0.0)


def epsilon(ins: Doubles, outs: Doubles) -> Estimate:
    """Estimate the epsilon at delta 1e-5 that the AUC comes to, with its interval from eight
    pairs on.
    """
    k = len(ins)
    low, high = interval(ins, outs) if k >= FEWEST else (NAN, NAN)
    return estimate_of_auc(auc(ins, outs), low, high, comparisons=k * (k - 1), either_way=True)


def null_epsilon(ins: Doubles, outs: Doubles) -> float:
    """Return the mean of `epsilon`, which cannot be negative, under random swaps within pairs."""
    from scipy.special import ndtri

    values, law, _ = swap_law(ins, outs)
    possible = law > 0
    k = len(ins)
    areas = np.minimum(0.5 + np.abs(values[possible]), 1 - 0.5 / (k * (k - 1)))
    return float(epsilons_gdp(sqrt(2) * ndtri(areas), DELTA) @ law[possible])


def certified_epsilon(ins: Doubles, outs: Doubles) -> float:
    """Compute the epsilon at delta 1e-5 that the pairs certify at 95 %, whatever the scores'
    distribution.

    Threshold and direction are chosen on every second pair, and errors are counted on the others,
    so that no more than `most_epsilon` of half the pairs can be certified. It is NaN for fewer than
    `FEWEST_CERTIFYING` pairs.
    """
    if len(ins) < FEWEST_CERTIFYING:
        return NAN
    sign, threshold = _decision(ins[::2], outs[::2])
    below = np.nextafter(threshold, -np.inf)
    return bounds.classic_bound(sign * ins[1::2], sign * outs[1::2], below, DELTA)
