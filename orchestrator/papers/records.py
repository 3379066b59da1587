"""Published numbers: as they are printed, and the same quantity in our words.

A `Record` is a number as printed, a `Counterpart` the same quantity in our words. It follows from
the tables in ``counterparts/<paper>.yaml``. A table is a mapping from patterns to entries. Each
pattern is searched in the record's words,

    dataset: MNIST; setting: average over settings; method: IFCA; metric: mia_balanced_accuracy;
        source: Table 2;

and the first that is found gives the entry. The entries of all tables, merged from above to below,
are the fields of the `Counterpart`; ``"{name}"`` stands for a named group of the pattern. A record
without an entry in some table is not compared. To add a paper, add its records and such a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from orchestrator.report.data import read_yaml

FOLDER = Path(__file__).parent
FORMS: dict[str, Callable[[float, float], float]] = {  # of a value and that of its baseline
    "change": lambda value, baseline: value - baseline,
    "gain": lambda value, baseline: value / baseline - 1,
    "reduction": lambda value, baseline: 1 - value / baseline,
}
# Values of ``data.split_seed``: one partition, or one for each repetition.
FIXED = "fixed"
VARIED = "varied"
WORDS = ("dataset", "setting", "method", "metric", "source")  # of a record, for patterns


@dataclass(frozen=True)
class Record:
    """One printed number.

    Attributes:
        paper: the paper's key, the name of a file in ``counterparts/``.
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
    words = " ".join(f"{name}: {getattr(record, name)};" for name in WORDS)
    merged: dict[str, Any] = {"where": {}, "context": {}}
    path = FOLDER / "counterparts" / f"{record.paper}.yaml"
    for table in load(path) if path.is_file() else [{}]:
        entry = next(_entries(table, words), None)
        if entry is None:
            return None
        for name, value in entry.items():
            known = merged.get(name, {})
            merged[name] = known | value if isinstance(value, dict) else value
    merged["metrics"] = tuple(merged["metrics"])
    return Counterpart(**merged)


def _entries(table: Mapping[str, Any], words: str) -> Iterator[dict[str, Any]]:
    """The entries of a table whose patterns are found, with groups in the place of their names."""
    for pattern, entry in table.items():
        match = re.search(pattern, words)
        if match:
            yield {
                name: _filled(value, match) if isinstance(value, dict) else value
                for name, value in entry.items()
            }


def _filled(values: dict[str, Any], match: re.Match[str]) -> dict[str, Any]:
    """These values with a pattern's groups in the place of their names."""
    filled = dict(values)
    for key, value in values.items():
        if isinstance(value, str) and value.startswith("{"):
            filled[key] = yaml.safe_load(value.format(**match.groupdict()))
    return filled


load = cache(read_yaml)  # what a file of the papers holds
