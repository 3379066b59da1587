"""The display of a running sweep: a live table on a terminal, otherwise one line per round.

Both show the metrics that the sweep has measured, chosen by `orchestrator.config.metric_names`, and
how long it still takes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from statistics import fmean
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from algorithms.metrics.statistics import number
from orchestrator.config.metric_names import BOOKKEEPING, Shown, metric, table_columns
from orchestrator.tracking.labels import scalar_metrics

PLAIN_WIDTH = 140  # columns of output to a file, a pipe or a notebook
# finished trials that stay visible in the live table, below the running ones, while there is room
RECENT = 8
# columns that titles may keep, so that trials can be distinguished, before a metric is left out
TITLE = 16
UNLIMITED = 10_000  # columns
DASH = "–"


@dataclass
class ScreenTrial:
    """One trial on the screen; its times are those of the screen's clock, in seconds."""

    title: str
    rounds: int
    status: str = "waiting"  # waiting, running, or the status with which it ended
    done: int = 0  # completed rounds
    new_rounds: int = 0  # those of them since the screen began
    values: dict[str, float] = field(
        default_factory=dict
    )  # the latest value of every metric, at the end the final one
    note: str = ""  # such as what it is waiting for
    began: float | None = None
    ended: float | None = None


def duration(seconds: float) -> str:
    """A duration in words, for an estimate.

    >>> duration(41.3), duration(600), duration(9000), duration(3e6)
    ('about 41 s', 'about 10 min', 'about 2.5 h', 'about 35 days')
    """
    for most, unit, name in ((90, 1, "s"), (5400, 60, "min"), (200 * 3600, 3600, "h")):
        if seconds < most:
            return f"about {seconds / unit:.{int(name == 'h')}f} {name}"
    return f"about {seconds / 86400:.0f} days" if seconds < 1e10 else "centuries"


class Screen:
    """A listener that shows the progress of ``total`` trials on standard output, with a live
    table on a terminal.
    """

    def __init__(
        self,
        total: int,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total = total
        self.clock = clock
        width = None if sys.stdout and sys.stdout.isatty() else PLAIN_WIDTH
        self.console = console or Console(width=width, highlight=False, force_jupyter=False)
        self.trials: dict[str, ScreenTrial] = {}
        self.names: set[str] = set()  # all metrics that any trial has measured so far
        self.began = clock()
        self.live = Live(
            console=self.console, refresh_per_second=4, transient=True, get_renderable=self.table
        )

    def __enter__(self) -> Screen:
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the live table; what is said afterwards is printed alone. Again, it does nothing."""
        self.live.stop()

    def say(self, sentence: str) -> None:
        """Print one line; the live table stays below it."""
        self.console.print(Text(sentence), soft_wrap=True)

    def on_planned(
        self,
        trial: str,
        title: str,
        run: dict[str, Any],
        swept: Any = None,  # noqa: ARG002
    ) -> None:
        self.trials[trial] = ScreenTrial(title, run["rounds"])

    def on_started(self, trial: str) -> None:
        entry = self.trials[trial]
        entry.status = "running"
        entry.note = ""
        entry.began = self.clock()

    def on_rounds(self, trial: str, rows: list[dict[str, Any]]) -> None:
        entry = self.trials[trial]
        entry.done = rows[-1]["round"] + 1
        entry.new_rounds += len(rows)
        entry.note = ""
        for row in rows:
            values = measured(row)
            entry.values |= values
            self.names |= values.keys()
            if not self.console.is_terminal:
                columns = [
                    column
                    for column in table_columns(self.names, live=True)
                    if column.metrics[0] in values
                ]
                cells = [
                    f"{' '.join(column.heading.split())} {_cell(values, column)}"
                    for column in columns
                ]
                words = [
                    f"round {row['round'] + 1}/{entry.rounds}",
                    *cells,
                    f"{row['seconds']:.2f} s",
                ]
                self._say_of(entry, "  ".join(words))

    def on_note(self, trial: str, note: str, lasting: bool = False) -> None:
        entry = self.trials[trial]
        if lasting:
            self.say(note)
            return
        entry.note = note
        if note and (not self.console.is_terminal or entry.status == "waiting"):
            self._say_of(entry, note)

    def on_ended(self, trial: str, record: dict[str, Any]) -> None:
        entry = self.trials[trial]
        entry.status = record["status"]
        entry.note = ""
        entry.ended = self.clock()
        entry.values |= measured(record.get("metrics") or {})
        if entry.status != "finished":
            self.say(f"{entry.title}  {entry.status}: {record.get('reason')}")
        elif not self.console.is_terminal:
            self._say_of(entry, f"finished in {record['seconds']:.1f} s{self.left()}")

    def table(self) -> Group:
        """The current live table, no wider than the console: where space is short, titles are
        folded, then metrics left out.
        """
        ended = self._ended()
        running = [trial for trial in self.trials.values() if trial.status == "running"]
        head = (
            f"{len(ended)} of {self.total} trials ended, "
            f"{_stopwatch(self.clock() - self.began)}{self.left()}"
        )
        trials = running + ended[: -RECENT - 1 : -1]
        columns = table_columns(self.names, live=True) if self.names else []
        options = self.console.options.update_width(UNLIMITED)
        while columns:
            narrowest = Measurement.get(
                self.console, options, self._grid(trials, columns, TITLE)
            ).maximum
            if narrowest <= self.console.width:
                break
            columns.remove(
                max(reversed(columns), key=lambda column: column.rank)
            )  # the last of the highest rank
        return Group(Text(head, style="bold"), self._grid(trials, columns))

    def left(self) -> str:
        """The end of a sentence on how long the sweep still takes, at its speed so far; empty
        where there is nothing to say.
        """
        trials = list(self.trials.values())
        began = [trial.began for trial in trials if trial.began is not None]
        new = sum(trial.new_rounds for trial in trials)
        unseen = max(0, self.total - len(trials))  # a search adds its trials one after another
        ahead = sum(trial.rounds - trial.done for trial in trials if trial.ended is None)
        rounds = ahead + unseen * fmean([trial.rounds for trial in trials] or [0])
        return (
            f", {duration((self.clock() - min(began)) / new * rounds)} left"
            if new and rounds
            else ""
        )

    def _grid(
        self, trials: list[ScreenTrial], columns: Sequence[Shown], widest: int | None = None
    ) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column("trial", overflow="fold", max_width=widest)
        for heading in ("round", "time", "status", *(column.heading for column in columns)):
            table.add_column(
                heading, justify="left" if heading == "status" else "right", no_wrap=True
            )
        for trial in trials:
            ended = self.clock() if trial.ended is None else trial.ended
            spent = "" if trial.began is None else _stopwatch(ended - trial.began)
            name = f"{trial.title}\n{trial.note}" if trial.note else trial.title
            cells = [name, f"{trial.done}/{trial.rounds}", spent, trial.status]
            cells += [_cell(trial.values, column) for column in columns]
            table.add_row(*map(Text, cells), style="" if trial.ended is None else "dim")
        return table

    def _ended(self) -> list[ScreenTrial]:
        return [trial for trial in self.trials.values() if trial.ended is not None]

    def _say_of(self, trial: ScreenTrial, sentence: str) -> None:
        self.say(f"[{len(self._ended())}/{self.total}]  {trial.title}  {sentence}")


def measured(row: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of a row that have a value."""
    return {name: value for name, value in scalar_metrics(row).items() if name not in BOOKKEEPING}


def _stopwatch(seconds: float) -> str:
    return str(timedelta(seconds=int(seconds))).removeprefix("0:")


def _cell(values: Mapping[str, float], column: Shown) -> str:
    """The text of a cell of the live table, in which each metric has its column."""
    (name,) = column.metrics
    if name not in values:
        return DASH
    # In one round, a number of clients is an integer.
    return number(
        values[name], 0 if metric(name).unit == "clients" else column.digits, metric(name).bound
    )
