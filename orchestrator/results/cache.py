"""The cache of a sweep: what attacks have trained, which all its trials share and which can be made again at any time.

An entry is a folder with one part, named by the hash of all that its content depends on. One that does not verify is not
read: its content is trained again, and replaces it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
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
    folder = cache / key
    try:
        return read_manifest(folder, key).read(PART)
    except (FileNotFoundError, DamageError):
        log = Log(folder, key)
        if os.path.lexists(folder) and not (folder.is_dir() and not folder.is_symlink()):
            folder.unlink()
        content = make()
        log.append(PART, content)
        log.finish({})
        return content


@dataclass(frozen=True)
class Cache:
    """The cache of one sweep: its folder, number of entries, and their bytes."""

    sweep: Folder
    entries: int
    size: int

    @classmethod
    def of(cls, sweep: Folder) -> Cache:
        """Measure the cache of a sweep, which need not exist."""
        entries = [one for one in os.scandir(sweep.cache) if one.is_dir()] if sweep.cache.is_dir() else []
        files = [file for one in entries for file in os.scandir(one.path)]
        return cls(sweep, len(entries), sum(file.stat(follow_symlinks=False).st_size for file in files))

    def remove(self) -> None:
        """Delete the cache. Raises FolderError if a run of the sweep is at work, WriteError if it cannot be deleted."""
        with Claim(self.sweep):
            remove_folder(self.sweep.cache)
