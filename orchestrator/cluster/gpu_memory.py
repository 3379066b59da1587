"""How many client actors fit on a GPU: one is tried out there before the first trial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from orchestrator.config.errors import ConfigProblem
from orchestrator.config.run import Run
from orchestrator.config.sweep_file import Sweep

GIB = 2**30
# What CUDA and its libraries keep in every process, which torch does not count: some 0.5 GiB.
CONTEXT = int(0.6 * GIB)
SPARE = 0.05  # of the GPU, for what later rounds fragment


@dataclass(frozen=True)
class MemoryUse:
    """Memory in bytes: ``peak`` that a client actor took, of ``total`` on the GPU called ``device``."""

    peak: int
    total: int
    device: str

    @property
    def fit(self) -> int:
        """How many such actors fit."""
        return int(self.total * (1 - SPARE) / (self.peak + CONTEXT))

    def __str__(self) -> str:
        needed, whole = (self.peak + CONTEXT) / GIB, self.total / GIB
        return f"a client actor takes {needed:.2g} of the {whole:.3g} GiB of {self.device}, so {self.fit} fit"


def memory_check(sweep: Sweep, measure: Callable[[Run], MemoryUse]) -> tuple[list[str], list[ConfigProblem]]:
    """What was measured, in sentences, and the problem of actors that do not fit; nothing where no GPU is used.

    ``measure`` trains one block on the GPU. Runs that differ only in numbers that take no room, such as learning rates,
    are measured once.
    """
    kinds = {_kind(run): run for run in sweep.runs if run.training.config.device == "cuda"}
    if not kinds:
        return [], []
    largest = max((measure(run) for run in kinds.values()), key=lambda one: one.peak)
    wanted = sweep.resources.clients_per_gpu
    if wanted > largest.fit:
        return [], [sweep.problem(f"{largest}, got {wanted}", "resources", "clients_per_gpu")]
    return [f"{largest}; resources.clients_per_gpu is {wanted}"], []


def _kind(run: Run) -> str:
    training = {name: value for name, value in run.training.config if not isinstance(value, float)}
    return repr((run.data.name, run.split, run.data.config.clients, run.model, run.objective.name, training))


def on_a_gpu(sweep: Sweep) -> Callable[[Run], MemoryUse]:
    """A `memory_check` measure that asks Ray for a whole GPU and a process of its own. Raises TimeoutError."""
    import ray

    def measure(run: Run) -> MemoryUse:
        task = ray.remote(measure_memory).options(num_gpus=1, num_cpus=0, max_calls=1, max_retries=1)
        ref = task.remote(run.to_dict(), str(sweep.data_root))
        done, _ = ray.wait([ref], timeout=sweep.resources.timeout_seconds)
        if not done:
            ray.cancel(ref, force=True)
            raise TimeoutError("no GPU was free to measure a client actor's memory on")
        return ray.get(ref)

    return measure


def measure_memory(plain: dict[str, Any], data_root: str) -> MemoryUse:
    """Train and evaluate the block with the largest client here, as an actor would, and tell what it took.

    What does not fit at all counts as the whole GPU.
    """
    from pathlib import Path

    import numpy as np
    import torch

    import datasets
    from algorithms.engine import server
    from orchestrator.config.run import resolve
    from orchestrator.trial.client_actors import Job, client_blocks
    from orchestrator.trial.local_clients import LocalClients, prepare_session
    from orchestrator.trial.random_streams import stream

    run = resolve(plain)
    data = datasets.build_federation(run.data, run.split, Path(data_root), lambda purpose: stream(run.seed, purpose))
    blocks = client_blocks(data.clients, run.training.config.clients_per_job)
    block = max(blocks, key=lambda clients: data.sizes[list(clients)].max())
    told = {name: values[list(block)] for name, values in server.initial_statistics(run, data.clients).items()}
    total = torch.cuda.get_device_properties(0).total_memory
    try:
        setup, client = prepare_session("memory", run, data), LocalClients()
        (models,) = client.run(setup, [Job("initial", (0, run.clustering.config.clusters))])
        train = Job("train", (models, block, np.zeros(len(block), np.int64), 0, told, {}, ()))
        client.run(setup, [train, Job("evaluate", (models, block, 1))])
        peak = torch.cuda.max_memory_reserved()
    except torch.OutOfMemoryError:
        peak = total
    return MemoryUse(peak, total, torch.cuda.get_device_name(0))
