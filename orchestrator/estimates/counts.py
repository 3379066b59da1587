"""The seconds of a trial: how often it does each step, times the seconds of one
(`orchestrator.estimates.small_runs`).

Nothing is run for it, but what components answer at once: how many shadow models, replicas and
examples an attack needs.
Where clients are sampled, the expected number of them counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
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
TRIAL_SECONDS, ROUND_SECONDS, JOB_SECONDS, TASK_SECONDS = 0.7, 0.04, 0.003, 0.03
ALONE_SECONDS = 0.015  # the same for a round of a federation that is trained in a single process
# share of its most epochs after which a shadow model is as accurate as it has to be, by assumption
STOPS_EARLY = 0.5

Seconds = dict[str, float]
"""Seconds by what they are spent on, as a reader sees it, such as "training" or "shadow models"."""
SHADOWS = "shadow models"

Rate = Callable[..., float]
"""``rate(step, attack)`` returns the seconds of one step: ``train`` an example in a pass of
local training, ``replicate`` one
where replicas of the run train at once, ``evaluate`` an example that a model is shown, ``curve``
an example of a client that measures its curvature, ``serve`` a client's update at the server,
``attack`` the updates of a round, or a model, that an attack is made on."""


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
        self.last, self.compared = (
            run.rounds,
            min(plan.rounds, run.rounds - 1) if plan.initializations > 1 else 0,
        )
        self.begun = plan.initializations if self.compared else 1
        self.rounds = run.rounds + (self.begun - 1) * self.compared
        self.on_tests = self.times(run.evaluate_every)
        attacks = sum(self.on_models(attack.config.every)[0] for attack in of_kind(run, "models"))
        several = run.clustering.config.clusters > 1
        self.on_clients = (
            self.begun + self.rounds if several else min(self.rounds, self.on_tests + attacks)
        )

    def times(self, every: int) -> int:
        """How often something is done that is due after so many rounds each, and after the last
        one.
        """
        return -(-self.last // every) + (self.begun - 1) * (self.compared // every)

    def on_models(self, every: int) -> tuple[int, int, int]:
        """How often models are attacked, and for how many rounds they were trained: the sum, and
        that of the latest.
        """
        abandoned, again = (
            max(0, self.compared - 1),
            self.begun - 1,
        )  # models are attacked before they train further
        times = -(-self.last // every) + again * (abandoned // every)
        last, others = (
            every * (rounds // every) * (rounds // every + 1) // 2
            for rounds in (self.last, abandoned)
        )
        anew = last + (self.last if self.last % every else 0) + again * others
        return times, anew, self.last + again * (abandoned - abandoned % every)


def of_trial(
    run: Run,
    data: Federation,
    place: Placement,
    rate: Rate,
    loading: float = 0.0,
    own: float | None = 1.0,
) -> Seconds:
    """Return what a trial spends its time on; ``data`` has some or all of its clients, and takes
    ``loading`` seconds.

    ``own`` is the share of the first rounds that it trains itself, and others of the sweep the
    rest; None: nothing is kept.

    Raises:
        DataError: the data are unsuitable for an attack.
    """
    due, sizes = Schedule(run), np.resize(data.sizes, run.data.config.clients)
    parts: Any = Counter({"loading data": loading, "server and files": TRIAL_SECONDS})
    if warm := run.aggregation.module.warm_start(run.aggregation.config):
        parts["training"] = (
            due.begun
            * run.clustering.config.clusters
            * warm.epochs
            * len(data.shadow)
            * rate("train")
        )
    parts.update(
        federation(run, sizes, due.rounds, rate, place.actors, due.begun * (1 - (own or 1.0)))
    )
    parts.update(evaluations(run, sizes, len(data.test), rate, place.actors))
    for attack in run.attacks:
        parts.update(of_attack(run, data, place, attack, rate, own))
    return {part: seconds for part, seconds in parts.items() if seconds}


def first_round(run: Run) -> str:
    """Return what the training of a run's first round depends on, besides the code; of secret
    noise, it is the only one.
    """
    warm = run.aggregation.module.warm_start(run.aggregation.config)
    selected = (
        run.clustering.module.selection_size(run.clustering.config),
        run.clustering.config.clusters,
    )
    present = run.participation, run.participation_rate, run.seed
    secret = None if run.repeatable else (run.aggregation, run.privacy, run.attacks, run.rounds)
    return repr(
        (
            run.data,
            run.split,
            run.model,
            run.training,
            run.objective,
            warm,
            selected,
            present,
            secret,
        )
    )


def a_client(run: Run, sizes: Ints | Doubles, rate: Rate) -> float:
    """Return the seconds that a client trains in a round, on average."""
    return run.training.config.passes * float(sizes.mean()) * rate("train")


def federation(
    run: Run,
    sizes: Ints | Doubles,
    rounds: float,
    rate: Rate,
    actors: int = 0,
    trained_before: float = 0.0,
) -> Seconds:
    """Return what ``rounds`` rounds of a federation take in ``actors`` processes; 0: in one,
    without messages.

    So many of them were ``trained_before``.
    """
    present, spread = rounds * _present(run), _spread(run, sizes, actors, _present(run))
    training = (rounds - trained_before) * _present(run) * len(sizes) * a_client(run, sizes, rate)
    messages = present * _blocks(run, sizes) * JOB_SECONDS if actors else 0.0
    waiting = rounds * (ROUND_SECONDS if actors else ALONE_SECONDS)
    seconds = {
        "training": training / spread + messages,
        "server and files": present * len(sizes) * rate("serve") + waiting,
    }
    if run.measures_curvature:
        every = (
            run.curvature.reliability_every
        )  # rounds after which two halves are measured, too, as long as the whole
        examples = float(np.minimum(sizes, run.curvature.examples).sum()) * (
            1 + 1 / every if every else 1
        )
        seconds["curvature"] = present * examples * rate("curve") / spread
    return seconds


def evaluations(run: Run, sizes: Ints, tests: int, rate: Rate, actors: int = 0) -> Seconds:
    """Return what the evaluations of all models take in a run; arguments as in `federation`."""
    due, models = Schedule(run), run.clustering.config.clusters * rate("evaluate")
    on_clients = due.on_clients * float(sizes.sum()) / _spread(run, sizes, actors)
    messages = due.on_clients * _blocks(run, sizes) * JOB_SECONDS if actors else 0.0
    return {"evaluation": models * (on_clients + due.on_tests * tests / max(1, actors)) + messages}


def of_attack(
    run: Run,
    data: Federation,
    place: Placement,
    attack: AttackComponent,
    rate: Rate,
    own: float | None = 1.0,
) -> Counter[str]:
    """Return what an attack takes, with the shadow models and the replicas that it trains, each
    in one process.

    ``own`` is that of `of_trial`, for replicas of the whole federation.
    """
    due, module, config, clients = (
        Schedule(run),
        attack.module,
        attack.config,
        run.data.config.clients,
    )
    parts: Any = Counter()
    sizes = np.resize(data.sizes, clients)

    def at_once(step: str) -> float:
        return rate("replicate" if step == "train" else step)

    def alone(sizes: Ints | Doubles, rounds: float) -> float:
        return sum(federation(run, sizes, rounds, at_once).values())

    if "updates" in module.KINDS:
        audits = (
            due.times(config.every)
            * _present(run)
            / _spread(run, sizes, place.actors, _present(run))
        )
        parts["attacks"] += audits * rate("attack", attack.name)
    if "sums" in module.KINDS:
        parts["attacks"] += (
            due.times(config.every) * len(clusters(run, data)) * rate("attack", attack.name)
        )
    if "models" in module.KINDS:
        groups, (times, anew, latest) = clusters(run, data), due.on_models(config.every)
        parts["attacks"] += (
            times * len(groups) * rate("attack", attack.name) / min(len(groups), place.actors)
        )
        jobs = [shadow_jobs(run, Cluster(data, j, group), attack) for j, group in enumerate(groups)]
        most = TOGETHER if trains_together(run) else 1
        spread = min(place.actors, sum(len(divided(needed, most)) for needed in jobs))
        for job in [job for needed in jobs for job in needed]:
            goes_on = own is not None and any(
                True for _ in module.earlier(job)
            )  # as long as the model's clients stay
            rounds = latest if goes_on else anew
            epochs = times * STOPS_EARLY * job.max_epochs * len(job.members)
            trained = (
                alone(as_full(run, job.sizes, sizes), rounds)
                if job.rounds
                else epochs * rate("train")
            )
            checks = times * (2 * len(job.members) * rate("evaluate") + TASK_SECONDS)
            parts[SHADOWS] += (trained + checks) / spread
    if "replicas" in module.KINDS:
        replicas = module.replicas(config, run.rounds)
        alike = Counter(replica.number for replica in replicas)
        kept, spread = (
            own is not None and own < 1 and not trains_together(run),
            min(place.actors, len(alike)),
        )
        for (length, worlds), number in Counter(
            (one.rounds, alike[one.number]) for one in replicas
        ).items():
            # Where first rounds are kept, replicas of one number train what they have in common
            # once: all but a client.
            first = (own or 1.0) * ((clients - 1 + worlds) / (clients * worlds) if kept else 1.0)
            trained = sum(federation(run, sizes, length, at_once, 0, 1 - first).values())
            parts["replicas"] += number * (trained + len(data.test) * rate("evaluate")) / spread
    if "halves" in module.KINDS:
        fixed = partial(stream, run.seed)
        pool = module.pool(config, data, fixed)
        inside = module.halves(config, pool, fixed)
        halved = np.resize(np.bincount(pool.owner[inside[0]], minlength=data.clients), clients)
        checks = len(pool.owner) * clients / data.clients * rate("evaluate")
        parts["attacks"] += checks
        trained = alone(halved, run.rounds)
        tasks = -(-len(inside) // (TOGETHER if trains_together(run) else 1))
        parts["replicas"] += len(inside) * (trained + checks) / min(place.actors, tasks)
    return parts


def as_full(run: Run, few: Ints, sizes: Ints) -> Doubles:
    """Numbers of examples [clients] that take as long, at the rate of clients with ``sizes``, as
    those with ``few``.

    A batch that is not full takes nearly as long as one that is: on MNIST 0.95 of it, with 36 and
    83 examples in batches of 50.
    """
    if "batch_size" in run.training.config.unread_fields():
        return np.asarray(few, np.float64)
    whole, those = (
        -(-np.asarray(given) // run.training.config.batch_size) for given in (few, sizes)
    )
    return np.asarray(whole * (sizes.sum() / those.sum()))


def _blocks(run: Run, sizes: Ints | Doubles) -> int:
    return int(-(-len(sizes) // run.training.config.block_size))


def _spread(run: Run, sizes: Ints | Doubles, actors: int, present: float = 1.0) -> float:
    """Return how many times faster the blocks of a round are done by the actors, the longest
    first, than by one of them.

    Each client is ``present`` with that probability; a block of which none is has nothing to do.
    """
    if actors < 2:
        return 1.0
    done, size = np.zeros(actors), run.training.config.block_size
    blocks = sorted(
        (float(sizes[at : at + size].sum()) for at in range(0, len(sizes), size)), reverse=True
    )
    for block in blocks:
        done[done.argmin()] += block
    return float(min(done.sum() / done.max(), max(1.0, len(blocks) * (1 - (1 - present) ** size))))


def _present(run: Run) -> float:
    """Return the expected share of the clients that take part in a round."""
    return 1.0 if run.participation == "all" else run.participation_rate


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
    models, groups = run.clustering.config.clusters, np.unique(data.groups)
    cluster = (
        np.searchsorted(groups, data.groups)
        if len(groups) == models
        else np.arange(data.clients) % models
    )
    return [
        clients for clients in (np.flatnonzero(cluster == j) for j in range(models)) if len(clients)
    ]
