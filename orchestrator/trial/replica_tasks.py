"""Replica federations for an attack: each is trained in its own remote task and cached on disk."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

from algorithms.interfaces import Run
from attacks.interfaces import Exposure, ReplicaAttack, World
from datasets.components import Component
from datasets.federation import Federation, add_to_digest
from orchestrator.config.run import trial_id
from orchestrator.results.cache import cached
from orchestrator.results.paths import Folder
from orchestrator.results.provenance import own_code_hash
from orchestrator.trial.attack_round import AttackTasks, attack_named
from orchestrator.trial.local_clients import LocalClients, prepare_session
from orchestrator.trial.loop import DivergenceError, TrialContext
from orchestrator.trial.random_streams import integer, stream
from orchestrator.trial.restarts import Trial
from orchestrator.trial.worker_session import Setup, session

GatherTasks = Callable[[Any, str, Sequence[tuple[Any, ...]]], list[Any]]
"""``gathered(function, attack, calls)`` returns the results of the calls of a function, in their order."""


def run_replicas(
    gathered: GatherTasks, cache: Path, setup: Setup, run: Run, attack: Component[ReplicaAttack, Any]
) -> Exposure | None:
    """Train an attack's replicas of the run and compute the attack's result.

    Args:
        gathered: runs functions as parallel tasks.
        cache: the folder of the results of earlier replicas.
        setup: where workers find the trial.
        run: the run.
        attack: the attack.

    Returns:
        The attack's result; None if it needs no replicas.
    """
    replicas = attack.module.replicas(attack.config, run.rounds)
    if not replicas:
        return None
    found = gathered(_replica, attack.name, [(setup, attack.name, one, str(cache)) for one in replicas])
    rng = stream(run.seed, "audit", run.rounds)
    return attack.module.compare(attack.config, list(zip(replicas, found, strict=True)), rng)


def _replica(setup: Setup, attack: str, replica: Any, cache: str) -> dict[int, dict[str, float]]:
    """Train one replica in this process, and measure its model after the rounds that the attack names."""
    worker = session(setup)
    component = attack_named(worker.run, attack)
    seed = integer(worker.run.seed, "replicas", replica.number)
    run = with_shared_noise(replace(worker.run, attacks=(), rounds=replica.rounds, seed=seed))
    own = filter(None, [*own_content(worker.run, worker.data), own_code_hash()])
    dependencies = json.dumps(
        [trial_id(worker.run), trial_id(run), component.to_dict(), asdict(replica), *own], sort_keys=True
    )

    def measured() -> bytes:
        world = component.module.world(component.config, worker.data, replica, worker.fixed)
        return json.dumps(_measure(worker.data, world, run, component)).encode()

    key = f"replica-{hashlib.sha256(dependencies.encode()).hexdigest()[:16]}"
    values = json.loads(cached(Path(cache), key, measured))
    return {int(round_): found for round_, found in values.items()}


def own_content(run: Run, data: Federation) -> list[str]:
    """Return a digest of a user's own files, which may be edited under the same name; nothing for published data."""
    if not run.data.module.BESIDE_SWEEP:
        return []
    digest = hashlib.blake2b(digest_size=16)
    for part in (data.train, data.test, data.nonmembers, data.shadow):
        add_to_digest(digest, part.x)
        add_to_digest(digest, part.y)
    add_to_digest(digest, data.offsets)
    return [digest.hexdigest()]


def with_shared_noise(run: Run) -> Run:
    """Return the run with reproducible noise, which replicas with the same number share, and without an audit."""
    wanted = {"noise": "reproducible", "audit_every": 0}
    there = {field: value for field, value in wanted.items() if field in type(run.privacy.config).model_fields}
    return replace(run, privacy=replace(run.privacy, config=run.privacy.config.model_copy(update=there)))


def _measure(
    whole: Federation, world: World, run: Run, attack: Component[ReplicaAttack, Any]
) -> dict[int, dict[str, float]]:
    """Train a replica and return the measurements of its model by round."""
    measured: dict[int, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        setup = prepare_session(f"replica of {run.seed}", run, world.data, world.silent)
        files = Folder(Path(folder)).trial("replica")
        tasks = cast(AttackTasks, None)
        trial = Trial(run, TrialContext(setup, world.data, LocalClients(), tasks, files, world.noisy))
        while not trial.done:
            try:
                trial.advance()
            except (DivergenceError, FloatingPointError):
                break  # a diverged replica has no further measurements; the run itself continues
            if attack.module.looks_after(attack.config, trial.state.round):
                network, model = session(setup).network, trial.state.models[0]
                measured[trial.state.round] = attack.module.measure(attack.config, whole, network, model)
    return measured
