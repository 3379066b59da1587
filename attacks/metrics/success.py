"""How well an attack's scores tell members from non-members: measures with intervals, values by
chance, and epsilons.

An epsilon is that at delta 1e-5 of one example, averaged over the attacked ones, to be held against
the claim for an example (``epsilon_example``) at the same delta, and not against that for a client.
It is an estimate and certifies nothing: one model was trained, and no coin decided on its examples.
``epsilon_record_most`` says what so many examples could certify if coins had.

An estimate is never below 0, so that an attack that guesses has one above 0 on average. This is its
value by chance:

    from the AUC     of U / (m n), with U Mann and Whitney's statistic of m members and n non-members: normal with
                     variance (m + n + 1) / (12 m n), or drawn where one side has fewer than 20 examples
    from the TPR     of X / m at a false positive rate of (k + 1) / (n + 1), X beta-binomial(m; k + 1, n - k): how many
                     members are above the (k + 1)-th highest of n non-members, k = floor(limit n)

The false positive rate is the expected one of that threshold
(`attacks.metrics.membership.tpr_by_chance`), not the limit, which is only what is seen. Scores are
taken to be all different; ties lower what guessing gives. Where labels may tell of membership
(`Success.draws`), it is the mean over 50 exchanges of who is a member among a label's examples
instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from algorithms.auditing.bounds import one_run_bound
from algorithms.auditing.epsilon import DELTA, epsilons_gdp, estimate_of_auc, estimate_of_rates
from algorithms.core.messages import Doubles
from algorithms.core.metric import Number, Of
from attacks.metrics import membership
from attacks.metrics.intervals import Interval, intervals
from attacks.metrics.membership import LIMITS, NAN, Bools, tpr_by_chance

FEW = 20  # examples of a side below which the statistic is not taken for normal
DRAWS = 20_000
# Epsilons of the true positive rates at the limits.
EPSILONS = {
    "tpr_at_1_fpr": "epsilon_record_at_1_fpr",
    "tpr_at_01_fpr": "epsilon_record_at_01_fpr",
}
PARTS = 1000  # equally probable parts of a normal distribution


@dataclass(frozen=True, eq=False)
class Success:
    """The `membership.MEASURES` of scores of so many members and non-members, with 95 %
    intervals over examples.
    """

    values: Mapping[str, float]
    ranges: Mapping[str, Interval]
    members: int
    nonmembers: int
    # Draws of some of the measures by chance, where more than the numbers of examples decides.
    draws: Mapping[str, Doubles] = field(default_factory=dict)

    @staticmethod
    def of(scores: Doubles, member: Bools, rng: np.random.Generator) -> Success:
        """Measure the scores [n] of one attack; ``rng`` draws the resamples."""
        inside = int(member.sum())
        ranges = intervals(scores, member, rng)
        return Success(membership.measure(scores, member), ranges, inside, len(member) - inside)

    def measures(self, of: Of) -> list[Number]:
        """Return a number for each measure."""
        drawn = {name: float(draws.mean()) for name, draws in self.draws.items()}
        chance = membership.by_chance(self.nonmembers) | drawn
        return [
            Number(name, value, of, *self.ranges[name], chance.get(name, NAN))
            for name, value in self.values.items()
        ]

    def epsilons(self, of: Of) -> list[Number]:
        """Return numbers of the epsilons of an example that these measures come to; what is not
        finite is NaN.

        ``epsilon_record`` is that of the AUC, ``epsilon_record_at_1_fpr`` (and ``_01``) that of the
        true positive rate there, each with its interval.
        """
        comparisons = self.members * self.nonmembers
        sizes = (self.members, self.nonmembers)
        estimate = estimate_of_auc(self.values["auc"], *self.ranges["auc"], comparisons=comparisons)
        drawn = "auc" in self.draws and not np.isnan(self.values["auc"])
        chance = (
            float(_of_aucs(self.draws["auc"], comparisons).mean())
            if drawn
            else epsilon_of_auc_by_chance(*sizes)
        )
        estimates = {"epsilon_record": (estimate, chance)}
        for name, limit in LIMITS.items():
            if not np.isnan(self.values[name]):
                rate = tpr_by_chance(self.nonmembers, limit)
                estimate = estimate_of_rates(self.values[name], rate, *self.ranges[name])
                chance = epsilon_of_tpr_by_chance(*sizes, limit)
                if name in self.draws:
                    finite = self.draws[name][self.draws[name] < 1]
                    chance = float(_of_tprs(finite, rate).mean()) if len(finite) else NAN
                estimates[EPSILONS[name]] = estimate, chance
        found = []
        for name, (estimate, chance) in estimates.items():
            value, low, high = (
                end if np.isfinite(end) else NAN
                for end in (estimate.epsilon, estimate.low, estimate.high)
            )
            found.append(Number(name, value, of, low, high, chance))
        return [*found, Number("epsilon_record_most", _certified_by_coins(sum(sizes)), of)]


@lru_cache(maxsize=1024)
def epsilon_of_auc_by_chance(members: int, nonmembers: int) -> float:
    """Return the expected ``epsilon_record`` of scores that do not depend on membership; NaN
    without either side.

    >>> [round(epsilon_of_auc_by_chance(n, n), 2) for n in (100, 200, 1000)]
    [0.21, 0.14, 0.06]
    """
    from scipy.special import ndtri

    if not members or not nonmembers:
        return NAN
    pairs, (fewer, more) = members * nonmembers, sorted((members, nonmembers))
    if fewer < FEW:
        # The scores of the smaller side divide those of the other into parts, all divisions being
        # equally probable.
        rng = np.random.default_rng([fewer, more])
        parts = rng.multinomial(more, rng.dirichlet(np.ones(fewer + 1), DRAWS))
        auc, often = np.unique(
            parts @ np.arange(fewer + 1, dtype=np.float64) / pairs, return_counts=True
        )
    else:
        deviation = np.sqrt((members + nonmembers + 1) / (12 * pairs))
        auc = 0.5 + deviation * ndtri((np.arange(PARTS) + 0.5) / PARTS)
        often = np.ones(PARTS, np.int64)
    return float(np.average(_of_aucs(auc, pairs), weights=often))


@lru_cache(maxsize=1024)
def epsilon_of_tpr_by_chance(members: int, nonmembers: int, limit: float) -> float:
    """Return the expected epsilon from a TPR at a small false positive rate, of scores that do
    not depend on membership.

    A TPR of 1, whose epsilon is infinite, does not count.

    >>> [round(epsilon_of_tpr_by_chance(n, n, 0.01), 2) for n in (100, 200, 1000)]
    [0.39, 0.32, 0.18]
    """
    from scipy.special import betaln

    if members < 2 or not nonmembers:
        return NAN
    rate = tpr_by_chance(nonmembers, limit)
    above = round(rate * (nonmembers + 1))  # k + 1
    hits = np.arange(members, dtype=np.float64)
    below = nonmembers + 1 - above
    choices = -betaln(members - hits + 1, hits + 1) - np.log(members + 1)
    mass = np.exp(choices + betaln(hits + above, members - hits + below) - betaln(above, below))
    likely = mass > 1e-12
    return float((_of_tprs(hits[likely] / members, rate) * mass[likely]).sum() / mass[likely].sum())


def _of_aucs(auc: Doubles, pairs: int) -> Doubles:
    from scipy.special import ndtri

    return epsilons_gdp(np.sqrt(2) * ndtri(np.clip(auc, 0.5 / pairs, 1 - 0.5 / pairs)), DELTA)


def _of_tprs(rates: Doubles, false: float) -> Doubles:
    from scipy.special import ndtri

    return epsilons_gdp(ndtri(rates) - ndtri(false), DELTA)


@lru_cache(maxsize=256)
def _certified_by_coins(examples: int) -> float:
    return one_run_bound(examples, examples, examples, DELTA) if examples else NAN
