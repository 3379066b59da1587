"""A new store in the place of one that MLflow cannot use: the old one is set aside, and all sweeps beside it are sent again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from orchestrator.results.folder import Folder, FolderError, TrialFolder, locked
from orchestrator.results.integrity import DamageError, read_sealed
from orchestrator.results.mark import read_mark
from orchestrator.results.tables import read_table
from orchestrator.tracking.moved import ARTIFACTS
from orchestrator.tracking.places import LOCAL
from orchestrator.tracking.store_file import set_store_aside
from orchestrator.tracking.tracker import Tracker


def set_aside_sentences(results: Path) -> list[str]:
    """Set aside what MLflow cannot use, and say what was wrong with it.

    Args:
        results: the folder of all sweeps.
    """
    try:
        found = set_store_aside(results)
    except OSError as error:
        return [f"{results / LOCAL} could not be set aside: {(error.strerror or str(error)).lower()}"]
    if not found:
        return [f"{results / LOCAL} is in order, or there is none, so none was set aside"]
    kept = f"; the files of its runs stay in {ARTIFACTS}, those of new runs are put beside them"
    return [
        f"{trouble}: set aside as {aside.name}{kept if trouble.path.name == LOCAL else ''}" for trouble, aside in found
    ]


def fill_again(own: Folder, seconds: float, models_option: str) -> list[str]:
    """Send the sweeps beside ``own`` to the store, those that it has not; return sentences on what was done.

    A sweep that another process runs is left to that process and to the next run of the sweep. One that was last sent to a
    server is left alone. Trained models are not sent: their sweeps are named.

    Args:
        own: the results folder of the sweep that has been sent already.
        seconds: the longest time to wait for each sweep.
        models_option: what the user gives to send trained models.
    """
    said, sent, missed, models = list[str](), list[str](), list[str](), list[str]()
    marked = {file.parent for file in own.path.parent.glob(f"*/{own.record.stem}*.json")}  # either file of a mark
    for folder in map(Folder, sorted(marked - {own.path})):
        noted = list(_noted(folder))
        places = [one["there"] for one in noted if one.get("there")]
        if places and LOCAL not in places:
            continue
        whole = _filled(folder, seconds, said.append)
        if whole is not None:
            (sent if whole else missed).append(folder.name)
        if whole and any(one.get("models") == LOCAL for one in noted):
            models.append(folder.name)
    if sent:
        said.append(f"the new store holds {_named(sent)} beside it, too")
    if models:
        said.append(f"the next run of {_named(models)} with {models_option} sends the trained models")
    if missed:
        said.append(f"the new store does not hold {_named(missed)} yet; the next run of each sends it")
    return said


def _noted(folder: Folder) -> Iterator[dict[str, Any]]:
    """What is recorded of a sweep and of its trials, as far as it can be read."""
    places: list[Folder | TrialFolder] = [folder, *folder.trials()]
    for one in places:
        with suppress(FileNotFoundError, DamageError):
            yield read_sealed(one.tracking)


def _filled(folder: Folder, seconds: float, say: Callable[[str], object]) -> bool | None:
    """Send a sweep to the store; whether all of it was sent, None if nothing had to be."""
    try:
        with locked(folder):
            read_mark(folder.record)
            tracker = Tracker(folder.path.parent, folder.name, None, say)
            tracker.reconcile(folder.path)
            if not folder.tracking.exists() and any(trial.result.exists() for trial in folder.trials()):
                tracker.report_written(filter(Path.is_file, sorted(folder.report.rglob("*"))), _status(folder))
            behind, whole = tracker.behind, tracker.close(seconds)
            return whole if behind else None
    except (FolderError, DamageError, OSError):
        return False


def _status(folder: Folder) -> str:
    """How a sweep has ended of which that is not recorded."""
    try:
        found = set(read_table(folder.table)["status"].to_pylist())
    except (OSError, KeyError, pa.ArrowException):
        return "unfinished"
    return "unfinished" if "unfinished" in found else "finished" if found <= {"finished", "stopped"} else "failed"


def _named(names: list[str]) -> str:
    return f"the sweep {names[0]}" if len(names) == 1 else f"the sweeps {', '.join(names)}"
