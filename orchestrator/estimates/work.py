"""Counts the work of a trial: rounds, steps, evaluations, attacks and shadow training, without doing any of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from algorithms.core.messages import Ints
from algorithms.engine.server import reliability_due
from algorithms.interfaces import Run
from algorithms.training._batches import PADDING
from datasets.federation import Federation
from orchestrator.trial import attack_round
from orchestrator.trial.attack_round import AttackComponent
from orchestrator.trial.client_actors import client_blocks

MOST_PASSES = 100  # over a client's examples in a round whose batches are drawn


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

    Attributes:
        run: the run.
    """

    run: Run

    @cached_property
    def done(self) -> list[int]:
        """The numbers of all rounds that are done: those of each initialization, then those of the one that is kept."""
        plan = self.run.clustering.module.starts(self.run.clustering.config)
        compared_after = min(plan.rounds, self.run.rounds - 1)
        extra = plan.initializations - 1 if compared_after else 0
        return [*range(compared_after)] * extra + [*range(self.run.rounds)]

    @property
    def begun(self) -> int:
        """How many times a run begins, which is the number of initializations."""
        return self.done.count(0)

    def audits(self, attack: AttackComponent) -> list[int]:
        """The numbers of rounds that the models were trained for, whenever ``attack`` attacks the models."""
        last = [self.run.rounds]
        return [r for r in [*self.done, *last] if attack in attack_round.models_due(self.run, r)]

    def observed(self, attack: AttackComponent) -> int:
        """How often ``attack`` looks at updates."""
        return sum(attack in attack_round.updates_due(self.run, r) for r in self.done)

    @property
    def evaluations(self) -> tuple[int, int]:
        """How often all models are evaluated on the clients' examples, and how often on the test examples."""
        run, several = self.run, self.run.clustering.config.clusters > 1
        after = [r + 1 for r in self.done]
        reported = [r % run.evaluate_every == 0 or r == run.rounds for r in after]
        due = [
            several or told or bool(attack_round.models_due(run, r)) for r, told in zip(after, reported, strict=True)
        ]
        return sum(due) + (self.begun if several else 0), sum(reported)


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
    return rounds + sum(reliability_due(run, round_) for round_ in range(rounds))


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
