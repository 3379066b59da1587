"""The events of a sweep's trials, their distribution to listeners (the screen and MLflow), and
what is said of failures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orchestrator.results.paths import Folder
from orchestrator.results.record import write_record
from orchestrator.results.writing import write_atomically

MOST_LINES = 5  # trials that fail together mostly fail for one reason
MOST_LETTERS = 200  # of a reason; error.txt has all of it
# What Ray says of a process that it has ended for lack of memory, and what we say.
OUT_OF_MEMORY = "running low on memory|OutOfMemoryError"
KILLED_FOR_MEMORY = "Ray ended it, for the node was out of memory"
LESS_AT_ONCE = "lower resources.client_actors or resources.concurrent_trials"

# From what a reason says to the setting that usually helps. The first line that is found in it
# counts.
CAUSES = (
    (
        r"CUDA out of memory|OutOfMemoryError: CUDA|CUDNN_STATUS_ALLOC_FAILED",
        "lower resources.clients_per_gpu",
    ),
    (
        r"No space left|[Dd]isk quota",
        "make room: `fedpriv clean` removes what can be trained again",
    ),
    (
        r"OutOfMemory|MemoryError|[Cc]an(no|')t allocate memory|memory pressure|out of memory",
        LESS_AT_ONCE,
    ),
    (
        r"process died|ActorDied|WorkerCrashed|SIGKILL|unexpected system error|died "
        r"unexpectedly|node .* died",
        f"mostly the system kills a process for lack of memory (`dmesg` tells): {LESS_AT_ONCE}",
    ),
    (
        r"\b[Nn]a[Nn]\b|no longer finite|not finite|infinite|diverge",
        "lower base.training.lr, or clip the updates",
    ),
)


class TrialEvents:
    """Passes the events of trials on to listeners, which have a method for each.

    ``trial`` is always a trial's id.

    Attributes:
        statuses: by id, the status of each trial that has ended in this session.
    """

    def __init__(self, folder: Folder, listeners: Sequence[Any]) -> None:
        self.folder = folder
        self.listeners = listeners
        self.statuses: dict[str, str] = {}
        self.runs: dict[str, dict[str, Any]] = {}

    def on_planned(
        self, trial: str, title: str, run: dict[str, Any], swept: Mapping[str, Any]
    ) -> None:
        """A trial will run; ``run`` is its resolved run, ``swept`` has its values of the swept
        keys, by dotted key.
        """
        self.runs[trial] = run
        for listener in self.listeners:
            listener.on_planned(trial, title, run, swept)

    def on_started(self, trial: str) -> None:
        """A trial has started or was resumed."""
        for listener in self.listeners:
            listener.on_started(trial)

    def on_rounds(self, trial: str, rows: list[dict[str, Any]]) -> None:
        """Rounds have ended; ``rows`` has their metrics, one row per round."""
        for listener in self.listeners if rows else ():
            listener.on_rounds(trial, rows)

    def on_note(self, trial: str, note: str, lasting: bool = False) -> None:
        """There is a message about a trial for the user; a ``lasting`` one is true beyond the
        next round, too.
        """
        for listener in self.listeners:
            listener.on_note(trial, note, lasting)

    def on_ended(self, trial: str, record: dict[str, Any]) -> None:
        """A trial has ended, with any status; ``record`` is its record."""
        self.statuses[trial] = record["status"]
        for listener in self.listeners:
            listener.on_ended(trial, record)

    def on_lost(self, trial: str, text: str) -> None:
        """Record a trial as failed, whose process died more often than allowed: Ray says
        ``text`` of it.
        """
        if trial in self.statuses:
            return
        last = (text.strip() or "the reason is unknown").splitlines()[-1].strip()
        reason = (
            f"its process died: {KILLED_FOR_MEMORY if re.search(OUT_OF_MEMORY, text) else last}"
        )
        record = {"status": "failed", "reason": reason, "metrics": {}, "seconds": 0.0, "origin": {}}
        if text:
            write_atomically(self.folder.trial(trial).error, text.encode())
        self.on_ended(
            trial, write_record(self.folder.trial(trial), record, self.runs.get(trial, {}), {})
        )


def advice(reason: str) -> str:
    """What usually helps against the reason why a trial has no result; empty where nothing is
    known.

    >>> advice("OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
    'lower resources.clients_per_gpu'
    """
    return next((helps for pattern, helps in CAUSES if re.search(pattern, reason)), "")


def failure_lines(
    folder: Folder, rows: Iterable[Mapping[str, Any]], titles: Mapping[str, str]
) -> list[str]:
    """A line for each trial that failed or diverged, and what to do next; ``rows`` are those of
    ``trials.parquet``.
    """
    without = [row for row in rows if row["status"] in ("failed", "diverged")]
    lines = []
    for row in without[:MOST_LINES]:
        reason = " ".join(str(row["reason"] or "the reason is unknown").split()).rstrip(".")
        sentence = reason if len(reason) <= MOST_LETTERS else f"{reason[:MOST_LETTERS]}…"
        log = folder.trial(row["id"]).error
        parts = (
            f"{titles[row['id']]}  {row['status']}: {sentence}",
            advice(reason),
            f"log: {log}" if log.is_file() else "",
        )
        lines.append("; ".join(filter(None, parts)))
    if len(without) > MOST_LINES:
        lines.append(
            f"and {len(without) - MOST_LINES} more trials without a result, see {folder.table}"
        )
    if any(row["status"] == "failed" for row in without):
        lines.append(
            "the same command runs the failed trials again and leaves the others as they are"
        )
    return lines
