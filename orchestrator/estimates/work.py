"""Counts the work of a trial: rounds, steps, evaluations, attacks and shadow training, without doing any of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from algorithms.core.messages import Ints
from algorithms.interfaces import Run
from algorithms.training._batches import PADDING
from datasets.federation import Federation
from orchestrator.trial import attack_round
from orchestrator.trial.attack_round import AttackComponent
from orchestrator.trial.client_actors import client_blocks

MOST_PASSES = 100  # over a client's examples in a round whose batches are drawn
MOST_AUDITS = 100  # on models of a run that are counted one by one; of more, these stand for the others


@dataclass(frozen=True, eq=False)
class Deal:
    """The sizes of a federation.

    Attributes:
        sizes: [clients] training examples.
        groups: [clients] index of the client's true group.
        tests: test examples.
        shadow: examples of the server's shadow set.
        seconds: that it took to partition the data.
    """

    sizes: Ints
    groups: Ints
    tests: int
    shadow: int
    seconds: float = 0.0

    @staticmethod
    def of(data: Federation, seconds: float = 0.0) -> Deal:
        """Return the sizes of ``data``."""
        return Deal(data.sizes, data.groups, len(data.test), len(data.shadow), seconds)

    @property
    def clients(self) -> int:
        """The number of clients."""
        return len(self.sizes)

    def repeated(self, clients: int) -> Deal:
        """Return the sizes of a federation of ``clients`` that are like these, and as long to partition for each."""
        sizes, groups = np.resize(self.sizes, clients), np.resize(self.groups, clients)
        return Deal(sizes, groups, self.tests, self.shadow, self.seconds * clients / self.clients)


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

    def audits(self, attack: AttackComponent) -> list[tuple[int, float]]:
        """Whenever ``attack`` attacks the models, the rounds that they were trained for, and how many such attacks there are.

        Of many attacks, some that are evenly apart stand for all.
        """
        every, found = attack.config.every, [(self.run.rounds, 1.0)]
        for times, end in ((self.begun - 1, self._compared_after), (1, self.run.rounds)):
            due = range(every, end, every)
            few = min(len(due), MOST_AUDITS)
            found += [(due[(2 * i + 1) * len(due) // (2 * few)], times * len(due) / few) for i in range(few) if times]
        return found

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


def with_few_passes(run: Run) -> tuple[Run, float]:
    """Return ``run`` with as many local passes a round as are drawn for an estimate, and by what to multiply their time."""
    passes = run.training.config.epochs
    if passes <= MOST_PASSES:
        return run, 1.0
    config = run.training.config.model_copy(update={"epochs": MOST_PASSES})
    return replace(run, training=replace(run.training, config=config)), passes / MOST_PASSES


def blocks(run: Run, clients: int) -> list[tuple[int, ...]]:
    """Return the blocks of clients that are trained and evaluated together."""
    return client_blocks(clients, run.training.config.block_size)


def attendance(run: Run) -> float:
    """Return the expected share of the clients that take part in a round."""
    return 1.0 if run.participation == "all" else run.participation_rate


def plan_of(run: Run, examples: int, client: int) -> Ints:
    """Draw batches of a round of a client with that many examples, [steps, batch], padded with -1."""
    most = run.clustering.module.selection_size(run.clustering.config)
    chosen_with = None if most is None else np.arange(min(most, examples))
    return run.training.module.schedule(run.training.config, examples, chosen_with, np.random.default_rng(client))


def visited(plan: Ints) -> int:
    """Count the examples in a plan, each as often as it is trained on."""
    return int((plan != PADDING).sum())


def cluster_deals(run: Run, deal: Deal) -> list[Deal]:
    """Return the clients that each model is expected to have: those of a group, or equal shares of all."""
    clusters = run.clustering.config.clusters
    groups = len(np.unique(deal.groups))
    cluster = deal.groups if groups == clusters else np.arange(deal.clients) % clusters
    return [replace(deal, sizes=deal.sizes[cluster == j], groups=deal.groups[cluster == j]) for j in range(clusters)]


def imitation(cluster: Deal, examples: int) -> Deal:
    """Return a federation with the clients of ``cluster`` who share ``examples`` in proportion to their own."""
    share = examples / max(1, cluster.sizes.sum())
    return replace(cluster, sizes=np.ceil(share * cluster.sizes).astype(np.int64))


def curved_examples(run: Run, size: int) -> int:
    """Return the examples on which a client with ``size`` examples measures its curvature."""
    return min(run.curvature.examples, size)


def curvature_passes(run: Run, rounds: int) -> int:
    """Return how many times a client measures its curvature in that many rounds; two halves count as once."""
    every = run.curvature.reliability_every
    if not (run.measures_curvature and every):
        return rounds
    return rounds + rounds // every + (rounds == run.rounds and rounds % every > 0)


def whole_batches(run: Run, deal: Deal) -> str | None:
    """Return a sentence if every client's batch is all that it has; None if the batch size limits some client."""
    size, largest = run.training.config.batch_size, int(deal.sizes.max())
    read = "batch_size" not in run.training.config.unread_fields()
    if not read or size <= largest:
        return None
    return f"training.batch_size {size} is more than the largest client has ({largest}): batches are whole clients"


def with_fewer_clients(run: Run, most: int) -> Run:
    """Return ``run`` with a part of its clients, if each has a given number of examples and all have more than ``most``.

    Steps on their examples take as long as on those of all clients. An attack on updates needs all of them.
    """
    config = run.data.config
    if not config.examples_per_client or attack_round.of_kind(run, "updates"):
        return run
    clients = max(run.training.config.block_size, most // config.examples_per_client)
    if clients >= config.clients:
        return run
    return replace(run, data=replace(run.data, config=config.model_copy(update={"clients": clients})))
