"""The summary table on the terminal at the end of a run: the trade-off between accuracy and
privacy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from algorithms.core.metric import MINOR
from algorithms.metrics.statistics import FEWEST
from orchestrator.config.metric_names import Shown, metric, table_columns
from orchestrator.report import context
from orchestrator.report.data import DEAL, Results, Setting, counts
from orchestrator.report.frame import between
from orchestrator.report.summary import fewer_seeds
from orchestrator.report.vocabulary import key_labels, value_label

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

UNLIMITED = 10_000  # columns
ALARM = "bold red"


def summary_table(read: Results, width: int = 100) -> Group:
    """The summary table: one row per setting, with the mean over its seeds ± half the width of
    the 95 % interval.

    Below three seeds their values replace mean and interval. Columns that never show an interval
    have the mean. If the table is too wide, the intervals are put below the means; if that is not
    enough, the least important columns are left out and named below it. A setting without a
    finished trial has dashes and its trials' statuses. ``width`` is that of the terminal, in
    columns.
    """
    from rich.console import Console, Group
    from rich.measure import Measurement
    from rich.text import Text

    console = Console(width=UNLIMITED)
    for layout in _layouts(_columns(read)):
        columns, left_out, stacked = layout
        table = _table(read, columns, stacked)
        if Measurement.get(console, console.options, table).maximum <= width:
            break
    caption = Text("\n".join([*_caption(read, columns, left_out), *read.facts.get("tuned", ())]))
    caption.highlight_regex(r"(?<!not )refuted in \d+ of \d+ runs", ALARM)
    return Group(table, caption)


def _layouts(columns: list[Shown]) -> Iterator[tuple[list[Shown], list[Shown], bool]]:
    """Yield columns to show, those left out, and whether intervals are below the means, what is
    easiest to read first.
    """
    yield columns, [], False
    major = [column for column in columns if column.rank < MINOR]
    if major:
        yield major, [column for column in columns if column.rank >= MINOR], False
    least = sorted(columns, key=lambda column: column.rank)[
        ::-1
    ]  # of one rank, the last is left out first
    for count in range(len(columns) + 1):
        yield [column for column in columns if column not in least[:count]], least[:count], True


def _table(read: Results, columns: Sequence[Shown], stacked: bool) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        title_justify="left",
    )
    table.title = Text(read.name) if read.name else None
    for label in key_labels(read.keys):
        table.add_column(label.replace(" ", "\n"))
    for column in columns:
        table.add_column(column.heading, justify="right", no_wrap=True)
    others = [
        counts([trial for trial in setting.trials if trial["status"] != "finished"])
        for setting in read.settings
    ]
    notes = ["\n".join(f"{n} {status}" for status, n in statuses.items()) for statuses in others]
    if any(notes):
        table.add_column("no result", style="yellow", no_wrap=True)
    for setting, note in zip(read.settings, notes, strict=True):
        swept = [
            value_label(key, value) or context.DASH
            for key, value in zip(read.keys, setting.values, strict=True)
        ]
        refuted = context.refuted(setting)
        styles = [
            ALARM if refuted and metric(column.metrics[0]).audits else "" for column in columns
        ]
        texts = map(Text, (_cell(read, setting, column, stacked) for column in columns), styles)
        table.add_row(*map(Text, swept), *texts, *([note] if any(notes) else []))
    return table


def _columns(read: Results) -> list[Shown]:
    measured = [name for name in read.metrics if read.has(name)]
    beside = context.shown_beside(measured)
    audits = {name for name in measured if metric(name).audits}
    beside |= audits - {
        audit.name for audit in context.audits(read)
    }  # a column of them reads like a refuted claim
    columns = [column for column in table_columns(measured) if column.metrics[0] not in beside]
    guessed = [
        it
        for it in columns
        if len(it.metrics) == 1 and context.chance_metric(metric(it.metrics[0]), read)
    ]
    return [
        replace(it, heading=f"{it.heading}\n{context.BY_CHANCE}") if it in guessed else it
        for it in columns
    ]


def _cell(read: Results, setting: Setting, column: Shown, stacked: bool) -> str:
    estimates = [setting.estimate(name) for name in column.metrics]
    if not any(estimate.n for estimate in estimates):
        return context.DASH
    if len(estimates) > 1:
        return " + ".join(estimate.text(column.digits) or context.DASH for estimate in estimates)
    mean, interval = (
        estimates[0].cell(column.digits)
        if column.interval
        else (estimates[0].text(column.digits), "")
    )
    words = " ".join(filter(None, (mean, _short(interval))))
    fewer = fewer_seeds(setting, column.metrics[0])
    if stacked:
        words = words.replace(" ±", "\n±").replace(" (", "\n(").replace(", ", ",\n")
        fewer = fewer.replace(" (", "\n(").replace(" seeds", "\nseeds")
    return (
        words + context.chance_cell(setting, metric(column.metrics[0]), read, column.digits) + fewer
    )


def _short(interval: str) -> str:
    """An interval without leading zeros, which makes it narrower and easy to distinguish from
    the mean.
    """
    return re.sub(r"\b0\.", ".", re.sub(r"\b([01])\.0+\b", r"\1", interval)).replace("± ", "±")


def _caption(read: Results, columns: Sequence[Shown], left_out: Sequence[Shown]) -> list[str]:
    runs = [setting.repetitions for setting in read.settings if setting.finished] or [0]
    partitions = any(trial.get(DEAL) is not None for trial in read.trials)
    over = (
        f"{between(runs)} "
        f"{'independent runs' if partitions else 'seed' if max(runs) == 1 else 'seeds'}"
    )
    lines = [f"mean over {over} ± half the width of the 95 % interval"]
    if max(runs) < FEWEST:
        few = f"{over}: values or their mean, without an interval, which needs three"
        lines = [few if any(runs) else "no trial has finished"]
    lines[0] += "; runs on the same partition are averaged first" if partitions else ""
    lines[0] += "; only finished trials count" if any(runs) and len(counts(read.trials)) > 1 else ""
    headings = [(column.heading, metric(name)) for column in columns for name in column.metrics[:1]]
    lines += context.readings(read, [name for column in columns for name in column.metrics])
    lines += [context.guessing(headings, read), *context.guarantee_lines(read)]
    lines += [
        *(f"note: {note}" for note in context.trial_notes(read.trials)),
        context.adversary_sentence(read),
    ]
    if left_out:
        names = ", ".join(column.heading.replace("\n", " ") for column in left_out)
        lines.append(f"in the report but too wide for this terminal: {names}")
    return [line for line in lines if line]
