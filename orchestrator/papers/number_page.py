"""Published numbers beside measured ones as a page (``numbers.md``), and as cells of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from orchestrator.papers.numbers import (
    FULL,
    LEVELS,
    NOT_MEASURED,
    ONE_PARTITION,
    SHORTENED,
    Number,
)
from orchestrator.papers.records import papers
from orchestrator.report.data import grouped
from orchestrator.report.markdown import markdown_table
from orchestrator.report.vocabulary import key_label

HEAD = ("method", "metric", "printed", "measured", "partitions", "predicted", "size")
SWEEP_HEAD = ("source", "dataset", "published setting", *HEAD, "ours", "differs")
PREDICTED = {None: "", True: "yes", False: "NO"}
READING = (
    "A measured number is the mean over partitions of the data, with its interval from three on "
    '(95 %). "Predicted" says whether the printed number lies where one more run would, with '
    "95 %. Rates are fractions of one. Beside a printed mean over five runs (Table A.12), one run "
    "of ours stands."
)
MADE = (
    "In brackets, one partition is taken to vary as much as the method of the same table that "
    "varies most. Below a table stand the fields in which the runs differ from what the paper or "
    "its released code says, and notes on printed numbers."
)


def markdown(compared: Sequence[Number], sources: Sequence[str]) -> str:
    """The page of numbers: how many of each paper are measured, and each of them beside the
    printed one.
    """
    by_paper = {
        name: [row for row in compared if row.record.paper == paper]
        for paper, name in papers().items()
    }
    counts = [_counts(name, ours) for name, ours in {**by_paper, "all": compared}.items()]
    blocks = [
        "# Published numbers beside measured ones",
        f"Made by `fedpriv verdict {' '.join(sources)}`. {READING} {MADE}",
        markdown_table(("paper", "printed", *LEVELS), counts),
    ]
    for name, ours in by_paper.items():
        blocks.append(f"## {name}")
        blocks += _tables([row for row in ours if row.level != NOT_MEASURED])
        missing = Counter(row.record.source for row in ours if row.level == NOT_MEASURED)
        if missing:
            sources_of = ", ".join(f"{source} ({count})" for source, count in missing.items())
            blocks.append(f"Not measured: {sources_of}.")
    return "\n\n".join(blocks) + "\n"


def _counts(name: str, ours: Sequence[Number]) -> list[str]:
    """A line of the first table: how many numbers a paper has, and how many of each level."""
    levels = Counter(row.level for row in ours)
    return [name, str(len(ours)), *(str(levels[level]) for level in LEVELS)]


def _tables(measured: Sequence[Number]) -> list[str]:
    """The blocks of a paper: a table for each place in it."""
    blocks = []
    places = grouped((_place(row), row) for row in measured)
    for place, same in places.items():
        blocks += [f"### {place}", markdown_table(HEAD, map(_cells, same)), *_remarks(same)]
    return blocks


def _place(number: Number) -> str:
    record = number.record
    return f"{record.source}: {record.dataset}, {record.setting}"


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


def sweep_cells(number: Number) -> list[str]:
    """The cells of a number under `SWEEP_HEAD`, for the report of a sweep."""
    record = number.record
    remarks = [f"{field_label(key)} {words}" for key, words in number.differs.items()]
    if record.note:
        remarks.append(f"note: {record.note}")
    ours = number.setting or "the whole sweep"
    place = [record.source, record.dataset, record.setting]
    return [*place, *_cells(number), ours, "; ".join(remarks)]


def field_label(key: str) -> str:
    """The words for a field: its name, with that of its section or attack where many others have
    the same name.

    >>> field_label("data.clients"), field_label("curvature.trace"), field_label("attacks.own.pool")
    ('clients', 'curvature trace', 'own pool')
    """
    section = key.split(".")[-2] if "." in key else ""
    named = key.startswith(("attacks.", "curvature.", "aggregation.")) and not key.endswith(".name")
    return f"{section} {key_label(key)}" if named else key_label(key)


def _cells(number: Number) -> list[str]:
    """The cells of a number under `HEAD`."""
    record = number.record
    digits = 1 if min(abs(number.printed), abs(number.estimate.mean)) >= 10 else 3
    std = "" if record.std is None else f" ± {record.std * number.scale:.{digits}f}"
    predicted = PREDICTED[number.predicted]
    if predicted and number.lent:
        predicted = f"({predicted})"
    return [
        record.method,
        record.metric,
        f"{number.printed:.{digits}f}{std}",
        " ".join(filter(None, number.estimate.cell(digits))),
        str(number.estimate.n),
        predicted,
        number.level,
    ]


def _remarks(same: Sequence[Number]) -> list[str]:
    """The fields that differ from the paper, and the records' notes, by method."""
    fields = [", ".join(f"`{field}`" for field in number.fields) for number in same]
    notes = [number.record.note for number in same]
    methods = [number.record.method for number in same]
    blocks = []
    for title, remarks in {"Other than printed": fields, "Of the printed numbers": notes}.items():
        by_words = grouped(zip(remarks, methods, strict=True))
        lines = [
            f"- {', '.join(dict.fromkeys(names))}: {words}"
            for words, names in by_words.items()
            if words
        ]
        if lines:
            blocks.append(f"{title}:\n\n" + "\n".join(lines))
    return blocks
