"""One AUC per client: its interval, the mean over clients, and how unequal AUCs are by chance.

For client c with m members and n non-members (DeLong et al. 1988), s being the scores and ties counting one half:

    V10_i = share of non-members below member i        V01_j = share of members above non-member j
    AUC_c = mean_i V10_i = mean_j V01_j                var AUC_c = var(V10) / m + var(V01) / n          (ddof 1)

The same record may be a non-member of many clients, whose AUCs then rise and fall together. So the variance of the mean
is the sum over records of their squared influence on it, the sum of (V10_i - AUC_c) / m and (V01_j - AUC_c) / n over all
clients and roles, divided by the number of clients. Without shared records it is sum_c var AUC_c / clients^2.

By chance, if all clients were equally exposed, their AUCs would be normal around the same mean, with the mean variance
and the mean covariance of the measured ones. What all share moves no client from another: the deviation that counts is
the root of variance less covariance. Under exchangeability var AUC_c is (m + n + 1) / (12 m n) on average.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from attacks.metrics import disparity

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]

NAN = float("nan")
DRAWS = 4000  # simulated federations


@dataclass(frozen=True, eq=False)
class ClientAucs:
    """The AUC of every client.

    Attributes:
        auc: [c].
        low: [c] lower end of its 95 % interval over records.
        high: [c] upper end.
        mean: the mean over clients.
        mean_low: lower end of its 95 % interval over records.
        mean_high: upper end.
        variance: [c] over records.
        apart: the standard deviation of a client's AUC that it has not in common with other clients.
    """

    auc: Doubles
    low: Doubles
    high: Doubles
    mean: float
    mean_low: float
    mean_high: float
    variance: Doubles
    apart: float


def measure(members: Doubles, nonmembers: Doubles, records: Ints) -> ClientAucs:
    """Compute every client's AUC and the mean, with intervals over records.

    An AUC of 0 or 1 has no variance; its interval is Wilson's for ``min(m, n)`` pairs, as in
    `attacks.metrics.intervals`.

    Args:
        members: [c, m] scores, none of them NaN.
        nonmembers: [c, n] scores.
        records: [c, m + n] the number of each record, members first; equal numbers are the same record.

    >>> found = measure(np.array([[3.0, 1.0]]), np.array([[2.0, 0.0]]), np.arange(4)[None])
    >>> found.mean
    0.75
    """
    (clients, m), n = members.shape, nonmembers.shape[1]
    above, below = placements(members, nonmembers)
    auc = above.mean(axis=1)
    parts = (above - auc[:, None]) / m * _corrected(m), (below - auc[:, None]) / n * _corrected(n)
    influence = np.concatenate(parts, axis=1)
    variance = np.square(influence).sum(axis=1)
    of_sum = float(np.square(np.bincount(records.ravel(), weights=influence.ravel())).sum())
    covariance = (of_sum - variance.sum()) / max(clients * (clients - 1), 1)
    low, high = _ends(auc, variance, min(m, n))
    mean = float(auc.mean())
    ends = _ends(np.array([mean]), np.array([of_sum / clients**2]), min(m, n) * clients)
    apart = float(np.sqrt(max(variance.mean() - covariance, 0)))
    return ClientAucs(auc, low, high, mean, float(ends[0][0]), float(ends[1][0]), variance, apart)


def _corrected(count: int) -> float:
    """Return what makes the mean square of ``count`` deviations from their mean an unbiased variance."""
    return float(np.sqrt(count / max(count - 1, 1)))


def placements(members: Doubles, nonmembers: Doubles) -> tuple[Doubles, Doubles]:
    """Return the share of non-members below each member [c, m], and the share of members above each non-member [c, n].

    A tie counts one half.

    Args:
        members: [c, m] scores of each client.
        nonmembers: [c, n] scores.
    """
    (clients, m), n = members.shape, nonmembers.shape[1]
    scores = np.concatenate([members, nonmembers], axis=1)
    order = np.argsort(scores, axis=1)
    ordered = np.take_along_axis(scores, order, axis=1)
    fresh = np.concatenate([np.ones((clients, 1), bool), ordered[:, 1:] != ordered[:, :-1]], axis=1)
    # Scores become integers, equal ones the same, and those of each client larger than those of the one before.
    ranks = np.empty(order.shape, np.int64)
    np.put_along_axis(ranks, order, np.cumsum(fresh).reshape(fresh.shape), axis=1)
    size, first = int(ranks.max()) + 2, np.arange(clients)[:, None]
    counts = [np.bincount(part.ravel(), minlength=size) for part in (ranks[:, :m], ranks[:, m:])]
    inside, outside = (np.cumsum(count) - count / 2 for count in counts)  # half of the equal ones count as below
    above = (outside[ranks[:, :m]] - first * n) / n
    return above, 1 - (inside[ranks[:, m:]] - first * m) / m


def _ends(values: Doubles, variances: Doubles, trials: int) -> tuple[Doubles, Doubles]:
    reach = disparity.Z95 * np.sqrt(variances)
    low, high = np.clip(values - reach, 0, 1), np.clip(values + reach, 0, 1)
    extreme = variances <= 0
    wilson = disparity.wilson(values * trials, np.full(len(values), trials))
    return np.where(extreme, np.minimum(wilson[0], values), low), np.where(extreme, np.maximum(wilson[1], values), high)


def by_chance(mean: float, apart: float, clients: int) -> dict[str, float]:
    """Compute the expected disparity of the AUCs of equally exposed clients, which differ by chance alone.

    Args:
        mean: the AUC of each of them.
        apart: the standard deviation of a client's AUC that it has not in common with other clients.
        clients: their number.

    Returns:
        ``largest``, ``cov``, ``fi`` and ``eod``; always from the same random numbers, so that rounds can be compared.

    >>> round(by_chance(0.5, 0.05, 20)["eod"], 2)  # 20 normal numbers span 3.73 deviations
    0.19
    """
    means, deviations, least, largest = _standard(clients)
    low, high = (np.clip(mean + apart * ends, 0, 1) for ends in (least, largest))
    variations = apart * deviations / np.maximum(mean + apart * means, np.finfo(np.float64).tiny)
    return {
        "largest": float(high.mean()),
        "cov": float(variations.mean()),
        "fi": float((1 / (1 + variations**2)).mean()),
        "eod": float((high - low).mean()),
    }


@lru_cache(maxsize=4)
def _standard(clients: int) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """Return mean, standard deviation, least and largest of ``clients`` standard normal numbers, `DRAWS` times each."""
    drawn = np.random.default_rng(0).standard_normal((DRAWS, clients))
    return drawn.mean(axis=1), drawn.std(axis=1), drawn.min(axis=1), drawn.max(axis=1)
