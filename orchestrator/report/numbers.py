"""Published numbers beside what was measured of them: in one sweep, and in all trials at hand.

A number is measured *at the paper's size* if clients, examples, rounds and epochs of the trials are
those of the paper, and *shortened* otherwise, also where one setting stands for an average over
several. If several readings were measured, the one counts that is at the paper's size, then that
with the fewest sizes that are not the paper's, then that with most partitions, then that with the
fewest fields that differ from the paper.

A `Record` is a number as printed, a `Counterpart` the same quantity in our words. It follows from
the tables in ``papers/<paper>.yaml``. A table is a mapping from patterns to entries. Each pattern
is searched in the record's words,

    dataset: MNIST; setting: average over settings; method: IFCA; metric: mia_balanced_accuracy;
        source: Table 2;

and the first that is found gives the entry. The entries of all tables, merged from above to below,
are the fields of the `Counterpart`; ``"{name}"`` stands for a named group of the pattern. A record
without an entry in some table is not compared. To add a paper, add its records and such a file.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from algorithms.metrics.statistics import UNLIMITED, Estimate, estimate, limits
from orchestrator.config.metric_names import metric
from orchestrator.report.context import partition_line
from orchestrator.report.data import DEAL, Results, Value, grouped, read_yaml, text
from orchestrator.report.measured import Trial, agrees, differing, matches, trials_of
from orchestrator.report.summary import escape, markdown_table
from orchestrator.report.vocabulary import key_label, setting_label

FOLDER = Path(__file__).parent
FORMS: dict[str, Callable[[float, float], float]] = {  # of a value and that of its baseline
    "change": lambda value, baseline: value - baseline,
    "gain": lambda value, baseline: value / baseline - 1,
    "reduction": lambda value, baseline: 1 - value / baseline,
}
FIXED, VARIED = (
    "fixed",
    "varied",
)  # values of ``data.split_seed``: one partition, or one for each repetition


@dataclass(frozen=True)
class Record:
    """One printed number.

    Attributes:
        paper: the paper's key, the name of a file in ``papers/``.
        dataset: the data set, in the paper's words, like the next three fields.
        setting: the experimental setting.
        method: the method.
        metric: the metric and its unit.
        value: the number.
        source: the table, figure or section.
        std: the standard deviation, if it is printed.
        note: a remark for the reader.
    """

    paper: str
    dataset: str
    setting: str
    method: str
    metric: str
    value: float
    source: str
    std: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Counterpart:
    """How to find the number of a record in the results of a sweep.

    Attributes:
        where: the values that a trial must have, by dotted key. ``{one_of: [...]}`` allows several,
            and ``{at_least: 100, words: all}`` any number from 100 on, which the paper calls "all".
        metrics: the final metrics whose mean is the number.
        over: the part of a run over whose swept keys the number is averaged, such as
            ``data.split``; empty: none.
        context: the rest of the paper's reading, by dotted key: what the paper prints, or else its
            released code. For ``data.split_seed`` it is `FIXED` or `VARIED`. A trial with other
            values is still compared, and the table names every field that differs.
        scale: factor from the printed unit to ours, such as 0.01 for percent.
        against: what the baseline has instead, if the number compares two methods, pair by pair.
        form: how it compares them: a key of `FORMS`.
    """

    where: Mapping[str, Any]
    metrics: tuple[str, ...]
    over: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)
    scale: float = 1.0
    against: Mapping[str, Any] = field(default_factory=dict)
    form: str = ""


@cache
def records() -> tuple[Record, ...]:
    """All printed numbers, in the order of the file.

    >>> record = records()[0]
    >>> record.paper, record.dataset, record.method, record.value
    ('ifca_mir', 'MNIST', 'IFCA', 0.816)
    """
    return tuple(Record(**entry) for entry in load(FOLDER / "published.yaml")["published"])


def papers() -> dict[str, str]:
    """What each paper is called, by its key, in the order of the pages."""
    return dict(load(FOLDER / "published.yaml")["papers"])


@cache
def counterpart(record: Record) -> Counterpart | None:
    """How to find a printed number in our results; None if this project does not measure it.

    >>> counterpart(records()[0]).where
    {'clustering.name': 'ifca', 'data.name': 'mnist'}
    """
    fields = ("dataset", "setting", "method", "metric", "source")
    words = " ".join(f"{name}: {getattr(record, name)};" for name in fields)
    merged: dict[str, Any] = {"where": {}, "context": {}}
    path = FOLDER / "papers" / f"{record.paper}.yaml"
    for table in load(path) if path.is_file() else [{}]:
        matches = ((entry, re.search(pattern, words)) for pattern, entry in table.items())
        entry, match = next(((entry, match) for entry, match in matches if match), (None, None))
        if entry is None or match is None:
            return None
        for name, value in entry.items():
            merged[name] = (
                merged.get(name, {}) | _filled(value, match) if isinstance(value, dict) else value
            )
    return Counterpart(**merged | {"metrics": tuple(merged["metrics"])})


def _filled(values: dict[str, Any], match: re.Match[str]) -> dict[str, Any]:
    """These values with a pattern's groups in the place of their names."""
    named = {
        key: value
        for key, value in values.items()
        if isinstance(value, str) and value.startswith("{")
    }
    return values | {
        key: yaml.safe_load(value.format(**match.groupdict())) for key, value in named.items()
    }


load = cache(read_yaml)  # what a file of the papers holds


# What was measured of them

FULL, ONE_PARTITION, SHORTENED, NOT_MEASURED = (
    "at the paper's size",
    "one partition",
    "shortened",
    "not measured",
)
LEVELS = (FULL, ONE_PARTITION, SHORTENED, NOT_MEASURED)
HEAD = ("method", "metric", "printed", "measured", "partitions", "predicted", "size")
SWEEP_HEAD = ("source", "dataset", "published setting", *HEAD, "ours", "differs")
SIZE = ("data.clients", "data.examples_per_client", "rounds", "training.epochs")
READING = (
    'A measured number is the mean over partitions of the data, with its interval from three on (95 %). "Predicted" says '
    "whether the printed number lies where one more run would, with 95 %. Rates are fractions of one. Beside a printed mean "
    "over five runs (Table A.12), one run of ours stands."
)


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
        if (
            math.isnan(known.half)
            or "seconds" in self.record.metric
            or self.level not in (FULL, ONE_PARTITION)
        ):
            return None
        return abs(self.printed - self.estimate.mean) <= known.half * math.sqrt(
            known.n * (1 + 1 / self.estimate.n)
        )

    @property
    def lent(self) -> bool:
        """Whether that rests on the spread of another number."""
        return math.isnan(self.estimate.half)


def numbers(trials: Sequence[Trial]) -> list[Number]:
    """All published numbers, in their order, each with the best measurement of it among the
    trials.
    """

    def cell(record: Record) -> tuple[str, ...]:
        return record.source, record.dataset, record.setting, record.metric

    def reading(printed: Counterpart, trial: Trial) -> str:
        return json.dumps({key: trial.run[key] for key in _apart(printed, trial)}, sort_keys=True)

    def order(row: Number) -> tuple[int, int, int, int]:
        sizes = len({*SIZE} & {*row.differs})
        return LEVELS.index(row.level), sizes, -row.estimate.n, len(row.fields)

    best = []
    for record in records():
        missing = Number(record, printed.scale if (printed := counterpart(record)) else 1.0)
        best.append(min(_numbers(record, trials, reading), key=order, default=missing))
    spread = [row for row in best if row.level == FULL and not row.lent]
    near = {
        cell(row.record): row.estimate for row in sorted(spread, key=lambda row: row.estimate.half)
    }
    return [replace(row, near=near.get(cell(row.record), row.near)) for row in best]


def compare(results: Results, published: Iterable[Record] | None = None) -> list[Number]:
    """The published numbers that a sweep measures, by default of all, one for each setting of
    the sweep.
    """

    def setting(printed: Counterpart, trial: Trial) -> str:
        keys = [
            key
            for key in results.keys
            if not (printed.over and f"{key}.".startswith(f"{printed.over}."))
        ]
        return setting_label(tuple(keys), tuple(rows[trial.id].get(key) for key in keys))

    rows, (trials, _) = {trial["id"]: trial for trial in results.trials}, trials_of(results)
    chosen = records() if published is None else published
    return [row for record in chosen for row in _numbers(record, trials, setting)]


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
    groups = grouped(
        (group(printed, trial), trial) for trial in measured if matches(trial.run, printed.where)
    )
    theirs = {**printed.where, **printed.against}
    baselines = [trial for trial in measured if printed.against and matches(trial.run, theirs)]
    ours = [_measured(record, printed, name, same, baselines) for name, same in groups.items()]
    return [number for number in ours if number.estimate.n]


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
        values = [_value(printed, trial)]
        if printed.against:
            slots = {key.split(".")[0] for key in printed.against} | {"curvature"}
            pair = [
                base
                for base in baselines
                if base.pair == trial.pair and not differing([base, trial], slots)
            ]
            values = [FORMS[printed.form](values[0], _value(printed, base)) for base in pair[:1]]
        partitions.setdefault(trial.pair[0], []).extend(values)
    most = max(map(len, partitions.values())) if printed.over else 1
    means = [
        math.fsum(values) / len(values) for values in partitions.values() if len(values) >= most
    ]
    differs = _apart(printed, trials[0])
    if printed.over and not any(key.startswith(f"{printed.over}.") for key in differing(trials)):
        differs[printed.over] = "one instead of several"
    level = (
        SHORTENED
        if set(differs) & {*SIZE, printed.over}
        else ONE_PARTITION
        if len(means) == 1
        else FULL
    )
    dealt = VARIED if len(means) > 1 else FIXED
    if len(trials) > 1 and DEAL in trials[0].run and printed.context.get(DEAL, dealt) != dealt:
        differs[DEAL] = f"{dealt} instead of {printed.context[DEAL]}"
    within = UNLIMITED if printed.against else limits(metric(printed.metrics[0]))
    mean, metrics = estimate(means, within), tuple(printed.metrics)
    return Number(record, printed.scale, mean, level, differs, setting, tuple(trials), metrics)


def _value(printed: Counterpart, trial: Trial) -> float:
    return math.fsum(float(trial.metrics[name]) for name in printed.metrics) / len(printed.metrics)


# The file of a sweep


def published_markdown(results: Results, compared: Sequence[Number]) -> str:
    """The content of ``published.md``: the comparison."""
    blocks = [f"# {escape(results.name)}: measured and published numbers"]
    blocks += [escape(sentence) for sentence in results.facts.get("tuned", ())]
    differ = (
        "The last column names every field in which our runs differ from what the paper or its "
        "released code says."
    )
    blocks += [
        f"{READING} {differ}",
        partition_line(results),
        markdown_table(SWEEP_HEAD, map(sweep_cells, compared)),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def sweep_cells(number: Number) -> list[str]:
    """The cells of a number under `SWEEP_HEAD`."""
    record, note = number.record, number.record.note and f"note: {number.record.note}"
    differs = "; ".join(f"{field_label(key)} {words}" for key, words in number.differs.items())
    last = [number.setting or "the whole sweep", "; ".join(filter(None, (differs, note)))]
    return [record.source, record.dataset, record.setting, *_cells(number), *last]


def field_label(key: str) -> str:
    """The words for a field: its name, with that of its section or attack where many others have
    the same name.

    >>> field_label("data.clients"), field_label("curvature.trace"), field_label("attacks.own.pool")
    ('clients', 'curvature trace', 'own pool')
    """
    section = key.split(".")[-2] if "." in key else ""
    named = key.startswith(("attacks.", "curvature.", "aggregation.")) and not key.endswith(".name")
    return f"{section} {key_label(key)}" if named else key_label(key)


# The page of all numbers


def markdown(compared: Sequence[Number], sources: Sequence[str]) -> str:
    """The page of numbers: how many of each paper are measured, and each of them beside the
    printed one.
    """
    by_paper = {
        name: [row for row in compared if row.record.paper == paper]
        for paper, name in papers().items()
    }
    counts = [
        [name, str(len(ours)), *(str(sum(row.level == level for row in ours)) for level in LEVELS)]
        for name, ours in {**by_paper, "all": compared}.items()
    ]
    blocks = [
        "# Published numbers beside measured ones",
        f"Made by `fedpriv verdict {' '.join(sources)}`. {READING} In brackets, one partition "
        "is taken to vary as much as the method of the same table that varies most. Below a "
        "table stand the fields in which the runs differ from what the paper or its released "
        "code says, and notes on printed numbers.",
        markdown_table(("paper", "printed", *LEVELS), counts),
    ]
    for name, ours in by_paper.items():
        measured = [(row.record, row) for row in ours if row.level != NOT_MEASURED]
        places = grouped((f"{at.source}: {at.dataset}, {at.setting}", row) for at, row in measured)
        blocks.append(f"## {name}")
        for place, same in places.items():
            blocks += [f"### {place}", markdown_table(HEAD, map(_cells, same)), *_remarks(same)]
        missing = Counter(row.record.source for row in ours if row.level == NOT_MEASURED)
        if missing:
            blocks.append(
                "Not measured: "
                f"{', '.join(f'{source} ({count})' for source, count in missing.items())}."
            )
    return "\n\n".join(blocks) + "\n"


def counted(compared: Sequence[Number]) -> str:
    """How many of the numbers are measured, as a sentence."""
    count = Counter(number.level for number in compared)
    whole = [number for number in compared if number.level in (FULL, ONE_PARTITION)]
    distinct = {
        (frozenset(trial.id for trial in one.trials), one.metrics, one.estimate.mean)
        for one in whole
    }
    return (
        f"Of the {len(compared)} numbers that the papers print, {count[FULL]} are measured at "
        f"the paper's size over several partitions, {count[ONE_PARTITION]} on one partition, "
        f"{count[SHORTENED]} shortened, {count[NOT_MEASURED]} not. "
        f"{len(whole) - len(distinct)} of the measured ones repeat the measurement of another "
        "printed number."
    )


def _cells(number: Number) -> list[str]:
    record, digits = (
        number.record,
        1 if min(abs(number.printed), abs(number.estimate.mean)) >= 10 else 3,
    )
    std = "" if record.std is None else f" ± {record.std * number.scale:.{digits}f}"
    measured, predicted = (
        " ".join(filter(None, number.estimate.cell(digits))),
        {None: "", True: "yes", False: "NO"},
    )
    cells = [
        record.method,
        record.metric,
        f"{number.printed:.{digits}f}{std}",
        measured,
        str(number.estimate.n),
    ]
    said = predicted[number.predicted]
    return [*cells, f"({said})" if said and number.lent else said, number.level]


def _remarks(same: Sequence[Number]) -> list[str]:
    """The fields that differ from the paper, and the records' notes, by method."""
    fields = grouped(
        (", ".join(f"`{field}`" for field in number.fields), number.record.method)
        for number in same
    )
    notes = grouped((number.record.note, number.record.method) for number in same)
    blocks = []
    for title, methods in {"Other than printed": fields, "Of the printed numbers": notes}.items():
        lines = [
            f"- {', '.join(dict.fromkeys(names))}: {words}"
            for words, names in methods.items()
            if words
        ]
        blocks += [f"{title}:\n\n" + "\n".join(lines)] if lines else []
    return blocks
