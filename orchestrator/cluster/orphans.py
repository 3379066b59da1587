"""What a run that was killed leaves of its Ray, and how a later run ends it.

Ray's processes end by themselves when the command that started them is killed, some of them only
after a minute. So the command marks their environment, and nobody else's, with its number, the time
at which it was created, and Ray's folder. What is marked, and does not descend from that command
any more, is certainly ours; nothing else is ended.
"""

from __future__ import annotations

import os
from contextlib import suppress

import psutil

from orchestrator.cluster.address import address_file

MARK = "FEDPRIV_RAY"  # the variable in the environment of Ray's processes
# Keeps Ray's processes, which write titles over their arguments, from overwriting what is behind.
READABLE = "SPT_NOENV"
# seconds from asking a process to end to killing it, and to wait after that
POLITE = 1.0
LAST = 2.0
CLOCK = 0.5  # seconds by which the system's clock may be set in the meantime


def marks() -> dict[str, str]:
    """The variables that mark the processes that are started with them as those of this process."""
    return {MARK: _mark(), READABLE: "1"}


def _mark() -> str:
    return f"{os.getpid()} {psutil.Process().create_time()} {_folder()}"


def ray_processes() -> dict[str, list[psutil.Process]]:
    """The processes of this user that are marked and belong to Ray's folder, by the mark."""
    by_mark: dict[str, list[psutil.Process]] = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            mark = process.environ().get(MARK, "")
            if (
                process.uids().real == os.geteuid()
                and mark.endswith(f" {_folder()}")
                and process.pid != os.getpid()
            ):
                by_mark.setdefault(mark, []).append(process)
    return by_mark


def end_own() -> None:
    """End what is left of the Ray of this process, which has been shut down."""
    _end(ray_processes().get(_mark(), []))


def end_orphans() -> list[str]:
    """End what killed runs of this user have left running on this machine, and say so."""
    sentences = []
    for mark, processes in ray_processes().items():
        number, created = mark.split(" ")[:2]
        orphans = [process for process in processes if not _descends(process, float(created))]
        if orphans:
            _end(orphans)
            many = f"{len(orphans)} process{'' if len(orphans) == 1 else 'es'}"
            sentences.append(
                f"ended {many} that an earlier run (process {number}, killed) left behind"
            )
    return sentences


def _descends(process: psutil.Process, created: float) -> bool:
    """Whether an ancestor of a process was created at that time: numbers differ between
    containers, and are given out again.

    True also where that cannot be said.
    """
    try:
        return any(abs(ancestor.create_time() - created) < CLOCK for ancestor in process.parents())
    except psutil.Error:
        return True


def _end(processes: list[psutil.Process]) -> None:
    """Ask processes to end, and kill those that do not."""
    for send, patience in ((psutil.Process.terminate, POLITE), (psutil.Process.kill, LAST)):
        for process in processes:
            with suppress(psutil.Error):
                send(process)  # psutil makes sure that it is still the same process
        processes = psutil.wait_procs(processes, timeout=patience)[1]


def _folder() -> str:
    return str(address_file(os.environ).parent)
