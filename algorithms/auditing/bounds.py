"""Lower bounds on epsilon from the scores of canaries that were in, and of others that were out.

Higher scores look in.

    classic    Jagielski et al. 2020: error rates at a threshold that was set beforehand, with
               Clopper-Pearson limits
    one run    Steinke, Nasr and Jagielski 2023: every canary was in by the toss of a coin of its
               own; of r guesses, v are right. No assumption on the mechanism, and all canaries may
               be part of a single run

A threshold, or a number of guesses, that is chosen for the largest result gives no bound: it must
be set before the scores are seen. With k canaries each, perfectly separated, the classic bound at
95 % stays below 1.35 (k = 16), 2.83 (64) and 5.60 (1000), whatever the mechanism.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from algorithms.auditing.epsilon import epsilon_of_rates
from algorithms.core.messages import Doubles

ALPHA = 0.05  # the probability with which a bound may be too high
# Shares of the canaries that may be guessed; as good as never are 5 % more in than out.
SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 0.9)


def clopper_pearson(count: int, trials: int, alpha: float) -> float:
    """Compute the upper limit of a probability after ``count`` of ``trials``.

    It is too low with probability ``alpha`` at most.

    >>> round(clopper_pearson(0, 64, 0.025), 4)
    0.056
    """
    from scipy.special import betaincinv

    if count >= trials:
        return 1.0
    return float(betaincinv(count + 1, trials - count, 1 - alpha))


def classic_bound(
    inside: Doubles,
    outside: Doubles,
    threshold: float,
    delta: float,
    alpha: float = ALPHA,
) -> float:
    """Compute the lower bound on epsilon from the errors of taking higher scores for members.

    Both limits of the two rates are true with probability 1 - ``alpha``, so the bound is too high
    with ``alpha`` at most. The scores are those of canaries, or of independent runs with and
    without the client, which may be paired; the ``threshold`` is set before they are seen.
    """
    taken = int((outside > threshold).sum())
    missed = int((inside <= threshold).sum())
    false_positive = clopper_pearson(taken, len(outside), alpha / 2)
    false_negative = clopper_pearson(missed, len(inside), alpha / 2)
    return epsilon_of_rates(false_positive, false_negative, delta)


def one_run_bound(
    canaries: int,
    guesses: int,
    right: int,
    delta: float,
    alpha: float = ALPHA,
) -> float:
    """Compute the largest epsilon that is refuted by guessing who was in; 0 if none is.

    The test is that of Steinke et al. (2023).

    >>> round(one_run_bound(500, 100, 100, 1e-5), 4), round(one_run_bound(1000, 1000, 600, 1e-5), 4)
    (3.4792, 0.2972)

    Each of m ``canaries`` is in with probability 1/2, independently. The number r of ``guesses`` is
    set beforehand: those with the highest scores are guessed in, those with the lowest out; v are
    ``right``.
    """

    def refuted(epsilon: float) -> bool:
        return _one_run_p(canaries, guesses, right, epsilon, delta) < alpha

    if not refuted(0.0):
        return 0.0
    low = 0.0
    high = 1.0
    while refuted(high):
        low = high
        high = 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if refuted(middle):
            low = middle
        else:
            high = middle
    return low


def _one_run_p(
    canaries: int,
    guesses: int,
    right: int,
    epsilon: float,
    delta: float,
) -> float:
    """Compute the p value of (epsilon, delta)-DP.

    It is beta + 2 m delta max_i P[v > Bin(r, q) >= v - i] / i.
    """
    from scipy.special import bdtrc, expit

    q = float(expit(epsilon))
    below = bdtrc(np.arange(right), guesses, q)
    tail = np.append(1.0, below)  # [right + 1] P[Bin(r, q) >= 0, 1, ..., v]
    beta = float(tail[right])
    if not delta or not right:
        return min(1.0, beta)
    i = np.arange(1, right + 1)
    more = float(((tail[right - i] - beta) / i).max())
    return min(1.0, beta + 2 * canaries * delta * more)


def guesses(canaries: int, mu: float, delta: float) -> int:
    """Choose the number of guesses that promises the highest bound if a claimed ``mu`` is true.

    It is chosen before any score is seen.

    >>> guesses(1000, 1.0, 1e-5), guesses(1000, 4.0, 1e-5)
    (62, 500)
    """

    def promised(r: int) -> float:
        right = int(r * _expected_right(r / canaries, mu))
        return one_run_bound(canaries, r, right, delta)

    options = [max(1, int(canaries * share)) for share in SHARES]
    return max(options, key=promised)


def _expected_right(share: float, mu: float) -> float:
    """Compute the expected share of right guesses.

    They are about the ``share`` of the scores N(±mu/2, 1) that is farthest out.
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr

    half = mu / 2

    def excess(t: float) -> float:
        return float(ndtr(half - t) + ndtr(-half - t) - share)

    threshold = brentq(excess, 0.0, half + 10)
    return float(ndtr(half - threshold)) / share


def right_guesses(
    scores: Doubles,
    inside: NDArray[np.bool_],
    number: int,
) -> int:
    """Count the right ones among ``number`` guesses.

    The highest half of them is guessed in, the lowest half out. ``scores`` and ``inside``, who was
    in, are [canaries]; of an odd number, the larger half is guessed in.
    """
    order = np.argsort(scores, kind="stable")
    half = number // 2
    lowest = order[:half]
    highest = order[len(order) - (number - half) :]
    out = ~inside[lowest]
    return int(out.sum() + inside[highest].sum())
