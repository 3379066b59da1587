"""Shadow models as parallel remote tasks, and the cache on disk that serves every trial of a sweep.

A shadow is a function of its job, the shadow set, the model and the training configuration, and its file is named by their
hash: whoever needs it next, in this trial or another, finds it there.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ray

from algorithms.core.messages import Ints, Weights
from datasets.federation import Federation
from orchestrator.config.run import Component, Run
from orchestrator.results.folder import write_atomically
from orchestrator.trial.random_streams import integer, stream
from orchestrator.trial.replica_tasks import run_replicas
from orchestrator.trial.worker_session import Setup, session


class ShadowTasks:
    """Runs an attack's shadow jobs and audits as remote tasks, with the Ray ``options`` that the placement gives."""

    def __init__(self, cache: Path, options: Sequence[dict[str, Any]], timeout: float) -> None:
        self.cache, self.options, self.timeout = cache, list(options), timeout
        self.launched = 0

    def _task(self, function: Any) -> Any:
        self.launched += 1
        return ray.remote(function).options(max_retries=3, **self.options[self.launched % len(self.options)])

    def audit(
        self,
        setup: Setup,
        run: Run,
        attack: Component,
        data: Federation,
        models: list[Weights],
        assignment: Ints,
        accuracies: np.ndarray,
        round_: int,
    ) -> dict[int, Any]:
        """Attack every model that has clients: cluster -> the attack's own result.

        ``accuracies`` [clusters] are the models' training accuracies. Raises TimeoutError after the deadline.
        """
        seed_for = lambda purpose, *place: integer(run.seed, purpose, *place)  # noqa: E731
        sent, audits, shadows = ray.put(models), {}, []
        for cluster in np.unique(assignment).tolist():
            jobs = attack.module.shadow_jobs(attack.config, data, cluster, assignment, accuracies[cluster], seed_for)
            mine = [self._task(_shadow).remote(setup, attack.name, job, str(self.cache)) for job in jobs]
            audits[cluster] = self._task(_audit).remote(setup, attack.name, cluster, assignment, sent, round_, *mine)
            shadows += mine
        self._wait([*shadows, *audits.values()], attack.name)
        return {cluster: ray.get(ref) for cluster, ref in audits.items()}

    def replicate(self, setup: Setup, run: Run, attack: Component) -> Any:
        """What ``attack`` concludes from its replicas of the run; None where it wants none."""
        return run_replicas(self.gathered, self.cache, setup, run, attack)

    def gathered(self, function: Any, attack: str, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Results of ``function`` for every one of ``calls``, as parallel tasks, in their order."""
        refs = [self._task(function).remote(*call) for call in calls]
        self._wait(list(refs), attack)
        return ray.get(refs)

    def _wait(self, refs: list[ray.ObjectRef], attack: str) -> None:
        """Until all are done. Raises TimeoutError, and stops what runs, where nothing is done for as long as allowed."""
        while refs:
            done, refs = ray.wait(refs, timeout=self.timeout)
            if not done:
                for ref in refs:
                    ray.cancel(ref, force=True)
                raise TimeoutError(
                    f"{len(refs)} tasks of the attack {attack} are not done, and none came to an end within "
                    f"{self.timeout:g} s; raise resources.timeout_seconds if one of them takes that long"
                )


def _shadow(setup: Setup, attack: str, job: Any, cache: str) -> Any:
    """Train one shadow model, or read it where it was trained before."""
    mine = session(setup)
    module = _find_attack(mine.run, attack).module
    training = {name: value for name, value in mine.run.training.config if name not in ("backend", "clients_per_job")}
    circumstances = [mine.data.digest(), mine.run.model.name, mine.run.model.config.model_dump(), training]
    extra = hashlib.sha256(json.dumps(circumstances, sort_keys=True).encode()).hexdigest()
    path = Path(cache) / f"{job.key(extra)}.npz"
    if path.exists():
        with np.load(path) as file:
            return module.Shadow(**{name: file[name] if file[name].ndim else file[name].item() for name in file.files})
    shadow = module.train_shadow(job, mine.data.shadow, mine.data.prepare, mine.network, mine.run.training.config)
    buffer = io.BytesIO()
    np.savez(buffer, **dataclasses.asdict(shadow))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue())
    return shadow


def _audit(
    setup: Setup, attack: str, cluster: int, assignment: Ints, models: list[Weights], round_: int, *shadows: Any
) -> Any:
    """Fit the attack on the shadows and turn it on one of the trial's models."""
    mine = session(setup)
    component = _find_attack(mine.run, attack)
    rng = stream(mine.run.seed, "audit", round_, cluster)
    return component.module.audit(
        component.config, mine.data, cluster, assignment, mine.network, models[cluster], shadows, rng
    )


def _find_attack(run: Run, attack: str) -> Component:
    return next(component for component in run.attacks if component.name == attack)
