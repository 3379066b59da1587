"""Whether a results folder can be used, and the exclusive right to write there."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from contextlib import AbstractContextManager, suppress
from tempfile import TemporaryFile
from typing import IO

from orchestrator.results.log import DamageError, read_manifest
from orchestrator.results.paths import Folder, FolderError
from orchestrator.results.writing import HIDDEN, WriteError, open_plain, refusals

LOCK = f"{HIDDEN}.lock"
OTHER = "give another folder with --results"


def obstacle(folder: Folder, name: str) -> str | None:
    """The reason, as a sentence, why ``folder`` cannot be used for the sweep ``name``; None if
    it can.

    A sweep is identified by its name: a changed sweep of the same name, with more seeds for
    example, resumes in the same folder. Nothing is written.
    """
    path = above = folder.path
    try:
        with suppress(FileNotFoundError):
            os.lstat(path)  # refuses a name that is too long
        while not os.path.lexists(above):
            above = above.parent
        if not above.is_dir():
            return f"{above} is no folder, but one belongs there: move it away, or {OTHER}"
        problem = _foreign(folder, name) if above == path else None
        if problem:
            return problem
        folder.refuse_links()
        with TemporaryFile(dir=above) as probe:
            probe.write(bytes(4096))
            probe.flush()
        if os.path.lexists(path / LOCK):
            with refusals(path / LOCK, "cannot be used"), open_plain(path / LOCK) as lock:
                return _taken(folder, lock, fcntl.LOCK_SH)
    except OSError as error:
        return f"{path} cannot be written to ({error.strerror or error}); {OTHER}"
    except FolderError as error:
        return f"{error}, or {OTHER}"
    return None


class Claim(AbstractContextManager["Claim"]):
    """The exclusive right to write to a results folder, until `release`, the end of the
    ``with``, or of the process.
    """

    def __init__(self, folder: Folder) -> None:
        """Claim a folder, which is made if needed.

        Raises FolderError if it cannot be made, or another process has it.
        """
        try:
            with refusals(folder.path, "cannot be used"):
                folder.path.mkdir(parents=True, exist_ok=True)
                lock = folder.path / LOCK
                with refusals(lock, "cannot be used"), suppress(FileNotFoundError):
                    open_plain(lock).close()
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
                self._lock = os.fdopen(os.open(lock, flags, 0o666), "r+b", buffering=0)
        except WriteError as error:
            raise FolderError(str(error)) from error
        owner = _taken(folder, self._lock, fcntl.LOCK_EX)
        if owner:
            self.release()
            raise FolderError(owner)
        folder.refuse_links()
        with suppress(OSError):
            self._lock.truncate(0)
            self._lock.write(f"{os.getpid()} on {socket.gethostname()}".encode())
        for unfinished in folder.path.rglob(
            f"{HIDDEN}-*.tmp"
        ):  # of killed processes, as `write_atomically` names them
            with suppress(OSError):
                unfinished.unlink()

    def release(self) -> None:
        """Give up the claim; the system does the same when the process ends."""
        self._lock.close()

    def __exit__(self, *_: object) -> None:
        self.release()


def _taken(folder: Folder, lock: IO[bytes], how: int) -> str | None:
    """Lock a file, or say who has locked it.

    Where a network file system has no locks, the user avoids two runs at once.
    """
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            process = lock.read(200).decode(errors="replace").strip() or "unknown"
            return (
                f"another fedpriv run is writing to {folder.path} (process {process}); wait for "
                f"it to end or {OTHER}"
            )
    return None


def _foreign(folder: Folder, name: str) -> str | None:
    """A sentence if a folder holds another sweep, or the files of somebody else."""
    try:
        other = read_manifest(folder.path).owner
    except DamageError:
        return None  # a run sets it aside and writes it anew
    except FileNotFoundError:
        names = sorted(
            entry.name for entry in folder.path.iterdir() if not entry.name.startswith(HIDDEN)
        )
        if not names or "trials" in names:
            return None
        files = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        return (
            f"{folder.path} contains files that fedpriv did not write ({files}); give an empty "
            "folder with --results"
        )
    if other == name:
        return None
    return (
        f"{folder.path} contains the results of another sweep, {other!r}; {OTHER}, or rename "
        f"this sweep to {other!r}"
    )
