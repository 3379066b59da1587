"""Lower bounds on epsilon from the scores of canaries that were in, and of others that were out; higher looks in.

    classic    Jagielski et al. 2020: error rates at a threshold that was set beforehand, with Clopper-Pearson limits
    GDP        Nasr et al. 2023: the same, if the mechanism's trade-off curve is that of a Gaussian
    one run    Steinke, Nasr and Jagielski 2023: every canary was in by the toss of a coin of its own; of r guesses, v are
               right. No assumption on the mechanism, and all canaries may be part of a single run
    f-DP       Mahloujifar, Melis and Chaudhuri 2025: as one run, if the trade-off curve is that of a Gaussian

A threshold, or a number of guesses, that is chosen for the largest result gives no bound: it must be set before the scores
are seen. With k canaries each, perfectly separated, the classic bound at 95 % stays below 1.35 (k = 16), 2.83 (64) and
5.60 (1000), whatever the mechanism.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from algorithms.auditing.epsilon import epsilon_gdp, epsilon_of_rates, mu_gdp, mu_of_rates
from algorithms.core.messages import Doubles

ALPHA = 0.05  # the probability with which a bound may be too high
LARGEST = 1e4  # no bound above this is looked for
# Shares of the canaries that may be guessed; as good as never are 5 % more in than out.
SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 0.9)


def clopper_pearson(count: int, trials: int, alpha: float) -> float:
    """Compute the upper limit of a probability after ``count`` of ``trials``, too low with probability ``alpha`` at most.

    >>> round(clopper_pearson(0, 64, 0.025), 4)
    0.056
    """
    from scipy.special import betaincinv

    return 1.0 if count >= trials else float(betaincinv(count + 1, trials - count, 1 - alpha))


def classic_bound(inside: Doubles, outside: Doubles, threshold: float, delta: float, alpha: float = ALPHA) -> float:
    """Compute the classic lower bound on epsilon.

    Args:
        inside: scores of the canaries that were in.
        outside: scores of those that were out.
        threshold: canaries above it are taken for members; set before the scores are seen.
        delta: the delta of the claim.
        alpha: the probability with which the bound may be too high.
    """
    return epsilon_of_rates(*_rates(inside, outside, threshold, alpha), delta)


def gdp_bound(inside: Doubles, outside: Doubles, threshold: float, delta: float, alpha: float = ALPHA) -> float:
    """Compute the lower bound on epsilon of a mechanism with the trade-off curve of a Gaussian; see `classic_bound`."""
    false_positive, false_negative = _rates(inside, outside, threshold, alpha)
    return epsilon_gdp(mu_of_rates(1 - false_negative, false_positive), delta)


def one_run_bound(canaries: int, guesses: int, right: int, delta: float, alpha: float = ALPHA) -> float:
    """Compute the largest epsilon that is refuted by guessing who was in (Steinke et al. 2023).

    >>> round(one_run_bound(500, 100, 100, 1e-5), 4), round(one_run_bound(1000, 1000, 600, 1e-5), 4)
    (3.4792, 0.2972)

    Args:
        canaries: m, each in with probability 1/2, independently.
        guesses: r, set beforehand: those with the highest scores are guessed in, those with the lowest out.
        right: v, how many guesses are right.
        delta: the delta of the claim.
        alpha: the probability with which the bound may be too high.
    """
    return _largest(lambda epsilon: _one_run_p(canaries, guesses, right, epsilon, delta) < alpha)


def one_run_fdp_bound(canaries: int, guesses: int, right: int, delta: float, alpha: float = ALPHA) -> float:
    """Compute the bound of `one_run_bound` for a mechanism with the trade-off curve of a Gaussian (Mahloujifar et al. 2025).

    Raises:
        ValueError: ``delta`` is 0.
    """
    return _largest(lambda epsilon: _refuted(canaries, guesses, right, mu_gdp(epsilon, delta), alpha))


def guesses(canaries: int, mu: float, delta: float) -> int:
    """Choose the number of guesses, before any score is seen, that promises the highest bound if a claimed mu is true.

    >>> guesses(1000, 1.0, 1e-5), guesses(1000, 4.0, 1e-5)
    (62, 500)

    Args:
        canaries: m, the number of canaries.
        mu: the separation of the scores under the claim.
        delta: the delta of the claim.
    """
    options = [max(1, int(canaries * share)) for share in SHARES]
    return max(options, key=lambda r: one_run_bound(canaries, r, int(r * _expected_right(r / canaries, mu)), delta))


def right_guesses(scores: Doubles, inside: NDArray[np.bool_], number: int) -> int:
    """Count the right ones among ``number`` guesses: the highest half of them is guessed in, the lowest half out.

    Args:
        scores: [canaries] higher looks in.
        inside: [canaries] who was in.
        number: of guesses; of an odd number, the larger half is guessed in.
    """
    order = np.argsort(scores, kind="stable")
    lowest, highest = order[: number // 2], order[len(order) - (number - number // 2) :]
    return int((~inside[lowest]).sum() + inside[highest].sum())


def _expected_right(share: float, mu: float) -> float:
    """Compute the expected share of right guesses among the ``share`` of the scores N(±mu/2, 1) that is farthest out."""
    from scipy.optimize import brentq
    from scipy.special import ndtr

    half = mu / 2
    threshold = brentq(lambda t: ndtr(half - t) + ndtr(-half - t) - share, 0.0, half + 10)
    return float(ndtr(half - threshold)) / share


def _rates(inside: Doubles, outside: Doubles, threshold: float, alpha: float) -> tuple[float, float]:
    """Compute upper limits of the rates of false positives and false negatives, both true with probability 1 - alpha."""
    false_positive = clopper_pearson(int((outside > threshold).sum()), len(outside), alpha / 2)
    return false_positive, clopper_pearson(int((inside <= threshold).sum()), len(inside), alpha / 2)


def _one_run_p(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Compute the p value of (epsilon, delta)-DP: beta + 2 m delta max_i P[v > Bin(r, q) >= v - i] / i."""
    from scipy.special import bdtrc, expit

    q = float(expit(epsilon))
    tail = np.append(1.0, bdtrc(np.arange(right), guesses, q))  # [right + 1] P[Bin(r, q) >= 0, 1, ..., v]
    beta = float(tail[right])
    if not delta or not right:
        return min(1.0, beta)
    i = np.arange(1, right + 1)
    return min(1.0, beta + 2 * canaries * delta * float(((tail[right - i] - beta) / i).max()))


def _refuted(canaries: int, guesses: int, right: int, mu: float, alpha: float) -> bool:
    """Tell whether so many right guesses refute mu-GDP: the recursion over v of Mahloujifar et al. (2025), algorithm 3."""
    from scipy.special import ndtr, ndtri

    r, h = alpha * right / canaries, alpha * (guesses - right) / canaries
    for i in range(right - 1, -1, -1):
        higher = max(h, float(ndtr(ndtri(r) - mu)))
        r, h = min(1.0, r + i / (guesses - i) * (higher - h)), higher
    return r + h > guesses / canaries


def _largest(refuted: Callable[[float], bool]) -> float:
    """Return the largest epsilon that is refuted; 0 if none is."""
    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while refuted(high):
        if high > LARGEST:
            return high
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
