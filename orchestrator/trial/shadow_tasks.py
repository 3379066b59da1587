"""Shadow models as parallel remote tasks, and the cache on disk that all trials of a sweep share.

A shadow model is a function of its job, the shadow set, the model and the training configuration. Its file is named by
the hash of these, so this trial and others find it there.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import ray

from algorithms.interfaces import Run
from attacks.interfaces import AttackedModel, Audit, Exposure, HalvesAttack, ModelAttack, ReplicaAttack, ShadowJob
from datasets.components import Component
from datasets.federation import Federation
from orchestrator.results.cache import cached
from orchestrator.results.provenance import own_code_hash
from orchestrator.trial.attack_round import ClusterModels, FinishedRun, attack_named
from orchestrator.trial.halves_tasks import judge_halves
from orchestrator.trial.random_streams import integer, stream
from orchestrator.trial.replica_tasks import run_replicas
from orchestrator.trial.worker_session import Session, Setup, session


class ShadowTasks:
    """Runs an attack's shadow jobs and audits as remote tasks.

    Attributes:
        title: the sweep and trial that the tasks are for, as Ray's dashboard shows them.
    """

    def __init__(self, cache: Path, options: Sequence[dict[str, Any]], timeout: float) -> None:
        """Keep the arguments; no task is started.

        Args:
            cache: the folder of the shadow models.
            options: Ray options, which the placement gives; tasks use them in turn.
            timeout: seconds without any result after which a wait gives up.
        """
        self.cache, self.options, self.timeout = cache, list(options), timeout
        self.launched, self.title = 0, ""

    def _task(self, function: Any, attack: str) -> Any:
        """Return ``function`` as a Ray task with the next options, and a name that says what it is for."""
        self.launched += 1
        name = f"{function.__name__.strip('_')} for {attack}, {self.title}"
        return ray.remote(function).options(name=name, max_retries=3, **self.options[self.launched % len(self.options)])

    def audit(
        self,
        setup: Setup,
        run: Run,
        attack: Component[ModelAttack, Any],
        data: Federation,
        models: ClusterModels,
    ) -> dict[int, Audit]:
        """Attack every model that clients have trained (`AttackTasks.audit`).

        Raises:
            TimeoutError: no task finished within the time limit.
        """
        seed_for = lambda purpose, *place: integer(run.seed, purpose, *place)  # noqa: E731
        sent, audits, shadows = ray.put(models), {}, []
        for cluster in models.clusters:
            attacked, accuracy = models.cluster(data, cluster), models.accuracies[cluster]
            rounds = int(models.trained_rounds[cluster])
            jobs = attack.module.shadow_jobs(attack.config, attacked, accuracy, rounds, seed_for)
            refs = [self._task(_shadow, attack.name).remote(setup, attack.name, job, str(self.cache)) for job in jobs]
            audits[cluster] = self._task(_audit, attack.name).remote(setup, attack.name, cluster, sent, *refs)
            shadows += refs
        self._wait([*shadows, *audits.values()], attack.name)
        return {cluster: ray.get(ref) for cluster, ref in audits.items()}

    def replicate(self, setup: Setup, run: Run, attack: Component[ReplicaAttack, Any]) -> Exposure | None:
        """Return the result of ``attack`` from its replicas of the run; None if it needs none."""
        return run_replicas(self.gathered, self.cache, setup, run, attack)

    def halve(
        self, setup: Setup, run: Run, attack: Component[HalvesAttack, Any], data: Federation, original: FinishedRun
    ) -> Exposure:
        """Return the result of ``attack`` from replicas of the run on random halves of the clients' records."""
        return judge_halves(self.gathered, self.cache, setup, run, attack, data, original)

    def gathered(self, function: Any, attack: str, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run one function with several arguments as parallel tasks.

        Args:
            function: the function.
            attack: the attack's name, for error messages.
            calls: the arguments of each call.

        Returns:
            The results, in the order of the calls.

        Raises:
            TimeoutError: no task finished within the time limit.
        """
        refs = [self._task(function, attack).remote(*call) for call in calls]
        self._wait(list(refs), attack)
        return ray.get(refs)

    def _wait(self, refs: list[ray.ObjectRef[Any]], attack: str) -> None:
        """Wait for all tasks; if none finishes within the time limit, cancel them and raise TimeoutError."""
        while refs:
            done, refs = ray.wait(refs, timeout=self.timeout)
            if not done:
                for ref in refs:
                    ray.cancel(ref, force=True)
                raise TimeoutError(
                    f"{len(refs)} tasks of the attack {attack} are not done, and none finished within "
                    f"{self.timeout:g} s; raise resources.timeout_seconds if one of them takes that long"
                )


def _shadow(setup: Setup, attack: str, job: ShadowJob, cache: str) -> Any:
    """Train one shadow model, or read it from the cache."""
    worker = session(setup)
    module = attack_named(worker.run, attack).module
    extra = hashlib.sha256(json.dumps(_circumstances(worker), sort_keys=True).encode()).hexdigest()
    train = partial(module.train_shadow, job, worker.data, worker.network, worker.run)
    if module.Shadow is None:
        return train()
    content = cached(Path(cache), job.key(extra), lambda: _packed(dataclasses.asdict(train())))
    with np.load(io.BytesIO(content)) as file:
        return module.Shadow(**{name: file[name] if file[name].ndim else file[name].item() for name in file.files})


def _packed(arrays: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _circumstances(worker: Session) -> list[Any]:
    """Return what a shadow model depends on besides its job: the shadow set, and the run as far as it enters training."""
    run = worker.run.to_dict()
    for name in ("rounds", "seed", "evaluate_every", "server_sees", "data", "clustering", "attacks"):
        del run[name]
    size = worker.run.clustering.module.selection_size(worker.run.clustering.config)
    return [worker.data.digest(), size, run, *filter(None, [own_code_hash()])]


def _audit(setup: Setup, attack: str, cluster: int, models: ClusterModels, *shadows: Any) -> Audit:
    """Attack one of the trial's models with its trained shadow models."""
    worker = session(setup)
    component = attack_named(worker.run, attack)
    rng = stream(worker.run.seed, "audit", models.round, cluster)
    attacked = models.cluster(worker.data, cluster)
    around = models.weights, models.own, worker.fixed
    model = AttackedModel(attacked, worker.network, models.weights[cluster], shadows, rng, *around)
    found: Audit = component.module.audit(component.config, model)
    return found
