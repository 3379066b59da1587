"""The seconds of a trial: how often it does each step, times the seconds of one
(`orchestrator.estimates.small_runs`).

Nothing is run for it, but what components answer at once: how many shadow models, replicas and
examples an attack needs. Where clients are sampled, the expected number of them counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from algorithms.core.messages import Doubles, Ints
from algorithms.engine.backends import TOGETHER, divided, trains_together
from algorithms.interfaces import Run
from attacks.interfaces import Cluster, ShadowJob
from datasets.federation import Federation
from orchestrator.cluster.placement import Placement
from orchestrator.trial.attack_round import AttackComponent, of_kind
from orchestrator.trial.random_streams import integer, stream

# Measured on trials whose training takes no time: Ray's answers, rows, files and the saved state.
TRIAL_SECONDS = 0.7
ROUND_SECONDS = 0.04
JOB_SECONDS = 0.003
TASK_SECONDS = 0.03
ALONE_SECONDS = 0.015  # the same for a round of a federation that is trained in a single process
# Share of its most epochs after which a shadow model is as accurate as it has to be, by assumption.
STOPS_EARLY = 0.5

Seconds = dict[str, float]
"""Seconds by what they are spent on, as a reader sees it, such as "training" or "shadow models"."""
ATTACKS = "attacks"
REPLICAS = "replicas"
SHADOWS = "shadow models"

Rate = Callable[..., float]
"""``rate(step, attack)`` returns the seconds of one step: ``train`` an example in a pass of
local training, ``replicate`` one where replicas of the run train at once, ``evaluate`` an example
that a model is shown, ``curve`` an example of a client that measures its curvature, ``serve`` a
client's update at the server, ``attack`` the updates of a round, or a model, that an attack is made
on."""


class Schedule:
    """How often a run does what.

    Attributes:
        begun: how many times the run begins, which is the number of initializations.
        rounds: the number of all rounds, those of abandoned initializations included.
        on_tests: how often all models are evaluated on the test examples.
        on_clients: how often they are on the clients' examples, at most.
    """

    def __init__(self, run: Run) -> None:
        plan = run.clustering.module.starts(run.clustering.config)
        several = plan.initializations > 1
        self.last = run.rounds
        self.compared = min(plan.rounds, run.rounds - 1) if several else 0
        self.begun = plan.initializations if self.compared else 1
        self.rounds = run.rounds + (self.begun - 1) * self.compared
        self.on_tests = self.times(run.evaluate_every)
        audits = sum(self.on_models(attack.config.every)[0] for attack in of_kind(run, "models"))
        self.on_clients = min(self.rounds, self.on_tests + audits)
        if run.clustering.config.clusters > 1:
            self.on_clients = self.begun + self.rounds

    def times(self, every: int) -> int:
        """How often something is done that is due after so many rounds each, and after the last
        one.
        """
        return -(-self.last // every) + (self.begun - 1) * (self.compared // every)

    def on_models(self, every: int) -> tuple[int, int, int]:
        """How often models are attacked, and for how many rounds they were trained: the sum, and
        that of the latest.
        """
        abandoned = max(0, self.compared - 1)  # models are attacked before they train further
        again = self.begun - 1
        times = -(-self.last // every) + again * (abandoned // every)
        anew = _sum_of_multiples(every, self.last) + again * _sum_of_multiples(every, abandoned)
        if self.last % every:
            anew += self.last
        return times, anew, self.last + again * (abandoned - abandoned % every)


def _sum_of_multiples(of: int, most: int) -> int:
    """The sum of ``of``, twice it and so on, up to ``most``."""
    count = most // of
    return of * count * (count + 1) // 2


@dataclass(frozen=True, eq=False)
class CountedTrial:
    """A trial whose steps are counted.

    Attributes:
        run: what it does.
        data: has some or all of its clients.
        place: the processes that it has.
        rate: the seconds of a step.
        own: the share of the first rounds that it trains itself, and others of the sweep the rest;
            None: nothing is kept.
    """

    run: Run
    data: Federation
    place: Placement
    rate: Rate
    own: float | None = 1.0

    @cached_property
    def due(self) -> Schedule:
        """How often it does what."""
        return Schedule(self.run)

    @cached_property
    def sizes(self) -> Ints:
        """The number of examples of every client."""
        return np.resize(self.data.sizes, self.run.data.config.clients)

    @property
    def first_rounds(self) -> float:
        """The share of the first rounds that it trains itself."""
        return self.own or 1.0

    @property
    def present(self) -> float:
        """The expected share of the clients that take part in a round."""
        return 1.0 if self.run.participation == "all" else self.run.participation_rate

    @property
    def blocks(self) -> int:
        """The number of blocks of all clients."""
        return -(-len(self.sizes) // self.run.training.config.block_size)

    def evaluate(self, examples: float) -> float:
        """The seconds in which a model is shown so many examples."""
        return examples * self.rate("evaluate")

    def at_once(self, step: str) -> float:
        """The seconds of a step where replicas of the run train at once."""
        return self.rate("replicate" if step == "train" else step)

    def alone(self, sizes: Ints | Doubles, rounds: float, trained_before: float = 0.0) -> float:
        """The seconds of a federation in a single process, beside others."""
        return sum(federation(self, sizes, rounds, self.at_once, 0, trained_before).values())

    def spread(self, actors: int, present: float = 1.0) -> float:
        """How many times faster the blocks of a round are done by the actors, the longest first,
        than by one of them.

        Each client is ``present`` with that probability; a block of which none is has nothing to
        do.
        """
        if actors < 2:
            return 1.0
        size = self.run.training.config.block_size
        begins = range(0, len(self.sizes), size)
        blocks = sorted((float(self.sizes[at : at + size].sum()) for at in begins), reverse=True)
        done = np.zeros(actors)
        for block in blocks:
            done[done.argmin()] += block
        busy = len(blocks) * (1 - (1 - present) ** size)
        return float(min(done.sum() / done.max(), max(1.0, busy)))


def of_trial(
    run: Run,
    data: Federation,
    place: Placement,
    rate: Rate,
    loading: float = 0.0,
    own: float | None = 1.0,
) -> Seconds:
    """Return what a trial spends its time on, see `CountedTrial`; its data take ``loading``
    seconds.

    Raises:
        DataError: the data are unsuitable for an attack.
    """
    trial = CountedTrial(run, data, place, rate, own)
    due = trial.due
    parts: Any = Counter({"loading data": loading, "server and files": TRIAL_SECONDS})
    warm = run.aggregation.module.warm_start(run.aggregation.config)
    if warm:
        models = due.begun * run.clustering.config.clusters
        parts["training"] = models * warm.epochs * len(data.shadow) * rate("train")
    before = due.begun * (1 - trial.first_rounds)
    parts.update(federation(trial, trial.sizes, due.rounds, rate, place.actors, before))
    parts.update(_evaluations(trial))
    for attack in run.attacks:
        for kind in attack.module.KINDS:
            if kind in OF_KIND:
                parts.update(OF_KIND[kind](trial, attack))
    return {part: seconds for part, seconds in parts.items() if seconds}


def first_round(run: Run) -> str:
    """Return what the training of a run's first round depends on, besides the code; of secret
    noise, it is the only one.
    """
    clustering = run.clustering
    depends: list[Any] = [
        *(run.data, run.split, run.model, run.training, run.objective),
        run.aggregation.module.warm_start(run.aggregation.config),
        clustering.module.selection_size(clustering.config),
        clustering.config.clusters,
        *(run.participation, run.participation_rate, run.seed),
    ]
    if not run.repeatable:
        depends += [run.aggregation, run.privacy, run.attacks, run.rounds]
    return repr(depends)


def a_client(run: Run, sizes: Ints | Doubles, rate: Rate) -> float:
    """Return the seconds that a client trains in a round, on average."""
    return run.training.config.passes * float(sizes.mean()) * rate("train")


def federation(
    trial: CountedTrial,
    sizes: Ints | Doubles,
    rounds: float,
    rate: Rate,
    actors: int,
    trained_before: float,
) -> Seconds:
    """Return what ``rounds`` rounds of a federation of clients with these ``sizes`` take in
    ``actors`` processes; 0: in one, without messages.

    So many of them were ``trained_before``.
    """
    run = trial.run
    present = rounds * trial.present
    spread = trial.spread(actors, trial.present)
    trained = (rounds - trained_before) * trial.present * len(sizes)
    training = trained * a_client(run, sizes, rate) / spread
    waiting = rounds * ALONE_SECONDS
    if actors:
        training += present * trial.blocks * JOB_SECONDS
        waiting = rounds * ROUND_SECONDS
    seconds = {
        "training": training,
        "server and files": present * len(sizes) * rate("serve") + waiting,
    }
    if run.measures_curvature:
        examples = float(np.minimum(sizes, run.curvature.examples).sum())
        every = run.curvature.reliability_every
        if every:
            examples *= 1 + 1 / every  # then two halves are measured, too, as long as the whole
        seconds["curvature"] = present * examples * rate("curve") / spread
    return seconds


def _evaluations(trial: CountedTrial) -> Seconds:
    """Return what the evaluations of all models take in a run."""
    due = trial.due
    actors = trial.place.actors
    on_clients = due.on_clients * float(trial.sizes.sum()) / trial.spread(actors)
    on_tests = due.on_tests * len(trial.data.test) / max(1, actors)
    messages = due.on_clients * trial.blocks * JOB_SECONDS if actors else 0.0
    models = trial.run.clustering.config.clusters
    return {"evaluation": models * trial.evaluate(on_clients + on_tests) + messages}


def _of_updates(trial: CountedTrial, attack: AttackComponent) -> Seconds:
    """Return what an attack on the updates of rounds takes."""
    audits = trial.due.times(attack.config.every) * trial.present
    spread = trial.spread(trial.place.actors, trial.present)
    return {ATTACKS: audits / spread * trial.rate("attack", attack.name)}


def _of_sums(trial: CountedTrial, attack: AttackComponent) -> Seconds:
    """Return what an attack on the sums of rounds takes, one of each model's clients."""
    sums = trial.due.times(attack.config.every) * len(clusters(trial.run, trial.data))
    return {ATTACKS: sums * trial.rate("attack", attack.name)}


def _of_models(trial: CountedTrial, attack: AttackComponent) -> Seconds:
    """Return what an attack on the server's models takes, with its shadow models."""
    run = trial.run
    groups = clusters(run, trial.data)
    times, *_ = trial.due.on_models(attack.config.every)
    audits = times * len(groups) / min(len(groups), trial.place.actors)
    seconds = {ATTACKS: audits * trial.rate("attack", attack.name)}
    jobs = [
        shadow_jobs(run, Cluster(trial.data, number, group), attack)
        for number, group in enumerate(groups)
    ]
    most = TOGETHER if trains_together(run) else 1
    tasks = sum(len(divided(needed, most)) for needed in jobs)
    if tasks:
        shadows = sum(_of_shadow(trial, attack, job) for needed in jobs for job in needed)
        seconds[SHADOWS] = shadows / min(trial.place.actors, tasks)
    return seconds


def _of_shadow(trial: CountedTrial, attack: AttackComponent, job: ShadowJob) -> float:
    """Return what a shadow model takes for all attacks on its model."""
    times, anew, latest = trial.due.on_models(attack.config.every)
    members = len(job.members)
    checks = times * (trial.evaluate(2 * members) + TASK_SECONDS)
    if not job.rounds:
        epochs = times * STOPS_EARLY * job.max_epochs
        return epochs * members * trial.rate("train") + checks
    # It continues the one of the attack before as long as the model's clients stay.
    continues = trial.own is not None and any(True for _ in attack.module.earlier(job))
    sizes = as_full(trial.run, job.sizes, trial.sizes)
    return trial.alone(sizes, latest if continues else anew) + checks


def _of_replicas(trial: CountedTrial, attack: AttackComponent) -> Seconds:
    """Return what federations beside the run take, each in one process."""
    clients = len(trial.sizes)
    replicas = attack.module.replicas(attack.config, trial.run.rounds)
    worlds = Counter(replica.number for replica in replicas)
    alike = Counter((replica.rounds, worlds[replica.number]) for replica in replicas)
    keeps = trial.first_rounds < 1 and not trains_together(trial.run)
    asked = trial.evaluate(len(trial.data.test))
    seconds = 0.0
    for (rounds, together), count in alike.items():
        first = trial.first_rounds
        if keeps:  # replicas of one number train what they have in common once: all but a client
            first *= (clients - 1 + together) / (clients * together)
        seconds += count * (trial.alone(trial.sizes, rounds, 1 - first) + asked)
    return {REPLICAS: seconds / max(1, min(trial.place.actors, len(worlds)))}


def _of_halves(trial: CountedTrial, attack: AttackComponent) -> Seconds:
    """Return what replicas on random halves of the clients' records take."""
    run = trial.run
    fixed = partial(stream, run.seed)
    pool = attack.module.pool(attack.config, trial.data, fixed)
    inside = attack.module.halves(attack.config, pool, fixed)
    clients = trial.data.clients
    sizes = np.bincount(pool.owner[inside[0]], minlength=clients)
    asked = trial.evaluate(len(pool.owner) * len(trial.sizes) / clients)
    each = trial.alone(np.resize(sizes, len(trial.sizes)), run.rounds) + asked
    tasks = -(-len(inside) // (TOGETHER if trains_together(run) else 1))
    return {ATTACKS: asked, REPLICAS: len(inside) * each / min(trial.place.actors, tasks)}


OF_KIND: dict[str, Callable[[CountedTrial, AttackComponent], Seconds]] = {
    "updates": _of_updates,
    "sums": _of_sums,
    "models": _of_models,
    "replicas": _of_replicas,
    "halves": _of_halves,
}


def as_full(run: Run, few: Ints, sizes: Ints) -> Doubles:
    """Numbers of examples [clients] that take as long, at the rate of clients with ``sizes``, as
    those with ``few``.

    A batch that is not full takes nearly as long as one that is: on MNIST 0.95 of it, with 36 and
    83 examples in batches of 50.
    """
    training = run.training.config
    if "batch_size" in training.unread_fields():
        return np.asarray(few, np.float64)
    batches = -(-np.asarray(few) // training.batch_size)
    usual = -(-np.asarray(sizes) // training.batch_size)
    return np.asarray(batches * (sizes.sum() / usual.sum()))


def shadow_jobs(
    run: Run, cluster: Cluster, attack: AttackComponent, accuracy: float = 1.0
) -> Sequence[ShadowJob]:
    """Return the shadow models for an attack on the model of ``cluster`` after the last round of
    ``run``.
    """
    seed_for = partial(integer, run.seed)
    jobs: Sequence[ShadowJob] = attack.module.shadow_jobs(
        attack.config, cluster, accuracy, run.rounds, seed_for
    )
    return jobs


def clusters(run: Run, data: Federation) -> list[Ints]:
    """Return the clients that each model is expected to have: those of a group, or equal shares
    of all.
    """
    models = run.clustering.config.clusters
    groups = np.unique(data.groups)
    cluster = np.arange(data.clients) % models
    if len(groups) == models:
        cluster = np.searchsorted(groups, data.groups)
    members = [np.flatnonzero(cluster == number) for number in range(models)]
    return [clients for clients in members if len(clients)]
