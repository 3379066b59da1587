"""Attacks within a round: which ones are due, what they are made on, and how their results are
collected for the tables.

Everywhere here, ``history`` [rounds, clients] is the model that each client trained in each round,
-1 if it took no part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from algorithms.core.choices import Preferences
from algorithms.core.messages import Doubles, Ints, Weights
from algorithms.engine.round import under
from algorithms.interfaces import Run
from attacks.interfaces import (
    Audit,
    Cluster,
    Exposure,
    SeenChoice,
    SeenChoices,
    SeenRound,
    Sum,
    as_seen,
)
from datasets.components import Component
from datasets.federation import Federation
from orchestrator.trial.random_streams import stream
from orchestrator.trial.saved import RunState

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

    def latest(self, attack: str | None) -> tuple[int, dict[int, Audit]]:
        """Return the latest results of an attack on models, by cluster, and the rounds trained;
        none if not made.
        """
        latest = max((round_ for name, round_, _, _ in self.audits if name == attack), default=0)
        return latest, {
            j: audit for name, round_, j, audit in self.audits if (name, round_) == (attack, latest)
        }


@dataclass(frozen=True, eq=False)
class ClusterModels:
    """The cluster models as the server sends them out, and who has trained them.

    Attributes:
        weights: those of all models, also of those without clients.
        history: what each client trained in each round so far.
        reference: [clients] the model of each client before risk counted, -1 if it does not count
            yet.
        assignment: [clients] the model that each client uses now.
        client_accuracies: [clients, clusters] training accuracy of every model on every client's
            examples.
    """

    weights: list[Weights]
    history: NDArray[np.int16]
    reference: Ints
    assignment: Ints
    client_accuracies: NDArray[np.float64]

    @classmethod
    def of(cls, state: RunState) -> ClusterModels:
        """Return the models of a run's state."""
        return cls(state.models, state.history, state.reference, state.assignment, state.accuracies)

    @property
    def round(self) -> int:
        """The number of rounds of the run so far."""
        return len(self.history)

    @cached_property
    def last_trained(self) -> NDArray[np.int16]:
        """The model that each client had trained last after each round, -1: none, [rounds,
        clients].
        """
        when = np.maximum.accumulate(np.where(self.history >= 0, np.arange(self.round)[:, None], 0))
        return np.take_along_axis(self.history, when, axis=0)

    @property
    def own(self) -> Ints:
        """The model that each client trained last, -1: none, [clients]."""
        none = np.full((1, len(self.assignment)), -1)
        last: Ints = np.vstack([none, self.last_trained.reshape(-1, len(self.assignment))])[
            -1
        ].astype(np.int64)
        return last

    @cached_property
    def users(self) -> NDArray[np.bool_]:
        """Which clients have the model as the one that they trained last, [clusters, clients].

        A client that takes no part in a round stays where it trained last, however it chooses
        meanwhile: its examples are still in that model, and in no other one. A model that all its
        clients have left keeps those who were the last.
        """
        users = np.zeros((len(self.weights), len(self.assignment)), bool)
        for j, who in enumerate(users):
            rounds = np.flatnonzero((self.last_trained == j).any(axis=1))
            if len(rounds):
                who[:] = self.last_trained[rounds[-1]] == j
        return users

    @property
    def left(self) -> NDArray[np.bool_]:
        """Whether a client chose the model before risk counted, and uses another one now,
        [clusters, clients].

        Where clients may be absent, a client has left a model if it has trained this one, and then
        another.
        """
        numbers = np.arange(len(self.weights))[:, None]
        left: NDArray[np.bool_] = (self.reference == numbers) & (self.reference != self.assignment)
        if (self.history < 0).any():
            trained = np.stack([(self.history == j).any(axis=0) for j in range(len(self.weights))])
            left &= trained & (self.own != numbers)
        return left

    @property
    def trained_rounds(self) -> list[int]:
        """The number of rounds after the last one in which clients trained each model; 0: none."""
        trained = [
            np.flatnonzero((self.history == j).any(axis=1)) for j in range(len(self.weights))
        ]
        return [int(rounds[-1]) + 1 if len(rounds) else 0 for rounds in trained]

    @property
    def accuracies(self) -> NDArray[np.float64]:
        """Mean training accuracy of each model over its clients, NaN if it has none, [clusters]."""
        pairs = zip(self.client_accuracies.T, self.users, strict=True)
        return np.array([of_model[who].mean() if who.any() else np.nan for of_model, who in pairs])

    @property
    def clusters(self) -> list[int]:
        """The models that clients have trained."""
        return [j for j, who in enumerate(self.users) if who.any()]

    def cluster(self, data: Federation, number: int) -> Cluster:
        """Return one of the models with its clients."""
        clients = np.flatnonzero(self.users[number])
        left = np.flatnonzero(self.left[number])
        if not (self.history < 0).any():
            return Cluster(data, number, clients, left)
        took_part = self.history[: self.trained_rounds[number], clients] == number
        return Cluster(data, number, clients, left, took_part)


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """What replicas replay of a run: its models, their names, who trained which last (-1: none)
    and when, and its start.
    """

    models: list[Weights]
    names: tuple[str, ...]
    assignment: Ints
    history: NDArray[np.int16]
    start: int


def of_kind(
    run: Run, kind: Literal["models", "updates", "sums", "replicas", "halves", "choices"]
) -> list[AttackComponent]:
    """Return the attacks of ``run`` that are of one kind; those by replicas may need none."""
    return [attack for attack in run.attacks if kind in attack.module.KINDS]


def attack_named(run: Run, name: str) -> AttackComponent:
    """Return the attack of ``run`` with this name."""
    return next(attack for attack in run.attacks if attack.name == name)


def due(run: Run, kind: Literal["models", "updates", "sums"], rounds: int) -> list[AttackComponent]:
    """Return the attacks of a kind that are made after so many rounds: before the next one, and
    all after the last.
    """
    attacks = of_kind(run, kind) if rounds else []
    return [
        attack for attack in attacks if rounds % attack.config.every == 0 or rounds == run.rounds
    ]


def risk_signal(run: Run) -> str | None:
    """Return the attack whose result is published as risk: that which the clustering names, else
    the first with one.
    """
    named = run.clustering.module.risk_signal(run.clustering.config)
    return named or next((attack.name for attack in run.attacks if attack.module.RISK), None)


def conclude(
    run: Run,
    data: Federation,
    clients: Ints,
    observed: Sequence[Mapping[str, Any]],
    round_: int,
    attacks: dict[str, NDArray[Any]],
    sums: Sequence[Sum] = (),
) -> list[tuple[str, int, Exposure]]:
    """Compute the results of the round's attacks on the updates of ``clients`` or, if there are
    any, on their ``sums``.

    ``observed`` has, by attack, what was seen of each block of clients, or of each sum.
    ``attacks``, what attacks keep from round to round by ``<attack>.<array>``, is brought up to
    date. Returns for each attack its name, the rounds that the models were trained for, and the
    result.
    """
    exposures = []
    for attack in due(run, "sums" if sums else "updates", round_ + 1):
        prefix = f"{attack.name}."
        pieces = [by_attack[attack.name] for by_attack in observed]
        whole = pieces if sums else _joined(pieces)
        kept = under(prefix, attacks)
        seen = SeenRound(data, whole, clients, round_, partial(stream, run.seed), kept, sums=sums)
        exposure: Exposure = attack.module.conclude(attack.config, as_seen(attack.module, seen))
        attacks |= {prefix + name: array for name, array in exposure.kept.items()}
        exposures.append((attack.name, round_ + 1, exposure))
    return exposures


def _joined(pieces: Sequence[Any]) -> Any:
    """The blocks' arrays [c, ...], or mappings of such arrays, as one."""
    if isinstance(pieces[0], dict):
        return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    return np.concatenate(pieces)


def follow_choices(
    run: Run, state: RunState, preferences: Preferences, choose: Callable[[Preferences], Ints]
) -> None:
    """Let attacks on choices note what the last round of ``state`` tells; what they keep of it
    is brought up to date.

    ``choose(preferences)`` repeats the round's choice [clients] with other preferences.
    """

    def instead(clients: Ints, weights: Doubles) -> Ints:
        chosen = []
        for client, weight in zip(clients.tolist(), weights.tolist(), strict=True):
            beta = preferences.beta.copy()
            beta[client] = weight
            chosen.append(choose(replace(preferences, beta=beta))[client])
        return np.array(chosen, np.int64)

    for attack in of_kind(run, "choices"):
        earlier = under(f"{attack.name}.", state.attacks)
        seen = SeenChoice(state.history[-1].astype(np.int64), preferences, instead, earlier)
        kept = attack.module.follow(attack.config, seen)
        state.attacks |= {f"{attack.name}.{name}": array for name, array in kept.items()}


def infer_choices(
    run: Run, data: Federation, state: RunState, preferences: Preferences, dealt: int
) -> list[tuple[str, int, Exposure]]:
    """Compute the results of attacks on the choices of a finished run, after ``dealt`` rounds in
    which clients had none.
    """
    fixed = partial(stream, run.seed)
    exposures = []
    for attack in of_kind(run, "choices"):
        kept = under(f"{attack.name}.", state.attacks)
        seen = SeenChoices(data, state.history[dealt:], preferences, fixed, kept)
        exposures.append((attack.name, state.round, attack.module.infer(attack.config, seen)))
    return exposures
