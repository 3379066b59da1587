"""What a worker process keeps of its current trial: configuration, data and one model object,
which is refilled.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import ray

from algorithms.interfaces import Run
from datasets.federation import Federation
from orchestrator.config.run import resolve
from orchestrator.trial.random_streams import run_stream, stream

if TYPE_CHECKING:
    from algorithms.core.network import Network


@dataclass(frozen=True)
class Setup:
    """Where a worker finds a trial: its key, references to its configuration and its data, and
    what trials share.

    The references are in a list, so that Ray does not resolve them and a worker fetches them only
    if the key is new. ``cache`` is the folder of what trials of the sweep have trained, by this
    ``code`` (a hash); None: each trains for itself.
    """

    key: str
    refs: list[ray.ObjectRef[Any]]
    cache: Path | None = None
    code: str = ""


@dataclass
class Session:
    """A trial as a worker process sees it."""

    run: Run
    data: Federation
    network: Network

    def streams(self, round_: int) -> Callable[[str, int], np.random.Generator]:
        """Return a function that gives the generators of one round, by purpose and client."""
        return lambda purpose, client: run_stream(self.run, purpose, round_, client)

    def fixed(self, purpose: str, *place: int) -> np.random.Generator:
        """Return a generator that is the same in every round."""
        return stream(self.run.seed, purpose, *place)


_sessions: dict[str, Session] = {}

# Parameters of glibc's mallopt: the sizes above which freed memory is returned to the system at
# once.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
KEPT = 1 << 28


def keep_freed_memory() -> None:
    """Let this process reuse the memory that it has freed, where its C library allows it.

    By default, glibc returns a step's large tensors to the system, and the next step pays for the
    same pages again: two thousand of them for 32 images of MNIST, a fifth of the step's time, and
    more if several processes do so at once.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(M_MMAP_THRESHOLD, KEPT)
        library.mallopt(M_TRIM_THRESHOLD, KEPT)


def multiply_with_one_thread() -> None:
    """Let the linear algebra of NumPy and SciPy use one thread in this process, whatever the
    environment says.

    A sum that is divided among two threads has other last digits than that of one, so the distances
    between clients, and weights that are searched with them, would depend on ``OMP_NUM_THREADS``.
    PyTorch's threads are a field of the run.
    """
    from threadpoolctl import threadpool_limits

    os.environ["OPENBLAS_NUM_THREADS"] = (
        "1"  # for SciPy, which has a library of its own and may be loaded later
    )
    threadpool_limits(1, user_api="blas")


def session(setup: Setup) -> Session:
    """Return this process's session for the trial."""
    if setup.key not in _sessions:
        import torch

        keep_freed_memory()
        plain, data = ray.get(setup.refs)
        run = resolve(plain)
        training = run.training.config
        torch.set_num_threads(training.threads)
        if training.device == "cuda":
            # Without it, cuBLAS may sum in a different order.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.use_deterministic_algorithms(True, warn_only=True)
        begin(setup.key, run, data)
    return _sessions[setup.key]


def begin(key: str, run: Run, data: Federation) -> None:
    """Create a run's session in this process; the previous one is dropped, so that only one
    model object exists.
    """
    from algorithms.core.network import Network

    multiply_with_one_thread()
    # Training data are in shared, read-only memory, and nothing writes to tensors over them.
    warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
    _sessions.clear()
    _sessions[key] = Session(
        run, data, Network(run.model, data.shape, data.classes, run.training.config.device)
    )
