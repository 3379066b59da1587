"""What is left when everything but training is taken away: the round of one of two processes,
without Ray, jobs and sums.

    uv run python benchmarks/floor.py [--workload digits] [--data DIR] [--repeats 9]

Half of a workload's clients train in this process on one thread, in the blocks in which an actor
would get them. No engine can be faster with these steps, so it tells how far a target of `run.py`
is within reach.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from statistics import median

import machine
import numpy as np
from workloads import WORKLOADS, Workload, initial

sys.path.insert(0, str(Path(__file__).parent / "contenders"))

from fedpriv_trial import federation, flattened, given

from algorithms.core.messages import Assignment
from algorithms.core.network import Network
from algorithms.engine.block import train
from orchestrator.config.run import resolve
from orchestrator.trial.client_actors import client_blocks
from orchestrator.trial.worker_session import Session, keep_freed_memory


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    data = os.environ.get("FEDPRIV_DATA")
    parser.add_argument("--workload", choices=WORKLOADS, action="append")
    parser.add_argument(
        "--data", type=Path, default=Path(data) if data else None, help="data sets (FEDPRIV_DATA)"
    )
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    machine.use_cores(1)
    keep_freed_memory()
    for name in options.workload or WORKLOADS:
        seconds = trained(WORKLOADS[name], options.data, options.repeats)
        print(
            f"{WORKLOADS[name].title}: training alone takes {seconds:.3f} s a round on each "
            "of two cores"
        )
    return 0


def trained(workload: Workload, data: Path | None, repeats: int) -> float:
    """Median seconds in which half of the clients train."""
    import torch

    torch.set_num_threads(1)
    examples = workload.examples(data, False)
    run = resolve(given(workload.work, examples) | {"rounds": 1})
    dealt = federation(workload.work, examples)
    session = Session(run, dealt, Network(run.model, dealt.shape, dealt.classes))
    start = flattened(initial(workload.work, dealt.shape))
    blocks = client_blocks(dealt.clients, run.training.config.block_size)
    taken = []
    for turn in range(repeats + 1):
        began = time.perf_counter()
        for block in blocks[: len(blocks) // workload.work.processes]:
            nobody = np.zeros(len(block), np.int64)
            assigned = Assignment(block, nobody, turn)
            train(run, dealt, session.network, [start], assigned, session.streams(turn))
        taken.append(time.perf_counter() - began)
    return median(taken[1:])


if __name__ == "__main__":
    sys.exit(main())
