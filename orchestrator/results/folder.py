"""The results folder of a sweep: whether it can be used, and the claim to write there.

Its paths are in `orchestrator.results.paths`, the writing of files in `orchestrator.results.writing`.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import stat
import unicodedata
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Self

from orchestrator.results.integrity import DamageError, checksum, sealed
from orchestrator.results.mark import copy_of, holds_mark, next_mark, read_mark
from orchestrator.results.obstacles import LOCK, in_the_way, no_file, where_to
from orchestrator.results.paths import Folder, FolderError, TrialFolder
from orchestrator.results.writing import HIDDEN, WriteError, hold, let_go, refusals, write_atomically

__all__ = [
    "HIDDEN",
    "Claim",
    "Folder",
    "FolderError",
    "TrialFolder",
    "WriteError",
    "claim",
    "locked",
    "obstacle",
    "write_atomically",
]

ROOM = 300  # bytes that the paths of files in a results folder may need
SHOWN = 60  # characters of a long name that a sentence shows
OURS = ("sweep.yaml", "trials", "trials.parquet")


def obstacle(folder: Folder, name: str) -> str | None:
    """The reason, as a sentence, why ``folder`` cannot be used for the sweep ``name``; None if it can.

    A sweep is identified by its name: a changed sweep of the same name, with more seeds for example, resumes in the same
    folder. Refused are a path that is not a folder, a link, or cannot be written, a folder with files that fedpriv did not
    write, and the folder of a sweep with another name. The folder of all sweeps, which contains this one, may be a link.
    Nothing is written. What stands in the folder is looked at by `orchestrator.results.obstacles.in_the_way`.
    """
    if problem := _unusable_name(folder.path):
        return problem
    path, above = folder.path, folder.path
    try:
        while not os.path.lexists(above):
            above = above.parent
        if above == path and path.is_symlink():
            return (
                f"{path} is not a folder but a link {where_to(path)}, and results are not written through links; give the "
                "folder that contains the real one with --results, or move the link away"
            )
        if not above.is_dir():
            what = f" but a link {where_to(above)}" if above.is_symlink() else ""
            return (
                f"{above} is not a folder{what}, so results cannot be kept in {path}; give another one with --results"
            )
        if above == path and (problem := _foreign(folder, name)):
            return problem
        with TemporaryFile(dir=above) as probe:
            probe.write(bytes(4096))
            probe.flush()
    except OSError as error:
        return f"{path} cannot be written to ({error.strerror or error}); give another folder with --results"
    return None


def _unusable_name(path: Path) -> str | None:
    """Why a path can be none of a results folder, before anything looks there."""
    text = str(path)
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text):
        return (
            f"the results folder {text!a} has a line break or another character in its path that cannot be printed; "
            "give another folder with --results"
        )
    existing, longest = path, max(path.parts, key=lambda part: len(os.fsencode(part)))
    while not os.path.lexists(existing):
        existing = existing.parent
    for what, shown, size, room, limit in (
        ("name", longest, len(os.fsencode(longest)), 0, _limit(existing, "PC_NAME_MAX", 255)),
        ("path", text, len(os.fsencode(text)), ROOM, _limit(existing, "PC_PATH_MAX", 4096)),
    ):
        if size + room > limit:
            needed = f", and files in it need up to {room} more" if room else ""
            return (
                f"the {what} {shown[:SHOWN]}... is too long for a results folder: it has {size} bytes, the system allows "
                f"{limit}{needed}; give another folder with --results"
            )
    return None


def _limit(path: Path, name: str, usual: int) -> int:
    with suppress(OSError, ValueError):
        return os.pathconf(path, name)
    return usual


def _foreign(folder: Folder, name: str) -> str | None:
    held = sorted(entry.name for entry in folder.path.iterdir() if not entry.name.startswith(HIDDEN))
    try:
        recorded = read_mark(folder.record)["name"]
    except FileNotFoundError:
        if not held:
            return None
        if set(OURS) <= set(held):
            return (
                f"{folder.record} is missing, so the sweep that {folder.path} belongs to is unknown; restore that file from "
                "a copy, move the folder away, or give another one with --results"
            )
        shown = ", ".join(held[:3]) + (", ..." if len(held) > 3 else "")
        return f"{folder.path} contains files that fedpriv did not write ({shown}); give an empty folder with --results"
    except DamageError as error:
        if problem := no_file(folder.record):
            return problem
        return (
            f"{error}, so it is unknown which sweep {folder.path} belongs to; restore the file from a copy, or move the "
            "folder away"
        )
    if recorded != name:
        return (
            f"{folder.path} contains the results of another sweep, {recorded!r}; give another folder with "
            f"--results, or rename this sweep from {name!r} to {recorded!r}"
        )
    return None


class Claim:
    """The exclusive right to write to a results folder, held until `release` or the end of the ``with`` or process.

    Attributes:
        folder: the folder.
        continued: whether the folder already contained this sweep.
        changed: whether it contained the sweep with another digest, for example with other grids.
    """

    def __init__(self, folder: Folder, lock: IO[str], continued: bool, changed: bool) -> None:
        self.folder = folder
        self.continued = continued
        self.changed = changed
        self._lock = lock

    def release(self) -> None:
        """Give up the claim."""
        let_go(self.folder.path)
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def claim(folder: Folder, name: str, text: str, digest: str) -> Claim:
    """Claim ``folder`` for a sweep, and write its ``sweep.yaml``.

    Args:
        folder: the results folder; it is created if needed.
        name: the name of the sweep.
        text: the content of ``sweep.yaml``.
        digest: identifies the trials of the sweep.

    Raises:
        FolderError: the folder cannot be used (see `obstacle`), or another process is writing there. Then the folder
            and its parents are left unchanged.
    """
    if problems := [*filter(None, [obstacle(folder, name)])] or in_the_way(folder):
        raise FolderError("; ".join(problems))
    made = [path for path in (folder.path, *folder.path.parents) if not path.exists()]
    lock = None
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        lock = _lock(folder)
        before = read_mark(folder.record) if holds_mark(folder.record) else None
        mark = next_mark(before, name, uuid.uuid4().hex, digest, checksum(text.encode()))
        for path in (folder.record, copy_of(folder.record)):
            write_atomically(path, json.dumps(sealed(mark)).encode())
        write_atomically(folder.sweep, text.encode())
    except (OSError, FolderError, DamageError) as error:
        _undo(folder, made, lock)
        if isinstance(error, FolderError):
            raise
        reason = error if isinstance(error, WriteError | DamageError) else error.strerror or error
        raise FolderError(f"{folder.path} cannot be used: {reason}; give another folder with --results") from error
    _sweep_up(folder)
    hold(folder.path)
    return Claim(folder, lock, before is not None, before is not None and before.get("digest") != digest)


@contextmanager
def locked(folder: Folder) -> Iterator[None]:
    """Keep other processes from writing to an existing results folder. Raises FolderError if one does."""
    lock = _lock(folder)
    try:
        yield
    finally:
        lock.close()


def _undo(folder: Folder, made: list[Path], lock: IO[str] | None) -> None:
    """Remove what a failed claim has created, but nothing that existed before or belongs to another process."""
    for path in (folder.record, copy_of(folder.record), folder.sweep, folder.path / LOCK) if lock and made else ():
        with suppress(OSError):
            path.unlink()
    for path in made:
        with suppress(OSError):
            path.rmdir()
    if lock:
        lock.close()


def _lock(folder: Folder) -> IO[str]:
    """A locked file that shows that this process writes here; the system releases it when the process ends."""
    lock = _opened(folder.path / LOCK)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            lock.seek(0)
            owner = lock.read().strip() or "unknown"
            lock.close()
            raise FolderError(
                f"another fedpriv run is writing to {folder.path} (process {owner}); wait for it to end or give "
                f"another folder with --results"
            ) from None
        # Some network file systems have no locks; there the user has to avoid two runs at the same time.
    with suppress(OSError):
        lock.truncate(0)
        lock.write(f"{os.getpid()} on {socket.gethostname()}")
        lock.flush()
    return lock


def _opened(path: Path) -> IO[str]:
    """The file of the lock, created if needed. Raises FolderError if there is a link or anything but a file."""
    how = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    try:
        with refusals(path, "cannot be opened"):
            handle = os.open(path, how, 0o666)
    except WriteError as error:
        where = f", for it is a link {where_to(path)}" if path.is_symlink() else ""
        raise FolderError(f"{error}{where}") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FolderError(f"{path} is no file: move it away")
    return open(handle, "a+", errors="replace")


def _sweep_up(folder: Folder) -> None:
    """Remove unfinished files of killed processes."""
    with suppress(OSError):
        for path in folder.path.rglob(f"{HIDDEN}-*.tmp"):
            path.unlink(missing_ok=True)
