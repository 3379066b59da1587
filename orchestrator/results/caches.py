"""Files of a sweep that can be made again by training: its shadow models and replicas, which all its trials share.

They are needed while trials of the sweep still run, or a new trial could use them. Results are in other folders.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from orchestrator.results.folder import Folder, FolderError, locked
from orchestrator.results.integrity import DamageError
from orchestrator.results.mark import read_mark
from orchestrator.results.writing import remove_folder


@dataclass(frozen=True)
class Cache:
    """The cache of one sweep.

    Attributes:
        sweep: the sweep's folder.
        files: the number of files.
        size: their bytes on disk.
    """

    sweep: Folder
    files: int
    size: int


def caches(folder: Path) -> list[Cache]:
    """The caches below ``folder``, by the name of the sweep.

    Args:
        folder: RESULTS, the folder of all sweeps, or the folder of one sweep.

    Raises:
        FolderError: the folder is neither, or it is a link. Links in it are left alone, and so are caches that are links.
    """
    shown = os.path.abspath(folder)
    if folder.is_symlink():
        raise FolderError(f"{shown} is a link to {os.path.realpath(folder)}; give that folder itself")
    if not folder.is_dir():
        what = "is not a folder" if os.path.lexists(folder) else "does not exist"
        raise FolderError(f"{shown} {what}; give RESULTS or RESULTS/<sweep>")
    found = [one for one in _sweeps(folder) if _is_sweep(one)]
    if not found:
        raise FolderError(f"{shown} holds no results of fedpriv; give RESULTS or RESULTS/<sweep>")
    measured = (Cache(one, *_measure(one.shadows)) for one in found if not one.shadows.is_symlink())
    return [cache for cache in measured if cache.files]


def remove(cache: Cache) -> None:
    """Delete a cache, and nothing else of the sweep.

    Raises:
        FolderError: a run of the sweep is at work.
        WriteError: a file cannot be deleted.
    """
    with locked(cache.sweep):
        remove_folder(cache.sweep.shadows)


def _sweeps(folder: Path) -> Iterator[Folder]:
    """The folder itself, and those in it that are no links."""
    yield Folder(folder)
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            yield Folder(entry)


def _is_sweep(folder: Folder) -> bool:
    """Whether fedpriv has written the folder."""
    with suppress(OSError, DamageError):
        return bool(read_mark(folder.record))
    return False


def _measure(folder: Path) -> tuple[int, int]:
    """The number of files in a folder and their bytes; links count with their own few bytes."""
    sizes = []
    for at, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # a run that is at work replaces files
                sizes.append(os.lstat(os.path.join(at, name)).st_size)
    return len(sizes), sum(sizes)
