"""The cache of a sweep: what attacks have trained, which all its trials share and which can be made again at any time.

An entry is a folder with one part, named by the hash of all that its content depends on. One that does not verify is not
read: its content is trained again, and replaces it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from orchestrator.results.claim import Claim
from orchestrator.results.log import DamageError, Log, read_manifest
from orchestrator.results.paths import Folder
from orchestrator.results.writing import remove_folder

PART = "content"


def cached(cache: Path, key: str, make: Callable[[], bytes]) -> bytes:
    """Return the content of an entry, which is made if it is not there or damaged.

    Two processes may make the same entry at once; both write the same bytes.

    Raises:
        WriteError: the entry could not be written.
    """
    if content := stored(cache, key):
        return content
    log = Log(cache / key, key)
    if os.path.lexists(log.path) and not log.path.is_dir():
        log.path.unlink()
    content = make()
    log.append(PART, content)
    log.finish({})
    return content


def stored(cache: Path, key: str) -> bytes | None:
    """Return the content of an entry; None if it is not there or damaged."""
    try:
        return read_manifest(cache / key, key).read(PART)
    except (FileNotFoundError, DamageError):
        return None


class Cache:
    """The cache of one sweep, which need not exist: its folder, the number of its entries, and their bytes."""

    def __init__(self, sweep: Folder) -> None:
        self.sweep = sweep
        files = [file.lstat() for file in sweep.cache.rglob("*") if not file.is_dir()]
        self.entries = sum(entry.is_dir() for entry in sweep.cache.glob("*"))
        self.size = sum(file.st_size for file in files)

    def remove(self) -> None:
        """Delete the cache. Raises FolderError if a run of the sweep is at work, WriteError if it cannot be deleted."""
        with Claim(self.sweep):
            remove_folder(self.sweep.cache)
