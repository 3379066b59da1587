"""What processes take of the machine, from Linux' /proc: a process and all that it started, themselves or through others."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

OWN = ("Pss_Anon:", "Pss_Shmem:")


def tree(root: int) -> list[int]:
    """``root`` and its descendants that are alive. One that lost its parent in between is no longer found."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            children.setdefault(int(stat(int(entry.name))[1]), []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def born(pid: int) -> int | None:
    """When the process was started, in ticks since boot; None if it is gone. With it, a number is nobody else's."""
    with suppress(OSError):
        return int(stat(pid)[19])
    return None


def resident(pids: list[int]) -> int:
    """Bytes of memory that these processes hold together: what several share, like Ray's object store, is counted once.

    Libraries and other mapped files are left out: they are the same for every workload, and how they are counted depends on
    which other programs have loaded them.
    """
    total = 0
    for pid in pids:
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith(OWN)) * 1024
    return total


def stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, from the state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
