"""Attacks within a round: which ones are due, and how their results are collected for the tables.

Everywhere here, ``history`` [rounds, clients] is the model that each client trained in each round, -1 if it took no part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from algorithms.core.messages import BlockResult, Ints, Weights
from algorithms.interfaces import Run
from attacks.interfaces import Audit, Cluster, Exposure, SeenRound
from datasets.components import Component
from datasets.federation import Federation
from orchestrator.trial.random_streams import stream
from orchestrator.trial.state import RunState

AttackComponent = Component[Any, Any]


@dataclass
class Findings:
    """The results of one round's attacks.

    Attributes:
        assignment: [clients] the model that each client trained last when the models were attacked.
        audits: (attack, rounds trained, cluster, result) of attacks on models.
        exposures: (attack, rounds trained, result) of attacks on clients or on the run as a whole.
    """

    assignment: Ints
    audits: list[tuple[str, int, int, Audit]] = field(default_factory=list)
    exposures: list[tuple[str, int, Exposure]] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Return whether any attack was made."""
        return bool(self.audits or self.exposures)

    def __add__(self, later: Findings) -> Findings:
        """Add the results of attacks that were made later in the round."""
        return Findings(later.assignment, self.audits + later.audits, self.exposures + later.exposures)

    def latest(self, attack: str | None) -> tuple[int, dict[int, Audit]]:
        """Return the latest results of an attack on models, by cluster, and the rounds trained; none if not made."""
        made = max((round_ for name, round_, _, _ in self.audits if name == attack), default=0)
        return made, {j: audit for name, round_, j, audit in self.audits if (name, round_) == (attack, made)}


@dataclass(frozen=True, eq=False)
class ClusterModels:
    """The cluster models as the server sends them out.

    Attributes:
        weights: those of all models, also of those without clients.
        users: [clusters, clients] whether a client trained the model last (`last_users`).
        left: [clusters, clients] whether a client chose the model before risk counted, and uses another one now.
        accuracies: [clusters] training accuracy of each model.
        trained_rounds: [clusters] the number of rounds after the last one in which clients trained each model.
        round: the number of rounds of the run so far.
        history: what each client trained in each round; empty: all took part in all rounds.
    """

    weights: list[Weights]
    users: NDArray[np.bool_]
    left: NDArray[np.bool_]
    accuracies: NDArray[np.float64]
    trained_rounds: Ints
    round: int
    history: NDArray[np.int16] = field(default_factory=lambda: np.empty((0, 0), np.int16))

    @property
    def clusters(self) -> list[int]:
        """The models that clients have trained."""
        numbers: list[int] = np.flatnonzero(self.users.any(axis=1)).tolist()
        return numbers

    @property
    def own(self) -> Ints:
        """The model that each client trained last, [clients]; -1: none."""
        rounds = np.where(self.users, self.trained_rounds[:, None], -1)
        last: Ints = np.where(self.users.any(axis=0), rounds.argmax(axis=0), -1)
        return last

    def cluster(self, data: Federation, number: int) -> Cluster:
        """Return one of the models with its clients."""
        clients, left = np.flatnonzero(self.users[number]), np.flatnonzero(self.left[number])
        if not (self.history < 0).any():
            return Cluster(data, number, clients, left)
        took_part = self.history[: self.trained_rounds[number], clients] == number
        return Cluster(data, number, clients, left, took_part)


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """What replicas replay of a run: its last models, their names, who uses and trained which, and its initialization."""

    models: list[Weights]
    names: tuple[str, ...]
    assignment: Ints
    history: NDArray[np.int16]
    start: int


def replicate(
    tasks: Any, setup: Any, run: Run, data: Federation, state: RunState, names: Sequence[str]
) -> list[tuple[str, int, Exposure]]:
    """Make the attacks that train whole federations, after the last round; results like those of `conclude_updates`."""
    original = FinishedRun(state.models, tuple(names), state.assignment, state.history, state.start)
    exposures = [(one.name, tasks.replicate(setup, run, one)) for one in of_kind(run, "replicas")]
    exposures += [(one.name, tasks.halve(setup, run, one, data, original)) for one in of_kind(run, "halves")]
    return [(name, run.rounds, exposure) for name, exposure in exposures if exposure is not None]


def with_round(history: NDArray[np.int16], assignment: Ints, results: Sequence[BlockResult]) -> NDArray[np.int16]:
    """Return the history with one more round, of the blocks in ``results``; ``assignment`` [clients] is each client's model."""
    present = np.isin(np.arange(len(assignment)), [client for one in results for client in one.clients])
    row = np.where(present, assignment, -1).astype(np.int16)
    return np.vstack([history.reshape(-1, len(assignment)), row])


def trained_last(history: NDArray[np.int16], clients: int) -> Ints:
    """Return the model that each client trained last, [clients]; -1: it has not taken part in any round."""
    if not len(history):
        return np.full(clients, -1, np.int64)
    back = (history[::-1] >= 0).argmax(axis=0)  # rounds since the last one of each client; 0 also where there is none
    last: Ints = history[len(history) - 1 - back, np.arange(clients)].astype(np.int64)
    return last


def last_users(users: NDArray[np.bool_], history: NDArray[np.int16]) -> NDArray[np.bool_]:
    """Return which clients have the model as the one that they trained last, [clusters, clients].

    A client that takes no part in a round stays where it trained last, however it chooses meanwhile: its examples are
    still in that model, and in no other one. A model that all its clients have left keeps its last ``users``.
    """
    now = trained_last(history, users.shape[1]) == np.arange(len(users))[:, None]
    last: NDArray[np.bool_] = np.where(now.any(axis=1, keepdims=True), now, users)
    return last


def last_rounds(trained_rounds: Ints, history: NDArray[np.int16]) -> Ints:
    """Return after how many rounds each model was trained last, [clusters], given the same before the last round."""
    rounds: Ints = np.where(np.isin(np.arange(len(trained_rounds)), history[-1]), len(history), trained_rounds)
    return rounds


def clients_that_left(
    reference: Ints, assignment: Ints, history: NDArray[np.int16], clusters: int
) -> NDArray[np.bool_]:
    """Return whether each client had chosen a model before risk counted and uses another one now, [clusters, clients].

    ``reference`` is the model of each client before risk counted, -1 if it does not count yet, and ``assignment`` the one of
    now, [clients] each. Where clients may be absent, a client has left a model if it has trained this one, and then another.
    """
    numbers = np.arange(clusters)[:, None]
    left: NDArray[np.bool_] = (reference == numbers) & (reference != assignment)
    if (history < 0).any():
        trained = np.stack([(history == j).any(axis=0) for j in range(clusters)])
        left &= trained & (trained_last(history, len(assignment)) != numbers)
    return left


def of_kind(run: Run, kind: Literal["models", "updates", "replicas", "halves"]) -> list[AttackComponent]:
    """Return the attacks of ``run`` that are of one kind; those by replicas may need none."""
    return [attack for attack in run.attacks if kind in attack.module.KINDS]


def attack_named(run: Run, name: str) -> AttackComponent:
    """Return the attack of ``run`` with this name."""
    return next(attack for attack in run.attacks if attack.name == name)


def models_due(run: Run, round_: int) -> list[AttackComponent]:
    """Return the attacks on models that are made before round ``round_``; after the last round, all of them."""
    return [one for one in of_kind(run, "models") if _due(run, one, round_)] if round_ else []


def updates_due(run: Run, round_: int) -> list[AttackComponent]:
    """Return the attacks on updates that are made in round ``round_``, counted from 0."""
    return [one for one in of_kind(run, "updates") if _due(run, one, round_ + 1)]


def _due(run: Run, attack: AttackComponent, rounds_done: int) -> bool:
    return rounds_done % attack.config.every == 0 or rounds_done == run.rounds


def own_risks(before: NDArray[np.float64], findings: Findings, clusters: int) -> NDArray[np.float64]:
    """Return the risk that each client's own attack found for every model [clients, clusters]; empty: none attacked."""
    risks = before
    for _, _, cluster, audit in findings.audits:
        if audit.own_risks is not None:
            risks = risks.copy() if risks.size else np.full((len(audit.own_risks), clusters), np.nan)
            risks[:, cluster] = audit.own_risks
    return risks


def risk_signal(run: Run) -> str | None:
    """Return the attack whose result is published as risk: that which the clustering names, else the first with one."""
    named = run.clustering.module.risk_signal(run.clustering.config)
    return named or next((attack.name for attack in run.attacks if attack.module.RISK), None)


def risk_known(run: Run, state: RunState) -> bool:
    """Return whether clients know the risk of a model, so that it may count in their choice.

    It is the risk that the server measured or, where clients choose by their own attacks, one that such an attack
    found.
    """
    risks = state.own_risks if run.clustering.config.weighs_own_risks else state.measured_risks
    return bool(np.isfinite(risks).any())


def conclude_updates(
    run: Run, data: Federation, results: Sequence[BlockResult], round_: int, attacks: dict[str, NDArray[Any]]
) -> list[tuple[str, int, Exposure]]:
    """Compute the results of the round's attacks on updates from the observations of all blocks.

    ``attacks``, what attacks keep from round to round by ``<attack>.<array>``, is brought up to date. Returns for each
    attack its name, the rounds that the models were trained for, and the result.
    """
    clients, exposures = np.concatenate([result.clients for result in results]), []
    fixed = lambda purpose, *place: stream(run.seed, purpose, *place)  # noqa: E731
    for attack in updates_due(run, round_):
        observed = join_observations([result.observed[attack.name] for result in results])
        prefix = f"{attack.name}."
        kept = {name.removeprefix(prefix): array for name, array in attacks.items() if name.startswith(prefix)}
        exposure = attack.module.conclude(attack.config, SeenRound(data, observed, clients, round_, fixed, kept))
        attacks |= {prefix + name: array for name, array in exposure.kept.items()}
        exposures.append((attack.name, round_ + 1, exposure))
    return exposures


def join_observations(pieces: Sequence[Any]) -> Any:
    """Concatenate the blocks' arrays [c, ...], or mappings of such arrays."""
    if isinstance(pieces[0], dict):
        return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    return np.concatenate(pieces)
