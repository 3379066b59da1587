"""The display of a running sweep: a live table on a terminal or in a notebook, otherwise one line per round.

All show the metrics that the sweep has measured, chosen by `orchestrator.metric_names`, and how long it still takes.
"""

from __future__ import annotations

import importlib
import io
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any, ClassVar

from rich.console import Console, Group
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from orchestrator.metric_names import BOOKKEEPING, Shown, least_important, metric, table_columns
from orchestrator.report.context import foreign_models
from orchestrator.tracking.events import Listener
from orchestrator.tracking.labels import scalar_metrics

PLAIN_WIDTH = 140  # columns of output to a file, a pipe or a notebook
NOTEBOOK_LINES = 40  # that the table may have in a notebook
REFRESH_SECONDS = 1.0  # from one output in a notebook to the next
RECENT = 8  # finished trials that stay visible in the live table, at most
OTHER_LINES = 5  # of the live table, besides trials: progress, headings and the cursor's line
TITLE = 28  # columns that titles may keep, so that trials can be distinguished, before a metric is left out
ESTIMATE_SECONDS = 60.0  # from one estimate to the next where there is no live table
UNLIMITED = 10_000  # columns
YEAR = 365 * 24 * 3600.0
DASH = "–"


@dataclass
class ScreenTrial:
    """One trial on the screen.

    Attributes:
        title: its swept values.
        rounds: its number of rounds.
        status: waiting, running, or the status with which it ended.
        done: the number of completed rounds.
        values: the latest value of every metric; the final metrics once the trial has ended.
        note: a short message, such as what it is waiting for.
        foreign: sentences about models that serve others than the group they are named after.
        began: start time on the screen's clock, in seconds.
        reported: when its latest rounds were reported.
        ended: end time.
        timed: seconds of each round after the trial's first, in which packages are loaded.
        warm: seconds until its first round had ended, less those of the round itself.
    """

    title: str
    rounds: int
    status: str = "waiting"
    done: int = 0
    values: dict[str, float] = field(default_factory=dict)
    note: str = ""
    foreign: dict[str, str] = field(default_factory=dict)
    began: float | None = None
    reported: float | None = None
    ended: float | None = None
    timed: list[float] = field(default_factory=list)
    warm: float = 0.0

    @property
    def over(self) -> bool:
        """Whether the trial has ended."""
        return self.status not in ("waiting", "running")

    def seconds(self, now: float) -> float | None:
        """How long the trial has run; None if it has not started in this session."""
        return None if self.began is None else (now if self.ended is None else self.ended) - self.began


def time_left(trials: Sequence[ScreenTrial], total: int, now: float) -> tuple[float, bool] | None:
    """The time until all trials have ended, and whether it is only a lower bound; None where nothing is known.

    A trial takes its rounds, at the mean of the rounds seen so far, and what rounds do not have in them, such as attacks on
    the final models: the median over the trials that have finished. Until one has, or where a trial has gone beyond that,
    the time is a lower bound. Trials that wait begin as others end, so that as many run at the same time as do now.

    Args:
        trials: the trials known so far; a search adds its own one after another.
        total: how many trials there will be.
        now: the time on the clock of ``began`` and ``reported``.
    """
    finished = [one for one in trials if one.status == "finished" and one.began is not None]
    running = [one for one in trials if one.status == "running"]
    rounds = [fmean(one.timed) for one in (*finished, *running) if one.timed]
    if not rounds and not finished:
        return None
    each = fmean(rounds) if rounds else 0.0
    beyond = [
        max(0.0, (one.seconds(now) or 0.0) - one.warm - (sum(one.timed) + fmean(one.timed) if one.timed else 0.0))
        for one in finished
    ]
    further = median(beyond) if beyond else 0.0
    left, overdue = [], []
    for one in running:
        waited = now - one.reported if one.reported is not None else 0.0
        left.append(max(0.0, each * (one.rounds - one.done) + further - waited))
        # Attacks on the final models are part of the last round; how long they take is not known before a trial has ended.
        overdue.append(not left[-1] or (not beyond and one.done >= one.rounds - 1))
    waiting = [one.rounds for one in trials if one.status == "waiting"]
    unseen = max(0, total - len(trials))
    ahead = each * (sum(waiting) + unseen * fmean(one.rounds for one in trials)) + further * (len(waiting) + unseen)
    if overdue and all(overdue) and not ahead:
        return None
    seconds = (sum(left) + ahead) / max(1, len(left)) if ahead else max(left, default=0.0)
    return seconds, not beyond or any(overdue)


def duration(seconds: float) -> str:
    """A duration in words, for an estimate.

    >>> duration(41.3), duration(600), duration(9000)
    ('about 41 s', 'about 10 min', 'about 2.5 h')
    >>> duration(3e6), duration(1e9), duration(1e300)
    ('about 833.3 h', 'about 32 years', 'more than 1000 years')
    """
    if seconds >= 1000 * YEAR:
        return "more than 1000 years"
    if seconds >= YEAR:
        return f"about {seconds / YEAR:.0f} years"
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


class Screen(Listener):
    """A listener that shows progress, with a live table on a terminal.

    Args:
        total: number of trials that will run.
        console: where to print; default: standard output.
        clock: returns the time in seconds.
    """

    def __init__(self, total: int, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.total = total
        self.console = console or Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)
        self.clock = clock
        self.trials: dict[str, ScreenTrial] = {}
        self.names: set[str] = set()  # all metrics that any trial has measured so far
        self.stage = ""  # what happens before the first trial has begun
        self.began = clock()
        self.estimated: float | None = None  # when the time left was last said in a line of its own
        self.live = Live(console=self.console, refresh_per_second=4, transient=True, get_renderable=self.table)

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

    def _say_of(self, shown: ScreenTrial, sentence: str) -> None:
        self.say(f"{self._done()}  {shown.title}  {sentence}")

    def on_planned(self, trial: str, title: str, run: dict[str, Any], swept: Any = None) -> None:  # noqa: ARG002
        self.trials[trial] = ScreenTrial(title, run["rounds"])

    def on_started(self, trial: str) -> None:
        shown = self.trials[trial]
        shown.status, shown.note, shown.began, shown.reported = "running", "", self.clock(), None

    def on_rounds(self, trial: str, rows: list[dict[str, Any]]) -> None:
        shown, now = self.trials[trial], self.clock()
        shown.done, shown.note = rows[-1]["round"] + 1, ""
        if shown.reported is None and shown.began is not None:
            shown.warm = max(0.0, now - shown.began - sum(row.get("seconds") or 0.0 for row in rows))
        shown.reported = now
        for row in rows:
            shown.values |= measured(row)
            self.names |= measured(row).keys()
            shown.timed += [row["seconds"]] if row["round"] and row.get("seconds") is not None else []
        if not self.console.is_terminal:
            for row in rows:
                self._say_of(shown, f"round {row['round'] + 1}/{shown.rounds}  {_scalars(row, self.names)}")
                self._say_foreign(shown, row)
            self._say_left()

    def on_note(self, trial: str, note: str) -> None:
        shown = self.trials[trial]
        shown.note = note
        if note and (not self.console.is_terminal or shown.status == "waiting"):
            self._say_of(shown, note)

    def on_repaired(self, trial: str, sentence: str) -> None:  # noqa: ARG002
        self.say(sentence)

    def on_ended(self, trial: str, record: dict[str, Any]) -> None:
        shown = self.trials[trial]
        shown.status, shown.note, shown.ended = record["status"], "", self.clock()
        shown.values |= measured(record.get("metrics") or {})
        self._say_foreign(shown, record.get("metrics") or {})
        if shown.status != "finished":
            self.say(f"{shown.title}  {shown.status}: {record.get('reason')}")
        elif not self.console.is_terminal:
            self._say_of(shown, f"finished in {record['seconds']:.1f} s")
            self._say_left()

    def table(self) -> Group:
        """The current live table, no wider than the console."""
        over = [shown for shown in self.trials.values() if shown.over]
        running = [shown for shown in self.trials.values() if shown.status == "running"]
        lines = sum(2 if shown.note else 1 for shown in running)
        room = min(RECENT, max(0, self.console.height - OTHER_LINES - lines), len(over))
        later = self._left(", {} left") if over or running else f", {self.stage}" if self.stage else ""
        head = f"{len(over)} of {self.total} trials ended, {clock_time(self.clock() - self.began)}{later}"
        return Group(Text(head, style="bold"), self._grid(over[len(over) - room :] + running))

    def _left(self, sentence: str) -> str:
        """``sentence`` with the time that the sweep still takes; empty before the first round and after the last one."""
        left = time_left(list(self.trials.values()), self.total, self.clock())
        if left is None or left[0] < 1:
            return ""
        return sentence.format(("at least " if left[1] else "") + duration(left[0]))

    def _say_left(self) -> None:
        """Say how long the sweep still takes, unless that was said a moment ago, or processes still warm up."""
        now = self.clock()
        last = self.began - ESTIMATE_SECONDS / 2 if self.estimated is None else self.estimated
        if now - last >= ESTIMATE_SECONDS and (left := self._left("{} left")):
            self.estimated = now
            self.say(f"{self._done()}  {left}")

    def _grid(self, trials: list[ScreenTrial]) -> Table:
        """The table of these trials: where space is short, titles lose what all have in common, then metrics are left out."""
        columns, titles = table_columns(self.names, live=True) if self.names else [], [shown.title for shown in trials]

        def fits(widest: int) -> bool:
            """Whether the table fits if titles that are longer than ``widest`` go on in further lines."""
            table, options = self._drawn(trials, titles, columns, widest), self.console.options.update_width(UNLIMITED)
            return Measurement.get(self.console, options, table).maximum <= self.console.width

        if not fits(UNLIMITED):
            common = common_words([shown.title for shown in self.trials.values()])
            titles = [_without(title, common) for title in titles]
        while columns and not fits(TITLE):
            columns.remove(least_important(columns))
        return self._drawn(trials, titles, columns)

    def _drawn(
        self, trials: list[ScreenTrial], titles: list[str], columns: Sequence[Shown], widest: int | None = None
    ) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column("trial", overflow="fold", max_width=widest)
        for heading in ("round", "time", "status", *(column.heading for column in columns)):
            table.add_column(heading, justify="left" if heading == "status" else "right", no_wrap=True)
        for shown, title in zip(trials, titles, strict=True):
            seconds = shown.seconds(self.clock())
            name = f"{title}\n{shown.note}" if shown.note else title
            told = (f"{shown.done}/{shown.rounds}", "" if seconds is None else clock_time(seconds), shown.status)
            cells = [name, *told, *(_cell(shown.values, column) for column in columns)]
            table.add_row(*map(Text, cells), style="dim" if shown.over else "")
        return table

    def _say_foreign(self, shown: ScreenTrial, metrics: Mapping[str, Any]) -> None:
        """Say which models have begun to serve others than the group they are named after."""
        found = foreign_models(metrics)
        for group in sorted(found.keys() - shown.foreign.keys()):
            self._say_of(shown, f"note: {found[group]}")
        shown.foreign = found

    def _done(self) -> str:
        return f"[{sum(shown.over for shown in self.trials.values())}/{self.total}]"


class NotebookScreen(Screen):
    """A screen whose live table is an output of the notebook's cell, drawn anew every second; sentences are printed above.

    Rich's own live display needs ipywidgets in a notebook. This one needs nothing but IPython, which every notebook has,
    and the last table stays in the saved notebook.
    """

    # What rich puts around the table; without a background of our own, it follows the notebook's light or dark theme.
    FRAME = '<pre style="line-height:1.25;font-family:Menlo,Consolas,monospace;overflow-x:auto">{code}</pre>'

    PAGE: ClassVar[dict[str, Any]] = {"width": PLAIN_WIDTH, "height": NOTEBOOK_LINES, "force_jupyter": False}

    def __init__(self, total: int) -> None:
        # A terminal without colors and cursor: what is printed is plain text, and trials report to the live table alone.
        super().__init__(total, Console(**self.PAGE, force_terminal=True, color_system=None, highlight=False))
        self.handle: Any = None  # IPython's, of the output
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._refresh, daemon=True)

    def __enter__(self) -> Screen:
        display: Any = importlib.import_module("IPython.display").display
        self.handle = display(self._output(), raw=True, display_id=True)
        self.thread.start()
        return self

    def stop(self) -> None:
        """End refreshing; the last table stays in the notebook. Again, it does nothing."""
        if not self.stopped.is_set():
            self.stopped.set()
            self.thread.join()
            self.handle.update(self._output(), raw=True)

    def _refresh(self) -> None:
        while not self.stopped.wait(REFRESH_SECONDS):
            self.handle.update(self._output(), raw=True)

    def _output(self) -> dict[str, str]:
        console = Console(**self.PAGE, record=True, file=io.StringIO())
        console.print(self.table())
        return {"text/html": console.export_html(inline_styles=True, code_format=self.FRAME)}


def screen_of(total: int) -> Screen:
    """The display of ``total`` trials for this process: that of a notebook (not IPython on a terminal), or another."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return Screen(total) if getattr(shell, "kernel", None) is None else NotebookScreen(total)


def measured(row: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of a row that have a value."""
    return {name: value for name, value in scalar_metrics(row).items() if name not in BOOKKEEPING}


def clock_time(seconds: float) -> str:
    """Format seconds like a stopwatch.

    >>> clock_time(65), clock_time(3725)
    ('1:05', '1:02:05')
    """
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


def common_words(titles: Collection[str]) -> set[str]:
    """The words that titles can do without, because all have them; none if titles would then be the same.

    >>> sorted(common_words(["finp beta 0.1 seed=0", "finp beta 0.5 seed=0"]))
    ['beta', 'finp', 'seed=0']
    """
    common = set.intersection(*(set(title.split()) for title in titles)) if len(titles) > 1 else set()
    return common if len({_without(title, common) for title in titles}) == len(set(titles)) else set()


def _without(title: str, words: Collection[str]) -> str:
    return " ".join(word for word in title.split(" ") if word not in words) or title


def _cell(values: Mapping[str, float], column: Shown) -> str:
    """The text of a cell: one metric of a trial, or several that share the column."""
    numbers = [values.get(name) for name in column.metrics]
    if all(value is None for value in numbers):
        return DASH
    # In one round, a number of clients is an integer.
    digits = [0 if metric(name).unit == "clients" else column.digits for name in column.metrics]
    return " + ".join(DASH if v is None else f"{v:.{d}f}" for v, d in zip(numbers, digits, strict=True))


def _scalars(row: Mapping[str, Any], names: Collection[str] = ()) -> str:
    """The metrics of a round on one line; ``names`` are all metrics of the sweep, which decide the columns."""
    values = measured(row)
    columns = table_columns({*names, *values}, live=True)
    shown = [
        f"{column.heading.replace(chr(10), ' ')} {_cell(values, column)}"
        for column in columns
        if any(name in values for name in column.metrics)
    ]
    return "  ".join([*shown, f"{row['seconds']:.2f} s"])
