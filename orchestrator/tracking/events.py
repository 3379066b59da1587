"""What happens in a sweep, as one stream of events for everybody who wants to know: the screen and the tracker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

from orchestrator.results.folder import Folder, write_atomically
from orchestrator.results.provenance import origin
from orchestrator.tracking.tracker import Tracker


class Listener(Protocol):
    """Somebody who is told of trials. ``run`` is resolved, and ``record`` what `orchestrator.trial.outcome` leaves."""

    def on_planned(self, trial: str, title: str, run: dict[str, Any]) -> None: ...

    def on_started(self, trial: str) -> None: ...

    def on_rounds(self, trial: str, rows: list[dict[str, Any]]) -> None: ...

    def on_note(self, trial: str, note: str) -> None: ...

    def on_ended(self, trial: str, record: dict[str, Any]) -> None: ...


class MlflowListener:
    """The listener that passes trials on to MLflow."""

    def __init__(self, tracker: Tracker, folder: Folder) -> None:
        self.tracker, self.folder = tracker, folder
        self.described: dict[str, tuple[str, dict[str, Any]]] = {}

    def on_planned(self, trial: str, title: str, run: dict[str, Any]) -> None:
        self.described[trial] = (title, run)

    def on_started(self, trial: str) -> None:
        title, run = self.described[trial]
        self.tracker.trial_started(trial, run, origin(run["training"]["device"]), title)

    def on_rounds(self, trial: str, rows: list[dict[str, Any]]) -> None:
        self.tracker.rounds(trial, rows)

    def on_note(self, trial: str, note: str) -> None:
        """Of no interest to MLflow."""

    def on_ended(self, trial: str, record: dict[str, Any]) -> None:
        self.tracker.trial_finished(trial, record["status"], record["metrics"], self.folder.trial(trial).path)


class TrialEvents:
    """Passes events on to every listener. ``ended`` lists the statuses of the trials that came to an end in this session."""

    def __init__(self, folder: Folder, listeners: list[Listener]) -> None:
        self.folder, self.listeners = folder, listeners
        self.statuses: dict[str, str] = {}

    def on_planned(self, trial: str, title: str, run: dict[str, Any]) -> None:
        for listener in self.listeners:
            listener.on_planned(trial, title, run)

    def on_started(self, trial: str) -> None:
        for listener in self.listeners:
            listener.on_started(trial)

    def on_rounds(self, trial: str, rows: list[dict[str, Any]]) -> None:
        for listener in self.listeners if rows else ():
            listener.on_rounds(trial, rows)

    def on_note(self, trial: str, note: str) -> None:
        for listener in self.listeners:
            listener.on_note(trial, note)

    def on_ended(self, trial: str, record: dict[str, Any]) -> None:
        self.statuses[trial] = record["status"]
        for listener in self.listeners:
            listener.on_ended(trial, record)

    def on_lost(self, trial: str, error_file: str | None) -> None:
        """The trial's driver died more often than it may; it is recorded as failed, and a next run takes it up again."""
        if trial in self.statuses:
            return
        last = [line for line in Path(error_file).read_text().splitlines() if line.strip()][-1:] if error_file else []
        reason = "its process died: " + (last[0].strip() if last else "no reason was left")
        record = {"id": trial, "status": "failed", "reason": reason, "metrics": {}, "seconds": 0.0}
        write_atomically(self.folder.trial(trial).result, json.dumps(record).encode())
        self.on_ended(trial, record)
