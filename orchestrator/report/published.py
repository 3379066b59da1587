"""The papers' printed numbers, read from ``published.yaml`` beside this file.

A `Record` is a number as it is printed. What it is in this project's words, a `Counterpart`, is said paper by paper in
``orchestrator/report/papers/``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("published.yaml")


@dataclass(frozen=True)
class Record:
    """One printed number: ``source`` is its table, figure or section; ``std`` is there only where it is printed."""

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
    """Where a record's number is found in the results of a sweep.

    Attributes:
        where: dotted keys of a run and the value that a trial must have (a tuple: any of these values).
        metrics: final metrics whose mean is the number.
        over: swept keys over whose settings the number is averaged; ``data.split`` stands for all keys inside it.
        context: what the paper ran with, by dotted key. A trial that deviates is compared all the same; the
            deviation is stated.
        repetitions: runs behind the printed number, if the paper says so.
        scale: factor from the printed unit to ours, 0.01 for percent.
        against: if given, the number is the largest quotient over settings: the metric under ``where`` divided by the
            same metric under ``where`` with these entries replaced.
    """

    where: Mapping[str, Any]
    metrics: tuple[str, ...]
    over: tuple[str, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict)
    repetitions: int | None = None
    scale: float = 1.0
    against: Mapping[str, Any] | None = None


@cache
def records() -> tuple[Record, ...]:
    """All records, in the order of the file.

    >>> record = records()[0]
    >>> record.paper, record.dataset, record.method, record.value
    ('ifca_mir', 'MNIST', 'IFCA', 0.816)
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # 438 records: 0.3 s in pure Python, 0.03 s with libyaml
    loaded = yaml.load(FILE.read_text(encoding="utf-8"), Loader=loader)
    return tuple(Record(**entry) for entry in loaded["published"])
