"""Fifty rounds: neither the processes nor Ray's object store may grow.

    uv run python benchmarks/memory.py [--workload mnist] [--rounds 50] [--small]

After each round: the memory that all processes hold together, shared pages counted once, and the
bytes in the object store,
where models and data lie; what actors send is held by processes, up to 2 MB each.
What is compared are the medians of the second fifth of the rounds and of the last: the first rounds
still fill caches.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import comparison
import machine
from contender import Contender
from workloads import WORKLOADS, lay

MARGIN = (
    4 * 2**20
)  # what allocators come to hold without anything being kept; a kept round of updates is far more
REPORT_SECONDS = 0.5  # until the raylet has told how full its store is


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", choices=WORKLOADS, default="mnist")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument(
        "--small", action="store_true", help="a few clients, to see that everything runs"
    )
    parser.add_argument("--data", type=Path, default=None, help="real data")
    options = parser.parse_args()
    workload = WORKLOADS[options.workload]
    machine.use_cores(2)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        lay(folder, workload, workload.examples(options.data, options.small))
        with Contender(comparison.OURS, "fedpriv_trial.py", [scratch], folder / "log") as ours:
            ours.ready()
            held = [after_a_round(ours) for _ in range(options.rounds)]
    return verdict(held)


def after_a_round(ours: Contender) -> tuple[float, float]:
    """Bytes of all processes, and in the object store, after one more round."""
    ours.ask("round")
    time.sleep(REPORT_SECONDS)
    return machine.resident(ours.pids()), ours.ask("store")[1]["bytes"]


def verdict(held: list[tuple[float, float]]) -> int:
    """Say how much was held early and late, and whether the target is met; the exit code."""
    fifth, code = max(len(held) // 5, 1), 0
    for name, values in zip(
        ("all processes", "object store"), zip(*held, strict=True), strict=True
    ):
        early, late = median(values[fifth : 2 * fifth] or values), median(values[-fifth:])
        met = late - early <= MARGIN
        code |= not met
        print(
            f"{name}: {early / 2**20:.1f} MiB in rounds {fifth + 1} to {2 * fifth}, "
            f"{late / 2**20:.1f} MiB in the last {fifth} of {len(held)} "
            f"({(late - early) / 2**20:+.2f} MiB); target no growth: "
            f"{'met' if met else 'missed'}"
        )
    return code


if __name__ == "__main__":
    sys.exit(main())
