"""What a worker process keeps of the trial that it works for: configuration, data and one model object, to be re-filled."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import ray

from datasets.federation import Federation
from orchestrator.config.run import Run, resolve
from orchestrator.trial.random_streams import stream

if TYPE_CHECKING:
    from algorithms.core.network import Network


@dataclass(frozen=True)
class Setup:
    """Where a worker finds a trial: its key and references to its configuration and its data.

    The references stand in a list, so that Ray hands them over as they are and a worker fetches them only when the key is new.
    """

    key: str
    refs: list[ray.ObjectRef]

    @staticmethod
    def of(key: str, run: Run, data: ray.ObjectRef) -> Setup:
        return Setup(key, [ray.put(run.to_dict()), data])


@dataclass
class Session:
    """A trial as a worker process sees it; ``data`` is a view into shared memory."""

    run: Run
    data: Federation
    network: Network

    def streams(self, round_: int) -> Callable[[str, int], np.random.Generator]:
        """The generators of one round, by purpose and client."""
        return lambda purpose, client: stream(self.run.seed, purpose, round_, client)

    def fixed(self, purpose: str, *place: int) -> np.random.Generator:
        """A generator that is the same in every round."""
        return stream(self.run.seed, purpose, *place)


_sessions: dict[str, Session] = {}

# Parameters of glibc's mallopt: above which sizes memory is given back to the system as soon as it is free.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT = 1 << 28


def keep_freed_memory() -> None:
    """Let this process use memory again that it has freed, as far as its C library can be told so.

    Left alone, glibc gives a step's large tensors back to the system, and the next step pays for the same pages once more, two
    thousand of them for 32 images of MNIST: a fifth of its time, and more where several processes ask at once.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(M_MMAP_THRESHOLD, KEPT)
        library.mallopt(M_TRIM_THRESHOLD, KEPT)


def session(setup: Setup) -> Session:
    """This process' session for the trial; the one before is dropped, so that one model object exists at a time."""
    if setup.key not in _sessions:
        import torch

        from algorithms.core.network import Network

        keep_freed_memory()
        plain, data = ray.get(setup.refs)
        run = resolve(plain)
        training = run.training.config
        torch.set_num_threads(training.threads)
        if training.device == "cuda":
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it cuBLAS may add in another order
            torch.use_deterministic_algorithms(True, warn_only=True)
        _sessions.clear()
        _sessions[setup.key] = Session(run, data, Network(run.model, data.shape, data.classes, training.device))
    return _sessions[setup.key]
