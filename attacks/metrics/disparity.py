"""How unequally clients are exposed to an attack (Zhao et al. 2025, section 5.2).

A disparity is NaN where it is undefined: its reference mean is 0, or a value is not finite. Standard deviations are
those of a population (ddof 0), because the clients are the whole population.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]

NAN = float("nan")
NULL_DRAWS = 4000  # simulated federations, which leave an error of about 0.001 in the CoV of ten clients
Z95 = 1.959963984540054  # the 97.5 % quantile of the standard normal distribution


# Disparity


def cov(values: ArrayLike) -> float:
    """Return the coefficient of variation, standard deviation over mean, of ``values`` [n].

    >>> cov([1.0, 3.0])
    0.5
    """
    x = np.asarray(values, np.float64)
    mean = _mean(x)
    return float(x.std()) / mean if np.isfinite(mean) and mean != 0 else NAN


def fairness_index(variation: float) -> float:
    """Return Jain's index 1 / (1 + CoV^2) of a coefficient of variation.

    It is 1 if all n values are equal, and 1/n if one of them has everything.

    >>> fairness_index(0.5)
    0.8
    """
    return 1 / (1 + variation**2)


def eod(values: ArrayLike) -> float:
    """Return the equal opportunity difference of ``values`` [n]: the largest minus the smallest.

    >>> eod([0.25, 0.5, 0.375])
    0.25
    """
    x = np.asarray(values, np.float64)
    return float(x.max() - x.min()) if np.isfinite(x).all() else NAN


def mad(values: ArrayLike) -> float:
    """Return the mean absolute difference ``1/n^2 sum_ij |x_i - x_j|`` of ``values`` [n], pairs i = j included.

    >>> mad([0.0, 1.0])
    0.5
    """
    x = np.asarray(values, np.float64)
    return float(np.abs(x[:, None] - x).mean()) if np.isfinite(x).all() else NAN


def sen_welfare(values: ArrayLike) -> float:
    """Return Sen's welfare of ``values`` [n]: mean times (1 - Gini), where Gini is `mad` over twice the mean.

    It is computed without the quotient, so that it is 0 if every value is 0.

    >>> sen_welfare([0.0, 1.0])
    0.25
    """
    return _mean(np.asarray(values, np.float64)) - mad(values) / 2


def _mean(x: Doubles) -> float:
    return float(x.mean()) if np.isfinite(x).all() else NAN


# What to expect by chance


def eod_null(targets: ArrayLike, rate: float) -> float:
    """Return the expected `eod` of the attack's success if all clients were equally exposed.

    Client i's share of hits is Binomial(n_i, rate) / n_i, independently. With F_i its distribution function, exactly

        E max = int_0^1 1 - prod_i F_i(x) dx,   E min = int_0^1 prod_i (1 - F_i(x)) dx.

    An `eod` is a biased measure of disparity; this is its bias.

    Args:
        targets: [clients] n_i, the attacked examples of each client.
        rate: the attack's success rate on every client.

    Raises:
        ValueError: a client has no targets.

    >>> round(eod_null([100] * 10, 0.1), 3)
    0.092
    """
    sizes, counts = np.unique(np.asarray(targets, np.int64), return_counts=True)
    if not len(sizes) or sizes[0] < 1:
        raise ValueError(f"every client needs 1 target or more; got {np.asarray(targets).tolist()}")
    if not 0 <= rate <= 1:
        return NAN
    shares = np.unique(np.concatenate([np.arange(n + 1) / n for n in sizes.tolist()]))
    below, above = np.ones(len(shares) - 1), np.ones(len(shares) - 1)
    for n, clients in zip(sizes.tolist(), counts.tolist(), strict=True):
        # F is a step function: it is constant between one share and the next.
        step = np.searchsorted(np.arange(n + 1) / n, shares[:-1], side="right") - 1
        below *= _binomial_cdf(n, float(rate))[step] ** clients
        above *= binomial_tail(n, float(rate))[step] ** clients
    return float(((1 - below - above) * np.diff(shares)).sum())


def cov_null(targets: ArrayLike, rate: float) -> float:
    """Return the expected `cov` of the attack's success if all clients were equally exposed, as in `eod_null`.

    It has no closed form. For n targets each of k clients it is about ``sqrt((1 - rate) / (n rate) (k - 1) / k)``, and
    here a mean over simulated federations, always from the same random numbers, so that rounds can be compared. One
    without any hit has no CoV and does not count.

    Args:
        targets: [clients] the attacked examples of each client.
        rate: the attack's success rate on every client.

    Returns:
        The expected CoV; NaN if the rate is 0 or no rate.

    Raises:
        ValueError: a client has no targets.

    >>> round(cov_null([100] * 10, 0.1), 2)
    0.28
    """
    variations = _equally_exposed(tuple(np.asarray(targets, np.int64).tolist()), float(rate))
    return float(variations.mean()) if len(variations) else NAN


def fi_null(targets: ArrayLike, rate: float) -> float:
    """Return the expected `fairness_index` of the attack's success if all clients were equally exposed; see `cov_null`.

    >>> round(fi_null([1000] * 10, 0.1), 2)
    0.99
    """
    variations = _equally_exposed(tuple(np.asarray(targets, np.int64).tolist()), float(rate))
    return float((1 / (1 + variations**2)).mean()) if len(variations) else NAN


@lru_cache(maxsize=4)
def _equally_exposed(targets: tuple[int, ...], rate: float) -> Doubles:
    """Simulate the CoV of each of up to `NULL_DRAWS` federations whose clients are equally exposed."""
    if min(targets, default=0) < 1:
        raise ValueError(f"every client needs 1 target or more; got {list(targets)}")
    if not 0 <= rate <= 1:
        return np.empty(0)
    shares = np.random.default_rng(0).binomial(targets, rate, (NULL_DRAWS, len(targets))) / targets
    means, deviations = shares.mean(axis=1), shares.std(axis=1)
    return deviations[means > 0] / means[means > 0]


def _binomial_cdf(n: int, rate: float) -> Doubles:
    """Return P(X <= k) for k = 0..n."""
    return np.minimum(np.cumsum(binomial(n, rate)), 1.0)


def binomial_tail(n: int, rate: float) -> Doubles:
    """Return P(X > k) for k = 0..n, summed from the small end."""
    mass = binomial(n, rate)
    return np.minimum(np.append(np.cumsum(mass[::-1])[-2::-1], 0.0), 1.0)


@lru_cache(maxsize=256)
def binomial(n: int, rate: float) -> Doubles:
    """Return P(X = k) for k = 0..n, computed with logarithms, because 2^n overflows."""
    if rate in (0.0, 1.0):
        return np.eye(n + 1)[0 if rate == 0 else n]
    k = np.arange(n + 1)
    choose = np.append(0.0, np.cumsum(np.log((n - k[1:] + 1) / k[1:])))
    return np.exp(choose + k * np.log(rate) + (n - k) * np.log1p(-rate))


def wilson(hits: ArrayLike, targets: ArrayLike, z: float = Z95) -> tuple[Doubles, Doubles]:
    """Return the lower and upper end of Wilson's interval for a rate.

    Args:
        hits: [...] successes.
        targets: [...] trials.
        z: the normal quantile; the default gives 95 %.

    >>> low, high = wilson(30, 100)
    >>> round(float(low), 3), round(float(high), 3)
    (0.219, 0.396)
    """
    n = np.asarray(targets, np.float64)
    share = np.asarray(hits, np.float64) / n
    center = share + z**2 / (2 * n)
    reach = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    shrunk = 1 + z**2 / n
    # Rounding must not exclude the observed share from its own interval when it is 0 or 1.
    return np.clip((center - reach) / shrunk, 0, share), np.clip((center + reach) / shrunk, share, 1)
