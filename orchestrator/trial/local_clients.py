"""A whole federation in one process: the same round loop and the same jobs, without actors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from algorithms.interfaces import Run
from datasets.federation import Federation
from orchestrator.trial.arithmetic import multiply_with_one_thread
from orchestrator.trial.client_actors import ClientActor, Job
from orchestrator.trial.worker_session import Session, Setup, _sessions


class LocalClients:
    """Replaces `orchestrator.trial.client_actors.ClientPool` where this process is the only worker."""

    def __init__(self) -> None:
        """Create the actor object in this process."""
        self.actor = ClientActor()

    def share(self, value: Any) -> Any:
        """Return ``value`` itself."""
        return value

    def run(self, setup: Setup, jobs: Sequence[Job]) -> list[Any]:
        """Run jobs one after another and return their results."""
        return [getattr(self.actor, job.method)(setup, *job.args) for job in jobs]


def prepare_session(key: str, run: Run, data: Federation, silent: tuple[int, ...] = ()) -> Setup:
    """Create a run's session in this process and drop the previous one.

    Args:
        key: identifies the session.
        run: the run.
        data: its federation.
        silent: clients that send back the models that they were sent.

    Returns:
        The setup under which jobs find the session.
    """
    from algorithms.core.network import Network

    multiply_with_one_thread()
    _sessions.clear()
    network = Network(run.model, data.shape, data.classes, run.training.config.device)
    _sessions[key] = Session(run, data, network, silent)
    return Setup(key, [])
