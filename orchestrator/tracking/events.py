"""The events of a sweep's trials, and their distribution to listeners: the screen and MLflow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from orchestrator.results.folder import Folder, write_atomically
from orchestrator.results.provenance import origin
from orchestrator.tracking.labels import component_tags, short_name, swept_params
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

    def on_ended(self, trial: str, record: dict[str, Any]) -> None:
        """A trial has ended, with any status."""


class MlflowListener:
    """The listener that passes events on to MLflow."""

    def __init__(self, tracker: Tracker, folder: Folder) -> None:
        self.tracker, self.folder = tracker, folder
        self.described: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {}

    def on_planned(self, trial: str, title: str, run: dict[str, Any], swept: Mapping[str, Any] | None = None) -> None:
        """Remember the name, the run and the swept parameters until the trial starts."""
        name = (short_name(swept) if swept else "") or title
        self.described[trial] = (name, run, swept_params(swept or {}))

    def on_started(self, trial: str) -> None:
        """Open the trial's run in MLflow."""
        name, run, params = self.described[trial]
        self.tracker.trial_started(trial, params, component_tags(run) | origin(run["training"]["device"]), name)

    def on_rounds(self, trial: str, rows: list[dict[str, Any]]) -> None:
        """Send the metrics of rounds."""
        self.tracker.rounds(trial, rows)

    def on_note(self, trial: str, note: str) -> None:
        """Do nothing: MLflow does not need notes."""

    def on_ended(self, trial: str, record: dict[str, Any]) -> None:
        """Send the final metrics and tables."""
        notes = {"notes": "; ".join(record["notes"])} if record.get("notes") else {}
        notes |= {"reason": record["reason"]} if record.get("reason") else {}
        self.tracker.trial_finished(trial, record["status"], record["metrics"] | notes, self.folder.trial(trial).path)


class TrialEvents:
    """Passes events on to every listener.

    Attributes:
        statuses: by id, the status of each trial that has ended in this session.
    """

    def __init__(self, folder: Folder, listeners: list[Listener]) -> None:
        self.folder, self.listeners = folder, listeners
        self.statuses: dict[str, str] = {}

    def on_planned(self, trial: str, title: str, run: dict[str, Any], swept: Mapping[str, Any] | None = None) -> None:
        """Announce a trial that will run."""
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

    def on_ended(self, trial: str, record: dict[str, Any]) -> None:
        """Announce that a trial has ended, and keep its status."""
        self.statuses[trial] = record["status"]
        for listener in self.listeners:
            listener.on_ended(trial, record)

    def on_lost(self, trial: str, error_file: str | None) -> None:
        """The trial's process died more often than allowed: record it as failed. The next run of the sweep resumes it."""
        if trial in self.statuses:
            return
        text = Path(error_file).read_text() if error_file else ""
        last = [line for line in text.splitlines() if line.strip()][-1:]
        reason = "its process died: " + (last[0].strip() if last else "the reason is unknown")
        record = {"id": trial, "status": "failed", "reason": reason, "metrics": {}, "seconds": 0.0}
        if text:
            write_atomically(self.folder.trial(trial).error, text.encode())
        write_atomically(self.folder.trial(trial).result, json.dumps(record).encode())
        self.on_ended(trial, record)
