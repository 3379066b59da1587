"""The paths of a results folder.

    RESULTS/<sweep>/               `Folder`
    RESULTS/<sweep>/trials/<id>/   `TrialFolder`

The tables in these folders are written by `orchestrator.results.tables`.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from orchestrator.results.integrity import ASIDE
from orchestrator.results.mark import read_mark


class FolderError(ValueError):
    """A results folder cannot be used. The message says which folder, why, and what to do."""


@dataclass(frozen=True)
class TrialFolder:
    """The files of one trial, in RESULTS/<sweep>/trials/<id>/."""

    path: Path

    @property
    def id(self) -> str:
        """The trial's id, which is the folder's name."""
        return self.path.name

    @property
    def config(self) -> Path:
        """``config.yaml``: the resolved run."""
        return self.path / "config.yaml"

    @property
    def model(self) -> Path:
        """``model.safetensors``: the final weights."""
        return self.path / "model.safetensors"

    @property
    def tracking(self) -> Path:
        """``tracking.json``: what to send to MLflow besides the tables, and whether it has been sent."""
        return self.path / "tracking.json"

    @property
    def result(self) -> Path:
        """``result.json``: how the trial ended, with its status, final metrics, duration and provenance."""
        return self.path / "result.json"

    @property
    def error(self) -> Path:
        """``error.txt``: the traceback of a trial that failed."""
        return self.path / "error.txt"

    @property
    def state(self) -> Path:
        """The folder that only an unfinished trial needs: its checkpoint and the parts of its tables by round."""
        return self.path / "state"

    def table(self, name: str) -> Path:
        """The file of one of the trial's tables, such as rounds, clients, attacks, scores or roc."""
        return self.path / f"{name}.parquet"


@dataclass(frozen=True)
class Folder:
    """The files of one sweep, in RESULTS/<sweep>/."""

    path: Path

    @property
    def name(self) -> str:
        """The sweep's name, which is the folder's name."""
        return self.path.name

    @property
    def sweep(self) -> Path:
        """``sweep.yaml``: the sweep file, with the overrides as comments."""
        return self.path / "sweep.yaml"

    @property
    def table(self) -> Path:
        """``trials.parquet``: one row per trial."""
        return self.path / "trials.parquet"

    @property
    def report(self) -> Path:
        """The folder of the report's tables and figures."""
        return self.path / "report"

    @property
    def tracking(self) -> Path:
        """``tracking.json``: what to send to MLflow for the sweep as a whole, and whether it has been sent."""
        return self.path / "tracking.json"

    @property
    def shadows(self) -> Path:
        """The folder of the shadow models, which all trials of the sweep share."""
        return self.path / "shadows"

    @property
    def record(self) -> Path:
        """``.fedpriv.json``: marks the folder as fedpriv's, with the id, name and digest of the sweep."""
        return self.path / ".fedpriv.json"

    def trial(self, trial_id: str) -> TrialFolder:
        """The folder of one trial; it need not exist."""
        return TrialFolder(self.path / "trials" / trial_id)

    def trials(self) -> list[TrialFolder]:
        """The folders of trials that exist, sorted by id; none that was set aside."""
        with suppress(FileNotFoundError, NotADirectoryError):
            found = sorted(path for path in (self.path / "trials").iterdir() if ASIDE not in path.name)
            return [TrialFolder(path) for path in found if path.is_dir()]
        return []

    def identity(self) -> str:
        """A hexadecimal id that stays the same if the folder is moved and differs for a new folder at the same path.

        `claim` draws it. A folder without a claim gets an id from its absolute path.
        """
        with suppress(OSError, ValueError, KeyError, TypeError):
            return str(read_mark(self.record)["id"])
        return hashlib.sha256(os.path.abspath(self.path).encode("utf-8", "surrogateescape")).hexdigest()[:32]
