"""The seconds of a trial: how often it does each step, times the seconds of one (`orchestrator.estimates.small_runs`).

Nothing is run for it, but what components answer at once: how many shadow models, replicas and examples an attack needs.
Where clients are sampled, the expected number of them counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from algorithms.core.messages import Ints
from algorithms.interfaces import Run
from attacks.interfaces import Cluster, ShadowJob
from datasets.federation import Federation
from orchestrator.cluster.placement import Placement
from orchestrator.trial.attack_round import AttackComponent, of_kind
from orchestrator.trial.random_streams import integer, stream

# Measured on trials whose training takes no time: Ray's answers, rows, files and the saved state.
TRIAL_SECONDS, ROUND_SECONDS, JOB_SECONDS, TASK_SECONDS = 0.7, 0.04, 0.003, 0.03
ALONE_SECONDS = 0.015  # the same for a round of a federation that is trained in a single process
STOPS_EARLY = 0.5  # share of its most epochs after which a shadow model is as accurate as it has to be, by assumption
MOST_VISITED = 1000  # rounds that are looked at to count what is due in them; the first of more stand for all

Seconds = dict[str, float]
"""Seconds by what they are spent on, as a reader sees it, such as "training" or "shadow models"."""

Rate = Callable[..., float]
"""``rate(step, attack)`` returns the seconds of one step: ``train`` an example in a pass of local training, ``evaluate`` an
example that a model is shown, ``curve`` an example of a client that measures its curvature, ``serve`` a client's update at
the server, ``attack`` the updates of a round, or a model, that an attack is made on."""


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
        """Look at the rounds of ``run``, or the first of very many."""
        plan, several = run.clustering.module.starts(run.clustering.config), run.clustering.config.clusters > 1
        compared_after = min(plan.rounds, run.rounds - 1) if plan.initializations > 1 else 0
        begun = plan.initializations if compared_after else 1
        rounds = np.arange(1, min(run.rounds, MOST_VISITED) + 1)
        done = 1 + (begun - 1) * (rounds <= compared_after)
        followed = 1 + (begun - 1) * (rounds < compared_after)  # models are attacked before they are trained further

        def due(every: int) -> NDArray[np.bool_]:
            return (rounds % every == 0) | (rounds == len(rounds))

        tested, models = due(run.evaluate_every), {one.name: due(one.config.every) for one in of_kind(run, "models")}
        on_clients = np.logical_or.reduce([tested | several, *models.values()])
        times = {one.name: due(one.config.every) * done for one in of_kind(run, "updates")}
        times |= {name: when * followed for name, when in models.items()}
        scale = run.rounds / len(rounds)
        attacks = {name: (scale * float(each.sum()), scale * float(each @ rounds)) for name, each in times.items()}
        evaluations = scale * float(done[on_clients].sum()) + begun * several
        return cls(begun, scale * float(done.sum()), evaluations, scale * float(done[tested].sum()), attacks)


def of_trial(run: Run, data: Federation, place: Placement, rate: Rate, loading: float = 0.0) -> Seconds:
    """Return what a trial spends its time on; ``data`` has some or all of its clients, and takes ``loading`` seconds.

    Raises:
        DataError: the data are unsuitable for an attack.
    """
    due, sizes = Schedule.of(run), np.resize(data.sizes, run.data.config.clients)
    parts = Counter(
        {"loading data": loading, "server and files": TRIAL_SECONDS, "training": _pretraining(run, data, rate)}
    )
    parts.update(federation(run, sizes, due.done, rate, place.actors))
    parts.update(evaluations(run, sizes, len(data.test), rate, place.actors))
    for attack in of_kind(run, "updates"):
        times = due.attacks[attack.name][0] * _present(run) / _spread(run, sizes, place.actors)
        parts.update({"attacks": times * rate("attack", attack.name)})
    for attack in of_kind(run, "models"):
        parts.update(_audits(run, data, place, attack, rate))
    for attack in of_kind(run, "replicas"):
        parts.update({"replicas": _replicas(run, data, place, attack, rate)})
    for attack in of_kind(run, "halves"):
        parts.update(_halves(run, data, place, attack, rate))
    return {part: seconds for part, seconds in parts.items() if seconds}


def federation(run: Run, sizes: Ints, rounds: float, rate: Rate, actors: int = 0) -> Seconds:
    """Return what ``rounds`` rounds of a federation take in ``actors`` processes; 0: in one, without messages."""
    present, training, spread = rounds * _present(run), run.training.config, _spread(run, sizes, actors)
    passes = 1 if "epochs" in training.unread_fields() else training.epochs
    messages = present * _blocks(run, sizes) * JOB_SECONDS if actors else 0.0
    waiting = rounds * (ROUND_SECONDS if actors else ALONE_SECONDS)
    seconds = {
        "training": present * passes * float(sizes.sum()) * rate("train") / spread + messages,
        "server and files": present * len(sizes) * rate("serve") + waiting,
    }
    if run.measures_curvature:
        every = run.curvature.reliability_every  # rounds after which two halves are measured, too, as long as the whole
        examples = float(np.minimum(sizes, run.curvature.examples).sum()) * (1 + 1 / every if every else 1)
        seconds["curvature"] = present * examples * rate("curve") / spread
    return seconds


def evaluations(run: Run, sizes: Ints, tests: int, rate: Rate, actors: int = 0) -> Seconds:
    """Return what the evaluations of all models take in a run; arguments as in `federation`."""
    due, models = Schedule.of(run), run.clustering.config.clusters * rate("evaluate")
    on_clients = due.on_clients * float(sizes.sum()) / _spread(run, sizes, actors)
    messages = due.on_clients * _blocks(run, sizes) * JOB_SECONDS if actors else 0.0
    return {"evaluation": models * (on_clients + due.on_tests * tests / max(1, actors)) + messages}


def _blocks(run: Run, sizes: Ints) -> int:
    return int(-(-len(sizes) // run.training.config.block_size))


def _spread(run: Run, sizes: Ints, actors: int) -> float:
    """Return how many times faster the blocks of a round are done by the actors than by one of them."""
    blocks = _blocks(run, sizes)
    return blocks / -(-blocks // max(1, actors))


def _present(run: Run) -> float:
    """Return the expected share of the clients that take part in a round."""
    return 1.0 if run.participation == "all" else run.participation_rate


def _pretraining(run: Run, data: Federation, rate: Rate) -> float:
    warm = run.aggregation.module.warm_start(run.aggregation.config)
    models = Schedule.of(run).begun * run.clustering.config.clusters
    return models * warm.epochs * len(data.shadow) * rate("train") if warm else 0.0


def _audits(run: Run, data: Federation, place: Placement, attack: AttackComponent, rate: Rate) -> Seconds:
    """Return what all attacks on models take, with the training of their shadow models."""
    groups, (times, rounds) = clusters(run, data), Schedule.of(run).attacks[attack.name]
    shadows = 0.0
    for number, group in enumerate(groups):
        for job in shadow_jobs(run, Cluster(data, number, group), attack):
            examples = len(job.members)
            if job.rounds:
                continued = any(True for _ in attack.module.earlier(job))  # as long as the model's clients stay
                trained = Schedule.of(run).done if continued else rounds
                shadows += sum(federation(run, job.sizes, trained, rate).values())
            else:
                shadows += times * examples * STOPS_EARLY * job.max_epochs * rate("train")
            shadows += times * (2 * examples * rate("evaluate") + TASK_SECONDS)
    together = min(len(groups), place.shadows)
    attacks = times * len(groups) * rate("attack", attack.name) / together
    return {"attacks": attacks, "shadow models": shadows / place.shadows}


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


def _replicas(run: Run, data: Federation, place: Placement, attack: AttackComponent, rate: Rate) -> float:
    """Return what the federations take that an attack trains beside the run, each in one process."""
    sizes, seconds = np.resize(data.sizes, run.data.config.clients), 0.0
    for rounds, times in Counter(one.rounds for one in attack.module.replicas(attack.config, run.rounds)).items():
        alone, visited = replace(run, attacks=(), rounds=rounds), min(rounds, MOST_VISITED)
        looks = sum(attack.module.looks_after(attack.config, r + 1) for r in range(visited)) * rounds / visited
        each = _pretraining(alone, data, rate) + looks * float(sizes.sum()) * rate("evaluate")
        each += sum(federation(alone, sizes, Schedule.of(alone).done, rate).values())
        each += sum(evaluations(alone, sizes, len(data.test), rate).values())
        seconds += times * each / min(place.shadows, times)
    return seconds


def _halves(run: Run, data: Federation, place: Placement, attack: AttackComponent, rate: Rate) -> Seconds:
    """Return what the replicas take that an attack trains on halves of the clients' examples."""
    fixed = lambda purpose, *where: stream(run.seed, purpose, *where)  # noqa: E731
    pool = attack.module.pool(attack.config, data, fixed)
    inside = attack.module.halves(attack.config, pool, fixed)
    clients = run.data.config.clients
    sizes = np.resize(np.bincount(pool.owner[inside[0]], minlength=data.clients), clients)
    shown = len(pool.owner) * clients / data.clients * rate("evaluate")
    each = sum(federation(run, sizes, run.rounds, rate).values()) + _pretraining(run, data, rate) + shown + TASK_SECONDS
    return {"attacks": shown, "replicas": len(inside) * each / min(place.shadows, len(inside))}
