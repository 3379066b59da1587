"""Run a command and print which share of all cores' time it used: is a machine busy while it
works on a sweep?

    uv run python benchmarks/utilization.py -- uv run fedpriv run sweeps/quickstart.yaml

Counted is the processor time of the command and of all that descends from it, such as the Ray that
it starts (not one that ran before), also of what has ended since. The last seconds of what ends
between two looks may be missing, so the share is rather too low. The whole machine, by /proc/stat,
misses nothing, but contains other programs: the truth lies between the two.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import psutil

TARGET = 0.90  # of the time of all cores at hand
EVERY = 5.0  # seconds between two looks


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "command", nargs="+", metavar="COMMAND", help="the command and its arguments, after --"
    )
    looks, process = (
        [(time.monotonic(), 0.0, busy())],
        subprocess.Popen(parser.parse_args().command),
    )
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C ends the command; what it used until then is printed
    own = {psutil.Process(process.pid): 0.0}
    while process.returncode is None:
        try:
            process.wait(EVERY)
            waited = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        except subprocess.TimeoutExpired:
            waited = look(own)
        looks.append((time.monotonic(), max(looks[-1][1], sum(own.values()), waited), busy()))
    at, *used_by = np.array(looks).T
    thirds, cores = np.linspace(at[0], at[-1], 4), len(os.sched_getaffinity(0))
    shares = [np.diff(np.interp(thirds, at, used)) / np.diff(thirds) / cores for used in used_by]
    for name, share in zip(("command", "whole machine"), shares, strict=True):
        print(
            f"{name}: {share.mean():.1%} of {cores} cores, in thirds "
            f"{', '.join(f'{third:.1%}' for third in share)}"
        )
    met = shares[0].mean() >= TARGET
    print(
        f"{at[-1] - at[0]:.1f} s; target at least {TARGET:.0%} by the command: "
        f"{'met' if met else 'missed'}"
    )
    return process.returncode or int(not met)


def look(own: dict[psutil.Process, float]) -> float:
    """Note what each descendant has used; return what the living ones have, with all that they
    waited for.
    """
    living = {process.pid: process for process in psutil.process_iter(["ppid", "cpu_times"])}
    family = {
        process.pid for process in own if living.get(process.pid) == process
    }  # also those whose parent has ended
    while (
        new := {pid for pid, process in living.items() if process.info["ppid"] in family} - family
    ):
        family |= new
    times = {living[pid]: living[pid].info["cpu_times"] for pid in family}
    own.update({process: spent.user + spent.system for process, spent in times.items()})
    return sum(
        own[process] + spent.children_user + spent.children_system
        for process, spent in times.items()
    )


def busy() -> float:
    """Seconds that the cores at hand have worked since the machine started."""
    times = [
        one
        for core, one in enumerate(psutil.cpu_times(percpu=True))
        if core in os.sched_getaffinity(0)
    ]
    return sum(one.user + one.nice + one.system + one.irq + one.softirq for one in times)


if __name__ == "__main__":
    sys.exit(main())
