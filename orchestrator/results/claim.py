"""Whether a results folder can be used, and the exclusive right to write there."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import unicodedata
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Self

from orchestrator.results.log import DamageError, read_manifest
from orchestrator.results.paths import Folder, FolderError
from orchestrator.results.writing import HIDDEN, WriteError, hold, let_go, open_own, open_plain, refusals, sweep_up

LOCK = f"{HIDDEN}.lock"
ROOM = 300  # bytes that the paths of files in a results folder may need
SHOWN = 60  # characters of a long name that a sentence shows
OTHER = "give another folder with --results"


def obstacle(folder: Folder, name: str) -> str | None:
    """The reason, as a sentence, why ``folder`` cannot be used for the sweep ``name``; None if it can.

    A sweep is identified by its name: a changed sweep of the same name, with more seeds for example, resumes in the same
    folder. Nothing is written.
    """
    path = folder.path
    if problem := _unusable_name(path):
        return problem
    try:
        above = path
        while not os.path.lexists(above):
            above = above.parent
        for place in (above, *(path / part for part in ("trials", "cache", "report"))):
            if os.path.lexists(place) and (not place.is_dir() or (place.is_symlink() and place.is_relative_to(path))):
                what = f"a link to {os.readlink(place)}" if place.is_symlink() else "a file"
                return f"{place} is {what}, but a folder belongs there: move it away, or {OTHER}"
        if above == path and (problem := _foreign(folder, name)):
            return problem
        with TemporaryFile(dir=above) as probe:
            probe.write(bytes(4096))
            probe.flush()
    except OSError as error:
        return f"{path} cannot be written to ({error.strerror or error}); {OTHER}"
    return at_work(folder)


def at_work(folder: Folder) -> str | None:
    """A sentence that another process writes to a results folder; None if none does. Nothing is written."""
    try:
        with open_plain(folder.path / LOCK) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                    return _at_work(folder, lock.read().decode(errors="replace"))
    except FileNotFoundError:
        pass
    except OSError as error:
        return f"{folder.path / LOCK} cannot be opened ({error.strerror or error}): move it away"
    return None


class Claim:
    """The exclusive right to write to a results folder, until `release`, the end of the ``with``, or of the process."""

    def __init__(self, folder: Folder) -> None:
        """Claim a folder, which is made if needed. Raises FolderError if it cannot be made, or another process has it."""
        self.folder = folder
        made = [path for path in (folder.path, *folder.path.parents) if not path.exists()]
        try:
            with refusals(folder.path, "cannot be used"):
                folder.path.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(folder)
        except (FolderError, WriteError) as error:
            for path in made:
                with suppress(OSError):
                    path.rmdir()
            raise FolderError(str(error)) from error
        hold(folder.path)

    def release(self) -> None:
        """Give up the claim."""
        let_go(self.folder.path)
        self._lock.close()

    def __enter__(self) -> Self:
        sweep_up(self.folder.path, alone=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _lock(folder: Folder) -> IO[bytes]:
    """A locked file that shows that this process writes here; the system releases it when the process ends."""
    path = folder.path / LOCK
    with refusals(path, "cannot be opened"):
        lock = os.fdopen(open_own(path), "r+b", buffering=0)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            owner = lock.read().decode(errors="replace")
            lock.close()
            raise FolderError(_at_work(folder, owner)) from None
        # Some network file systems have no locks; there the user has to avoid two runs at the same time.
    with suppress(OSError):
        lock.truncate(0)
        lock.write(f"{os.getpid()} on {socket.gethostname()}".encode())
    return lock


def _at_work(folder: Folder, owner: str) -> str:
    process = owner.strip() or "unknown"
    return f"another fedpriv run is writing to {folder.path} (process {process}); wait for it to end or {OTHER}"


def _foreign(folder: Folder, name: str) -> str | None:
    try:
        other = read_manifest(folder.path).owner
    except DamageError:
        return None  # a run sets it aside and writes it anew
    except FileNotFoundError:
        names = sorted(entry.name for entry in folder.path.iterdir() if not entry.name.startswith(HIDDEN))
        if not names or "trials" in names:
            return None
        shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        return f"{folder.path} contains files that fedpriv did not write ({shown}); give an empty folder with --results"
    if other == name:
        return None
    return (
        f"{folder.path} contains the results of another sweep, {other!r}; {OTHER}, or rename this sweep from "
        f"{name!r} to {other!r}"
    )


def _unusable_name(path: Path) -> str | None:
    """Why a path can be none of a results folder, before anything looks there."""
    text = str(path)
    if any(unicodedata.category(letter) in ("Cc", "Cf", "Cs") for letter in text):
        return f"the results folder {text!a} has a character in its path that cannot be printed; {OTHER}"
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
                f"{limit}{needed}; {OTHER}"
            )
    return None


def _limit(path: Path, name: str, usual: int) -> int:
    with suppress(OSError, ValueError):
        return os.pathconf(path, name)
    return usual
