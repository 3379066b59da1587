"""The paths of a results folder.

RESULTS/<sweep>/               `Folder`
RESULTS/<sweep>/trials/<id>/   `TrialFolder`
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from datasets.federation import printable
from orchestrator.results.log import MANIFEST

TABLES = ("rounds", "clients", "attacks", "scores")


LINK = "is a link, and a sweep's folder has none: nothing is read or written through it; delete it"


class FolderError(ValueError):
    """A results folder cannot be used. The message says which folder, why, and what to do."""


def require_working_folder() -> None:
    """Make sure that this process is in a folder that exists. Raises FolderError."""
    try:
        os.getcwd()
    except OSError as error:
        reason = str(error.strerror).lower()
        raise FolderError(
            f"the working folder cannot be used ({reason}); change to one that exists, such "
            "as with `cd`"
        ) from error


def is_trial_id(value: Any) -> bool:
    """Whether a value can be the id of a trial, and so the name of its folder; ``../x`` would
    lead elsewhere.

    >>> is_trial_id("3fa2c1b0de"), is_trial_id("../../etc"), is_trial_id("..")
    (True, False, False)
    """
    return isinstance(value, str) and re.fullmatch(r"[\w-]{1,100}", value) is not None


class TrialFolder:
    """The files of one trial, in RESULTS/<sweep>/trials/<id>/."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.id = path.name
        self.manifest = path / MANIFEST  # how the trial ended; a trial without it has not ended
        self.config = path / "config.yaml"  # the resolved run
        self.model = path / "model.safetensors"  # the final weights
        self.error = path / "error.txt"  # the traceback of a trial that failed
        self.state = (
            path / "state"
        )  # of an unfinished trial: its state, and the rows of its tables by round

    def table(self, name: str) -> Path:
        """The file of one of `TABLES`."""
        return self.path / f"{name}.parquet"


class Folder:
    """The files of one sweep, in RESULTS/<sweep>/; ``sweep`` and ``table`` are for people and
    follow from the manifests.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self.manifest = path / MANIFEST  # the sweep's name, id, file and trials
        self.sweep = path / "sweep.yaml"  # the sweep file, with the overrides as comments
        self.table = path / "trials.parquet"  # one row per trial
        self.report = path / "report"  # tables and figures
        self.cache = path / "cache"  # what trials of the sweep have trained for all of them
        self.tracking = path / "tracking.json"  # which MLflow has been given these results

    def trial(self, trial_id: str) -> TrialFolder:
        """The folder of one trial; it need not exist. Raises FolderError if the id is none."""
        if not is_trial_id(trial_id):
            raise FolderError(f"{str(trial_id)[:60]!a} is not the id of a trial")
        return TrialFolder(self.path / "trials" / trial_id)

    def links(self) -> list[Path]:
        """The folders in the sweep's own that are links: what they lead to may be somebody
        else's.
        """
        inside = [
            self.path / "trials",
            self.report,
            self.cache,
            *(trial.state for trial in self.trials()),
        ]
        for path in (self.path / "trials", self.cache):
            inside += path.iterdir() if os.path.isdir(path) else ()
        return [path for path in inside if os.path.islink(path)]

    def refuse_links(self) -> None:
        """Raise FolderError if there are `links`."""
        for link in self.links():
            raise FolderError(f"{printable(str(link))} {LINK}")

    def trials(self) -> list[TrialFolder]:
        """The folders of trials that exist, sorted by id; none that was set aside."""
        below = (
            sorted((self.path / "trials").iterdir()) if os.path.isdir(self.path / "trials") else []
        )
        return [TrialFolder(path) for path in below if is_trial_id(path.name) and path.is_dir()]
