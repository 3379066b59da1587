"""Ten times the clients: ten times the seconds, and no more memory than their examples need.

    uv run python benchmarks/scaling.py [--clients 1000 10000] [--rounds 5] [--small]

Digits and the perceptron of run.py, 64 examples each, one federation after the other. Memory is
what all processes of a federation, Ray's included, hold together after their rounds, shared pages
counted once.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import comparison
import machine
from contender import Contender
from workloads import WORKLOADS, digits, lay

LINEAR = 0.15  # how far the seconds per client may move
MARGIN = 64 * 2**20  # bytes beside the examples


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, nargs=2, default=(1000, 10_000), help="few and many")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--small", action="store_true", help="50 and 200 clients, to see that everything runs"
    )
    options = parser.parse_args()
    sizes = (50, 200) if options.small else tuple(options.clients)
    machine.use_cores(2)
    with TemporaryDirectory() as scratch:
        seconds, memory, examples = zip(
            *[measured(Path(scratch), clients, options.rounds) for clients in sizes], strict=True
        )
    for clients, own, held in zip(sizes, seconds, memory, strict=True):
        print(
            f"{clients} clients: {own:.3f} s per round, {1e3 * own / clients:.3f} ms per "
            f"client, {held / 2**20:.0f} MiB"
        )
    return verdict(sizes, seconds, memory, examples)


def measured(scratch: Path, clients: int, rounds: int) -> tuple[float, int, int]:
    """Median seconds of a round, bytes that all processes hold after the last, bytes of the
    examples.
    """
    workload, examples = WORKLOADS["digits"], digits(None, False, clients)
    folder = scratch / str(clients)
    lay(folder, workload, examples)
    with Contender(comparison.OURS, "fedpriv_trial.py", [str(folder)], folder / "log") as ours:
        ours.ready().ask("round")
        seconds = median(ours.ask("round")[0] for _ in range(rounds))
        return seconds, machine.resident(ours.pids()), examples.x.nbytes + examples.y.nbytes


def verdict(
    sizes: tuple[int, ...],
    seconds: tuple[float, ...],
    memory: tuple[int, ...],
    examples: tuple[int, ...],
) -> int:
    """Say whether the targets are met; the exit code."""
    times = seconds[1] / seconds[0] / (sizes[1] / sizes[0])
    grown, allowed = memory[1] - memory[0], examples[1] - examples[0] + MARGIN
    linear, small = abs(times - 1) <= LINEAR, grown <= allowed
    print(
        f"seconds per client: {times:.2f} of what they were; target within {LINEAR:.0%}: "
        f"{'met' if linear else 'missed'}"
    )
    print(
        f"memory: {grown / 2**20:+.0f} MiB; target at most {allowed / 2**20:.0f} MiB, the "
        f"examples and {MARGIN / 2**20:.0f} MiB: {'met' if small else 'missed'}"
    )
    return 0 if linear and small else 1


if __name__ == "__main__":
    sys.exit(main())
