"""Published numbers beside what was measured of them: in one sweep, and in all trials at hand.

A number is measured *at the paper's size* if clients, examples, rounds and epochs of the trials are
those of the paper, and *shortened* otherwise, also where one setting stands for an average over
several. If several readings were measured, the one counts that is at the paper's size, then that
with the fewest sizes that are not the paper's, then that with most partitions, then that with the
fewest fields that differ from the paper.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from algorithms.metrics.statistics import UNLIMITED, Estimate, estimate, limits
from orchestrator.config.metric_names import metric
from orchestrator.papers.records import (
    FIXED,
    FORMS,
    VARIED,
    Counterpart,
    Record,
    counterpart,
    records,
)
from orchestrator.papers.trials import Trial, agrees, differing, matches, trials_of
from orchestrator.report.data import DEAL, Results, Value, grouped, text
from orchestrator.report.vocabulary import setting_label

FULL = "at the paper's size"
ONE_PARTITION = "one partition"
SHORTENED = "shortened"
NOT_MEASURED = "not measured"
LEVELS = (FULL, ONE_PARTITION, SHORTENED, NOT_MEASURED)
SIZE = ("data.clients", "data.examples_per_client", "rounds", "training.epochs")


@dataclass(frozen=True)
class Number:
    """A published number and the measured one.

    Attributes:
        record: the number as printed.
        scale: the factor from its unit to ours.
        estimate: the mean over partitions, with its interval from three on.
        level: how it was measured.
        differs: the fields in which the trials differ from the paper's reading, with both values in
            words.
        setting: the swept values of the trials, in words.
        trials: the trials.
        metrics: what of them is averaged.
        near: of the measurements of other methods in the same table, that with the largest spread,
            which stands for a single partition's.
    """

    record: Record
    scale: float = 1.0
    estimate: Estimate = field(default_factory=lambda: estimate([]))
    level: str = NOT_MEASURED
    differs: Mapping[str, str] = field(default_factory=dict)
    setting: str = ""
    trials: tuple[Trial, ...] = ()
    metrics: tuple[str, ...] = ()
    near: Estimate = field(default_factory=lambda: estimate([]))

    @property
    def printed(self) -> float:
        """The printed number in our unit."""
        return self.record.value * self.scale

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that differ, but for the number of partitions, which is counted."""
        return tuple(key for key in self.differs if key != DEAL)

    @property
    def predicted(self) -> bool | None:
        """Whether the printed number lies where one more run would, with 95 %; None if that
        cannot be said.
        """
        known = self.near if self.lent else self.estimate
        at_size = self.level in (FULL, ONE_PARTITION)
        if math.isnan(known.half) or "seconds" in self.record.metric or not at_size:
            return None
        reach = known.half * math.sqrt(known.n * (1 + 1 / self.estimate.n))
        return abs(self.printed - self.estimate.mean) <= reach

    @property
    def lent(self) -> bool:
        """Whether that rests on the spread of another number."""
        return math.isnan(self.estimate.half)


def numbers(trials: Sequence[Trial]) -> list[Number]:
    """All published numbers, in their order, each with the best measurement of it among the
    trials.
    """

    def reading(printed: Counterpart, trial: Trial) -> str:
        return json.dumps({key: trial.run[key] for key in _apart(printed, trial)}, sort_keys=True)

    best = []
    for record in records():
        printed = counterpart(record)
        missing = Number(record, printed.scale if printed else 1.0)
        best.append(min(_numbers(record, trials, reading), key=_order, default=missing))
    spread = [row for row in best if row.level == FULL and not row.lent]
    spread.sort(key=lambda row: row.estimate.half)
    near = {_cell(row.record): row.estimate for row in spread}
    return [replace(row, near=near.get(_cell(row.record), row.near)) for row in best]


def _order(row: Number) -> tuple[int, int, int, int]:
    """Sorts the measurements of a number, the best one first."""
    sizes = len({*SIZE} & {*row.differs})
    return LEVELS.index(row.level), sizes, -row.estimate.n, len(row.fields)


def _cell(record: Record) -> tuple[str, ...]:
    """What the numbers of several methods in one table share."""
    return record.source, record.dataset, record.setting, record.metric


def compare(results: Results, published: Iterable[Record] | None = None) -> list[Number]:
    """The published numbers that a sweep measures, by default of all, one for each setting of
    the sweep.
    """
    rows = {trial["id"]: trial for trial in results.trials}

    def setting(printed: Counterpart, trial: Trial) -> str:
        row = rows[trial.id]
        keys = [key for key in results.keys if not _averages(printed, key)]
        return setting_label(tuple(keys), tuple(row.get(key) for key in keys))

    trials, _ = trials_of(results)
    chosen = records() if published is None else published
    return [row for record in chosen for row in _numbers(record, trials, setting)]


def _averages(printed: Counterpart, key: str) -> bool:
    """Whether a printed number is an average over a swept key."""
    return bool(printed.over) and f"{key}.".startswith(f"{printed.over}.")


def _numbers(
    record: Record, trials: Sequence[Trial], group: Callable[[Counterpart, Trial], str]
) -> list[Number]:
    """A number for each group of trials that measure a record."""
    printed = counterpart(record)
    if printed is None:
        return []
    measured = [
        trial
        for trial in trials
        if all(trial.metrics.get(name) is not None for name in printed.metrics)
    ]
    ours = [trial for trial in measured if matches(trial.run, printed.where)]
    theirs = {**printed.where, **printed.against}
    baselines = [trial for trial in measured if printed.against and matches(trial.run, theirs)]
    groups = grouped((group(printed, trial), trial) for trial in ours)
    found = [_measured(record, printed, name, same, baselines) for name, same in groups.items()]
    return [number for number in found if number.estimate.n]


def _apart(printed: Counterpart, trial: Trial) -> dict[str, str]:
    """The fields of the paper's reading in which a trial differs, with both values in words."""
    return {
        key: f"{_words(trial.run[key])} instead of {_words(value)}"
        for key, value in printed.context.items()
        if key in trial.run and key != DEAL and not agrees(trial.run[key], value)
    }


def _words(value: Value) -> str:
    if isinstance(value, Mapping):
        return (
            str(value["words"]) if "words" in value else " or ".join(map(_words, value["one_of"]))
        )
    return "none" if value is None else text(value)


def _measured(
    record: Record,
    printed: Counterpart,
    setting: str,
    trials: Sequence[Trial],
    baselines: Sequence[Trial],
) -> Number:
    """The mean over the partitions of these trials; trials on the same partition are averaged
    first.

    If a number is an average over settings, a partition that lacks one of them does not count.
    """
    partitions: dict[object, list[float]] = {}
    for trial in trials:
        values = partitions.setdefault(trial.pair[0], [])
        values += _values(printed, trial, baselines)
    most = max(map(len, partitions.values())) if printed.over else 1
    means = [
        math.fsum(values) / len(values) for values in partitions.values() if len(values) >= most
    ]
    differs = _apart(printed, trials[0])
    if printed.over and not any(_averages(printed, key) for key in differing(trials)):
        differs[printed.over] = "one instead of several"
    level = ONE_PARTITION if len(means) == 1 else FULL
    if set(differs) & {*SIZE, printed.over}:
        level = SHORTENED
    dealt = VARIED if len(means) > 1 else FIXED
    if len(trials) > 1 and DEAL in trials[0].run and printed.context.get(DEAL, dealt) != dealt:
        differs[DEAL] = f"{dealt} instead of {printed.context[DEAL]}"
    within = UNLIMITED if printed.against else limits(metric(printed.metrics[0]))
    return Number(
        record,
        printed.scale,
        estimate(means, within),
        level,
        differs,
        setting,
        tuple(trials),
        tuple(printed.metrics),
    )


def _values(printed: Counterpart, trial: Trial, baselines: Sequence[Trial]) -> list[float]:
    """The number in a trial; nothing if it compares with a baseline that is not there."""
    value = _value(printed, trial)
    if not printed.against:
        return [value]
    slots = {key.split(".")[0] for key in printed.against} | {"curvature"}
    for base in baselines:
        if base.pair == trial.pair and not differing([base, trial], slots):
            return [FORMS[printed.form](value, _value(printed, base))]
    return []


def _value(printed: Counterpart, trial: Trial) -> float:
    return math.fsum(float(trial.metrics[name]) for name in printed.metrics) / len(printed.metrics)
