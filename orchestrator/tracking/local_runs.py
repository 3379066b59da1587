"""What the store beside the results has of a sweep, read from its file: MLflow itself takes seconds to be imported.

The layout of the file is MLflow's own; if it cannot be read, nothing is known, and what was recorded is believed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from orchestrator.tracking.labels import SENT_TAG, SWEEP_TAG, TRIAL_TAG, metric_key
from orchestrator.tracking.moved import placed
from orchestrator.tracking.places import LOCAL

ROUND_KEYS = (metric_key("round"), "round")  # the metric that every round has, in this version and in earlier ones
ASK = """
SELECT runs.artifact_uri, runs.lifecycle_stage, trial.value, sent.value,
    (SELECT count(DISTINCT step) FROM metrics WHERE metrics.run_uuid = own.run_uuid AND metrics.key IN (?, ?))
FROM tags AS own JOIN runs ON runs.run_uuid = own.run_uuid
LEFT JOIN tags AS trial ON trial.run_uuid = own.run_uuid AND trial.key = ?
LEFT JOIN tags AS sent ON sent.run_uuid = own.run_uuid AND sent.key = ?
WHERE own.key = ? AND own.value = ?
"""


@dataclass
class LocalRun:
    """What the store has of one trial, or of the sweep itself.

    Attributes:
        sent: what marks its runs as completely sent; of deleted runs only if there are no others: they stay deleted.
        artifacts: the folders of the artifacts of its runs that are not deleted, where they are after a move.
        rounds: how many rounds each of these has.
        moved: whether the store still names the former place of the results.
    """

    sent: set[str] = field(default_factory=set)
    artifacts: list[Path] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    moved: bool = False

    @property
    def deleted(self) -> bool:
        """Whether a user has deleted it after it was completely sent."""
        return bool(self.sent) and not self.rounds

    def lacks(self, files: Iterable[tuple[str, Path | None]]) -> bool:
        """Whether an artifact is missing or cut short.

        Args:
            files: the path of each among the artifacts, and the file that was sent if it can be compared with it.
        """
        return any(_differs(folder / below, file) for below, file in files for folder in self.artifacts)


def local_runs(results: Path, identity: str) -> dict[str, LocalRun] | None:
    """What the store has of a sweep, by trial; the sweep's own run is "". None if the store cannot be read.

    Args:
        results: the folder of all sweeps, absolute.
        identity: what identifies the sweep.
    """
    store = results / LOCAL
    if not store.exists():
        return {}
    found, deleted = dict[str, LocalRun](), dict[str, set[str]]()
    try:
        with closing(sqlite3.connect(f"{store.as_uri()}?mode=rw", timeout=1, uri=True)) as connection:
            rows = connection.execute(ASK, (*ROUND_KEYS, TRIAL_TAG, SENT_TAG, SWEEP_TAG, identity)).fetchall()
    except sqlite3.Error:
        return None
    for address, stage, trial, sent, rounds in rows:
        run = found.setdefault(str(trial or ""), LocalRun())
        marks = run.sent if stage == "active" else deleted.setdefault(str(trial or ""), set())
        marks.update(filter(None, [sent]))
        if stage == "active":
            run.rounds.append(rounds)
        if stage == "active" and str(address).startswith("file:"):
            now = placed(address, results)
            run.artifacts.append(artifact_folder(now))
            run.moved = run.moved or now != address
    for name, marks in deleted.items():
        if not found[name].rounds:
            found[name].sent = marks
    return found


def artifact_folder(address: str) -> Path:
    """The folder that an address of artifacts names, which begins with ``file:``."""
    return Path(url2pathname(urlsplit(address).path))


def _differs(artifact: Path, file: Path | None) -> bool:
    try:
        size = artifact.stat().st_size
        return file is not None and file.exists() and file.stat().st_size != size
    except OSError:
        return True
