"""Every published number beside what was measured of it, and how many of them have been measured at the paper's size.

A number is measured *at the paper's size* if clients, examples, rounds and epochs of the trials are those of the paper,
and *shortened* otherwise. If several readings were measured, the one counts that is at the paper's size, then that with
most partitions, then that with the fewest fields that differ from the paper.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.metric_names import metric
from orchestrator.report.comparison import agrees
from orchestrator.report.published import FORMS, Counterpart, Record, counterpart, records
from orchestrator.report.statistics import FEWEST, UNLIMITED, Estimate, deviation, estimate, limits, quantile
from orchestrator.report.summary import markdown_table
from orchestrator.report.verdicts import PAPERS, Trial, differing

FULL, ONE_PARTITION, SHORTENED, NOT_MEASURED = "at the paper's size", "one partition", "shortened", "not measured"
LEVELS = (FULL, ONE_PARTITION, SHORTENED, NOT_MEASURED)
HEAD = ("method", "metric", "printed", "measured", "partitions", "predicted", "size")
SIZE = ("data.clients", "data.examples_per_client", "rounds", "training.epochs")
CHOSEN_BY_US = ("data.split_seed",)  # the number of partitions, which is counted


@dataclass(frozen=True)
class Number:
    """A published number and the measured one.

    Attributes:
        record: the number as printed.
        scale: the factor from its unit to ours.
        estimate: the mean over partitions, with its interval from three on.
        level: how it was measured.
        differs: the fields in which the trials differ from the paper's reading.
    """

    record: Record
    scale: float
    estimate: Estimate
    level: str = NOT_MEASURED
    differs: tuple[str, ...] = ()

    @property
    def printed(self) -> float:
        """The printed number in our unit."""
        return self.record.value * self.scale

    @property
    def predicted(self) -> bool | None:
        """Whether the printed number lies where one more run would, with 95 %; None below three partitions, and of times."""
        values = self.estimate.values
        if len(values) < FEWEST or "seconds" in self.record.metric:
            return None
        half = quantile(len(values) - 1) * deviation(values) * math.sqrt(1 + 1 / len(values))
        return abs(self.printed - self.estimate.mean) <= half


def numbers(trials: Sequence[Trial]) -> list[Number]:
    """All published numbers, in their order, each with the best measurement of it among the trials."""
    return [_number(record, trials) for record in records()]


def _number(record: Record, trials: Sequence[Trial]) -> Number:
    printed = counterpart(record)
    if printed is None:
        return Number(record, 1.0, estimate([]))
    measured = [trial for trial in trials if all(trial.metrics.get(name) is not None for name in printed.metrics)]
    readings: dict[str, list[Trial]] = {}
    for trial in measured:
        if _has(trial, printed.where):
            apart = {key: trial.run[key] for key in _differing(printed, trial)}
            readings.setdefault(json.dumps(apart, sort_keys=True), []).append(trial)
    baselines = [trial for trial in measured if printed.against and _has(trial, {**printed.where, **printed.against})]
    found = [_measured(record, printed, same, baselines) for same in readings.values()]
    default = Number(record, printed.scale, estimate([]))
    found = [one for one in found if one.estimate.n]
    return min(found, key=lambda one: (LEVELS.index(one.level), -one.estimate.n, len(one.differs)), default=default)


def _has(trial: Trial, where: Mapping[str, Any]) -> bool:
    return all(agrees(trial.run.get(key), value) for key, value in where.items())


def _differing(printed: Counterpart, trial: Trial) -> tuple[str, ...]:
    """The fields of the paper's reading in which a trial differs."""
    return tuple(
        key
        for key, value in printed.context.items()
        if key in trial.run and key not in CHOSEN_BY_US and not agrees(trial.run[key], value)
    )


def _measured(record: Record, printed: Counterpart, trials: Sequence[Trial], baselines: Sequence[Trial]) -> Number:
    """The mean over the partitions of trials of one reading; trials on the same partition are averaged first."""
    partitions: dict[object, list[float]] = {}
    for trial in trials:
        value = _value(printed, trial)
        if printed.against:
            slots = {key.split(".")[0] for key in printed.against} | {"curvature"}
            pair = [one for one in baselines if one.pair == trial.pair and not differing([one, trial], slots)]
            values = [FORMS[printed.form](value, _value(printed, one)) for one in pair[:1]]
        else:
            values = [value]
        partitions.setdefault(trial.pair[0], []).extend(values)
    means = [math.fsum(values) / len(values) for values in partitions.values() if values]
    differs = _differing(printed, trials[0])
    level = SHORTENED if set(differs) & set(SIZE) else ONE_PARTITION if len(means) == 1 else FULL
    within = UNLIMITED if printed.against else limits(metric(printed.metrics[0]))
    return Number(record, printed.scale, estimate(means, within), level, differs)


def _value(printed: Counterpart, trial: Trial) -> float:
    return math.fsum(float(trial.metrics[name]) for name in printed.metrics) / len(printed.metrics)


def markdown(compared: Sequence[Number], sources: Sequence[str]) -> str:
    """The page of numbers: how many of each paper are measured, and each of them beside the printed one."""
    blocks = [
        "# Published numbers beside measured ones",
        f"Made by `fedpriv verdict {' '.join(sources)}`. A measured number is the mean over partitions of the data, with its "
        'interval from three on (95 %). "Predicted" says whether the printed number lies where one more run would, with 95 %. '
        "Rates are fractions of one. Below a table stand the fields in which the runs differ from what the paper or its "
        "released code says.",
        markdown_table(("paper", "printed", *LEVELS), _counts(compared)),
    ]
    for paper, name in PAPERS.items():
        ours = [one for one in compared if one.record.paper == paper]
        measured: dict[str, list[Number]] = {}
        for one in ours:
            if one.level != NOT_MEASURED:
                place = f"{one.record.source}: {one.record.dataset}, {one.record.setting}"
                measured.setdefault(place, []).append(one)
        blocks.append(f"## {name}")
        for place, same in measured.items():
            blocks += [f"### {place}", markdown_table(HEAD, map(_cells, same)), *_differences(same)]
        missing = Counter(one.record.source for one in ours if one.level == NOT_MEASURED)
        if missing:
            blocks.append(f"Not measured: {', '.join(f'{source} ({count})' for source, count in missing.items())}.")
    return "\n\n".join(blocks) + "\n"


def counted(compared: Sequence[Number]) -> str:
    """How many of the numbers are measured, as a sentence."""
    count = Counter(one.level for one in compared)
    return (
        f"Of the {len(compared)} numbers that the papers print, {count[FULL]} are measured at the paper's size over several "
        f"partitions, {count[ONE_PARTITION]} on one partition, {count[SHORTENED]} shortened, {count[NOT_MEASURED]} not."
    )


def _counts(compared: Sequence[Number]) -> list[list[str]]:
    papers = {name: [one for one in compared if one.record.paper == paper] for paper, name in PAPERS.items()}
    return [
        [name, str(len(ours)), *(str(sum(one.level == level for one in ours)) for level in LEVELS)]
        for name, ours in {**papers, "all": compared}.items()
    ]


def _cells(one: Number) -> list[str]:
    record, digits = one.record, 1 if abs(one.printed) >= 10 else 3
    std = "" if record.std is None else f" ± {record.std * one.scale:.{digits}f}"
    return [
        record.method,
        record.metric,
        f"{one.printed:.{digits}f}{std}",
        " ".join(filter(None, one.estimate.shown(digits))),
        str(one.estimate.n),
        {None: "", True: "yes", False: "NO"}[one.predicted],
        one.level,
    ]


def _differences(same: Sequence[Number]) -> list[str]:
    """The fields that differ from the paper, by method."""
    methods: dict[tuple[str, ...], dict[str, None]] = {}
    for one in same:
        methods.setdefault(one.differs, {})[one.record.method] = None
    lines = [f"- {', '.join(names)}: `{'`, `'.join(fields)}`" for fields, names in methods.items() if fields]
    return ["Other than printed:\n\n" + "\n".join(lines)] if lines else []
