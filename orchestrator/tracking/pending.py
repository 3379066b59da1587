"""What MLflow should have of one run."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.results.folder import Folder, TrialFolder
from orchestrator.tracking.labels import scalar_metrics
from orchestrator.tracking.mlflow_lookup import ROUND
from orchestrator.tracking.mlflow_store import Rounds

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
        again: whether MLflow lacks something of the run although it is marked as completely sent.
        anew: whether it lacks rounds, so that its run is made anew.
        deleted: whether a user has deleted the complete run from the local store.
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
    again: bool = False
    anew: bool = False
    deleted: bool = False
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

    @property
    def mark(self) -> str:
        """What marks the run in MLflow as completely sent; empty while it has not ended."""
        return " ".join(filter(None, (self.status, str(self.ended), str(FORM), self.report))) if self.status else ""

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


def saved_rows(folder: TrialFolder, started: int, ended: int = 0) -> Rounds:
    """The rounds of the trial's table, with times computed from their durations; empty if there is no table.

    They are before the end, for MLflow shows the latest value of a metric, and that is to be the final one.

    Args:
        folder: the trial's folder.
        started: when it started, in milliseconds since 1970.
        ended: when it ended; 0 if it has not.
    """
    from orchestrator.results.tables import read_table

    rounds, passed = {}, 0.0
    for row in read_table(folder.table("rounds")).to_pylist() if folder.table("rounds").exists() else ():
        passed += row.get("seconds") or 0.0
        time_ = started + int(passed * 1000)
        rounds[int(row[ROUND])] = (min(time_, ended - 1) if ended else time_, scalar_metrics(row))
    return rounds


def trial_files(folder: TrialFolder) -> list[tuple[str, str]]:
    """The artifacts of a trial: its resolved configuration, its tables, and the message of its failure if there is one."""
    found = (folder.config, *sorted(folder.path.glob("*.parquet")), folder.path / "error.txt")
    return [(str(path), "") for path in found]


def sweep_files(folder: Folder, report_files: Iterable[Path]) -> list[tuple[str, str]]:
    """The artifacts of a sweep: its sweep file and the files of its report, each with its folder among the artifacts."""
    files = [(str(folder.sweep), "")]
    for file in map(Path, report_files):
        inside = file.parent.is_relative_to(folder.path) and file.parent != folder.path
        files.append((str(file), file.parent.relative_to(folder.path).as_posix() if inside else ""))
    return files


def digest(files: Iterable[tuple[str, str]]) -> str:
    """The digest of artifacts (path, and folder among the artifacts) by name and content; absent files are left out."""
    found = hashlib.blake2b(digest_size=8)
    for path, below in files:
        with suppress(OSError):
            content = hashlib.blake2b(Path(path).read_bytes()).hexdigest()
            found.update(f"{below}/{Path(path).name} {content}\n".encode())
    return found.hexdigest()
