"""Replicas of a run on random halves of the clients' records: trained together in remote tasks, and cached on disk.

A task trains a few replicas at once. Its file is named by the hash of all that enters: the run as far as it matters to
training, the examples and the random numbers. So the trials of a sweep share the replicas unless they train differently.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from algorithms.core.messages import Doubles, Ints, Weights
from algorithms.interfaces import Run
from attacks import _halves
from attacks.interfaces import Answers, Exposure, HalvesAttack, Pool
from datasets.components import Component
from datasets.federation import Federation, add_to_digest
from orchestrator.results.cache import cached
from orchestrator.results.provenance import own_code_hash
from orchestrator.trial.attack_round import FinishedRun, attack_named
from orchestrator.trial.client_actors import ClientActor
from orchestrator.trial.random_streams import Stream, integer, of_start, stream
from orchestrator.trial.replica_tasks import GatherTasks, with_shared_noise
from orchestrator.trial.worker_session import Session, Setup, session

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = 5  # ends the place of a replica's seed; (number,) and smaller last numbers are those of components
# Replicas of a task. More are hardly faster, and with fewer tasks than workers some would wait. The number must not
# depend on the machine, because the width of a batched computation can change bytes.
TOGETHER = 4
MOST_BYTES = 1 << 28  # of the examples of a task's replicas, and of the models of a block of theirs


def judge_halves(
    gathered: GatherTasks,
    cache: Path,
    setup: Setup,
    run: Run,
    attack: Component[HalvesAttack, Any],
    data: Federation,
    original: FinishedRun,
) -> Exposure:
    """Train the replicas of a run that an attack compares, and compute the attack's result.

    Args:
        gathered: runs functions as parallel tasks.
        cache: the folder of the answers of earlier replicas.
        setup: where workers find the trial.
        run: the run.
        attack: the attack.
        data: the federation.
        original: what the replicas replay.
    """
    fixed = lambda purpose, *place: stream(run.seed, purpose, *place)  # noqa: E731
    pool = attack.module.pool(attack.config, data, fixed)
    inside = attack.module.halves(attack.config, pool, fixed)
    size = together(run, pool, len(original.models[0].params))
    calls = [(setup, attack.name, numbers, original, str(cache)) for numbers in groups(len(inside), size)]
    (own,) = gathered(_own_confidence, attack.name, [(setup, attack.name, original)])
    confidence: Doubles = np.concatenate(gathered(_replicas, attack.name, calls))
    answers = Answers(
        pool,
        inside,
        confidence,
        own,
        original.assignment[pool.owner],
        original.names,
        data.groups[pool.owner],
        data.group_names,
    )
    return _halves.conclude(attack, answers, stream(run.seed, "audit", run.rounds))


def groups(replicas: int, size: int) -> list[tuple[int, ...]]:
    """Divide the numbers of the replicas into tasks of up to ``size`` each."""
    return [tuple(range(at, min(at + size, replicas))) for at in range(0, replicas, size)]


def together(run: Run, pool: Pool, parameters: int) -> int:
    """Return how many replicas a task trains.

    Args:
        run: the run.
        pool: the attacked records, of which a replica trains on half.
        parameters: number of parameters of a model.
    """
    from algorithms.engine.block import trains_together

    if not trains_together(run):
        return 1
    largest = max(pool.examples.x.nbytes // 2, 4 * parameters * run.training.config.block_size)
    return max(1, min(TOGETHER, MOST_BYTES // max(1, largest)))


@dataclass(frozen=True)
class _Records:
    """What a task knows of the attack: the records, who trains on them, and the model that each one is asked of."""

    pool: Pool
    inside: NDArray[np.bool_]
    model: Ints

    @staticmethod
    def of(worker: Session, name: str, original: FinishedRun) -> _Records:
        attack = attack_named(worker.run, name)
        pool = attack.module.pool(attack.config, worker.data, worker.fixed)
        inside = attack.module.halves(attack.config, pool, worker.fixed)
        return _Records(pool, inside, original.assignment[pool.owner])


def _own_confidence(setup: Setup, attack: str, original: FinishedRun) -> Doubles:
    """Return the confidence of the run's own models in every record, [n]."""
    worker = session(setup)
    records = _Records.of(worker, attack, original)
    return _halves.confidence(worker.network, original.models, records.pool, records.model)


def _replicas(setup: Setup, attack: str, numbers: Sequence[int], original: FinishedRun, cache: str) -> Doubles:
    """Train some replicas, or read from the cache, their confidence in every record, [replicas, n]; NaN if diverged."""
    worker = session(setup)
    records = _Records.of(worker, attack, original)
    data = [records.pool.federation(worker.data, records.inside[number]) for number in numbers]

    def answered() -> bytes:
        # The models that the run began with.
        models = ClientActor().initial(setup, original.start, worker.run.clustering.config.clusters)
        buffer = io.BytesIO()
        np.save(buffer, np.stack(_answers(worker, data, records, numbers, original, models)))
        return buffer.getvalue()

    key = f"halves-{_digest(worker, data, records, numbers, original)}"
    confidence: Doubles = np.load(io.BytesIO(cached(Path(cache), key, answered)))
    return confidence


def _answers(
    worker: Session,
    data: Sequence[Federation],
    records: _Records,
    numbers: Sequence[int],
    original: FinishedRun,
    models: list[Weights],
) -> list[Doubles]:
    """Train replicas together; if one diverges, each by itself."""
    from algorithms.engine.federation import train_models

    run, history = with_shared_noise(worker.run), original.history.astype(np.int64)
    streams = [replica_stream(run, number, original.start) for number in numbers]
    try:
        trained = train_models(run, data, worker.network, models, history, streams)
    except FloatingPointError:
        if len(numbers) == 1:
            return [np.full(len(records.model), np.nan)]
        alone = [([one], [number]) for one, number in zip(data, numbers, strict=True)]
        return [_answers(worker, one, records, number, original, models)[0] for one, number in alone]
    return [_halves.confidence(worker.network, own, records.pool, records.model) for own in trained]


def replica_stream(run: Run, number: int, start: int, seed: int | None = None) -> Stream:
    """Return the streams of a replica: those that a run with the replica's seed has.

    Args:
        run: the run, with reproducible noise.
        number: the number of the replica.
        start: the number of the initialization.
        seed: the seed, if it is not to be the replica's own.
    """
    own = integer(run.seed, "replicas", number, SEED) if seed is None else seed
    return of_start(partial(stream, own), start)


def _digest(
    worker: Session, data: Sequence[Federation], records: _Records, numbers: Sequence[int], original: FinishedRun
) -> str:
    """Return a hexadecimal digest of all that the answers of some replicas depend on."""
    run = with_shared_noise(worker.run).to_dict()
    for name in ("rounds", "evaluate_every", "server_sees", "data", "clustering", "attacks"):
        run.pop(name, None)
    chosen_with = worker.run.clustering.module.selection_size(worker.run.clustering.config)
    plain = [
        run,
        chosen_with,
        worker.run.clustering.config.clusters,
        worker.data.digest(),
        original.start,
        list(numbers),
    ]
    plain += filter(None, [own_code_hash()])
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
    arrays: list[NDArray[Any]] = [
        original.history,
        worker.data.example_strengths,
        records.pool.examples.x,
        records.pool.examples.y,
        records.model,
    ]
    for one in data:
        arrays += [one.train.x, one.train.y, one.offsets, one.example_strengths]
    for array in arrays:
        add_to_digest(digest, array)
    return digest.hexdigest()[:32]
