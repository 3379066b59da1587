"""Which attacks are due in a round, and what they found: rows for the tables, values for the round and for its clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from algorithms.core.messages import BlockResult, Ints, Weights
from datasets.federation import Federation
from orchestrator.config.run import Component, Run
from orchestrator.trial.random_streams import stream

MODELS, UPDATES = "models", "updates"


@dataclass
class Findings:
    """What the attacks of one round found.

    ``audits`` are (attack, round, cluster, `attacks.Audit`), ``exposures`` (attack, round, `attacks.Exposure`).
    """

    audits: list[tuple[str, int, int, Any]] = field(default_factory=list)
    exposures: list[tuple[str, int, Any]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.audits or self.exposures)


class AttackTasks(Protocol):
    """Whoever makes the attacks that take more than a look: with shadow models, or with whole federations of their own."""

    def audit(
        self,
        setup: Any,
        run: Run,
        attack: Component,
        data: Federation,
        models: list[Weights],
        assignment: Ints,
        accuracies: np.ndarray,
        round_: int,
    ) -> dict[int, Any]:
        """Attack every model that has clients: cluster -> `attacks.Audit`."""
        ...

    def replicate(self, setup: Any, run: Run, attack: Component) -> Any:
        """What ``attack`` concludes from its replicas of the run, an `attacks.Exposure`; None where it wants none."""
        ...


def by_replicas(run: Run) -> list[Component]:
    """The attacks of ``run`` that may want replicas of it."""
    return [attack for attack in run.attacks if hasattr(attack.module, "replicas")]


def models_due(run: Run, round_: int) -> list[Component]:
    """The attacks on models that are made before round ``round_`` trains; all of them after the last one."""
    return [one for one in run.attacks if one.module.STAGE == MODELS and _due(run, one, round_)] if round_ else []


def updates_due(run: Run, round_: int) -> list[Component]:
    """The attacks on what clients send that are made in round ``round_``, counted from 0."""
    return [one for one in run.attacks if one.module.STAGE == UPDATES and _due(run, one, round_ + 1)]


def _due(run: Run, attack: Component, rounds_done: int) -> bool:
    return rounds_done % attack.config.every == 0 or rounds_done == run.rounds


def conclude_updates(run: Run, data: Federation, sent: Sequence[BlockResult], round_: int) -> Findings:
    """What the attacks on updates conclude from what they observed in all blocks."""
    clients, found = np.concatenate([one.clients for one in sent]), Findings()
    for attack in updates_due(run, round_):
        observed = join_observations([one.observed[attack.name] for one in sent])
        fixed = lambda purpose, *place: stream(run.seed, purpose, *place)  # noqa: E731
        exposure = attack.module.conclude(attack.config, data, observed, clients, round_, fixed)
        found.exposures.append((attack.name, round_, exposure))
    return found


def join_observations(pieces: Sequence[Any]) -> Any:
    """The blocks' arrays [c, ...], or mappings of such arrays, one after another."""
    if isinstance(pieces[0], dict):
        return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    return np.concatenate(pieces)
