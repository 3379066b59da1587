"""How many client actors fit on a GPU, measured with one actor before the first trial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from algorithms.interfaces import Run
from datasets.federation import DataError
from orchestrator.cluster.data_checks import data_problem
from orchestrator.config.errors import ConfigProblem
from orchestrator.config.sweep_file import Sweep

GIB = 2**30
# Memory of CUDA and its libraries in every process, about 0.5 GiB, which torch does not count.
CONTEXT = int(0.6 * GIB)
SPARE = 0.05  # fraction of the GPU kept free for fragmentation in later rounds


@dataclass(frozen=True)
class MemoryUse:
    """The GPU memory of a client actor.

    Attributes:
        peak: bytes that the actor used at most.
        total: bytes of the GPU.
        device: the GPU's name.
    """

    peak: int
    total: int
    device: str

    @property
    def fit(self) -> int:
        """The number of such actors that fit on the GPU."""
        return int(self.total * (1 - SPARE) / (self.peak + CONTEXT))

    def __str__(self) -> str:
        needed, whole = (self.peak + CONTEXT) / GIB, self.total / GIB
        return f"a client actor needs {needed:.2g} of the {whole:.3g} GiB of {self.device}, so {self.fit} fit"


def memory_check(sweep: Sweep, measure: Callable[[Run], MemoryUse]) -> tuple[list[str], list[ConfigProblem]]:
    """Check that the client actors of every trial fit on a GPU.

    Runs that differ only in numbers that need no memory, such as learning rates, are measured once.

    Args:
        sweep: the sweep.
        measure: trains one block of a run on a GPU, see `on_a_gpu`.

    Returns:
        Sentences with the measurement, and the problem if the actors do not fit or the data cannot be partitioned. Both
        are empty if no trial uses a GPU.
    """
    kinds = {_kind(run): run for run in sweep.runs if run.training.config.device == "cuda"}
    if not kinds:
        return [], []
    try:
        largest = max((measure(run) for run in kinds.values()), key=lambda one: one.peak)
    except DataError as error:
        return [], [data_problem(sweep, str(error))]
    requested = sweep.resources.clients_per_gpu
    if requested > largest.fit:
        return [], [sweep.problem(f"{largest}, got {requested}", "resources", "clients_per_gpu")]
    return [f"{largest}; resources.clients_per_gpu is {requested}"], []


def _kind(run: Run) -> str:
    training = {name: value for name, value in run.training.config if not isinstance(value, float)}
    files = getattr(run.data.config, "path", "")  # examples of other files may be of another size
    return repr((run.data.name, files, run.split, run.data.config.clients, run.model, run.objective.name, training))


def on_a_gpu(sweep: Sweep) -> Callable[[Run], MemoryUse]:
    """The measure for `memory_check`: runs `measure_memory` as a Ray task on a whole GPU.

    The returned function raises TimeoutError if no GPU becomes free in time.
    """
    import ray

    def measure(run: Run) -> MemoryUse:
        task = ray.remote(measure_memory).options(num_gpus=1, num_cpus=0, max_calls=1, max_retries=1)
        ref = task.remote(run, sweep.root_of(run))
        done, _ = ray.wait([ref], timeout=sweep.resources.timeout_seconds)
        if not done:
            ray.cancel(ref, force=True)
            raise TimeoutError("no GPU became free to measure the memory of a client actor")
        try:
            return ray.get(ref)
        except ray.exceptions.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, DataError) else error) from None

    return measure


def measure_memory(run: Run, data_root: Path) -> MemoryUse:
    """Train and evaluate the block with the largest client in this process, as an actor would, and measure its memory.

    A block that does not fit counts as using the whole GPU.

    Args:
        run: the resolved run.
        data_root: folder of the data sets.
    """
    import numpy as np
    import torch

    from algorithms.core.messages import Assignment
    from algorithms.engine import server
    from orchestrator.trial.client_actors import Job, LocalClients, client_blocks
    from orchestrator.trial.federation import partition_data
    from orchestrator.trial.worker_session import prepare_session

    data = partition_data(run, data_root)
    blocks = client_blocks(data.clients, run.training.config.block_size)
    block = max(blocks, key=lambda clients: data.sizes[list(clients)].max())
    statistics = {name: values[list(block)] for name, values in server.initial_statistics(run, data.clients).items()}
    total = torch.cuda.get_device_properties(0).total_memory
    try:
        setup, client = prepare_session("memory", run, data), LocalClients()
        (models,) = client.run(setup, [Job("initial", (0, run.clustering.config.clusters))])
        train = Job("train", (models, Assignment(block, np.zeros(len(block), np.int64), 0, statistics), ()))
        client.run(setup, [train, Job("evaluate", (models, block, 1))])
        peak = torch.cuda.max_memory_reserved()
    except torch.OutOfMemoryError:
        peak = total
    return MemoryUse(peak, total, torch.cuda.get_device_name(0))
