"""How well an attack's scores tell members from non-members: every measure with its interval, and its value by chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from algorithms.core.messages import Doubles
from attacks.interfaces import Measure
from attacks.metrics import membership
from attacks.metrics.intervals import Interval, intervals
from attacks.metrics.membership import NAN, Bools
from attacks.metrics.record_epsilon import record_epsilons


@dataclass(frozen=True, eq=False)
class Success:
    """The `membership.MEASURES` of scores of so many members and non-members, with 95 % intervals over examples."""

    values: Mapping[str, float]
    ranges: Mapping[str, Interval]
    members: int
    nonmembers: int

    @staticmethod
    def of(scores: Doubles, member: Bools, rng: np.random.Generator) -> Success:
        """Measure the scores [n] of one attack; ``rng`` draws the resamples."""
        inside = int(member.sum())
        ranges = intervals(scores, member, rng)
        return Success(membership.measure(scores, member), ranges, inside, len(member) - inside)

    def measures(self, subject: str) -> list[Measure]:
        """Return a row for each measure."""
        chance = membership.by_chance(self.nonmembers)
        return [Measure(subject, name, v, *self.ranges[name], chance.get(name, NAN)) for name, v in self.values.items()]

    def epsilons(self, subject: str) -> list[Measure]:
        """Return rows for the epsilons of an example that these measures come to."""
        return record_epsilons(subject, self.values, self.ranges, self.members, self.nonmembers)
