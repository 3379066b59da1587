"""The machine that figures were measured on, and the cores that everything runs on."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

OWN = ("Pss_Anon:", "Pss_Shmem:")


def use_cores(count: int) -> None:
    """Keep this process, and all that it starts from now on, on the first ``count`` of the cores
    that it may use.
    """
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, allowed[:count])


def cpuinfo() -> dict[str, str]:
    """What Linux says of the first processor; empty elsewhere."""
    place = Path("/proc/cpuinfo")
    first = place.read_text().split("\n\n")[0] if place.exists() else ""
    return {
        key.strip(): value.strip()
        for key, _, value in (line.partition(":") for line in first.splitlines())
    }


def describe(data: Path | None) -> dict[str, str]:
    """What a figure depends on besides the code."""
    model = cpuinfo().get("model name", platform.machine())
    memory = next(
        line
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemTotal")
    )
    return {
        "processor": f"{model}, {len(os.sched_getaffinity(0))} cores at hand, at most 2 used",
        "memory": f"{int(memory.split()[1]) / 2**20:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "packages": ", ".join(f"{name} {version(name)}" for name in ("torch", "ray", "numpy")),
        "data": str(data) if data else "synthetic where published files would be needed",
        "load before": f"{os.getloadavg()[0]:.2f}",
    }


def resident(pids: Iterable[int]) -> int:
    """Bytes of memory that these processes hold together: what several share, like Ray's object
    store, is counted once.

    Libraries and other mapped files are left out: they are the same for every workload, and how
    they are counted depends on
    which other programs have loaded them.
    """
    total = 0
    for pid in pids:
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith(OWN)) * 1024
    return total
