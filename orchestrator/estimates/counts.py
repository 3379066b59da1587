"""What a trial does, counted: examples that are trained on and evaluated, attacks, shadow models, replicas.

Nothing is run for it, but what components answer at once: how many shadow models, replicas and examples an attack needs.
The seconds of a trial are its counts times the seconds of each step (`orchestrator.estimates.small_runs`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from algorithms.core.messages import Ints
from algorithms.interfaces import Run
from attacks.interfaces import Cluster, ShadowJob
from datasets.federation import Federation
from orchestrator.cluster.placement import Placement
from orchestrator.trial import attack_round
from orchestrator.trial.attack_round import AttackComponent
from orchestrator.trial.random_streams import integer, stream

# Measured on trials whose training takes no time: Ray's answers, rows, files and the saved state.
TRIAL_SECONDS, ROUND_SECONDS, JOB_SECONDS, TASK_SECONDS = 0.7, 0.04, 0.003, 0.03
ALONE_SECONDS = 0.015  # the same for a round of a federation that is trained in a single process
STOPS_EARLY = 0.5  # share of its most epochs after which a shadow model is as accurate as it has to be, by assumption
MOST_LOOKS = 1000  # rounds of a replica after each of which an attack may look at it; the first of more stand for all
# What a time is one of, for every step; "wait" is a number of seconds, of messages and files.
UNITS = {
    "train": "example in a pass of local training",
    "halve": "the same where several replicas of the run are trained at once",
    "evaluate": "example that a model is shown",
    "curve": "client that measures its curvature",
    "serve": "client's update that the server receives",
    "observe": "round whose updates are attacked",
    "audit": "model that is attacked",
    "measure": "look at a replica's model",
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
    parts: dict[str, float] = {}
    for one in counts:
        each = 1.0 if one.step == "wait" else rates[one.step, one.attack]
        parts[one.part] = parts.get(one.part, 0.0) + one.times * each / one.processes
    return parts


def of_trial(run: Run, data: Federation, place: Placement, loading: float = 0.0) -> list[Count]:
    """Return what a trial does, with some or all clients of its federation; ``loading`` is seconds for its data.

    Raises:
        DataError: the data are unsuitable for an attack.
    """
    rounds, sizes = Rounds(run), np.resize(data.sizes, run.data.config.clients)
    spread = _spread(run, len(sizes), place.actors)
    return [
        Count("loading data", "wait", loading),
        Count("server and files", "wait", TRIAL_SECONDS),
        *federation(run, sizes, rounds.done, place.actors),
        *evaluations(run, sizes, len(data.test), place.actors),
        *_pretraining(run, data),
        *(
            Count("attacks", "observe", rounds.observed(one) * _present(run), spread, one.name)
            for one in attack_round.of_kind(run, "updates")
        ),
        *(count for one in attack_round.of_kind(run, "models") for count in _audits(run, data, place, one)),
        *(count for one in attack_round.of_kind(run, "replicas") for count in _replicas(run, data, place, one)),
        *(count for one in attack_round.of_kind(run, "halves") for count in _halves(run, data, place, one)),
    ]


def federation(run: Run, sizes: Ints, rounds: float, actors: int = 0) -> Iterator[Count]:
    """Yield what ``rounds`` rounds of a federation are, without evaluations and attacks, in ``actors`` processes; 0: in one."""
    blocks, present, training = _blocks(run, len(sizes)), _present(run), run.training.config
    spread = _spread(run, len(sizes), actors)
    passes = 1 if "epochs" in training.unread_fields() else training.epochs
    yield Count("training", "train", rounds * present * passes * float(sizes.sum()), spread)
    if actors:
        yield Count("training", "wait", rounds * present * blocks * JOB_SECONDS)
    yield Count("server and files", "serve", rounds * present * len(sizes))
    yield Count("server and files", "wait", rounds * (ROUND_SECONDS if actors else ALONE_SECONDS))
    if run.measures_curvature:
        every = run.curvature.reliability_every  # rounds after which two halves are measured, too, as long as the whole
        times = rounds * (1 + 1 / every) if every else rounds
        yield Count("curvature", "curve", times * present * len(sizes), spread)


def evaluations(run: Run, sizes: Ints, tests: int, actors: int = 0, times: int = 1) -> Iterator[Count]:
    """Yield the evaluations of all models in ``times`` runs; the other arguments are those of `federation`."""
    clusters, blocks = run.clustering.config.clusters, _blocks(run, len(sizes))
    on_clients, on_tests = Rounds(run).evaluations
    spread = _spread(run, len(sizes), actors)
    yield Count("evaluation", "evaluate", times * clusters * on_clients * float(sizes.sum()), spread)
    yield Count("evaluation", "evaluate", times * clusters * on_tests * float(tests), max(1, actors))
    yield Count("evaluation", "wait", times * on_clients * blocks * JOB_SECONDS * bool(actors))


def _blocks(run: Run, clients: int) -> int:
    return int(-(-clients // run.training.config.block_size))


def _spread(run: Run, clients: int, actors: int) -> float:
    """Return how many times faster the blocks of a round are done by the actors than by one of them."""
    blocks = _blocks(run, clients)
    return blocks / -(-blocks // max(1, actors))


def _present(run: Run) -> float:
    """Return the expected share of the clients that take part in a round."""
    return 1.0 if run.participation == "all" else run.participation_rate


def _pretraining(run: Run, data: Federation, times: int = 1) -> list[Count]:
    warm = run.aggregation.module.warm_start(run.aggregation.config)
    models = times * Rounds(run).begun * run.clustering.config.clusters
    return [Count("training", "train", models * warm.epochs * float(len(data.shadow)))] if warm else []


def _audits(run: Run, data: Federation, place: Placement, attack: AttackComponent) -> Iterator[Count]:
    """Yield all attacks on models, with the training of their shadow models."""
    groups = clusters(run, data)
    times, rounds = Rounds(run).audits(attack)
    yield Count("attacks", "audit", times * len(groups), min(len(groups), place.shadows), attack.name)
    for number, group in enumerate(groups):
        for job in shadow_jobs(run, Cluster(data, number, group), attack):
            examples, own = len(job.members), list[Count]()
            if job.rounds:
                own += federation(run, job.sizes, rounds)
            else:
                own += [Count("training", "train", times * examples * STOPS_EARLY * job.max_epochs)]
            own += [Count("evaluation", "evaluate", times * 2 * examples)]
            yield from _as("shadow models", own, place.shadows)
            yield Count("shadow models", "wait", times * TASK_SECONDS, place.shadows)


def shadow_jobs(run: Run, cluster: Cluster, attack: AttackComponent, accuracy: float = 1.0) -> Sequence[ShadowJob]:
    """Return the shadow models for an attack on the model of ``cluster`` after the last round of ``run``."""
    seed_for = lambda purpose, *place: integer(run.seed, purpose, *place)  # noqa: E731
    jobs: Sequence[ShadowJob] = attack.module.shadow_jobs(attack.config, cluster, accuracy, run.rounds, seed_for)
    return jobs


def clusters(run: Run, data: Federation) -> list[Ints]:
    """Return the clients that each model is expected to have: those of a group, or equal shares of all."""
    models = run.clustering.config.clusters
    there = np.unique(data.groups)
    cluster = np.searchsorted(there, data.groups) if len(there) == models else np.arange(data.clients) % models
    return [own for own in (np.flatnonzero(cluster == j) for j in range(models)) if len(own)]


def _replicas(run: Run, data: Federation, place: Placement, attack: AttackComponent) -> Iterator[Count]:
    """Yield the federations that an attack trains beside the run, each in one process."""
    sizes = np.resize(data.sizes, run.data.config.clients)
    for rounds, times in Counter(one.rounds for one in attack.module.replicas(attack.config, run.rounds)).items():
        alone, asked = replace(run, attacks=(), rounds=rounds), min(rounds, MOST_LOOKS)
        looks = sum(attack.module.looks_after(attack.config, r + 1) for r in range(asked)) * rounds / asked
        own = [
            *federation(alone, sizes, times * Rounds(alone).done),
            *evaluations(alone, sizes, len(data.test), times=times),
            *_pretraining(alone, data, times),
            Count("replicas", "measure", times * looks, attack=attack.name),
        ]
        yield from _as("replicas", own, min(place.shadows, times))


def _halves(run: Run, data: Federation, place: Placement, attack: AttackComponent) -> Iterator[Count]:
    """Yield the replicas that an attack trains on halves of the clients' examples."""
    fixed = lambda purpose, *where: stream(run.seed, purpose, *where)  # noqa: E731
    pool = attack.module.pool(attack.config, data, fixed)
    inside = attack.module.halves(attack.config, pool, fixed)
    sizes, clients = np.bincount(pool.owner[inside[0]], minlength=data.clients), run.data.config.clients
    asked = float(len(pool.owner)) * clients / data.clients
    trained = federation(run, np.resize(sizes, clients), len(inside) * run.rounds)
    own = [replace(one, step="halve", attack=attack.name) if one.step == "train" else one for one in trained]
    own += _pretraining(run, data, len(inside))
    own += [Count("replicas", "evaluate", len(inside) * asked), Count("replicas", "wait", len(inside) * TASK_SECONDS)]
    yield from _as("replicas", own, min(place.shadows, len(inside)))
    yield Count("attacks", "evaluate", asked)


def _as(part: str, counts: Iterable[Count], processes: float) -> Iterator[Count]:
    return (replace(one, part=part, processes=processes) for one in counts)


@dataclass(frozen=True)
class Rounds:
    """The rounds of a run, those of abandoned initializations included.

    They are counted by arithmetic: a run may have more of them than can be visited.

    Attributes:
        run: the run.
    """

    run: Run

    @cached_property
    def _compared_after(self) -> int:
        """The rounds of each initialization before they are compared; 0 if there is one."""
        plan = self.run.clustering.module.starts(self.run.clustering.config)
        return min(plan.rounds, self.run.rounds - 1) if plan.initializations > 1 else 0

    @property
    def begun(self) -> int:
        """How many times a run begins, which is the number of initializations."""
        plan = self.run.clustering.module.starts(self.run.clustering.config)
        return plan.initializations if self._compared_after else 1

    @property
    def done(self) -> int:
        """The number of all rounds that are done: those of abandoned initializations, then those of the one that is kept."""
        return (self.begun - 1) * self._compared_after + self.run.rounds

    def times(self, *every: int) -> int:
        """How often something is done that is due after the last round, and after each multiple of one of ``every``."""
        last = all(self.run.rounds % one for one in every)
        abandoned = (self.begun - 1) * _multiples(self._compared_after, every)
        return abandoned + _multiples(self.run.rounds, every) + last

    def audits(self, attack: AttackComponent) -> tuple[int, int]:
        """How often ``attack`` attacks the models, and for how many rounds these were trained, all times added up."""
        every = attack.config.every
        times, rounds = 1, self.run.rounds
        for often, end in ((self.begun - 1, self._compared_after), (1, self.run.rounds)):
            due = max(0, end - 1) // every  # the last round of an initialization is not followed by an attack
            times, rounds = times + often * due, rounds + often * every * due * (due + 1) // 2
        return times, rounds

    def observed(self, attack: AttackComponent) -> int:
        """How often ``attack`` looks at updates."""
        return self.times(attack.config.every)

    @property
    def evaluations(self) -> tuple[int, int]:
        """How often all models are evaluated on the clients' examples, and how often on the test examples."""
        attacks = [attack.config.every for attack in attack_round.of_kind(self.run, "models")]
        if self.run.clustering.config.clusters > 1:
            return self.done + self.begun, self.times(self.run.evaluate_every)
        return self.times(self.run.evaluate_every, *attacks), self.times(self.run.evaluate_every)


def _multiples(most: int, every: Iterable[int]) -> int:
    """Return how many numbers from 1 to ``most`` are a multiple of one of ``every``, or of several."""
    apart = set(every)
    groups = [group for size in range(1, len(apart) + 1) for group in combinations(apart, size)]
    return sum((-1) ** (len(group) + 1) * (most // math.lcm(*group)) for group in groups)
