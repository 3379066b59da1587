"""What the machine has in all, of memory and of disk, whether it is free now or not."""

from __future__ import annotations

import math
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB", "ZB")


@dataclass(frozen=True)
class Machine:
    """What there is to hold a trial.

    Attributes:
        memory: bytes of memory.
        disk: bytes of the disk with the results.
        words: whose they are, as the begin of a clause, such as "this machine has".
        hint: where there may be more memory, as the end of a sentence.
    """

    memory: float
    disk: float
    words: str
    hint: str = ""


# Of a machine that is elsewhere nothing is known but that none has more.
LARGEST = Machine(memory=64 * 2.0**40, disk=2.0**60, words="no node of a cluster has more than")


def this_machine(results: Path) -> Machine:
    """Return what this machine has, or the container that limits this process.

    Args:
        results: the folder of the results, which need not exist.
    """
    held = next((folder for folder in (results, *results.parents) if os.path.exists(folder)), Path.cwd())
    try:
        disk = float(shutil.disk_usage(held).total)
    except OSError:
        disk = math.inf
    return Machine(float(_memory()), disk, "this machine has", "; --address HOST:PORT runs the sweep on a cluster")


def _memory() -> int:
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in map(Path, CGROUPS):
        try:
            limits.append(int(path.read_text()))
        except (OSError, ValueError):  # no limit, or no such file
            continue
    return min(limits)


def amount(bytes_: float) -> str:
    """Write a number of bytes for a reader.

    >>> amount(999), amount(2.6e11), amount(8e30)
    ('999 B', '260 GB', '8e+09 ZB')
    """
    for unit in UNITS:
        if bytes_ < 999.5 or unit == UNITS[-1]:
            break
        bytes_ /= 1000
    return f"{bytes_:.3g} {unit}"
