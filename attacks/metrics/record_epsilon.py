"""The epsilon of an example that a membership attack's success comes to, as measures beside its AUC.

It is the epsilon at delta 1e-5 of one example, averaged over the attacked ones, to be held against the claim for an
example (``epsilon_example``) at the same delta, and not against that for a client. It is an estimate and certifies
nothing: one model was trained, and no coin decided on its examples. ``epsilon_record_most`` says what so many examples
could certify if coins had.

An estimate is never below 0, so that an attack that guesses has one above 0 on average. This is its value by chance:

    from the AUC     of U / (m n), with U Mann and Whitney's statistic of m members and n non-members: normal with
                     variance (m + n + 1) / (12 m n), or drawn where one side has fewer than 20 examples
    from the TPR     of X / m at a false positive rate of (k + 1) / (n + 1), X beta-binomial(m; k + 1, n - k): how many
                     members are above the (k + 1)-th highest of n non-members, k = floor(limit n)

The false positive rate is the expected one of that threshold (`attacks.metrics.membership.tpr_by_chance`), not the
limit, which is only what is seen. Scores are taken to be all different; ties lower what guessing gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from algorithms.auditing import attacks, bounds
from algorithms.auditing.epsilon import epsilons_gdp
from algorithms.core.messages import Doubles
from attacks.interfaces import Measure
from attacks.metrics.membership import LIMITS, NAN, tpr_by_chance

FEW = 20  # examples of a side below which the statistic is not taken for normal
DRAWS = 20_000
PARTS = 1000  # equally probable parts of a normal distribution


def record_epsilons(
    subject: str, found: Mapping[str, float], ranges: Mapping[str, tuple[float, float]], members: int, nonmembers: int
) -> list[Measure]:
    """Return the measures of an attack (``subject``) on so many members and non-members of one model.

    They follow from what `attacks.metrics.membership.measure` has ``found`` and the ends of its 95 % intervals:
    ``epsilon_record`` from the AUC and ``epsilon_record_at_1_fpr`` (and ``_01``) from the true positive rate there, each
    with its interval, and ``epsilon_record_most``. What is not finite is NaN.
    """
    told = {"epsilon_record": attacks.of_auc(found["auc"], *ranges["auc"], comparisons=members * nonmembers)}
    chance = {"epsilon_record": of_auc_by_chance(members, nonmembers)}
    for name, limit in LIMITS.items():
        if not np.isnan(found.get(name, NAN)):
            own, rate = f"epsilon_record_{name.removeprefix('tpr_')}", tpr_by_chance(nonmembers, limit)
            told[own] = attacks.of_rates(found[name], rate, *ranges[name])
            chance[own] = of_tpr_by_chance(members, nonmembers, limit)
    rows = []
    for name, one in told.items():
        value, low, high = (end if np.isfinite(end) else NAN for end in (one.epsilon, one.low, one.high))
        rows.append(Measure(subject, name, value, low, high, chance[name]))
    return [*rows, Measure(subject, "epsilon_record_most", _most(members + nonmembers))]


@lru_cache(maxsize=1024)
def of_auc_by_chance(members: int, nonmembers: int) -> float:
    """Return the expected ``epsilon_record`` of scores that do not depend on membership; NaN without either side.

    >>> [round(of_auc_by_chance(n, n), 2) for n in (100, 200, 1000)]
    [0.21, 0.14, 0.06]
    """
    from scipy.special import ndtri

    if not members or not nonmembers:
        return NAN
    pairs = members * nonmembers
    if min(members, nonmembers) < FEW:
        auc, often = np.unique(_drawn(*sorted((members, nonmembers))) / pairs, return_counts=True)
    else:
        deviation = np.sqrt((members + nonmembers + 1) / (12 * pairs))
        auc, often = 0.5 + deviation * ndtri((np.arange(PARTS) + 0.5) / PARTS), np.ones(PARTS, np.int64)
    mu = np.sqrt(2) * ndtri(np.clip(auc, 0.5 / pairs, 1 - 0.5 / pairs))
    return float(np.average(epsilons_gdp(mu, attacks.DELTA), weights=often))


def _drawn(fewer: int, more: int) -> Doubles:
    """Draw Mann and Whitney's statistic of exchangeable scores, [draws]; its distribution is the same for either side.

    The scores of the smaller side divide those of the other into parts, all divisions being equally probable.
    """
    rng = np.random.default_rng([fewer, more])
    parts = rng.multinomial(more, rng.dirichlet(np.ones(fewer + 1), DRAWS))
    return parts @ np.arange(fewer + 1, dtype=np.float64)


@lru_cache(maxsize=1024)
def of_tpr_by_chance(members: int, nonmembers: int, limit: float) -> float:
    """Return the expected epsilon from a TPR at a small false positive rate, of scores that do not depend on membership.

    A TPR of 1, whose epsilon is infinite, does not count.

    >>> [round(of_tpr_by_chance(n, n, 0.01), 2) for n in (100, 200, 1000)]
    [0.39, 0.32, 0.18]
    """
    from scipy.special import betaln, ndtri

    if members < 2 or not nonmembers:
        return NAN
    rate = tpr_by_chance(nonmembers, limit)
    above = round(rate * (nonmembers + 1))  # k + 1
    hits, below = np.arange(members, dtype=np.float64), nonmembers + 1 - above
    choices = -betaln(members - hits + 1, hits + 1) - np.log(members + 1)
    mass = np.exp(choices + betaln(hits + above, members - hits + below) - betaln(above, below))
    here = mass > 1e-12
    mu = ndtri(hits[here] / members) - ndtri(rate)
    return float((epsilons_gdp(mu, attacks.DELTA) * mass[here]).sum() / mass[here].sum())


@lru_cache(maxsize=256)
def _most(examples: int) -> float:
    return bounds.one_run_bound(examples, examples, examples, attacks.DELTA) if examples else NAN
