"""What a run that was killed leaves of its Ray, and how a later run ends it.

Ray's processes end by themselves when the command that started them is killed, some of them only after a minute. So the
command marks their environment, and nobody else's, with the process that it is: its number, the time at which it started,
because numbers are given out again, and where they are given out. What is marked, and whose command is gone, is certainly
ours; nothing else is ended.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

from orchestrator.cluster.address import address_file

MARK = "FEDPRIV_RAY"  # the variable in the environment of Ray's processes
READABLE = (
    "SPT_NOENV"  # keeps Ray's processes, which write titles over their arguments, from overwriting the environment
)
POLITE, LAST = 1.0, 2.0  # seconds from asking a process to end to killing it, and to wait after that


@contextmanager
def marked() -> Iterator[None]:
    """Mark the processes that are started in the ``with`` as those of this process."""
    before = {name: os.environ.get(name) for name in (MARK, READABLE)}
    os.environ |= {MARK: _mark(), READABLE: "1"}
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            os.environ |= {name: value} if value is not None else {}


def ray_processes() -> dict[str, list[psutil.Process]]:
    """The processes of this user that are marked and run on this machine, by the mark."""
    by_mark: dict[str, list[psutil.Process]] = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            mark = process.environ().get(MARK, "")
            if process.uids().real == os.geteuid() and mark.endswith(f" {_place()}") and process.pid != os.getpid():
                by_mark.setdefault(mark, []).append(process)
    return by_mark


def end_own() -> None:
    """End what is left of the Ray of this process, which has been shut down."""
    _end(ray_processes().get(_mark(), []))


def end_orphans() -> list[str]:
    """End what killed runs of this user have left running on this machine, and say so."""
    sentences = []
    for mark, orphans in ray_processes().items():
        if not _is_at_work(mark):
            _end(orphans)
            many = f"{len(orphans)} process{'' if len(orphans) == 1 else 'es'}"
            sentences.append(f"ended {many} that an earlier run (process {mark.partition(' ')[0]}, killed) left behind")
    return sentences


def _end(processes: list[psutil.Process]) -> None:
    """Ask processes to end, and kill those that do not."""
    for send, patience in ((psutil.Process.terminate, POLITE), (psutil.Process.kill, LAST)):
        for process in processes:
            with suppress(psutil.Error):
                send(process)  # psutil makes sure that it is still the same process
        processes = psutil.wait_procs(processes, timeout=patience)[1]


def _mark() -> str:
    return f"{os.getpid()} {psutil.Process().create_time()} {_place()}"


def _is_at_work(mark: str) -> bool:
    """Whether the process that has made a mark still runs; also where that cannot be said."""
    try:
        number, started, _ = mark.split(" ", 2)
        process = psutil.Process(int(number))
        return abs(process.create_time() - float(started)) < 0.1 and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False
    except (psutil.Error, ValueError):
        return True


def _place() -> str:
    """Where numbers are given out, this host or one of its containers, whose processes it may see, and Ray's folder."""
    numbers = ""
    with suppress(OSError):
        numbers = os.readlink("/proc/self/ns/pid")
    return f"{socket.gethostname()} {numbers} {address_file(os.environ).parent}"
