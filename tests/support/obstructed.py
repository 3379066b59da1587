"""Things that stand in the way in a results folder, and a picture of a folder by which a change is noticed."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OUTSIDE = "outside"  # beside the results: what links lead to
NO_FILES = ("pipe", "socket", "link to a device", "link to a pipe", "link to itself")  # in place of a file


def outside(root: Path) -> Path:
    """A folder of somebody else, with a file in it."""
    folder = root / OUTSIDE
    folder.mkdir(exist_ok=True)
    (folder / "thesis.tex").write_text("mine")
    (folder / "store.db").write_text("mine, too")
    return folder


def obstruct(path: Path, kind: str, elsewhere: Path) -> None:
    """Put something at ``path``; what is there is moved to ``elsewhere``."""
    if os.path.lexists(path):
        path.rename(elsewhere / f"former-{path.name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "file":
        path.write_text("no folder")
    elif kind == "folder":
        path.mkdir()
        (path / "kept").write_text("mine")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        before = os.getcwd()
        os.chdir(path.parent)  # the address of a socket has at most 107 letters
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
        os.chdir(before)
    else:
        targets = {
            "link to a folder": elsewhere,
            "link to a file": elsewhere / "store.db",
            "link to nothing": elsewhere / "nothing",
            "link to itself": path,
            "link to a device": Path("/dev/full"),
            "link to a pipe": elsewhere / "pipe",
        }
        if kind == "link to a pipe":
            os.mkfifo(elsewhere / "pipe")
        path.symlink_to(targets[kind])


def picture(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a folder: type, time and content, links not followed."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [folder, *folder.rglob("*")]:
        seen = path.lstat()
        content: object = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        content = os.readlink(path) if path.is_symlink() else content
        found[str(path.relative_to(folder))] = (seen.st_mode, seen.st_ino, seen.st_mtime_ns, content)
    return found


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Fail instead of waiting for ever, as for somebody who writes to a named pipe."""

    def late(*_: object) -> None:
        raise AssertionError(f"nothing happened for {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
