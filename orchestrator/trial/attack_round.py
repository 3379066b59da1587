"""Attacks within a round: which ones are due, and how their results are collected for the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from algorithms.core.messages import BlockResult, Ints, Weights
from algorithms.interfaces import Run
from attacks.interfaces import Audit, Exposure, SeenRound
from datasets.components import Component
from datasets.federation import Federation
from orchestrator.trial.random_streams import stream

AttackComponent = Component[Any, Any]


@dataclass
class Findings:
    """The results of one round's attacks.

    Attributes:
        audits: (attack, rounds trained, cluster, result) of attacks on models.
        exposures: (attack, rounds trained, result) of attacks on clients or on the run as a whole.
    """

    audits: list[tuple[str, int, int, Audit]] = field(default_factory=list)
    exposures: list[tuple[str, int, Exposure]] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Return whether any attack was made."""
        return bool(self.audits or self.exposures)


@dataclass(frozen=True, eq=False)
class ClusterModels:
    """The cluster models as the server sends them out.

    Attributes:
        weights: those of all models, also of those without clients.
        assignment: [clients] the model of each client.
        accuracies: [clusters] training accuracy of each model.
        round: the number of rounds that they were trained for.
    """

    weights: list[Weights]
    assignment: Ints
    accuracies: np.ndarray
    round: int

    @property
    def clusters(self) -> list[int]:
        """The models that have clients."""
        found: list[int] = np.unique(self.assignment).tolist()
        return found


class AttackTasks(Protocol):
    """Runs the attacks that need more computation: with shadow models, or with replicas of the whole federation."""

    def audit(
        self,
        setup: Any,
        run: Run,
        attack: AttackComponent,
        data: Federation,
        models: ClusterModels,
    ) -> dict[int, Audit]:
        """Attack every model that has clients.

        Args:
            setup: where workers find the trial.
            run: the run.
            attack: the attack.
            data: the federation.
            models: all cluster models.

        Returns:
            The results by cluster.
        """
        ...

    def replicate(self, setup: Any, run: Run, attack: AttackComponent) -> Exposure | None:
        """Return the result of ``attack`` from its replicas of the run; None if it needs none."""
        ...


def by_replicas(run: Run) -> list[AttackComponent]:
    """Return the attacks of ``run`` that may need replicas."""
    return [attack for attack in run.attacks if "replicas" in attack.module.KINDS]


def models_due(run: Run, round_: int) -> list[AttackComponent]:
    """Return the attacks on models that are made before round ``round_``; after the last round, all of them."""
    return [one for one in run.attacks if "models" in one.module.KINDS and _due(run, one, round_)] if round_ else []


def updates_due(run: Run, round_: int) -> list[AttackComponent]:
    """Return the attacks on updates that are made in round ``round_``, counted from 0."""
    return [one for one in run.attacks if "updates" in one.module.KINDS and _due(run, one, round_ + 1)]


def _due(run: Run, attack: AttackComponent, rounds_done: int) -> bool:
    return rounds_done % attack.config.every == 0 or rounds_done == run.rounds


def risk_signal(run: Run) -> str | None:
    """Return the attack whose result is published as risk.

    It is the one that the clustering names, else the first that measures a risk; None if there is none.
    """
    named = run.clustering.module.risk_signal(run.clustering.config)
    return named or next((attack.name for attack in run.attacks if attack.module.RISK), None)


def conclude_updates(
    run: Run, data: Federation, results: Sequence[BlockResult], round_: int
) -> list[tuple[str, int, Exposure]]:
    """Compute the results of the round's attacks on updates from the observations of all blocks.

    Args:
        run: the run.
        data: the federation.
        results: the results of the blocks.
        round_: the round, counted from 0.

    Returns:
        For each attack: its name, the rounds that the models were trained for, and the result.
    """
    clients, found = np.concatenate([result.clients for result in results]), []
    fixed = lambda purpose, *place: stream(run.seed, purpose, *place)  # noqa: E731
    for attack in updates_due(run, round_):
        observed = join_observations([result.observed[attack.name] for result in results])
        exposure = attack.module.conclude(attack.config, SeenRound(data, observed, clients, round_, fixed))
        found.append((attack.name, round_ + 1, exposure))
    return found


def join_observations(pieces: Sequence[Any]) -> Any:
    """Concatenate the blocks' arrays [c, ...], or mappings of such arrays."""
    if isinstance(pieces[0], dict):
        return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    return np.concatenate(pieces)
