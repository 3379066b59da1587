"""The display of a running sweep: a live table on a terminal, otherwise one line per round.

Both show the metrics that the sweep has measured, chosen by `orchestrator.metric_names`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from orchestrator.metric_names import BOOKKEEPING, Shown, least_important, metric, table_columns
from orchestrator.model_use import foreign_models
from orchestrator.tracking.labels import scalar_metrics
from orchestrator.tracking.remaining import Pace, time_left

PLAIN_WIDTH = 140  # columns of output to a file or a pipe
NOTE = 22  # minimum columns of a note below a title
RECENT = 8  # finished trials that stay visible in the live table, at most
AROUND = 5  # lines of the live table besides trials: progress, headings and the cursor's line
TITLE = 28  # columns that titles may keep, so that trials can be distinguished, before a metric is left out
ESTIMATE_SECONDS = 60.0  # from one estimate to the next where there is no live table
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
        reason: why it ended, if it did not finish.
        note: a short message, such as what it is waiting for.
        foreign: sentences about models that serve others than the group they are named after.
        began: start time on the screen's clock, in seconds.
        ended: end time on the screen's clock, in seconds.
        timed: seconds of each round after the trial's first.
        warm: seconds until its first round had ended, less those of the round itself; None before that.
    """

    title: str
    rounds: int
    status: str = "waiting"
    done: int = 0
    values: dict[str, float] = field(default_factory=dict)
    reason: str | None = None
    note: str = ""
    foreign: dict[str, str] = field(default_factory=dict)
    began: float | None = None
    ended: float | None = None
    timed: list[float] = field(default_factory=list)
    warm: float | None = None

    @property
    def over(self) -> bool:
        """Whether the trial has ended."""
        return self.status not in ("waiting", "running")

    def seconds(self, now: float) -> float | None:
        """How long the trial has run; None if it has not started in this session."""
        return None if self.began is None else (now if self.ended is None else self.ended) - self.began

    def own_seconds(self, now: float) -> float | None:
        """How long the trial has run, without the time that its processes took until its first round had ended."""
        seconds = self.seconds(now)
        return seconds if seconds is None or self.warm is None else seconds - self.warm


class Screen:
    """A listener of `orchestrator.tracking.events.TrialEvents` that shows progress, with a live table on a terminal."""

    def __init__(self, total: int, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """Make a screen.

        Args:
            total: number of trials that will run.
            console: where to print; default: standard output.
            clock: returns the time in seconds.
        """
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

    def on_planned(self, trial: str, title: str, run: dict[str, Any], swept: Any = None) -> None:  # noqa: ARG002
        """Add a trial that will run."""
        self.trials[trial] = ScreenTrial(title, run["rounds"])

    def on_started(self, trial: str) -> None:
        """Mark a trial as running."""
        shown = self.trials[trial]
        shown.status, shown.note, shown.began = "running", "", self.clock()

    def on_rounds(self, trial: str, rows: list[dict[str, Any]]) -> None:
        """Show the rounds that have ended."""
        shown = self.trials[trial]
        shown.done, shown.note = rows[-1]["round"] + 1, ""
        if shown.warm is None and shown.began is not None:
            reported = sum(row.get("seconds") or 0.0 for row in rows)
            shown.warm = max(0.0, self.clock() - shown.began - reported)
        for row in rows:
            shown.values |= measured(row)
            self.names |= measured(row).keys()
            shown.timed += [row["seconds"]] if row["round"] and row.get("seconds") is not None else []
        if not self.console.is_terminal:
            for row in rows:
                metrics = _scalars(row, self.names)
                self.say(f"{self._done()}  {shown.title}  round {row['round'] + 1}/{shown.rounds}  {metrics}")
                self._say_foreign(shown, row)
            self._say_left()

    def on_note(self, trial: str, note: str) -> None:
        """Show a short message about a trial."""
        shown = self.trials[trial]
        shown.note = note
        if note and (not self.console.is_terminal or shown.status == "waiting"):
            self.say(f"{self._done()}  {shown.title}  {note}")

    def on_repaired(self, trial: str, sentence: str) -> None:  # noqa: ARG002
        """Say what was damaged, in a line that stays."""
        self.say(sentence)

    def on_ended(self, trial: str, record: dict[str, Any]) -> None:
        """Show how a trial has ended."""
        shown = self.trials[trial]
        shown.status, shown.reason, shown.note = record["status"], record.get("reason"), ""
        shown.values |= measured(record.get("metrics") or {})
        shown.ended = self.clock()
        self._say_foreign(shown, record.get("metrics") or {})
        if shown.status != "finished":
            self.say(f"{shown.title}  {shown.status}: {shown.reason}")
        elif not self.console.is_terminal:
            self.say(f"{self._done()}  {shown.title}  finished in {record['seconds']:.1f} s")
            self._say_left()

    def table(self) -> Group:
        """The current live table, no wider than the console."""
        over = [shown for shown in self.trials.values() if shown.over]
        running = [shown for shown in self.trials.values() if shown.status == "running"]
        lines = sum(2 if shown.note else 1 for shown in running)
        room = min(RECENT, max(0, self.console.height - AROUND - lines), len(over))
        later = self._left(", {} left") if over or running else f", {self.stage}" if self.stage else ""
        head = f"{len(over)} of {self.total} trials ended, {clock_time(self.clock() - self.began)}{later}"
        return Group(Text(head, style="bold"), self._grid(over[len(over) - room :] + running))

    def _left(self, sentence: str) -> str:
        """``sentence`` with the time that the sweep still takes; empty before the first round and after the last one."""
        now = self.clock()
        paces = [
            Pace(
                shown.rounds,
                shown.done,
                shown.own_seconds(now),
                shown.status == "running",
                shown.status == "finished",
                fmean(shown.timed) if shown.timed else None,
            )
            for shown in self.trials.values()
        ]
        left = time_left(paces, self.total)
        return sentence.format(left) if left and left.seconds >= 1 else ""

    def _say_left(self) -> None:
        """Say how long the sweep still takes, unless that was said a moment ago, or processes still warm up."""
        now = self.clock()
        last = self.began - ESTIMATE_SECONDS / 2 if self.estimated is None else self.estimated
        if now - last >= ESTIMATE_SECONDS and (left := self._left("{} left")):
            self.estimated = now
            self.say(f"{self._done()}  {left}")

    def _grid(self, trials: list[ScreenTrial]) -> Table:
        columns = table_columns(self.names, live=True) if self.names else []
        ends = [(f"{shown.done}/{shown.rounds}", self._time(shown), shown.status) for shown in trials]
        kept, gap, title = _fit(trials, columns, ends, self.console.width)
        table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
        for heading in ("trial", "round", "time", "status", *(column.heading for column in kept)):
            table.add_column(heading, justify="left" if heading in ("trial", "status") else "right", no_wrap=True)
        common = common_words([shown.title for shown in self.trials.values()])
        for shown, end in zip(trials, ends, strict=True):
            name = shorten(shown.title, title, common) + (f"\n{_cut(shown.note, title)}" if shown.note else "")
            cells = [name, *end, *(_cell(shown.values, column) for column in kept)]
            table.add_row(*map(Text, cells), style="dim" if shown.over else "")
        return table

    def _say_foreign(self, shown: ScreenTrial, metrics: Mapping[str, Any]) -> None:
        """Say which models have begun to serve others than the group they are named after."""
        found = foreign_models(metrics)
        for group in sorted(found.keys() - shown.foreign.keys()):
            self.say(f"{self._done()}  {shown.title}  note: {found[group]}")
        shown.foreign = found

    def _time(self, shown: ScreenTrial) -> str:
        """The running time of a trial, as text."""
        seconds = shown.seconds(self.clock())
        return "" if seconds is None else clock_time(seconds)

    def _done(self) -> str:
        return f"[{sum(shown.over for shown in self.trials.values())}/{self.total}]"


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


def shorten(title: str, width: int, common: Collection[str] = ()) -> str:
    """Shorten a trial's title to ``width`` columns.

    First the keys are cut. If that is not enough, words in ``common`` are left out, and at last the middle is cut.

    >>> shorten("ifca_mir minority_ratio=0.1 seed=0", 26)
    'ifca_mir minor…=0.1 seed=0'
    >>> shorten("privacy=global_dp clip 1.0 noise_multiplier 8 seed=0", 24, {"clip", "1.0", "noise_multiplier"})
    'priv…=global_dp 8 seed=0'
    """
    short = _cut_keys(title, width)
    if len(short) > width:
        short = _cut_keys(_without(title, common), width)
    return short if len(short) <= width else f"{short[: width // 2]}…{short[len(short) - (width - 1) // 2 :]}"


def common_words(titles: Collection[str]) -> set[str]:
    """The words that titles can do without, because all have them; none if titles would then be the same.

    >>> sorted(common_words(["finp beta 0.1 seed=0", "finp beta 0.5 seed=0"]))
    ['beta', 'finp', 'seed=0']
    """
    common = set.intersection(*(set(title.split()) for title in titles)) if len(titles) > 1 else set()
    return common if len({_without(title, common) for title in titles}) == len(set(titles)) else set()


def _without(title: str, words: Collection[str]) -> str:
    return " ".join(word for word in title.split(" ") if word not in words) or title


def _cut_keys(title: str, width: int) -> str:
    """The title with its longest keys cut until it fits or all keys have one letter."""
    words = title.split(" ")
    lengths = [word.find("=") for word in words]  # lengths of the keys; -1 for a word without a key
    while len(" ".join(words)) > width and max(lengths) > 2:
        longest = lengths.index(max(lengths))
        _, _, value = words[longest].partition("=")
        lengths[longest] -= 1
        words[longest] = f"{words[longest][: lengths[longest] - 1]}…={value}"
    return " ".join(words)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _fit(
    trials: list[ScreenTrial], columns: list[Shown], ends: list[tuple[str, str, str]], width: int
) -> tuple[list[Shown], int, int]:
    """Fit the table into ``width`` columns.

    Titles are shortened first, then gaps, and finally the least important metrics are left out.

    Returns:
        The columns of metrics to show, the gap between columns, and the width of the titles.
    """
    kept = list(columns)
    widths = [_wide([column.heading, *(_cell(shown.values, column) for shown in trials)]) for column in columns]
    notes = [shown.note for shown in trials]
    widest = _wide(["trial", *(shown.title for shown in trials), *notes])
    least = _wide(["trial", *(_cut_keys(shown.title, 0) for shown in trials), *(note[:NOTE] for note in notes)])
    fixed = sum(_wide(cells) for cells in zip(("round", "time", "status"), *ends, strict=True))

    def left(gap: int) -> int:
        shown = sum(wide for wide, column in zip(widths, columns, strict=True) if column in kept)
        return width - fixed - shown - gap * (len(kept) + 3)

    least = min(widest, least, TITLE)
    gap = 2 if left(2) >= least else 1
    while kept and left(gap) < least:
        kept.remove(least_important(kept))
    return kept, gap, max(1, min(widest, left(gap)))


def _wide(cells: Iterable[str]) -> int:
    return max(len(line) for cell in cells for line in cell.split("\n"))


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
