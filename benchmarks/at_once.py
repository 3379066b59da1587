"""What training several shadow federations at once saves, and what measuring the curvature of
more examples at once would.

    uv run python benchmarks/at_once.py [--data DIR] [--laps 3]

Shadow federations are those of an attack on the models of a sweep file's first run; curvatures are
those of UCI HAR's first clients, by examples in a batch: if a wider batch is not faster, batches of
several clients are not either. Processor seconds in one process, the fastest lap of each.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from workloads import WORKLOADS  # noqa: E402

from algorithms.core.network import Network  # noqa: E402
from algorithms.curvature import hessian  # noqa: E402
from algorithms.engine.backends import together  # noqa: E402
from attacks.interfaces import Cluster  # noqa: E402
from orchestrator.config.run import resolve  # noqa: E402
from orchestrator.config.sweep_file import load_sweep  # noqa: E402
from orchestrator.estimates import counts  # noqa: E402
from orchestrator.trial.attack_round import of_kind  # noqa: E402
from orchestrator.trial.federation import partition_data  # noqa: E402
from orchestrator.trial.worker_session import (  # noqa: E402
    keep_freed_memory,
    multiply_with_one_thread,
)

SWEEPS = "quickstart", "ifca_mir_balance", "membership_quickstart"
WIDTHS = 16, 64, 128, 512
CLIENTS = 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    data = os.environ.get("FEDPRIV_DATA")
    parser.add_argument(
        "--data", type=Path, default=Path(data) if data else None, help="data sets (FEDPRIV_DATA)"
    )
    parser.add_argument("--laps", type=int, default=3)
    options = parser.parse_args()
    keep_freed_memory()
    multiply_with_one_thread()
    torch.set_num_threads(1)
    for name in SWEEPS:
        shadows(name, options.laps)
    curvatures(options.data, options.laps)
    return 0


def fastest(laps: int, *works: Callable[[], object]) -> list[float]:
    """The processor seconds of each, which take turns."""
    best = [float("inf")] * len(works)
    for _ in range(laps):
        for i, work in enumerate(works):
            started = time.process_time()
            work()
            best[i] = min(best[i], time.process_time() - started)
    return best


def shadows(name: str, laps: int) -> None:
    """Print what the shadow models of each of a run's models take, one by one and at once."""
    run = load_sweep(HERE.parent / "sweeps" / f"{name}.yaml").runs[0]
    data = partition_data(run, Path())
    network = Network(run.model, data.shape, data.classes)
    (attack, *_) = of_kind(run, "models")
    train = attack.module.train_shadows
    for number, clients in enumerate(counts.clusters(run, data)):
        jobs = counts.shadow_jobs(run, Cluster(data, number, clients), attack)
        jobs = jobs[: together(run, 4 * data.shadow.x.size, network.layout.size)]
        alone, at_once = fastest(
            laps,
            lambda jobs=jobs: [train([job], data, network, run) for job in jobs],
            lambda jobs=jobs: train(jobs, data, network, run),
        )
        counted = f"{len(jobs)} shadow federations of {len(clients)} clients"
        print(
            f"{name}: {counted}: {alone:.2f} s one by one, {at_once:.2f} s at once "
            f"({at_once / alone:.2f})",
            flush=True,
        )


def curvatures(folder: Path | None, laps: int) -> None:
    """Print what a client's largest eigenvalue and trace take, by the examples of a batch."""
    given = WORKLOADS["har"].examples(folder, False)
    clients = [slice(*given.offsets[i : i + 2]) for i in range(CLIENTS)]
    run = resolve({"rounds": 1, "data": "har", "model": "tcn", "objective": "finp"})
    network = Network(run.model, given.x.shape[1:], 6)
    network.load(network.initial(np.random.default_rng(0)))

    def measured(width: int) -> None:
        hessian.BATCH = width
        for rows in clients:
            hessian.spectrum(
                network, given.x[rows], given.y[rows], run.curvature, np.random.default_rng(0)
            )

    seconds = fastest(laps, *(lambda width=width: measured(width) for width in WIDTHS))
    shown = ", ".join(
        f"{one / CLIENTS:.3f} s in batches of {width}"
        for width, one in zip(WIDTHS, seconds, strict=True)
    )
    print(f"curvature of a client of UCI HAR: {shown}")


if __name__ == "__main__":
    sys.exit(main())
