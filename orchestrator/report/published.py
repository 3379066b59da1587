"""The numbers printed in the papers (``published.yaml``), and how to find each of them in the results of a sweep.

A `Record` is a number as printed, a `Counterpart` the same quantity in our words. It follows from the tables in
``papers/<paper>.yaml``. A table is a mapping from patterns to entries. Each pattern is searched in the record's words,

    dataset: MNIST; setting: average over settings; method: IFCA; metric: mia_balanced_accuracy; source: Table 2;

and the first that is found gives the entry. The entries of all tables, merged from above to below, are the fields of the
`Counterpart`; ``"{name}"`` stands for a named group of the pattern. A record without an entry in some table is not
compared. To add a paper, add its records and such a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
FORMS: dict[str, Callable[[float, float], float]] = {  # of a value and that of its baseline
    "change": lambda value, baseline: value - baseline,
    "gain": lambda value, baseline: value / baseline - 1,
    "reduction": lambda value, baseline: 1 - value / baseline,
}
FIXED, VARIED = "fixed", "varied"  # values of ``data.split_seed``: one partition, or one for each repetition


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
        where: the values that a trial must have, by dotted key. ``{one_of: [...]}`` allows several, and
            ``{at_least: 100, words: all}`` any number from 100 on, which the paper calls "all".
        metrics: the final metrics whose mean is the number.
        over: the part of a run over whose swept keys the number is averaged, such as ``data.split``; empty: none.
        context: the rest of the paper's reading, by dotted key: what the paper prints, or else its released code. For
            ``data.split_seed`` it is `FIXED` or `VARIED`. A trial with other values is still compared, and the table names
            every field that differs. Fields of a trial that are not in the reading are listed as not printed.
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
    return tuple(Record(**entry) for entry in _load(FOLDER / "published.yaml")["published"])


def papers() -> dict[str, str]:
    """What each paper is called, by its key, in the order of the pages."""
    return dict(_load(FOLDER / "published.yaml")["papers"])


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
    for table in _load(path) if path.is_file() else [{}]:
        matches = ((entry, re.search(pattern, words)) for pattern, entry in table.items())
        entry, match = next(((entry, match) for entry, match in matches if match), (None, None))
        if entry is None or match is None:
            return None
        for name, value in entry.items():
            merged[name] = merged.get(name, {}) | _filled(value, match) if isinstance(value, dict) else value
    return Counterpart(**merged | {"metrics": tuple(merged["metrics"])})


def _filled(values: dict[str, Any], match: re.Match[str]) -> dict[str, Any]:
    """These values with a pattern's groups in the place of their names."""
    named = {key: value for key, value in values.items() if isinstance(value, str) and value.startswith("{")}
    return values | {key: yaml.safe_load(value.format(**match.groupdict())) for key, value in named.items()}


@cache
def _load(path: Path) -> Any:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # 438 records: 0.3 s in pure Python, 0.03 s with libyaml
    return yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
