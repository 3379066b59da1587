"""Accuracy against exposure: which settings no other one beats in both, how sure that is, and
how good their front is.

Setting A dominates B if it has the higher accuracy and the lower risk, or one of the two and as
much of the other. Means are uncertain, so a setting is on the front with a probability: the share
of draws (`algorithms.metrics.fronts`) in which no other setting dominates it, where all means of
all settings are drawn together. Only settings on the same data are compared: those that differ in
an algorithm.

Of N equal settings whose accuracy and risk err independently, 1 + 1/2 + ... + 1/N are on the front
by chance. The hypervolume is the area that the front dominates, between accuracy 0 and risk 1. The
best of many settings is partly luck, so that of the means is too large, and that of means drawn
around them by as much again: the interval is the basic one of the bootstrap, which takes this off
(twice the hypervolume less the quantiles of those drawn; Davison and Hinkley 1997, section 5.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from algorithms.metrics.fronts import draw_means, hypervolume, undominated
from algorithms.metrics.statistics import CONFIDENCE, FEWEST, NAN
from orchestrator.report.context import main_risk
from orchestrator.report.data import Repeat, Results, Setting, grouped, independent, repeat, text
from orchestrator.report.vocabulary import ALGORITHM

# of means; a share of 95 % is exact to half a point
DRAWS = 4000
SEED = 0
ALGORITHM_PARTS = tuple(
    f"{slot.removesuffix('name')}" for slot in ALGORITHM
)  # begin the keys of an algorithm's fields


@dataclass(frozen=True)
class Front:
    """Settings on the same data in the plane of accuracy and risk.

    Attributes:
        accuracy, risk: the metrics.
        shares: those that have both in every common repetition, at least two, each with the
            probability with which it is on the front; NaN with fewer than three repetitions.
        repetitions: how many independent repetitions they have in common.
        volume: the hypervolume of the means, with the ends of its 95 % interval, which may lie
            below it.
    """

    accuracy: str
    risk: str
    shares: tuple[tuple[Setting, float], ...]
    repetitions: int
    volume: tuple[float, float, float]

    @property
    def sure(self) -> list[Setting]:
        """The settings that nobody dominates, with 95 %."""
        return [setting for setting, share in self.shares if share >= CONFIDENCE]

    @property
    def possible(self) -> list[Setting]:
        """The settings of which neither that nor the contrary is known with 95 %."""
        return [setting for setting, share in self.shares if 1 - CONFIDENCE < share < CONFIDENCE]


def fronts(results: Results, of: tuple[str, str] | None = None) -> list[Front]:
    """The front of each group of settings on the same data in a risk and its accuracy, by
    default those of the headline.
    """
    risk, accuracy = of or main_risk(results) or ("", "")
    if not accuracy:
        return []
    at = [
        place for place, key in enumerate(results.keys) if not f"{key}.".startswith(ALGORITHM_PARTS)
    ]
    groups = grouped(
        (tuple(text(setting.values[place]) for place in at), setting)
        for setting in results.settings
    )
    return [front for group in groups.values() if (front := front_of(group, accuracy, risk))]


def front_of(settings: Sequence[Setting], accuracy: str, risk: str) -> Front | None:
    """The front of ``settings``, of which those without a finished trial are left out; None if
    fewer than two are left.
    """
    values = {place: repetitions(setting, accuracy, risk) for place, setting in enumerate(settings)}
    values = {place: rows for place, rows in values.items() if rows}
    common = sorted(set.intersection(*map(set, values.values()))) if values else []
    if len(values) < 2 or not common:
        return None
    # [repetitions, settings, 2]: accuracy, and the risk that is not there; both are better if
    # higher.
    each = [
        [independent([(run, rows[run][at]) for run in common]) for at in (0, 1)]
        for rows in values.values()
    ]
    points = np.array(each).transpose(2, 0, 1) * [1, -1] + [0, 1]
    volume = float(hypervolume(points.mean(axis=0)))
    n = len(points)
    probability = np.full(len(values), NAN)
    ends = (NAN, NAN)
    if n >= FEWEST:
        drawn = draw_means(points, DRAWS, np.random.default_rng(SEED))
        probability = undominated(drawn).mean(axis=0)
        tail = (1 - CONFIDENCE) / 2
        ends = tuple(
            (2 * volume - np.quantile(hypervolume(drawn), (1 - tail, tail))).clip(0, 1).tolist()
        )
    shares = tuple(
        (settings[place], float(share)) for place, share in zip(values, probability, strict=True)
    )
    return Front(accuracy, risk, shares, n, (volume, *ends))


def repetitions(setting: Setting, accuracy: str, risk: str) -> dict[Repeat, tuple[float, float]]:
    """Accuracy and risk of each finished repetition that has both."""
    pairs = {repeat(trial): (trial.get(accuracy), trial.get(risk)) for trial in setting.finished}
    return {
        run: (float(x), float(y))
        for run, (x, y) in pairs.items()
        if x is not None and y is not None
    }
