"""A whole federation in one process: the same round loop and the same jobs, without actors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from datasets.federation import Federation
from orchestrator.config.run import Run
from orchestrator.trial.client_actors import ClientActor, Job
from orchestrator.trial.worker_session import Session, Setup, _sessions


class LocalClients:
    """Stands for `orchestrator.trial.client_actors.ClientPool` where there is one worker, this process."""

    def __init__(self) -> None:
        self.actor = ClientActor()

    def share(self, value: Any) -> Any:
        """``value`` as it is."""
        return value

    def run(self, setup: Setup, jobs: Sequence[Job]) -> list[Any]:
        """Results of ``jobs``, in their order."""
        return [getattr(self.actor, job.method)(setup, *job.args) for job in jobs]


def prepare_session(key: str, run: Run, data: Federation) -> Setup:
    """The setup of a run whose session is made here and now; a session of this process that was there is dropped."""
    from algorithms.core.network import Network

    _sessions.clear()
    _sessions[key] = Session(run, data, Network(run.model, data.shape, data.classes, run.training.config.device))
    return Setup(key, [])
