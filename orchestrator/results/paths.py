"""The paths of a results folder.

RESULTS/<sweep>/               `Folder`
RESULTS/<sweep>/trials/<id>/   `TrialFolder`
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.results.log import MANIFEST, read_manifest

TABLES = ("rounds", "clients", "attacks", "scores", "roc")


class FolderError(ValueError):
    """A results folder cannot be used. The message says which folder, why, and what to do."""


def is_trial_id(value: Any) -> bool:
    """Whether a value can be the id of a trial, and so the name of its folder; ``../x`` would lead elsewhere.

    >>> is_trial_id("3fa2c1b0de"), is_trial_id("../../etc"), is_trial_id("..")
    (True, False, False)
    """
    return isinstance(value, str) and re.fullmatch(r"[\w-]{1,100}", value) is not None


@dataclass(frozen=True)
class TrialFolder:
    """The files of one trial, in RESULTS/<sweep>/trials/<id>/."""

    path: Path

    @property
    def id(self) -> str:
        """The trial's id, which is the folder's name."""
        return self.path.name

    @property
    def manifest(self) -> Path:
        """``manifest.json``: how the trial ended; a trial without it has not ended."""
        return self.path / MANIFEST

    @property
    def config(self) -> Path:
        """``config.yaml``: the resolved run."""
        return self.path / "config.yaml"

    @property
    def model(self) -> Path:
        """``model.safetensors``: the final weights."""
        return self.path / "model.safetensors"

    @property
    def error(self) -> Path:
        """``error.txt``: the traceback of a trial that failed."""
        return self.path / "error.txt"

    @property
    def state(self) -> Path:
        """The folder that only an unfinished trial needs: its state, and the rows of its tables by round."""
        return self.path / "state"

    def table(self, name: str) -> Path:
        """The file of one of `TABLES`."""
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
    def manifest(self) -> Path:
        """``manifest.json``: the sweep's name, id, file and trials."""
        return self.path / MANIFEST

    @property
    def sweep(self) -> Path:
        """``sweep.yaml``: the sweep file, with the overrides as comments; for people, the manifest has it, too."""
        return self.path / "sweep.yaml"

    @property
    def table(self) -> Path:
        """``trials.parquet``: one row per trial; for people, it follows from the manifests."""
        return self.path / "trials.parquet"

    @property
    def report(self) -> Path:
        """The folder of the report's tables and figures."""
        return self.path / "report"

    @property
    def cache(self) -> Path:
        """The folder of shadow models and replicas, which all trials of the sweep share."""
        return self.path / "cache"

    @property
    def tracking(self) -> Path:
        """``tracking.json``: which MLflow has been given these results."""
        return self.path / "tracking.json"

    def identity(self) -> str:
        """The id of the sweep, which stays the same if the folder is moved and differs for a new folder at the same path.

        Raises:
            FileNotFoundError: the folder holds no sweep.
            DamageError: its manifest is not what was saved.
        """
        return str(read_manifest(self.path).facts["id"])

    def trial(self, trial_id: str) -> TrialFolder:
        """The folder of one trial; it need not exist. Raises FolderError if the id is none."""
        if not is_trial_id(trial_id):
            raise FolderError(f"{trial_id[:60]!a} is not the id of a trial")
        return TrialFolder(self.path / "trials" / trial_id)

    def trials(self) -> list[TrialFolder]:
        """The folders of trials that exist, sorted by id; none that was set aside."""
        with suppress(FileNotFoundError, NotADirectoryError):
            names = (path for path in (self.path / "trials").iterdir() if is_trial_id(path.name))
            return [TrialFolder(path) for path in sorted(names) if path.is_dir()]
        return []
