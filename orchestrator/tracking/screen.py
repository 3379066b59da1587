"""What a person sees while a sweep runs: a live table on a terminal, one line a round elsewhere."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

PLAIN_WIDTH = 140  # columns where nobody watches: a log or a pipe
RECENT = 8  # finished trials that stay visible in the live table


@dataclass
class ScreenTrial:
    """One trial on the screen."""

    title: str
    rounds: int
    status: str = "waiting"
    row: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None
    note: str = ""


class Screen:
    """A listener of `orchestrator.tracking.events.TrialEvents` that prints. ``live`` draws a table that renews itself."""

    def __init__(self, total: int, console: Console | None = None) -> None:
        """``total``: number of trials that are to run."""
        self.total = total
        self.console = console or Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)
        self.trials: dict[str, ScreenTrial] = {}
        self.began = time.monotonic()
        self.live = Live(console=self.console, refresh_per_second=4, transient=True, get_renderable=self._table)

    def __enter__(self) -> Screen:
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def say(self, sentence: str) -> None:
        """Print one line; the live table stays below it."""
        self.console.print(Text(sentence), soft_wrap=True)

    def on_planned(self, trial: str, title: str, run: dict[str, Any]) -> None:
        self.trials[trial] = ScreenTrial(title, run["rounds"])

    def on_started(self, trial: str) -> None:
        self.trials[trial].status = "running"

    def on_rounds(self, trial: str, rows: list[dict[str, Any]]) -> None:
        shown = self.trials[trial]
        shown.row, shown.note = rows[-1], ""
        if not self.console.is_terminal:
            for row in rows:
                self.say(f"{self._done()}  {shown.title}  round {row['round'] + 1}/{shown.rounds}  {_scalars(row)}")

    def on_note(self, trial: str, note: str) -> None:
        shown = self.trials[trial]
        shown.note = note
        if not self.console.is_terminal:
            self.say(f"{self._done()}  {shown.title}  {note}")

    def on_ended(self, trial: str, record: dict[str, Any]) -> None:
        shown = self.trials[trial]
        shown.status, shown.reason = record["status"], record.get("reason")
        if shown.status != "finished":
            self.say(f"{shown.title}  {shown.status}: {shown.reason}")
        elif not self.console.is_terminal:
            self.say(f"{self._done()}  {shown.title}  finished in {record['seconds']:.1f} s")

    def _done(self) -> str:
        over = sum(shown.status not in ("waiting", "running") for shown in self.trials.values())
        return f"[{over}/{self.total}]"

    def _table(self) -> Group:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for heading in ("trial", "status", "round", "accuracy", "majority", "minority", "MIA maj.", "MIA min."):
            table.add_column(heading, justify="left" if heading in ("trial", "status") else "right")
        running = [shown for shown in self.trials.values() if shown.status == "running"]
        over = [shown for shown in self.trials.values() if shown.status not in ("waiting", "running")]
        for shown in over[-RECENT:] + running:
            row = shown.row
            cells = [row.get(name) for name in ("accuracy", "accuracy_majority", "accuracy_minority")]
            cells += [row.get(f"mia_accuracy_{name}") for name in ("majority", "minority")]
            rounds = f"{row['round'] + 1 if row else 0}/{shown.rounds}"
            values = ["-" if cell is None else f"{cell:.3f}" for cell in cells]
            table.add_row(
                shown.title, shown.note or shown.status, rounds, *values, style="" if shown in running else "dim"
            )
        seconds = time.monotonic() - self.began
        return Group(Text(f"{len(over)} of {self.total} trials done, {seconds:.0f} s", style="bold"), table)


def _scalars(row: dict[str, Any]) -> str:
    shown = [f"accuracy {row['accuracy']:.3f}"] if row.get("accuracy") is not None else []
    pairs = (("by group", "accuracy"), ("mia", "mia_accuracy"))
    for label, metric in pairs:
        values = [row.get(f"{metric}_{name}") for name in ("majority", "minority")]
        if any(value is not None for value in values):
            shown.append(f"{label} " + "/".join("-" if value is None else f"{value:.3f}" for value in values))
    loss = [f"loss {row['loss']:.4f}"] if row.get("loss") is not None else []  # not measured in every round
    return "  ".join([*shown, *loss, f"{row['seconds']:.2f} s"])
