"""The numbers printed in the papers, read from ``published.yaml`` in this folder.

A `Record` is a number as printed. A `Counterpart` says how to find the same quantity in the results of a sweep; the
modules in ``orchestrator/report/papers/`` make counterparts, one module for each paper.
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
    """One printed number.

    Attributes:
        paper: the paper's key, the name of a module in ``papers/``.
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
class AtLeast:
    """A printed value that any number from ``least`` on agrees with, such as "all examples of a client".

    Attributes:
        least: the smallest number that agrees.
        words: what the paper says.
    """

    least: float
    words: str


FIXED, VARIED = (
    "fixed",
    "varied",
)  # values of ``data.split_seed`` in a reading: one partition, or one for each repetition


@dataclass(frozen=True)
class Counterpart:
    """How to find the number of a record in the results of a sweep.

    Attributes:
        where: the values that a trial must have, by dotted key (a tuple allows any of its values).
        metrics: the final metrics whose mean is the number.
        over: swept keys over which the number is averaged; ``data.split`` stands for all keys inside it.
        context: the rest of the paper's reading, by dotted key: what the paper prints, or else its released code. A value
            can be a tuple or `AtLeast`, too; for ``data.split_seed`` it is `FIXED` or `VARIED`. A trial with other values
            is still compared, and the table names every field that differs. Fields of a trial that are not in the reading
            are listed as not printed.
        repetitions: the number of runs behind the printed number, if the paper states it.
        scale: factor from the printed unit to ours, such as 0.01 for percent.
        against: if given, the number is the largest of several quotients: the metric of the trials in ``where``, divided
            by the metric of the trials in ``where`` with these entries replaced. All our quotients are compared with it.
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
    """All printed numbers, in the order of the file.

    >>> record = records()[0]
    >>> record.paper, record.dataset, record.method, record.value
    ('ifca_mir', 'MNIST', 'IFCA', 0.816)
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # 438 records: 0.3 s in pure Python, 0.03 s with libyaml
    loaded = yaml.load(FILE.read_text(encoding="utf-8"), Loader=loader)
    return tuple(Record(**entry) for entry in loaded["published"])
