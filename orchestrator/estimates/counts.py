"""What a trial does, counted: examples that are trained on and evaluated, attacks, shadow models, replicas.

Nothing is run for it, but what components answer at once: how many shadow models, replicas and examples an attack needs.
The seconds of a trial are its counts times the seconds of each step (`orchestrator.estimates.small_runs`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from algorithms.core.messages import Ints
from algorithms.interfaces import Run
from attacks.interfaces import Cluster, ShadowJob
from datasets.federation import Federation
from orchestrator.cluster.placement import Placement
from orchestrator.trial.attack_round import AttackComponent, models_due, of_kind, updates_due
from orchestrator.trial.random_streams import integer, stream

# Measured on trials whose training takes no time: Ray's answers, rows, files and the saved state.
TRIAL_SECONDS, ROUND_SECONDS, JOB_SECONDS, TASK_SECONDS = 0.7, 0.04, 0.003, 0.03
ALONE_SECONDS = 0.015  # the same for a round of a federation that is trained in a single process
STOPS_EARLY = 0.5  # share of its most epochs after which a shadow model is as accurate as it has to be, by assumption
MOST_VISITED = 1000  # rounds that are visited to count what is due in them; the first of more stand for all
# What a time is one of, for every step; "wait" is a number of seconds, of messages and files.
UNITS = {
    "train": "example in a pass of local training",
    "evaluate": "example that a model is shown",
    "curve": "example of a client that measures its curvature",
    "serve": "client's update that the server receives",
    "attack": "round whose updates, or model that is attacked",
    "wait": "second",
}


@dataclass(frozen=True)
class Count:
    """How often a trial does a step.

    Attributes:
        part: what it belongs to, as a reader sees it, such as "training" or "shadow models".
        step: what is done, one of `UNITS`.
        times: how often, in the step's unit; where clients or updates are sampled, as is expected.
        processes: how many processes share it.
        attack: the attack whose step it is; empty: none's.
    """

    part: str
    step: str
    times: float
    processes: float = 1.0
    attack: str = ""


def seconds(counts: Iterable[Count], rates: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """Return the seconds of each part, from those of each step by (step, attack)."""
    parts = Counter[str]()
    for count in counts:
        each = 1.0 if count.step == "wait" else rates[count.step, count.attack]
        parts[count.part] += count.times * each / count.processes  # type: ignore[assignment]
    return dict(parts)


def of_trial(run: Run, data: Federation, place: Placement, loading: float = 0.0) -> list[Count]:
    """Return what a trial does, with some or all clients of its federation; ``loading`` is seconds for its data.

    Raises:
        DataError: the data are unsuitable for an attack.
    """
    due, sizes = Schedule.of(run), np.resize(data.sizes, run.data.config.clients)
    return [
        Count("loading data", "wait", loading),
        Count("server and files", "wait", TRIAL_SECONDS),
        *federation(run, sizes, due.done, place.actors),
        *evaluations(run, sizes, len(data.test), place.actors),
        *_pretraining(run, data),
        *(
            Count(
                "attacks", "attack", due.attacks[a.name][0] * _present(run), _spread(run, sizes, place.actors), a.name
            )
            for a in of_kind(run, "updates")
        ),
        *(count for attack in of_kind(run, "models") for count in _audits(run, data, place, attack)),
        *(count for attack in of_kind(run, "replicas") for count in _replicas(run, data, place, attack)),
        *(count for attack in of_kind(run, "halves") for count in _halves(run, data, place, attack)),
    ]


def federation(run: Run, sizes: Ints, rounds: float, actors: int = 0) -> Iterator[Count]:
    """Yield what ``rounds`` rounds of a federation are, without evaluations and attacks, in ``actors`` processes; 0: in one."""
    present, training, spread = _present(run), run.training.config, _spread(run, sizes, actors)
    passes = 1 if "epochs" in training.unread_fields() else training.epochs
    yield Count("training", "train", rounds * present * passes * float(sizes.sum()), spread)
    if actors:
        yield Count("training", "wait", rounds * present * _blocks(run, sizes) * JOB_SECONDS)
    yield Count("server and files", "serve", rounds * present * len(sizes))
    yield Count("server and files", "wait", rounds * (ROUND_SECONDS if actors else ALONE_SECONDS))
    if run.measures_curvature:
        every = run.curvature.reliability_every  # rounds after which two halves are measured, too, as long as the whole
        times = rounds * (1 + 1 / every) if every else rounds
        examples = float(np.minimum(sizes, run.curvature.examples).sum())
        yield Count("curvature", "curve", times * present * examples, spread)


def evaluations(run: Run, sizes: Ints, tests: int, actors: int = 0, times: int = 1) -> Iterator[Count]:
    """Yield the evaluations of all models in ``times`` runs; the other arguments are those of `federation`."""
    clusters, due = run.clustering.config.clusters, Schedule.of(run)
    on_clients, on_tests = times * due.on_clients, times * due.on_tests
    yield Count("evaluation", "evaluate", clusters * on_clients * float(sizes.sum()), _spread(run, sizes, actors))
    yield Count("evaluation", "evaluate", clusters * on_tests * float(tests), max(1, actors))
    if actors:
        yield Count("evaluation", "wait", on_clients * _blocks(run, sizes) * JOB_SECONDS)


def _blocks(run: Run, sizes: Ints) -> int:
    return int(-(-len(sizes) // run.training.config.block_size))


def _spread(run: Run, sizes: Ints, actors: int) -> float:
    """Return how many times faster the blocks of a round are done by the actors than by one of them."""
    blocks = _blocks(run, sizes)
    return blocks / -(-blocks // max(1, actors))


def _present(run: Run) -> float:
    """Return the expected share of the clients that take part in a round."""
    return 1.0 if run.participation == "all" else run.participation_rate


def _pretraining(run: Run, data: Federation, times: int = 1) -> list[Count]:
    warm = run.aggregation.module.warm_start(run.aggregation.config)
    models = times * Schedule.of(run).begun * run.clustering.config.clusters
    return [Count("training", "train", models * warm.epochs * float(len(data.shadow)))] if warm else []


def _audits(run: Run, data: Federation, place: Placement, attack: AttackComponent) -> Iterator[Count]:
    """Yield all attacks on models, with the training of their shadow models."""
    groups = clusters(run, data)
    times, rounds = Schedule.of(run).attacks[attack.name]
    yield Count("attacks", "attack", times * len(groups), min(len(groups), place.shadows), attack.name)
    for number, group in enumerate(groups):
        for job in shadow_jobs(run, Cluster(data, number, group), attack):
            examples = len(job.members)
            alone = [Count("training", "train", times * examples * STOPS_EARLY * job.max_epochs)]
            trained = federation(run, job.sizes, rounds) if job.rounds else alone
            yield from _as("shadow models", [*trained, Count("", "evaluate", times * 2 * examples)], place.shadows)
            yield Count("shadow models", "wait", times * TASK_SECONDS, place.shadows)


def shadow_jobs(run: Run, cluster: Cluster, attack: AttackComponent, accuracy: float = 1.0) -> Sequence[ShadowJob]:
    """Return the shadow models for an attack on the model of ``cluster`` after the last round of ``run``."""
    seed_for = lambda purpose, *place: integer(run.seed, purpose, *place)  # noqa: E731
    jobs: Sequence[ShadowJob] = attack.module.shadow_jobs(attack.config, cluster, accuracy, run.rounds, seed_for)
    return jobs


def clusters(run: Run, data: Federation) -> list[Ints]:
    """Return the clients that each model is expected to have: those of a group, or equal shares of all."""
    models, groups = run.clustering.config.clusters, np.unique(data.groups)
    cluster = np.searchsorted(groups, data.groups) if len(groups) == models else np.arange(data.clients) % models
    return [clients for clients in (np.flatnonzero(cluster == j) for j in range(models)) if len(clients)]


def _replicas(run: Run, data: Federation, place: Placement, attack: AttackComponent) -> Iterator[Count]:
    """Yield the federations that an attack trains beside the run, each in one process."""
    sizes = np.resize(data.sizes, run.data.config.clients)
    for rounds, times in Counter(one.rounds for one in attack.module.replicas(attack.config, run.rounds)).items():
        alone, visited = replace(run, attacks=(), rounds=rounds), min(rounds, MOST_VISITED)
        looks = sum(attack.module.looks_after(attack.config, r + 1) for r in range(visited)) * rounds / visited
        trained = [
            *federation(alone, sizes, times * Schedule.of(alone).done),
            *evaluations(alone, sizes, len(data.test), times=times),
            *_pretraining(alone, data, times),
            Count("", "evaluate", times * looks * float(sizes.sum())),
        ]
        yield from _as("replicas", trained, min(place.shadows, times))


def _halves(run: Run, data: Federation, place: Placement, attack: AttackComponent) -> Iterator[Count]:
    """Yield the replicas that an attack trains on halves of the clients' examples."""
    fixed = lambda purpose, *where: stream(run.seed, purpose, *where)  # noqa: E731
    pool = attack.module.pool(attack.config, data, fixed)
    inside = attack.module.halves(attack.config, pool, fixed)
    sizes, clients = np.bincount(pool.owner[inside[0]], minlength=data.clients), run.data.config.clients
    shown = float(len(pool.owner)) * clients / data.clients
    trained = [
        *federation(run, np.resize(sizes, clients), len(inside) * run.rounds),
        *_pretraining(run, data, len(inside)),
        Count("", "evaluate", len(inside) * shown),
        Count("", "wait", len(inside) * TASK_SECONDS),
    ]
    yield from _as("replicas", trained, min(place.shadows, len(inside)))
    yield Count("attacks", "evaluate", shown)


def _as(part: str, counts: Iterable[Count], processes: float) -> Iterator[Count]:
    return (replace(count, part=part, processes=processes) for count in counts)


@dataclass(frozen=True)
class Schedule:
    """What is due in the rounds of a run, those of abandoned initializations included.

    Attributes:
        begun: how many times the run begins, which is the number of initializations.
        done: the number of all rounds.
        on_clients: how often all models are evaluated on the clients' examples.
        on_tests: how often they are on the test examples.
        attacks: by attack on updates or models, how often it is made, and for how many rounds what it attacks was trained,
            all times added up.
    """

    begun: int
    done: float
    on_clients: float
    on_tests: float
    attacks: Mapping[str, tuple[float, float]]

    @classmethod
    def of(cls, run: Run) -> Schedule:
        """Visit the rounds of ``run``, or the first of very many."""
        plan, several = run.clustering.module.starts(run.clustering.config), run.clustering.config.clusters > 1
        compared_after = min(plan.rounds, run.rounds - 1) if plan.initializations > 1 else 0
        begun = plan.initializations if compared_after else 1
        visited = min(run.rounds, MOST_VISITED)
        scale = run.rounds / visited
        done = [*range(min(compared_after, visited))] * (begun - 1) + [*range(visited)]
        tests = [(r + 1) % run.evaluate_every == 0 or r + 1 == run.rounds for r in done]
        clients = sum(several or test or bool(models_due(run, r + 1)) for r, test in zip(done, tests, strict=True))
        trained = {a.name: [r + 1 for r in done if a in updates_due(run, r)] for a in of_kind(run, "updates")}
        for attack in of_kind(run, "models"):
            trained[attack.name] = [r for r in [*done, run.rounds] if attack in models_due(run, r)]
        attacks = {name: (scale * len(rounds), scale * sum(rounds)) for name, rounds in trained.items()}
        return cls(begun, scale * len(done), scale * clients + begun * several, scale * sum(tests), attacks)
