"""What attacks train beside a run, as parallel tasks: shadow models, replicas of the federation,
replicas on halves.

Each result is named by the hash of all that it depends on, and is kept in the cache on disk that
all trials of the sweep share: shadow models depend on their task's jobs, the shadow set, the model
and the training; a replica on the run and its world; replicas on random halves of the clients'
examples on the run as far as it matters to training, the examples and the random numbers; and all
of them on the code. A task trains a few at once where clients are trained at once, too.
"""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import ray

from algorithms.core.messages import Doubles, Weights
from algorithms.engine.backends import divided, together, trains_together
from algorithms.engine.round import Sending
from algorithms.interfaces import Run
from attacks import _halves
from attacks.interfaces import Answers, AttackedModel, Audit, Exposure, Pool, ShadowJob, World
from datasets.federation import Federation
from orchestrator.config.run import trial_id
from orchestrator.results.log import cached, stored
from orchestrator.results.provenance import data_hash
from orchestrator.trial.attack_round import (
    AttackComponent,
    ClusterModels,
    FinishedRun,
    attack_named,
)
from orchestrator.trial.client_actors import ClientActor, train_once
from orchestrator.trial.federation import digest
from orchestrator.trial.random_streams import Stream, integer, of_start, stream
from orchestrator.trial.worker_session import Session, Setup, session

if TYPE_CHECKING:
    from numpy.typing import NDArray

# ends the place of a replica's seed; (number,) and smaller last numbers are those of components
SEED = 5
# Fields of a run that do not enter the training of shadow models and of replicas on halves.
UNREAD = {"rounds", "evaluate_every", "server_sees", "data", "clustering", "attacks"}


class AttackTasks(ABC):
    """Runs the attacks that need more computation, where whoever inherits says with `gathered`.

    ``setup`` is where workers find the trial, and the cache.
    """

    @abstractmethod
    def gathered(self, function: Any, attack: str, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return the results of a function for the arguments of several calls, in their order,
        for an attack.
        """

    def audit(
        self,
        setup: Setup,
        run: Run,
        attack: AttackComponent,
        data: Federation,
        models: ClusterModels,
    ) -> dict[int, Audit]:
        """Attack every model that clients have trained; return the results by cluster."""
        jobs: dict[int, Sequence[ShadowJob]] = {}
        for j in models.clusters:
            trained = models.cluster(data, j), models.accuracies[j], models.trained_rounds[j]
            jobs[j] = attack.module.shadow_jobs(attack.config, *trained, partial(integer, run.seed))
        size = together(run, 4 * data.shadow.x.size, len(models.weights[0].params))
        groups = [group for needed in jobs.values() for group in divided(needed, size)]
        calls = [(setup, attack.name, group) for group in groups]
        shadows = chain.from_iterable(self.gathered(_shadows, attack.name, calls))
        audits = [
            (setup, attack.name, j, models, *islice(shadows, len(needed)))
            for j, needed in jobs.items()
        ]
        return dict(zip(jobs, self.gathered(_audit, attack.name, audits), strict=True))

    def replicate(self, setup: Setup, run: Run, attack: AttackComponent) -> Exposure | None:
        """Return the result of ``attack`` from its replicas of the run; None if it needs none."""
        replicas = attack.module.replicas(attack.config, run.rounds)

        def task(at: int) -> tuple[Any, ...]:
            """Replicas of one number have a task together if they train at once, or if the first
            trains for all.
            """
            shares = trains_together(run) or (replicas[at].rounds == 1 and setup.cache is not None)
            return replicas[at].number, replicas[at].rounds, shares or at

        groups = [
            [replicas[at] for at in group] for _, group in groupby(range(len(replicas)), task)
        ]
        measured = self.gathered(
            _replicas, attack.name, [(setup, attack.name, group) for group in groups]
        )
        by_replica = list(zip(replicas, chain.from_iterable(measured), strict=True))
        rng = stream(run.seed, "audit", run.rounds)
        exposure: Exposure | None = (
            attack.module.compare(attack.config, by_replica, rng) if replicas else None
        )
        return exposure

    def halve(
        self,
        setup: Setup,
        run: Run,
        attack: AttackComponent,
        data: Federation,
        original: FinishedRun,
    ) -> Exposure:
        """Return the result of ``attack`` from replicas of the run on random halves of the
        clients' examples.
        """
        pool, inside = _halved(run, attack.name, data)
        size = together(run, pool.examples.x.nbytes // 2, len(original.models[0].params))
        numbers = [
            tuple(range(at, min(at + size, len(inside)))) for at in range(0, len(inside), size)
        ]
        (own_confidence,) = self.gathered(
            _own_confidence, attack.name, [(setup, attack.name, original)]
        )
        calls = [(setup, attack.name, group, original) for group in numbers]
        confidence: Doubles = np.concatenate(self.gathered(_halves_replicas, attack.name, calls))
        model = original.assignment[pool.owner]
        group = data.groups[pool.owner]
        names = original.names, group, data.group_columns
        answers = Answers(pool, inside, confidence, own_confidence, model, *names)
        return _halves.conclude(attack, answers, stream(run.seed, "audit", run.rounds))


class ShadowTasks(AttackTasks):
    """Runs attacks as remote tasks; ``title`` is the sweep and trial that they are for, as Ray's
    dashboard shows them.
    """

    def __init__(self, options: Sequence[dict[str, Any]], timeout: float) -> None:
        """Keep the Ray options that tasks use in turn, and the seconds that one may take."""
        self.options = list(options)
        self.timeout = timeout
        self.launched = 0
        self.title = ""

    def _task(self, function: Any, attack: str) -> Any:
        """Return ``function`` as a Ray task with the next options, and a name that says what it
        is for.
        """
        self.launched += 1
        name = f"{function.__name__.strip('_')} for {attack}, {self.title}"
        return ray.remote(function).options(
            name=name, max_retries=3, **self.options[self.launched % len(self.options)]
        )

    def gathered(self, function: Any, attack: str, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run the calls as parallel tasks.

        Raises TimeoutError, and cancels them, if none finishes within the limit.
        """
        refs = [self._task(function, attack).remote(*call) for call in calls]
        pending = list(refs)
        while pending:
            done, pending = ray.wait(pending, timeout=self.timeout)
            if not done:
                for ref in pending:
                    ray.cancel(ref, force=True)
                raise TimeoutError(
                    f"{len(pending)} tasks of the attack {attack} are not done, and none "
                    f"finished within {self.timeout:g} s; raise resources.timeout_seconds if "
                    "one of them takes that long"
                )
        return [ray.get(ref) for ref in refs]


# What is cached, by the hash of all that it depends on


def dependencies(run: Run, data: Federation, *unread: str) -> list[Any]:
    """Return what models depend on besides their examples: the shadow set, and the run as far as
    it enters training.
    """
    plain = {
        name: value for name, value in run.to_dict().items() if name not in UNREAD.union(unread)
    }
    return [data.digest(), run.clustering.module.selection_size(run.clustering.config), plain]


def with_shared_noise(run: Run) -> Run:
    """Return the run with reproducible noise, which replicas with the same number share, and
    without an audit.
    """
    values = {"noise": "reproducible", "audit_every": 0}
    fields = {
        field: value
        for field, value in values.items()
        if field in type(run.privacy.config).model_fields
    }
    return replace(
        run, privacy=replace(run.privacy, config=run.privacy.config.model_copy(update=fields))
    )


def _packed(write: Any, *arrays: Any, **named: Any) -> bytes:
    buffer = io.BytesIO()
    write(buffer, *arrays, **named)
    return buffer.getvalue()


# Shadow models


def _shadows(setup: Setup, attack: str, jobs: Sequence[ShadowJob]) -> Sequence[Any]:
    """Train shadow models for one model, or what they lack of earlier ones in the cache, or read
    them from there.
    """
    worker = session(setup)
    module = attack_named(worker.run, attack).module
    train = partial(module.train_shadows, jobs, worker.data, worker.network, worker.run)
    if module.Shadow is None:  # nothing that could be read back
        return list(train())
    depends = digest([setup.code, *dependencies(worker.run, worker.data, "seed")])

    def key(jobs: Sequence[Any]) -> str:
        return digest([job.key(depends) for job in jobs])

    def trained() -> bytes:
        entries = (
            stored(setup.cache, key(earlier))
            for earlier in zip(*map(module.earlier, jobs), strict=False)
        )
        begun = next((_shadows_of(module, content) for content in entries if content), ())
        each = (_packed(np.savez, **asdict(one)) for one in train(begun))
        return _packed(np.savez, *(np.frombuffer(one, np.uint8) for one in each))

    return _shadows_of(module, cached(setup.cache, key(jobs), trained))


def _shadows_of(module: Any, content: bytes) -> Sequence[Any]:
    """Return each ``Shadow`` of an attack from the bytes of its fields."""
    with np.load(io.BytesIO(content)) as each:
        files = [np.load(io.BytesIO(each[number])) for number in each.files]
    fields = [{name: file[name] for name in file.files} for file in files]
    return [
        module.Shadow(**{name: v if v.ndim else v.item() for name, v in one.items()})
        for one in fields
    ]


def _audit(setup: Setup, attack: str, cluster: int, models: ClusterModels, *shadows: Any) -> Audit:
    """Attack one of the trial's models with its trained shadow models."""
    worker = session(setup)
    component = attack_named(worker.run, attack)
    rng = stream(worker.run.seed, "audit", models.round, cluster)
    attacked = models.cluster(worker.data, cluster)
    sent = (models.weights, models.own, worker.fixed)
    model = AttackedModel(attacked, worker.network, models.weights[cluster], shadows, rng, *sent)
    audit: Audit = component.module.audit(component.config, model)
    return audit


# Replicas of the whole federation


def _replicas(
    setup: Setup, attack: str, replicas: Sequence[Any]
) -> list[dict[int, dict[str, float]]]:
    """Train replicas with one number, as many at once as fit, and measure each after the rounds
    that the attack names.
    """
    worker = session(setup)
    component = attack_named(worker.run, attack)
    replica = replicas[0]
    seed = integer(worker.run.seed, "replicas", replica.number)
    run = with_shared_noise(replace(worker.run, attacks=(), rounds=replica.rounds, seed=seed))
    size = together(run, worker.data.train.x.nbytes, worker.network.layout.size)
    if size < len(replicas):
        parts = [replicas[at : at + size] for at in range(0, len(replicas), size)]
        return [one for part in parts for one in _replicas(setup, attack, part)]

    def measured() -> bytes:
        worlds = [
            component.module.world(component.config, worker.data, one, worker.fixed)
            for one in replicas
        ]
        return json.dumps(_measured(run, component, worker, worlds, setup)).encode()

    others = component.to_dict(), [asdict(one) for one in replicas], data_hash(worker.data)
    key = f"replicas-{digest([setup.code, trial_id(worker.run), trial_id(run), *others])}"
    by_replica = json.loads(cached(setup.cache, key, measured))
    return [{int(round_): values for round_, values in by_round.items()} for by_round in by_replica]


def _measured(
    run: Run, attack: AttackComponent, worker: Session, worlds: Sequence[World], setup: Setup
) -> list[dict[int, dict[str, float]]]:
    """Train a replica of the run in each world; return the measurements of its model by round,
    until it diverges.
    """
    from algorithms.engine import federation

    data = worker.data
    network = worker.network
    streams = of_start(partial(stream, run.seed), 0)
    models = [federation.initial_model(run, data, network, lambda purpose: streams(purpose, 0, 0))]
    history = federation.cohorts(run, data.clients, run.rounds, streams)
    private = run.training.module.PRIVATE_STEPS
    # `train_once` does not know that noise is drawn apart.
    train = None if private else partial(train_once, setup)
    sending = [Sending(world.silent, world.noisy, train) for world in worlds]
    measured: list[dict[int, dict[str, float]]] = [{} for _ in worlds]

    def measure(rounds: int, trained: list[list[Weights]]) -> None:
        for by_round, (model,) in zip(measured, trained, strict=True):
            if attack.module.looks_after(attack.config, rounds):
                by_round[rounds] = attack.module.measure(attack.config, data, network, model)

    def apart(purpose: str, *place: int) -> np.random.Generator:
        """The streams of a world without the others' noise: noise of steps, which private
        training needs, is its own.
        """
        return streams(purpose, *place, *([1] if purpose == "gradient_noise" else []))

    federations = [world.data for world in worlds]
    draws = [streams if world.noisy else apart for world in worlds]
    try:
        federation.train_models(run, federations, network, models, history, draws, sending, measure)
    except FloatingPointError:
        if len(worlds) > 1:  # if one diverges, each by itself
            return [
                one for world in worlds for one in _measured(run, attack, worker, [world], setup)
            ]
    return measured


# Replicas on halves of the examples


def _halved(run: Run, attack: str, data: Federation) -> tuple[Pool, NDArray[np.bool_]]:
    """Return the attacked examples, n of them, and which replica trains on which, [replicas, n]."""
    component = attack_named(run, attack)
    fixed = partial(stream, run.seed)
    pool = component.module.pool(component.config, data, fixed)
    return pool, component.module.halves(component.config, pool, fixed)


def _own_confidence(setup: Setup, attack: str, original: FinishedRun) -> Doubles:
    """Return the confidence of the run's own models in every example, [n]."""
    worker = session(setup)
    pool, _ = _halved(worker.run, attack, worker.data)
    return _halves.confidence(
        worker.network, original.models, pool, original.assignment[pool.owner]
    )


def _halves_replicas(
    setup: Setup, attack: str, numbers: Sequence[int], original: FinishedRun
) -> Doubles:
    """Train replicas, or read from the cache, their confidence in every example, [replicas, n];
    NaN if diverged.
    """
    from algorithms.engine.federation import train_models

    worker = session(setup)
    run = with_shared_noise(worker.run)
    pool, inside = _halved(worker.run, attack, worker.data)
    halves = {number: pool.federation(worker.data, inside[number]) for number in numbers}
    model = original.assignment[pool.owner]
    clusters = run.clustering.config.clusters

    def answers(group: Sequence[int], models: list[Weights]) -> list[Doubles]:
        """Train replicas together, from the models that the run began with; if one diverges,
        each by itself.
        """
        data = [halves[r] for r in group]
        streams = [replica_stream(run, r, original.start) for r in group]
        history = original.history.astype(np.int64)
        try:
            trained = train_models(run, data, worker.network, models, history, streams)
        except FloatingPointError:
            if len(group) == 1:
                return [np.full(len(model), np.nan)]
            return [answers([r], models)[0] for r in group]
        return [_halves.confidence(worker.network, weights, pool, model) for weights in trained]

    def answered() -> bytes:
        initial = ClientActor().initial(setup, original.start, clusters)
        return _packed(np.save, np.stack(answers(numbers, initial)))

    plain = [setup.code, *dependencies(run, worker.data), clusters, original.start, list(numbers)]
    arrays: list[NDArray[Any]] = [original.history, worker.data.example_strengths]
    arrays += [pool.examples.x, pool.examples.y, model]
    for half in halves.values():
        arrays += [half.train.x, half.train.y, half.offsets, half.example_strengths]
    content = cached(setup.cache, f"halves-{digest(plain, *arrays)}", answered)
    confidence: Doubles = np.load(io.BytesIO(content))
    return confidence


def replica_stream(run: Run, number: int, start: int) -> Stream:
    """Return the streams of a replica, those that a run with the replica's seed has: of its
    number, and its initialization.
    """
    return of_start(partial(stream, integer(run.seed, "replicas", number, SEED)), start)
