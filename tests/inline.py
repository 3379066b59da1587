"""A trial without Ray: the same loop, jobs and audits, run one after another in this process. The slow, obvious version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import datasets
from algorithms.network import Network
from datasets.federation import Federation
from orchestrator.clients import ClientActor, Job
from orchestrator.config import Run, resolve
from orchestrator.results import Folder
from orchestrator.rng import integer, stream
from orchestrator.session import Session, Setup, _sessions
from orchestrator.trial import Trial


class InlineClients:
    """Stands for `orchestrator.clients.Clients`: one worker, this process."""

    def __init__(self) -> None:
        self.actor = ClientActor()

    def share(self, value: Any) -> Any:
        return value

    def run(self, setup: Setup, jobs: list[Job]) -> list[Any]:
        return [getattr(self.actor, job.method)(setup, *job.args) for job in jobs]


class InlineShadows:
    """Stands for `orchestrator.shadows.Shadows`: nothing is cached."""

    def audit(self, setup, run, attack, data, models, assignment, accuracies, round_) -> dict[int, Any]:
        network, found = _sessions[setup.key].network, {}
        for j in np.unique(assignment).tolist():
            jobs = attack.module.shadow_jobs(
                attack.config, data, j, assignment, accuracies[j], lambda *p: integer(run.seed, *p)
            )
            shadows = [
                attack.module.train_shadow(job, data.shadow, data.prepare, network, run.training.config) for job in jobs
            ]
            rng = stream(run.seed, "audit", round_, j)
            found[j] = attack.module.audit(attack.config, data, j, assignment, network, models[j], shadows, rng)
        return found


def inline_trial(
    given: dict[str, Any] | Run, folder: Path, data: Federation | None = None, root: Path = Path()
) -> Trial:
    """A trial of the run ``given`` that keeps its files in ``folder``; ``data`` replaces the configured federation."""
    run = given if isinstance(given, Run) else resolve(given)
    data = data or datasets.build(run.data, run.split, root, lambda purpose: stream(run.seed, purpose))
    setup = Setup(str(folder), [])
    _sessions.clear()
    _sessions[setup.key] = Session(run, data, Network(run.model, data.shape, data.classes))
    return Trial(run, setup, data, InlineClients(), InlineShadows(), Folder(folder).trial("t"))
