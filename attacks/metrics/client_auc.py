"""One AUC per client: its interval, the mean over clients, and how unequal AUCs are by chance.

For client c with m members and n non-members (DeLong et al. 1988), s being the scores and ties counting one half:

    V10_i = share of non-members below member i        V01_j = share of members above non-member j
    AUC_c = mean_i V10_i = mean_j V01_j                var AUC_c = var(V10) / m + var(V01) / n          (ddof 1)

The same record may be a non-member of many clients, whose AUCs then rise and fall together. So the covariance of two
clients' AUCs is the sum over records of the products of their influences (V10_i - AUC_c) / m and (V01_j - AUC_c) / n on
either, and the variance of the mean AUC follows from it. Without shared records it is sum_c var AUC_c / clients^2.

By chance, if all clients were equally exposed, their AUCs would be normal around the same mean, with that covariance.
Under exchangeability var AUC_c is (m + n + 1) / (12 m n) on average.
"""

from __future__ import annotations

from dataclasses import dataclass

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
        covariance: [c, c] of the clients' AUCs over records.
    """

    auc: Doubles
    low: Doubles
    high: Doubles
    mean: float
    mean_low: float
    mean_high: float
    covariance: Doubles


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
    from scipy.sparse import coo_array

    (clients, m), n = members.shape, nonmembers.shape[1]
    auc, influence = np.empty(clients), np.empty((clients, m + n))
    for c in range(clients):
        above, below = placements(members[c], nonmembers[c])
        auc[c] = above.mean()
        influence[c, :m] = (above - auc[c]) / m * _corrected(m)
        influence[c, m:] = (below - auc[c]) / n * _corrected(n)
    rows = np.repeat(np.arange(clients), m + n)
    spread = coo_array((influence.ravel(), (rows, records.ravel()))).tocsr()
    covariance = (spread @ spread.T).toarray()
    low, high = _ends(auc, np.square(influence).sum(axis=1), min(m, n))
    mean = float(auc.mean())
    ends = _ends(np.array([mean]), covariance.mean(keepdims=True).ravel(), min(m, n) * clients)
    return ClientAucs(auc, low, high, mean, float(ends[0][0]), float(ends[1][0]), covariance)


def _corrected(count: int) -> float:
    """Return what makes the mean square of ``count`` deviations from their mean an unbiased variance."""
    return float(np.sqrt(count / max(count - 1, 1)))


def placements(members: Doubles, nonmembers: Doubles) -> tuple[Doubles, Doubles]:
    """Return the share of non-members below each member [m], and the share of members above each non-member [n].

    A tie counts one half.

    Args:
        members: [m] scores.
        nonmembers: [n] scores.
    """
    lower, upper = np.sort(nonmembers), np.sort(members)
    below = (np.searchsorted(lower, members, "left") + np.searchsorted(lower, members, "right")) / 2
    above = (np.searchsorted(upper, nonmembers, "left") + np.searchsorted(upper, nonmembers, "right")) / 2
    return below / len(nonmembers), 1 - above / len(members)


def _ends(values: Doubles, variances: Doubles, trials: int) -> tuple[Doubles, Doubles]:
    reach = disparity.Z95 * np.sqrt(variances)
    low, high = np.clip(values - reach, 0, 1), np.clip(values + reach, 0, 1)
    extreme = variances <= 0
    wilson = disparity.wilson(values * trials, np.full(len(values), trials))
    return np.where(extreme, np.minimum(wilson[0], values), low), np.where(extreme, np.maximum(wilson[1], values), high)


def by_chance(mean: float, covariance: Doubles) -> dict[str, float]:
    """Compute the expected disparity of the AUCs of equally exposed clients, which differ by chance alone.

    Args:
        mean: the AUC of each of them.
        covariance: [c, c] of their measured AUCs.

    Returns:
        ``largest``, ``cov``, ``fi`` and ``eod``; always from the same random numbers, so that rounds can be compared.

    >>> round(by_chance(0.5, np.eye(20) * 0.05**2)["eod"], 2)  # 20 normal numbers span 3.73 deviations
    0.19
    """
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    drawn = np.clip(mean + np.random.default_rng(0).standard_normal((DRAWS, len(root))) @ root, 0, 1)
    variations = drawn.std(axis=1) / np.maximum(drawn.mean(axis=1), np.finfo(np.float64).tiny)
    return {
        "largest": float(drawn.max(axis=1).mean()),
        "cov": float(variations.mean()),
        "fi": float((1 / (1 + variations**2)).mean()),
        "eod": float(np.ptp(drawn, axis=1).mean()),
    }
