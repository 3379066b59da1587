"""What MLflow should have of one run, and the file in the results folder that remembers it for the next process."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.results.folder import Folder, TrialFolder, write_atomically
from orchestrator.tracking import shared_view
from orchestrator.tracking.labels import scalar_metrics, short_name
from orchestrator.tracking.mlflow_store import ROUND, Rounds
from orchestrator.tracking.places import LOCAL

ATTEMPTS = 3  # to send a run that MLflow refuses although it accepts others
# How a run is laid out in MLflow. Runs of an earlier form are sent again; see `orchestrator.tracking.tracker`.
FORM = 2


@dataclass
class PendingTrial:
    """What MLflow should have of one run.

    Attributes:
        trial: the trial's id; "" for the sweep's own run.
        started: start time in milliseconds since 1970.
        ended: end time in milliseconds since 1970; 0 while the run has not ended.
        status: the trial's status; None while the run has not ended.
        rows: the rounds that MLflow may not have yet: time in milliseconds and metrics.
        files: artifacts besides those of the trial's folder: path, and folder among the artifacts.
        there: the address of the MLflow that has the complete run; empty if none has.
        experiment: the id of the experiment there.
        models: the address of the MLflow that has the trained models; empty if none has.
        report: the digest of ``files`` as they were when the sweep ended; empty for trials.
        on_disk: whether the trial's table has rows that are not in ``rows``.
        live: whether the trial ran in this process; files of other trials are sent only if they are missing.
        version: number of changes; ``sent`` is the version that MLflow has.
        sent: the last version that was sent.
        failures: number of failed attempts in a row.
        refusals: those of the failed attempts in which MLflow answered and refused.
    """

    trial: str
    name: str
    tags: dict[str, str]
    params: dict[str, str] = field(default_factory=dict)
    started: int = 0
    ended: int = 0
    status: str | None = None
    finals: dict[str, float] = field(default_factory=dict)
    rows: Rounds = field(default_factory=dict)
    folder: TrialFolder | None = None
    files: list[tuple[str, str]] = field(default_factory=list)
    there: str = ""
    experiment: str = ""
    models: str = ""
    report: str = ""
    on_disk: bool = False
    live: bool = True
    version: int = 1
    sent: int = 0
    failures: int = 0
    refusals: int = 0

    @property
    def pending(self) -> bool:
        """Whether something has to be sent and MLflow has not refused it too often."""
        return self.version != self.sent and self.refusals < ATTEMPTS

    def begin(self) -> None:
        """Mark the run as running."""
        self.status, self.ended, self.there, self.models, self.live = None, 0, "", "", True
        self.started = self.started or now()
        self.refusals, self.version = 0, self.version + 1

    def end(self, status: str, ended: int) -> None:
        """Mark the run as ended, with a trial's status and the time in milliseconds."""
        self.status, self.ended, self.there = status, ended, ""
        self.refusals, self.version = 0, self.version + 1


def now() -> int:
    """The time in milliseconds since 1970, as MLflow counts it."""
    return int(time.time() * 1000)


def record(folder: Folder | TrialFolder, wanted: PendingTrial) -> None:
    """Save what the tables do not contain, so that another process can send the whole run to MLflow."""
    names = ("name", "tags", "params", "started", "ended", "status", "finals", "files", "there", "experiment")
    kept = {name: getattr(wanted, name) for name in names} | {"form": FORM}
    kept |= {name: value for name in ("models", "report") if (value := getattr(wanted, name))}
    with suppress(OSError):  # writing the tables reports if the folder cannot be written
        write_atomically(folder.tracking, json.dumps(kept).encode())


def recorded(folder: Folder | TrialFolder) -> PendingTrial | None:
    """Read what `record` has saved; None if there is nothing readable. A run of an earlier form counts as not sent."""
    trial = folder if isinstance(folder, TrialFolder) else None
    with suppress(OSError, ValueError, TypeError):
        kept = json.loads(folder.tracking.read_text())
        former = kept.pop("form", 1) < FORM
        found = PendingTrial(trial.id if trial else "", folder=trial, live=False, **kept)
        return _in_this_form(found) if former else found
    return None


def _in_this_form(found: PendingTrial) -> PendingTrial:
    """A run that an earlier version recorded: it has to be sent again, with the swept parameters alone and a short name."""
    found.there = ""
    declared = _declared(found.folder) if found.folder else None
    if declared is not None:
        known = found.params
        found.params = {
            key: known[key] for key in known if any(key == one or key.startswith(f"{one}.") for one in declared)
        }
        if declared and set(declared) == set(found.params):
            found.name = short_name({key: _value(found.params[key]) for key in declared})
    return found


def _declared(folder: TrialFolder) -> list[str] | None:
    """The swept keys of the sweep file beside the trials; None if it cannot be read."""
    import yaml

    with suppress(OSError, yaml.YAMLError, AttributeError):
        text = Folder(folder.path.parent.parent).sweep.read_text()
        return list(yaml.safe_load(text).get("sweep") or {})
    return None


def _value(text: str) -> Any:
    with suppress(ValueError):
        return json.loads(text)
    return text


def saved_rows(folder: TrialFolder, started: int) -> Rounds:
    """The rounds of the trial's table, with times computed from their durations; empty if there is no table."""
    from orchestrator.results.tables import read_table

    rounds, passed = {}, 0.0
    for row in read_table(folder.table("rounds")).to_pylist() if folder.table("rounds").exists() else ():
        passed += row.get("seconds") or 0.0
        rounds[int(row[ROUND])] = (started + int(passed * 1000), scalar_metrics(row))
    return rounds


def trial_files(folder: TrialFolder) -> list[tuple[str, str]]:
    """The artifacts of a trial: its resolved configuration, its tables, and the message of its failure if there is one."""
    found = (folder.config, *sorted(folder.path.glob("*.parquet")), folder.path / "error.txt")
    return [(str(path), "") for path in found]


def digest(files: Iterable[tuple[str, str]]) -> str:
    """The digest of artifacts (path, and folder among the artifacts) by name and content; absent files are left out."""
    found = hashlib.blake2b(digest_size=8)
    for path, below in files:
        with suppress(OSError):
            content = hashlib.blake2b(Path(path).read_bytes()).hexdigest()
            found.update(f"{below}/{Path(path).name} {content}\n".encode())
    return found.hexdigest()


def views(results: Path, server: str) -> list[tuple[str, str]]:
    """The name and the address of the ready-made view of each sweep in the store beside ``results``, the latest first."""
    found = []
    for file in results.glob("*/tracking.json"):
        sweep = recorded(Folder(file.parent))
        if sweep and sweep.there == LOCAL and sweep.experiment:
            found.append((sweep.started, sweep.name, shared_view.link(server, sweep.experiment)))
    return [(name, link) for _, name, link in sorted(found, reverse=True)]
