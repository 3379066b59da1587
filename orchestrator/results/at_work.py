"""Whether another run is writing to a results folder, to be said before anything slow is begun."""

from __future__ import annotations

import errno
import fcntl
from contextlib import suppress

from orchestrator.results.obstacles import LOCK
from orchestrator.results.paths import Folder
from orchestrator.results.writing import open_plain


def at_work(folder: Folder) -> str | None:
    """A sentence if another run is writing to a folder; None if none is, or it cannot be known. Nothing is written.

    It may have begun by the time the folder is claimed; `orchestrator.results.folder.claim` has the last word.
    """
    with suppress(OSError):
        with open_plain(folder.path / LOCK) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    return None
                owner = lock.read().decode(errors="replace").strip() or "unknown"
                return (
                    f"another fedpriv run is writing to {folder.path} (process {owner}); wait for it to end or give "
                    "another folder with --results"
                )
    return None
