"""The events of a sweep's trials, and their distribution to listeners: the screen and MLflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from orchestrator.results.paths import Folder
from orchestrator.results.record import write_record
from orchestrator.results.writing import write_atomically
from orchestrator.tracking.failures import killed_for_memory
from orchestrator.tracking.tracker import Tracker


class Listener(Protocol):
    """A receiver of events. ``trial`` is a trial's id, ``run`` its resolved run, ``record`` its record after it has ended."""

    def on_planned(self, trial: str, title: str, run: dict[str, Any], swept: Mapping[str, Any] | None = None) -> None:
        """A trial will run; ``swept`` has its values of the swept keys, by dotted key."""

    def on_started(self, trial: str) -> None:
        """A trial has started or was resumed."""

    def on_rounds(self, trial: str, rows: list[dict[str, Any]]) -> None:
        """Rounds have ended; ``rows`` has their metrics, one row per round."""

    def on_note(self, trial: str, note: str) -> None:
        """A short message about a trial, for the user."""

    def on_repaired(self, trial: str, sentence: str) -> None:
        """What a trial had saved was damaged and is set aside, as the sentence says."""

    def on_ended(self, trial: str, record: dict[str, Any]) -> None:
        """A trial has ended, with any status."""


class MlflowListener:
    """The listener that passes events on to MLflow."""

    def __init__(self, tracker: Tracker) -> None:
        self.tracker = tracker
        self.planned: dict[str, tuple[dict[str, Any], Mapping[str, Any]]] = {}

    def on_planned(self, trial: str, title: str, run: dict[str, Any], swept: Mapping[str, Any] | None = None) -> None:  # noqa: ARG002
        """Remember the run and its swept values until the trial starts."""
        self.planned[trial] = run, swept or {}

    def on_started(self, trial: str) -> None:
        """Open the trial's run in MLflow."""
        self.tracker.started(trial, *self.planned[trial])

    def on_rounds(self, trial: str, rows: list[dict[str, Any]]) -> None:
        """Send the metrics of rounds."""
        self.tracker.rounds(trial, rows)

    def on_note(self, trial: str, note: str) -> None:
        """Do nothing: MLflow does not need notes."""

    def on_repaired(self, trial: str, sentence: str) -> None:
        """Do nothing: the results are those of a trial that was never disturbed."""

    def on_ended(self, trial: str, record: dict[str, Any]) -> None:  # noqa: ARG002
        """Make MLflow's run of the trial what its folder says."""
        self.tracker.ended(trial)


class TrialEvents:
    """Passes events on to every listener.

    Attributes:
        statuses: by id, the status of each trial that has ended in this session.
    """

    def __init__(self, folder: Folder, listeners: list[Listener]) -> None:
        self.folder, self.listeners = folder, listeners
        self.statuses: dict[str, str] = {}
        self.runs: dict[str, dict[str, Any]] = {}

    def on_planned(self, trial: str, title: str, run: dict[str, Any], swept: Mapping[str, Any] | None = None) -> None:
        """Announce a trial that will run."""
        self.runs[trial] = run
        for listener in self.listeners:
            listener.on_planned(trial, title, run, swept)

    def on_started(self, trial: str) -> None:
        """Announce that a trial has started or was resumed."""
        for listener in self.listeners:
            listener.on_started(trial)

    def on_rounds(self, trial: str, rows: list[dict[str, Any]]) -> None:
        """Announce rounds that have ended; an empty list is ignored."""
        for listener in self.listeners if rows else ():
            listener.on_rounds(trial, rows)

    def on_note(self, trial: str, note: str) -> None:
        """Announce a short message for the user."""
        for listener in self.listeners:
            listener.on_note(trial, note)

    def on_repaired(self, trial: str, sentence: str) -> None:
        """Announce that what a trial had saved was damaged and is set aside."""
        for listener in self.listeners:
            listener.on_repaired(trial, sentence)

    def on_ended(self, trial: str, record: dict[str, Any]) -> None:
        """Announce that a trial has ended, and keep its status."""
        self.statuses[trial] = record["status"]
        for listener in self.listeners:
            listener.on_ended(trial, record)

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
