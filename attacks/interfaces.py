"""The contracts of the six kinds of attacks, their inputs and their results.

* On models: the cluster models as the server sends them out at the start of a round, and after the
  last one.
* On updates: the clients' trained models before they are aggregated.
* On sums: what the server receives of each model's clients together, and who they are.
* By replicas: whole federations that are trained in addition to the run and compared.
* By halves: replicas of the run, each trained on a random half of every client's examples.
* On choices: which of the server's models every client trained, round after round.

An attack lists its kinds in ``KINDS``; it may have several.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from algorithms.core.choices import Preferences
from algorithms.core.messages import Doubles, Floats, Ints, Weights
from algorithms.core.metric import Number, of_client
from algorithms.core.views import ADVERSARIES, Sight
from algorithms.interfaces import AttackContract, ComponentContract, Problems, Run
from attacks.metrics.client_risk import Attacked
from datasets.federation import Examples, Federation

if TYPE_CHECKING:
    from algorithms.core.network import Network


Stream = Callable[..., np.random.Generator]
"""``stream(purpose, *place)`` returns the random generator of a named purpose; it is the same in
every round.
"""
NAN = float("nan")


# Inputs


@dataclass(frozen=True, eq=False)
class Cluster:
    """A cluster model and its clients."""

    data: Federation
    number: int  # of the model
    # Ids of the clients that have trained this model and no other one since, also if they were
    # absent in the last rounds; if there are none, of those who were the last. Their examples are
    # the model's members.
    clients: Ints
    # Ids of the clients that use another model now, although they had chosen this one before risk
    # counted.
    left: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    took_part: NDArray[np.bool_] | None = (
        None  # [rounds, clients of the model] who trained it; None: all, always
    )


@dataclass(frozen=True, eq=False)
class AttackedModel:
    """A cluster's model under attack."""

    cluster: Cluster
    network: (
        Network  # provides the torch module, which afterwards holds whatever the attack loaded last
    )
    weights: Weights
    shadows: Sequence[
        Any
    ]  # the results of `ModelAttack.train_shadows`, in the order of the attack's jobs
    rng: np.random.Generator  # of this model and round
    sent: Sequence[Weights]  # all models as they are sent out
    trained: Ints  # [clients] the model that each client trained last, -1: none
    stream: Stream  # generators that are the same for all models and in every round


@dataclass(frozen=True, eq=False)
class SeenUpdates:
    """What the server sees of a block of c clients in a round, where they are trained.

    ``train_again(i, stream)`` repeats this round's local training of the i-th of these clients,
    with generators from ``stream(purpose, client)``, and returns its parameters [d] as it sends
    them, noise included. ``network`` then holds others.
    """

    data: Federation
    network: Network
    sent: Sequence[Weights]  # the models that were sent to the clients
    assignment: Ints  # [c] the model that each client started from, as a position in ``sent``
    params: Floats  # [c, d] trained parameters, as the server receives them
    buffers: Floats  # [c, b] running statistics of the trained models
    clients: Sequence[int]  # ids
    stream: Stream
    round: int  # 0 the first
    train_again: Callable[[int, Callable[[str, int], np.random.Generator]], Floats]
    memo: dict[Hashable, NDArray[Any]] = field(default_factory=dict)

    def once(self, key: Hashable, compute: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return the array that ``compute`` returned for the first attack that asked for
        ``key``; it is read-only.
        """
        if key not in self.memo:
            self.memo[key] = compute()
            self.memo[key].setflags(write=False)
        return self.memo[key]


@dataclass(frozen=True, eq=False)
class Sum:
    """What c clients sent of a model in a round, added up: all that the server receives under
    secure aggregation.

    It comes before all that the server does: its noise, its optimizer, its momentum.
    """

    model: int  # its number
    sent: Weights  # the model that was sent to the clients
    mean: Doubles  # [d] weighted mean of their updates, as they clip and noise them
    clients: Ints  # [c] ids
    weights: Doubles  # [c] add up to one


@dataclass(frozen=True, eq=False)
class SeenSum:
    """A sum, with what an attacker needs to look at it."""

    data: Federation
    network: Network
    sum: Sum
    stream: Stream
    round: int  # 0 the first


@dataclass(frozen=True, eq=False)
class SeenRound:
    """What was observed of all k clients that took part in a round."""

    data: Federation
    # The results of `UpdateAttack.observe`, [k, ...] each, block after block; of an attack on sums,
    # a list of one for each.
    observed: Any
    clients: Ints  # [k] ids
    round: int  # 0 the first
    stream: Stream
    kept: Mapping[str, NDArray[Any]] = field(
        default_factory=dict
    )  # what the attack's last result asked to keep
    # [k] where each client's model is among those ``observed``: the truth, which an attacker under
    # ``shuffled_models`` does not know, and by which its result is measured. None: they are in the
    # order of ``clients``.
    slots: Ints | None = None
    sums: Sequence[Sum] = ()  # of all models that were trained, for an attack on sums

    def shuffled(self) -> SeenRound:
        """Return the round with the observations in the hidden order of its shuffler, the same
        for all attacks.
        """
        slots = self.stream("shuffling", self.round).permutation(len(self.clients))
        order = np.argsort(slots)
        observed = self.observed
        hidden = (
            {name: a[order] for name, a in observed.items()}
            if isinstance(observed, dict)
            else observed[order]
        )
        return replace(self, observed=hidden, slots=slots)


@dataclass(frozen=True, eq=False)
class World:
    """What one replica is trained on, and how it differs from the run besides."""

    data: Federation
    silent: tuple[
        int, ...
    ] = ()  # clients that train like the others and then send back the model that they were sent
    noisy: bool = (
        True  # whether the server, or every client, adds the noise of the privacy component
    )


@dataclass(frozen=True, eq=False)
class Pool:
    """The n examples of all clients that are attacked, in the order of the clients, each with an
    even number of them.
    """

    examples: Examples  # ready for the model, transformed as their owners' are
    owner: Ints  # [n]
    trained: NDArray[
        np.bool_
    ]  # [n] whether it is a training example of the run itself; the others were held back
    strengths: Floats  # [n] of the examples' transforms
    place: Ints | None = None  # [n] as in `Scores`; None: not told

    def __len__(self) -> int:
        return len(self.owner)

    def federation(self, data: Federation, inside: NDArray[np.bool_]) -> Federation:
        """Return the run's federation ``data`` in which each client trains on its examples that
        are ``inside`` [n].
        """
        sizes = np.bincount(self.owner[inside], minlength=data.clients)
        offsets = np.append(0, np.cumsum(sizes)).astype(np.int64)
        strengths = self.strengths[inside]
        return replace(
            data, train=self.examples[inside], offsets=offsets, example_strengths=strengths
        )


@dataclass(frozen=True, eq=False)
class Answers:
    """What the models of replicas, and of the run itself, say of the examples of a pool.

    The confidence in the true class is ``ln p_y - ln(1 - p_y)``
    (`attacks.metrics.membership.confidences`), in the model that the example's owner trained last,
    NaN if it has trained none.
    """

    pool: Pool
    inside: NDArray[
        np.bool_
    ]  # [replicas, n] who trained on which example; replicas 2i and 2i + 1 are complementary
    confidence: Doubles  # [replicas, n] of each replica's models
    own: Doubles  # [n] confidence of the run's final models
    # [n] number of the model that the example's owner trained last; -1: none, it is not attacked
    model: Ints
    names: tuple[str, ...]  # of the models
    groups: Ints  # [n] index of the owner's true group in ``group_names``
    group_names: tuple[str, ...]  # as metrics' names may end with them
    numbers: Ints | None = None  # [replicas] some missing where pairs diverged; None: 0, 1, 2, ...


@dataclass(frozen=True, eq=False)
class SeenChoice:
    """What can be known of the clients' choice of a model in a round in which they were free to
    choose.

    ``instead(clients, weights)`` returns the models [k] that k clients would have chosen if each
    alone had had another weight of risk [k], all else being as it was.
    """

    chosen: Ints  # [clients] the model that each client trained, -1: it took no part
    preferences: Preferences  # the truth, which nobody but the clients knows
    instead: Callable[[Ints, Doubles], Ints]
    kept: Mapping[
        str, NDArray[Any]
    ]  # what the attack returned for the last choice; empty before the first


@dataclass(frozen=True, eq=False)
class SeenChoices:
    """All choices of a finished run, of the initialization that was kept."""

    data: Federation
    # [rounds, clients] as in `SeenChoice`, without the rounds in which models were dealt out.
    choices: NDArray[np.int16]
    preferences: Preferences
    stream: Stream
    kept: Mapping[str, NDArray[Any]]  # what the attack returned for the last choice


class ShadowJob(Protocol):
    """One shadow model to be trained: a frozen dataclass of everything that it depends on."""

    @property
    def members(self) -> Ints:
        """Positions in the shadow set of the examples that it is trained on."""

    @property
    def sizes(self) -> Ints:
        """The number of members that each client of a federation has that it is trained in;
        empty: there is none.
        """

    @property
    def rounds(self) -> int:
        """The rounds of that federation; 0: there is none."""

    @property
    def max_epochs(self) -> int:
        """The most passes over the members where there is no federation."""

    def key(self, extra: str) -> str:
        """Return a hexadecimal digest of the job and of ``extra``: shadow set, model, training
        and device.
        """


# Results


def of_clients(
    metric: str, clients: Ints, values: Doubles, ends: Sequence[Doubles], chance: Doubles | float
) -> list[Number]:
    """Return numbers of a metric for each of c clients: values [c], both ends of their intervals
    [2, c], and what they are by chance.
    """
    cells = np.broadcast_arrays(values, *ends, chance)
    rows = zip(clients.tolist(), *(cell.tolist() for cell in cells), strict=True)
    return [Number(metric, value, of_client(i), *rest) for i, value, *rest in rows]


@dataclass(frozen=True, eq=False)
class Found:
    """What an attack found; it refuses metrics by name."""

    metrics: InitVar[None] = field(default=None, kw_only=True)

    def __post_init__(self, metrics: object) -> None:
        """Raise TypeError where metrics are a mapping."""
        if metrics is not None or isinstance(getattr(self, "numbers", ()), Mapping):
            raise TypeError(
                "an attack returns its metrics as numbers=(Number('least_norm', 0.5),), with "
                "Number from algorithms.core.metric; see docs/own_code.md"
            )


def __getattr__(name: str) -> object:
    """Say what has replaced a name that attacks used to import."""
    if name == "Measure":
        raise ImportError(
            "attacks.interfaces has no Measure any more: Measure('client_3', 'auc', 0.7) is "
            "Number('auc', 0.7, of_client(3)), with both from algorithms.core.metric; see "
            "docs/own_code.md"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of single examples, one row for each attack and attacked example; without rows
    by default.
    """

    attack: NDArray[np.str_] = field(default_factory=lambda: np.empty(0, np.str_))  # [n] its name
    # [n] owner of the example; for a held-out one from whom it was held out, or whose transform it
    # has; -1: nobody.
    client: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    member: NDArray[np.bool_] = field(
        default_factory=lambda: np.empty(0, np.bool_)
    )  # [n] whether it was trained on
    score: NDArray[np.float64] = field(
        default_factory=lambda: np.empty(0)
    )  # [n] 0 or more is the decision "member"
    # [n] whether the example belongs to the comparison of clients that left the model: one of their
    # examples (``member``), or a held-out example that looks like theirs. None: there are none.
    left: NDArray[np.bool_] | None = None
    label: NDArray[np.int64] | None = (
        None  # [n] of the example; None: not told, so that all count as alike by chance
    )
    target: NDArray[np.str_] | None = (
        None  # [n] the attacked model, such as "run" or "replica 0"; None: there is one
    )
    # [n] position of the example among the training examples of the federation, then its
    # non-members, then its shadow set, by which tables name its row; None: not told
    place: NDArray[np.int64] | None = None


@dataclass(frozen=True, eq=False)
class Audit(Found):
    """What an attack found on one model; a value that could not be determined is NaN."""

    published_risk: (
        float | None
    )  # attack accuracy that clients may be told; None: the attack measures no risk
    # Rows of ``attacks.parquet``, for the researcher, of variants of the attack.
    measures: tuple[Number, ...]
    scores: Scores = field(default_factory=Scores)
    # Columns of the round's row: the mean over models, the largest value, and that of each model.
    numbers: tuple[Number, ...] = ()
    # Draws of a metric by chance, as many for each model: their mean stands beside the mean over
    # models, that of the largest over the models beside the largest value.
    by_chance: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    measured_risk: float | None = (
        None  # accuracy on the clients' examples, for tables, if not the published one
    )
    chosen: str | None = (
        None  # the attack in ``scores`` whose accuracy is the risk; None: the only one
    )
    own_risks: NDArray[np.float64] | None = (
        None  # [clients] accuracy of each client's own attack, NaN if it makes none
    )

    @property
    def risk(self) -> float | None:
        """The attack accuracy that is reported in tables."""
        return self.published_risk if self.measured_risk is None else self.measured_risk

    def examples(self, left: bool = False) -> Attacked:
        """Return the examples that the risk rests on; with ``left``, those of the comparison of
        clients that left.
        """
        scores = self.scores
        attack = self.chosen
        if attack is None and len(names := np.unique(scores.attack)) == 1:
            attack = names[0]
        of_left = np.zeros(len(scores.score), bool) if scores.left is None else scores.left
        here = (scores.attack == attack) & (of_left == left)
        label = np.zeros(len(scores.score), np.int64) if scores.label is None else scores.label
        return Attacked(scores.score, scores.member, scores.client, label)[here]


@dataclass(frozen=True, eq=False)
class Exposure(Found):
    """What an attack on the clients found in a round, or on the run as a whole."""

    numbers: tuple[Number, ...] = ()  # columns of the round's row
    # Columns of the clients' table, [clients] each, NaN for clients that did not take part.
    clients: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    # Rows of ``attacks.parquet``, for the researcher, most of them of clients.
    measures: tuple[Number, ...] = ()
    scores: Scores = field(default_factory=Scores)  # each with its target
    # What an attack on updates or sums gets back in its next round, by name; saved with the run.
    kept: Mapping[str, NDArray[Any]] = field(default_factory=dict)


# Contracts


class Attack(AttackContract, ComponentContract, Protocol):
    """What every attack declares.

    If it attacks models, updates or sums, its ``Config`` has a field ``every``, the rounds from one
    attack to the next.
    """

    KINDS: tuple[Literal["models", "updates", "sums", "replicas", "halves", "choices"], ...]
    SEES: ClassVar[Sight | None] = (
        None  # the least that the attacker must see, as in ``server_sees``; None: see `sees`
    )
    ADVERSARY: ClassVar[str | None] = (
        None  # who the attacker is, as a noun; None: what `adversary` derives
    )
    ASKS: ClassVar[str] = (
        ""  # the question that it answers, short, as "was this example trained on?"
    )

    @staticmethod
    def data_problems(config: Any, data: Federation) -> Problems:
        """List what the attack lacks in the data: (field, sentence) pairs; asked before a start,
        and once in each trial.
        """
        return []

    @staticmethod
    def model_problem(config: Any, network: Network, shape: tuple[int, ...]) -> str | None:
        """Say why the attack does not apply to a model for examples of a shape, or None."""
        return None


class ModelAttack(Attack, Protocol):
    """An attack on the cluster models."""

    # A dataclass of arrays and scalars, the result of training a shadow model; None if there are no
    # jobs.
    Shadow: ClassVar[Callable[..., Any] | None] = None

    @staticmethod
    @abstractmethod
    def audit(config: Any, model: AttackedModel) -> Audit:
        """Attack one model."""

    @staticmethod
    def shadow_jobs(
        config: Any, cluster: Cluster, accuracy: float, rounds: int, seed_for: Callable[..., int]
    ) -> Sequence[ShadowJob]:
        """Return the shadow models that are needed to attack the model of ``cluster``; by
        default none.

        The model was trained for so many ``rounds`` and has an ``accuracy`` on its clients'
        training examples. ``seed_for(purpose, *integers)`` returns an integer seed.
        """
        return ()

    @staticmethod
    def earlier(job: Any) -> Iterable[Any]:
        """The jobs whose training this one continues, the longest first; by default none.

        If those of all jobs have been trained, `train_shadows` gets their ``Shadow`` as ``begun``;
        it returns the same without.
        """
        return ()

    @staticmethod
    def train_shadows(
        jobs: Sequence[Any], data: Federation, network: Network, run: Run, begun: Sequence[Any] = ()
    ) -> Sequence[Any]:
        """Train some `shadow_jobs` for one model of ``run`` on the server's shadow set; return a
        ``Shadow`` of each.

        Where clients are trained at once, federations (jobs with ``rounds``) are too; else there is
        one.
        """
        raise TypeError("this attack lists shadow jobs but does not define train_shadows")


class UpdateAttack(Attack, Protocol):
    """An attack on what clients send."""

    @staticmethod
    @abstractmethod
    def observe(config: Any, seen: SeenUpdates) -> Any:
        """Reduce a block's updates to what the attack needs: an array [c, ...], or several by
        name.
        """

    @staticmethod
    @abstractmethod
    def conclude(config: Any, seen: SeenRound) -> Exposure:
        """Compute the attack's result from the observations of all blocks, and from what it kept
        of earlier rounds.

        An attack that ``SEES`` shuffled models gets them in an order that it does not know
        (`SeenRound.shuffled`).
        """


class SumAttack(Attack, Protocol):
    """An attack on the sums of what clients send, for which it need not see what one of them
    sends.
    """

    @staticmethod
    @abstractmethod
    def observe(config: Any, seen: SeenSum) -> Any:
        """Reduce a sum to what the attack needs: an array."""

    @staticmethod
    @abstractmethod
    def conclude(config: Any, seen: SeenRound) -> Exposure:
        """Compute the attack's result from the observations of all sums, and from what it kept
        of earlier rounds.
        """


class ReplicaAttack(Attack, Protocol):
    """An attack that compares federations that are trained in addition to the run."""

    @staticmethod
    @abstractmethod
    def replicas(config: Any, rounds: int) -> Sequence[Any]:
        """Return the federations to train for a run of ``rounds``: dataclasses with ``number``
        and ``rounds``.

        Replicas with the same number share every seed: initial model, batches, participation and
        the server's noise.
        """

    @staticmethod
    @abstractmethod
    def world(config: Any, data: Federation, replica: Any, stream: Stream) -> World:
        """Return what one of the `replicas` is trained on.

        ``stream("replicas", number, ...)`` returns the run's generators.
        """

    @staticmethod
    @abstractmethod
    def looks_after(config: Any, rounds: int) -> bool:
        """Return whether a replica's model is measured after ``rounds`` rounds."""

    @staticmethod
    @abstractmethod
    def measure(
        config: Any, data: Federation, network: Network, weights: Weights
    ) -> dict[str, float]:
        """Return the measurements of a replica's model; ``data`` is the federation of the run."""

    @staticmethod
    @abstractmethod
    def compare(
        config: Any,
        measured: Sequence[tuple[Any, Mapping[int, Mapping[str, float]]]],
        rng: np.random.Generator,
    ) -> Exposure:
        """Compute the attack's result from the measurements of every replica, by round."""


class HalvesAttack(Attack, Protocol):
    """An attack that trains replicas of the run on random halves of every client's examples.

    All replicas start from the run's initial models and replay who trained which model in which
    round; their batches and their noise are their own.
    """

    @staticmethod
    @abstractmethod
    def pool(config: Any, data: Federation, stream: Stream) -> Pool:
        """Return the examples that are attacked."""

    @staticmethod
    @abstractmethod
    def halves(config: Any, pool: Any, stream: Stream) -> NDArray[np.bool_]:
        """Return which examples each replica trains on, [replicas, n]; replicas 2i and 2i + 1
        are complementary.
        """

    @staticmethod
    @abstractmethod
    def judge(config: Any, answers: Answers, rng: np.random.Generator) -> Exposure:
        """Compute the attack's result, from at least one pair of replicas.

        Examples of clients that were absent in all rounds have model -1 and a confidence of NaN.
        """


class ChoiceAttack(Attack, Protocol):
    """An attack on the clients' choices among several models; its result is there after the last
    round.
    """

    @staticmethod
    @abstractmethod
    def infer(config: Any, seen: SeenChoices) -> Exposure:
        """Compute the attack's result from all choices, and from what was kept of them."""

    @staticmethod
    def follow(config: Any, seen: SeenChoice) -> Mapping[str, NDArray[Any]]:
        """Return arrays by name to keep of a round's choice, saved with the run; by default
        none.
        """
        return {}


def sees(attack: Any) -> Sight:
    """Return the least that the attacker has to see: the attack's ``SEES``, else what its
    ``KINDS`` look at.
    """
    declared: Sight | None = getattr(attack, "SEES", None)
    kinds: dict[str, Sight] = {"updates": "updates", "choices": "choices", "sums": "sum"}
    derived: Sight = next(
        (sight for kind, sight in kinds.items() if kind in attack.KINDS), "models"
    )
    return declared or derived


def as_seen(attack: Any, seen: SeenRound) -> SeenRound:
    """Return a round as the attacker sees it: shuffled, if that is how it sees models."""
    return seen.shuffled() if sees(attack) == "shuffled_models" else seen


def adversary(attack: Any) -> str:
    """Return who makes an attack, as a noun with what it sees: the attack's ``ADVERSARY``, else
    what it sees.
    """
    declared: str | None = getattr(attack, "ADVERSARY", None)
    return declared or ADVERSARIES[sees(attack)]
