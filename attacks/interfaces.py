"""The contracts of the four kinds of attacks, their inputs and their results.

* On models: the cluster models as the server sends them out at the start of a round, and after the last one.
* On updates: the clients' trained models before they are aggregated.
* By replicas: whole federations that are trained in addition to the run and compared.
* By halves: replicas of the run, each trained on a random half of every client's records.

An attack lists its kinds in ``KINDS``; it may have several.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from algorithms.core.messages import Floats, Ints, Weights
from algorithms.interfaces import AttackContract, ComponentContract, Problems, Run
from attacks._adversary import Sight as Sight
from attacks._adversary import adversary as adversary
from attacks._adversary import sees as sees
from attacks._results import Audit as Audit
from attacks._results import Exposure as Exposure
from attacks._results import Measure as Measure
from attacks._results import Scores as Scores
from attacks._training import Answers as Answers
from attacks._training import Pool as Pool
from attacks._training import ShadowJob as ShadowJob
from attacks._training import World as World
from datasets.federation import Federation

if TYPE_CHECKING:
    from algorithms.core.network import Network

Stream = Callable[..., np.random.Generator]
"""``stream(purpose, *place)`` returns the random generator of a named purpose; it is the same in every round."""


@dataclass(frozen=True, eq=False)
class Cluster:
    """A cluster model and its clients.

    Attributes:
        data: the federation.
        number: the number of the model.
        clients: ids of the clients that have trained this model and no other one since, also if they were absent in the
            last rounds; if there are none, of those who were the last. Their records are the model's members.
        left: ids of the clients that use another model now, although they had chosen this one before risk counted.
        took_part: [rounds, clients of the model] whether the client trained the model in the round; None: nobody was
            ever absent, and the model counts as trained by all of them in all rounds.
    """

    data: Federation
    number: int
    clients: Ints
    left: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    took_part: NDArray[np.bool_] | None = None


@dataclass(frozen=True, eq=False)
class AttackedModel:
    """A cluster's model under attack.

    Attributes:
        cluster: the model's number and its clients.
        network: provides the torch module, which afterwards holds whatever the attack loaded last.
        weights: the model.
        shadows: the results of `ModelAttack.train_shadow`, in the order of the attack's jobs.
        rng: the generator of this model and round.
        sent: all models as they are sent out; empty: only this one is known.
        own: [clients] the number of the model that each client trained last, -1: none; None: all trained this one.
        stream: returns generators that are the same for all models and in every round.
    """

    cluster: Cluster
    network: Network
    weights: Weights
    shadows: Sequence[Any]
    rng: np.random.Generator
    sent: Sequence[Weights] = ()
    own: Ints | None = None
    stream: Stream | None = None


@dataclass(frozen=True, eq=False)
class SeenUpdates:
    """What the server sees of a block of c clients in a round, where they are trained.

    Attributes:
        data: the federation.
        network: provides the torch module.
        sent: the models that were sent to the clients.
        assignment: [c] the model that each client started from, as a position in ``sent``.
        params: [c, d] trained parameters, as the server receives them.
        buffers: [c, b] running statistics of the trained models.
        clients: the ids of the block's clients.
        stream: returns generators that are the same in every round.
        round: the round, 0 the first.
        train_again: ``train_again(i, stream)`` repeats this round's local training of the i-th of these clients, with
            generators from ``stream(purpose, client)``, and returns its parameters [d]. ``network`` then holds others.
        memo: what attacks have computed of this block and others may want, too; see `once`.
    """

    data: Federation
    network: Network
    sent: Sequence[Weights]
    assignment: Ints
    params: Floats
    buffers: Floats
    clients: Sequence[int]
    stream: Stream
    round: int
    train_again: Callable[[int, Callable[[str, int], np.random.Generator]], Floats]
    memo: dict[Hashable, NDArray[Any]] = field(default_factory=dict)

    def once(self, key: Hashable, compute: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return what ``compute`` returns, computed for the first attack on this block that asks for ``key``.

        Args:
            key: all that the array depends on besides this block.
            compute: computes the array, which nobody may change afterwards.
        """
        if key not in self.memo:
            self.memo[key] = compute()
            self.memo[key].setflags(write=False)
        return self.memo[key]


@dataclass(frozen=True, eq=False)
class SeenRound:
    """What was observed of all clients that took part in a round.

    Attributes:
        data: the federation.
        observed: the results of `UpdateAttack.observe`, [k, ...] each, block after block.
        clients: [k] the ids of the clients that took part.
        round: the round, 0 the first.
        stream: returns generators that are the same in every round.
        kept: the arrays that the attack's last result asked to keep, by name; empty before its first round.
    """

    data: Federation
    observed: Any
    clients: Ints
    round: int
    stream: Stream
    kept: Mapping[str, NDArray[Any]] = field(default_factory=dict)


class Attack(AttackContract, ComponentContract, Protocol):
    """What every attack declares.

    If it attacks models or updates, its ``Config`` has a field ``every``, the rounds from one attack to the next.

    Attributes:
        KINDS: which of the four kinds of attacks it is; it may be several.
        SEES: the least that the attacker has to see, as in the run's field ``server_sees``; None: what `sees` derives.
        ADVERSARY: who the attacker is, as a noun; None: what `adversary` derives from what it sees.
    """

    KINDS: tuple[Literal["models", "updates", "replicas", "halves"], ...]
    SEES: ClassVar[Sight | None] = None
    ADVERSARY: ClassVar[str | None] = None

    @staticmethod
    def data_problems(config: Any, data: Federation) -> Problems:
        """List what the attack lacks in the data: (field, sentence) pairs; asked before anything is started."""
        return []


class ModelAttack(Attack, Protocol):
    """An attack on the cluster models.

    Attributes:
        Shadow: a dataclass of arrays and scalars, the result of training a shadow model; None if there are no jobs.
    """

    Shadow: ClassVar[Callable[..., Any] | None] = None

    @staticmethod
    @abstractmethod
    def audit(config: Any, model: AttackedModel) -> Audit:
        """Attack one model.

        Raises:
            DataError: the data are unsuitable for the attack.
        """

    @staticmethod
    def shadow_jobs(
        config: Any, cluster: Cluster, accuracy: float, rounds: int, seed_for: Callable[..., int]
    ) -> Sequence[ShadowJob]:
        """Return the shadow models that are needed to attack the model of ``cluster``; by default none.

        Args:
            config: the component's fields.
            cluster: the model and its clients.
            accuracy: the model's accuracy on its clients' training examples.
            rounds: the rounds that the model was trained for.
            seed_for: ``seed_for(purpose, *integers)`` returns an integer seed.
        """
        return ()

    @staticmethod
    def train_shadow(job: Any, data: Federation, network: Network, run: Run) -> Any:
        """Train a shadow model.

        Args:
            job: one of the `shadow_jobs`.
            data: the federation, with the server's shadow set.
            network: provides the torch module.
            run: the run whose models are attacked.

        Returns:
            An instance of ``Shadow``.
        """
        raise TypeError("this attack lists shadow jobs but does not define train_shadow")


class UpdateAttack(Attack, Protocol):
    """An attack on what clients send."""

    @staticmethod
    @abstractmethod
    def observe(config: Any, seen: SeenUpdates) -> Any:
        """Reduce a block's updates to what the attack needs: an array [c, ...], or several by name."""

    @staticmethod
    @abstractmethod
    def conclude(config: Any, seen: SeenRound) -> Exposure:
        """Compute the attack's result from the observations of all blocks, and from what it kept of earlier rounds."""


class ReplicaAttack(Attack, Protocol):
    """An attack that compares federations that are trained in addition to the run."""

    @staticmethod
    @abstractmethod
    def replicas(config: Any, rounds: int) -> Sequence[Any]:
        """Return the federations to train for a run of ``rounds``: dataclasses with ``number`` and ``rounds``.

        Replicas with the same number share every seed: initial model, batches, participation and the server's noise.
        """

    @staticmethod
    @abstractmethod
    def world(config: Any, data: Federation, replica: Any, stream: Stream) -> World:
        """Return what ``replica`` is trained on.

        Args:
            config: the component's fields.
            data: the federation of the run.
            replica: one of the `replicas`.
            stream: returns the run's generators, ``stream("replicas", number, ...)``.

        Raises:
            DataError: the data are unsuitable for the attack.
        """

    @staticmethod
    @abstractmethod
    def looks_after(config: Any, rounds: int) -> bool:
        """Return whether a replica's model is measured after ``rounds`` rounds."""

    @staticmethod
    @abstractmethod
    def measure(config: Any, data: Federation, network: Network, weights: Weights) -> dict[str, float]:
        """Return the measurements of a replica's model; ``data`` is the federation of the run."""

    @staticmethod
    @abstractmethod
    def compare(
        config: Any, found: Sequence[tuple[Any, Mapping[int, Mapping[str, float]]]], rng: np.random.Generator
    ) -> Exposure:
        """Compute the attack's result from the measurements of every replica, by round."""


class HalvesAttack(Attack, Protocol):
    """An attack that trains replicas of the run on random halves of every client's records.

    All replicas start from the run's initial models and replay who trained which model in which round; their batches
    and their noise are their own.
    """

    @staticmethod
    @abstractmethod
    def pool(config: Any, data: Federation, stream: Stream) -> Pool:
        """Return the records that are attacked.

        Args:
            config: the component's fields.
            data: the federation of the run.
            stream: returns the run's generators, ``stream("replicas", number, ...)``.

        Raises:
            DataError: the data are unsuitable for the attack.
        """

    @staticmethod
    @abstractmethod
    def halves(config: Any, pool: Any, stream: Stream) -> NDArray[np.bool_]:
        """Return which records each replica trains on, [replicas, n]; replicas 2i and 2i + 1 are complementary."""

    @staticmethod
    @abstractmethod
    def judge(config: Any, answers: Answers, rng: np.random.Generator) -> Exposure:
        """Compute the attack's result, from at least one pair of replicas."""
