"""The events of a sweep's trials, and their distribution to listeners: the screen and MLflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.results.paths import Folder
from orchestrator.results.record import write_record
from orchestrator.results.writing import write_atomically
from orchestrator.tracking.failures import killed_for_memory


class Listener:
    """A receiver of events, which ignores what it does not define. ``trial`` is always a trial's id."""

    def on_planned(self, trial: str, title: str, run: dict[str, Any], swept: Mapping[str, Any] | None = None) -> None:
        """A trial will run; ``run`` is its resolved run, ``swept`` has its values of the swept keys, by dotted key."""

    def on_started(self, trial: str) -> None:
        """A trial has started or was resumed."""

    def on_rounds(self, trial: str, rows: list[dict[str, Any]]) -> None:
        """Rounds have ended; ``rows`` has their metrics, one row per round."""

    def on_note(self, trial: str, note: str) -> None:
        """A short message about a trial, for the user."""

    def on_repaired(self, trial: str, sentence: str) -> None:
        """What a trial had saved was damaged and is set aside, as the sentence says."""

    def on_ended(self, trial: str, record: dict[str, Any]) -> None:
        """A trial has ended, with any status; ``record`` is its record."""


class TrialEvents(Listener):
    """Passes events on to every listener.

    Attributes:
        statuses: by id, the status of each trial that has ended in this session.
    """

    def __init__(self, folder: Folder, listeners: Sequence[Listener]) -> None:
        self.folder, self.listeners = folder, listeners
        self.statuses: dict[str, str] = {}
        self.runs: dict[str, dict[str, Any]] = {}

    def _tell(self, event: str, *content: Any) -> None:
        for listener in self.listeners:
            getattr(listener, event)(*content)

    def on_planned(self, trial: str, title: str, run: dict[str, Any], swept: Mapping[str, Any] | None = None) -> None:
        """Announce a trial that will run."""
        self.runs[trial] = run
        self._tell("on_planned", trial, title, run, swept)

    def on_started(self, trial: str) -> None:
        """Announce that a trial has started or was resumed."""
        self._tell("on_started", trial)

    def on_rounds(self, trial: str, rows: list[dict[str, Any]]) -> None:
        """Announce rounds that have ended; an empty list is ignored."""
        if rows:
            self._tell("on_rounds", trial, rows)

    def on_note(self, trial: str, note: str) -> None:
        """Announce a short message for the user."""
        self._tell("on_note", trial, note)

    def on_repaired(self, trial: str, sentence: str) -> None:
        """Announce that what a trial had saved was damaged and is set aside."""
        self._tell("on_repaired", trial, sentence)

    def on_ended(self, trial: str, record: dict[str, Any]) -> None:
        """Announce that a trial has ended, and keep its status."""
        self.statuses[trial] = record["status"]
        self._tell("on_ended", trial, record)

    def on_lost(self, trial: str, text: str) -> None:
        """The trial's process died more often than allowed: record it as failed. The next run of the sweep resumes it.

        Args:
            trial: its id.
            text: what Ray said of it.
        """
        if trial in self.statuses:
            return
        last = [line.strip() for line in text.splitlines() if line.strip()][-1:] or ["the reason is unknown"]
        reason = f"its process died: {killed_for_memory(text) or last[0]}"
        record = {"status": "failed", "reason": reason, "metrics": {}, "seconds": 0.0, "origin": {}}
        if text:
            write_atomically(self.folder.trial(trial).error, text.encode())
        self.on_ended(trial, write_record(self.folder.trial(trial), record, self.runs.get(trial, {}), {}))
