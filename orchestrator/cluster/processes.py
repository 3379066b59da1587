"""Processes of this machine, told apart by when they started: a number alone may have passed on to another program.

What is read here is in /proc, which Linux has. Elsewhere no process is known, and none is ended.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
GONE = ("Z", "X", "x")  # states of a process that has ended, and whose parent has not heard of it yet
PAUSE = 0.02  # seconds between two looks at a process that is to end


@dataclass(frozen=True, order=True)
class Process:
    """A process that nothing else can be taken for, until the machine starts again.

    Attributes:
        number: its id, which another process may be given later.
        started: when it started, in clock ticks since the machine did.
    """

    number: int
    started: int


def machine() -> dict[str, str] | None:
    """What numbers and starts of processes refer to: host, its last start, and the namespace (that of a container).

    None where there is no /proc.
    """
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
        return {"host": socket.gethostname(), "boot": boot, "namespace": os.readlink(PROC / "self/ns/pid")}
    except OSError:
        return None


def running(number: int) -> Process | None:
    """The process that has this number now; None if none has, or it has ended."""
    found = _looked_up(number)
    return found[0] if found else None


def descendants(numbers: Collection[int]) -> set[Process]:
    """The processes with these numbers, and all that come from them."""
    table = dict(_table())
    found = {process for process in table if process.number in set(numbers)}
    while more := {one for one, parent in table.items() if parent in {each.number for each in found}} - found:
        found |= more
    return found


def marked(words: Collection[str]) -> Iterator[tuple[Process, str]]:
    """This user's processes that have been started with one of these words, as NAME=VALUE, in their environment."""
    searched = {word.encode(): word for word in words}
    for process, _ in _table():
        with suppress(OSError):
            folder = PROC / str(process.number)
            if folder.stat().st_uid == os.geteuid():
                for one in searched.keys() & set((folder / "environ").read_bytes().split(b"\0")):
                    yield process, searched[one]


def end(processes: Collection[Process], polite: float = 1.0, last: float = 2.0) -> set[Process]:
    """Ask processes to end, and kill those that do not; return the ones that are still there.

    Args:
        processes: whom to end; those that have ended already are passed over.
        polite: seconds from asking (SIGTERM) to killing (SIGKILL).
        last: seconds to wait after that.
    """
    with ExitStack() as held:
        left = {process: _handle(process, held) for process in processes if running(process.number) == process}
        for number, patience in ((signal.SIGTERM, polite), (signal.SIGKILL, last)):
            for process, handle in left.items():
                _send(process, handle, number)
            deadline = time.monotonic() + patience
            while left and time.monotonic() < deadline:
                time.sleep(PAUSE)
                left = {process: handle for process, handle in left.items() if not _ended(process, handle)}
        return set(left)


def _handle(process: Process, held: ExitStack) -> int | None:
    """A descriptor that stands for this process and no later one; None where the system has none."""
    try:
        handle = os.pidfd_open(process.number)
    except (AttributeError, OSError):
        return None
    held.callback(os.close, handle)
    return handle


def _send(process: Process, handle: int | None, number: signal.Signals) -> None:
    """Send a signal, unless the number belongs to another process by now."""
    with suppress(OSError):
        if running(process.number) != process:
            return
        if handle is None:
            os.kill(process.number, number)
        else:
            signal.pidfd_send_signal(handle, number)


def _ended(process: Process, handle: int | None) -> bool:
    if handle is not None:
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        if waiting.poll(0):
            return True
    return running(process.number) != process


def _table() -> Iterator[tuple[Process, int]]:
    """Every process that has not ended, with the number of its parent."""
    with suppress(OSError):
        for entry in os.listdir(PROC):
            if entry.isdecimal() and (found := _looked_up(int(entry))):
                yield found


def _looked_up(number: int) -> tuple[Process, int] | None:
    try:
        # A name in brackets comes second; it may hold blanks and brackets itself.
        fields = (PROC / str(number) / "stat").read_bytes().rpartition(b")")[2].split()
        state, parent, started = fields[0].decode(), int(fields[1]), int(fields[19])
    except (OSError, IndexError, ValueError):
        return None
    return None if state in GONE else (Process(number, started), parent)
