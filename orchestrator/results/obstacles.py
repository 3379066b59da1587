"""What stands in a results folder where something else belongs: links, files in place of folders, pipes in place of files.

Only names that are ours are looked at. What is damaged within a file is no matter of this module, nor is a folder in place
of a file that is checked when it is read (`orchestrator.results.integrity`).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from orchestrator.results.integrity import ASIDE
from orchestrator.results.paths import Folder
from orchestrator.results.writing import HIDDEN

MOST = 5  # sentences about one folder
TRIAL_ID = re.compile("[0-9a-f]{10}")
FOLDERS = ("trials", "shadows", f"{HIDDEN}-tune")  # and that of the report
LOCK = f"{HIDDEN}.lock"
FILES = ("sweep.yaml", "trials.parquet", "tracking.json", "declared.json", f"{HIDDEN}.json", LOCK)
STATE = "state"
# In the folder of a trial, besides its tables. What is read before it is written is checked by its reader.
UNCHECKED = ("error.txt", "tracking.json")
CHECKED = ("result.json", "config.yaml", "model.safetensors")
TABLE = ".parquet"
WRITTEN = (".html", ".csv", ".md", ".png", ".svg", ".pdf")  # of a report
# The local store of MLflow, which opens its files by itself and follows links.
STORE = "mlflow.db"
STORE_FILES = (STORE, f"{STORE}-journal", f"{STORE}-wal", f"{STORE}-shm", ".mlflow.lock")
ARTIFACTS = "mlartifacts"


@dataclass(frozen=True)
class _Place:
    """A path of ours.

    Attributes:
        path: the path.
        folder: whether a folder belongs there; otherwise a file.
        opened: whether it is written by opening it, and not replaced.
        checked: whether whoever reads it notices a folder in its place.
    """

    path: Path
    folder: bool = False
    opened: bool = False
    checked: bool = False


def in_the_way(folder: Folder) -> list[str]:
    """Say what stands in the way of a run that writes to a results folder, a sentence each, the first few.

    Args:
        folder: the folder of a sweep; it need not exist.
    """
    places = list(_places(folder))
    found = [sentence for place in places if (sentence := _misplaced(place) or _unwritable(place))]
    return [*found[:MOST], *([f"{folder.path}: {len(found) - MOST} more of these"] if len(found) > MOST else [])]


def unreadable(folder: Folder) -> list[str]:
    """Say what must not be opened in a results folder, because it is no file, a sentence each, the first few."""
    special = (_special(place) for place in _places(folder) if not place.folder)
    return list(islice(filter(None, special), MOST))


def report_in_the_way(folder: Folder) -> list[str]:
    """Say what stands in the way of a report on a results folder, a sentence each."""
    written = (_misplaced(place) or _unwritable(place) for place in _report(folder))
    return [*unreadable(folder), *islice(filter(None, written), MOST)]


def store_in_the_way(results: Path, sweep: str) -> list[str]:
    """Say what stands in the way of MLflow's store beside the results of all sweeps, a sentence each.

    Args:
        results: the folder of all sweeps.
        sweep: the name of the sweep that is to be run; empty if none is.
    """
    artifacts = results / ARTIFACTS
    places = [_Place(results / name, opened=True) for name in STORE_FILES]
    places += [_Place(artifacts, folder=True)]
    if sweep:
        places.append(_Place(artifacts / sweep, folder=True))
        places += [_Place(run, folder=True) for run in _listed(artifacts / sweep)]
    return list(islice(filter(None, map(_misplaced, places)), MOST))


def no_file(path: Path) -> str:
    """Say why what stands at a path can be no file of ours, as a sentence; empty if it can, or if there is nothing."""
    return _misplaced(_Place(path))


def where_to(link: Path) -> str:
    """Say where a link leads, to be read after "a link"."""
    target = os.readlink(link)
    try:
        os.stat(link)
    except FileNotFoundError:
        return f"to {target}, which does not exist"
    except OSError:
        return f"to {target}, which cannot be followed"
    return f"to {target}"


def _places(folder: Folder) -> Iterator[_Place]:
    """The paths of a sweep that exist or may come to exist, from the top down; none in what is no folder or is a link."""
    for name in FOLDERS:
        yield _Place(folder.path / name, folder=True)
    for name in FILES:
        yield _Place(folder.path / name, opened=name == LOCK)
    for path in _listed(folder.path / "trials"):
        if TRIAL_ID.fullmatch(path.name) or path.is_dir():
            yield _Place(path, folder=True)
            yield from _in_trial(path)
    for path in _listed(folder.shadows):
        yield _Place(path, checked=True)
    yield from _report(folder)


def _in_trial(path: Path) -> Iterator[_Place]:
    ended = (path / "result.json").is_file()
    yield _Place(path / STATE, folder=True)
    for held in _listed(path):
        if held.name in CHECKED or held.suffix == TABLE:
            yield _Place(held, checked=ended or held.name == CHECKED[0])
        elif held.name in UNCHECKED:
            yield _Place(held)
    for held in _listed(path / STATE):
        yield _Place(held, checked=True)


def _report(folder: Folder) -> Iterator[_Place]:
    yield _Place(folder.report, folder=True)
    for path in _listed(folder.report):
        if path.suffix in WRITTEN:
            yield _Place(path)


def _listed(path: Path) -> list[Path]:
    """What a folder contains, without hidden files and what was set aside; nothing if it is a link or no folder."""
    found: list[str] = []
    with suppress(OSError):
        if not path.is_symlink():
            found = sorted(os.listdir(path))
    return [path / name for name in found if not name.startswith(HIDDEN) and ASIDE not in name]


def _misplaced(place: _Place) -> str:
    """Why a path cannot be what it must be, as a sentence; empty if it can."""
    path, wanted = place.path, "a folder" if place.folder else "a file"
    mode = _mode(path)
    if mode is None:
        return ""
    if stat.S_ISLNK(mode):
        if place.folder or place.opened:
            return (
                f"{path} is a link {where_to(path)}, and results are not written through links: move it away, or put "
                f"{wanted} in its place"
            )
        return _special(place)
    if stat.S_ISDIR(mode) == place.folder or (stat.S_ISDIR(mode) and place.checked):
        return _special(place)
    return f"{path} is {_kind(mode)}, but {wanted} belongs there: move it away"


def _special(place: _Place) -> str:
    """Why a path must not be opened as a file; empty if it may, or if there is nothing."""
    path, mode = place.path, _mode(place.path)
    if place.folder or mode is None or stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return ""
    if not stat.S_ISLNK(mode):
        return f"{path} is {_kind(mode)}, but a file belongs there: move it away"
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return ""
    except OSError:
        mode = 0
    if stat.S_ISREG(mode):
        return ""
    what = f", {_kind(mode)}" if mode else ""
    return f"{path} is a link {where_to(path)}{what}, but a file belongs there: move it away"


def _unwritable(place: _Place) -> str:
    """Why nothing can be written into a folder of ours, as a sentence; empty if something can."""
    path = place.path
    if not place.folder or not path.is_dir() or os.access(path, os.W_OK | os.X_OK):
        return ""
    if (path / "result.json").is_file():  # the folder of a trial that has ended
        return ""
    return f"{path} cannot be written to: change its permissions, or give another folder with --results"


def _mode(path: Path) -> int | None:
    """The type of what is at a path, links not followed; None if there is nothing or it cannot be known."""
    with suppress(OSError, ValueError):
        return os.lstat(path).st_mode
    return None


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISREG, "a file"),
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((name for test, name in kinds if test(mode)), "a device")
