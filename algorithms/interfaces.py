"""The contracts of the slots: one `Protocol` for each, and `Run`, the choice of a component for
every slot.

A component is a module. It must define what is abstract in its slot's contract; what else it leaves
out, it gets from there (`datasets.components.Completed`). In shapes, d is the length of a model's
parameters, b of its running statistics.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np

from algorithms.auditing.canaries import CanaryPlan
from algorithms.core.accounting import Account, PrivacyEvent, Spending
from algorithms.core.choices import Preferences, Starts, View, WarmStart
from algorithms.core.configs import ClusteringConfig, CurvatureConfig, PrivacyConfig, TrainingConfig
from algorithms.core.messages import ClientUpdates, Doubles, Floats, Ints
from algorithms.core.views import ServerSees
from datasets.components import BaseContract, Component, Config
from datasets.interfaces import SourceContract, SplitContract
from datasets.source_configs import SourceConfig

if TYPE_CHECKING:
    import torch
    from torch import nn

    from algorithms.core.network import Network
    from algorithms.core.noise import Normals


Problems = list[tuple[str, str]]
"""Pairs of a field (dotted; empty for the component as a whole) and a sentence that continues
the field's name.
"""

Metrics = dict[str, Any]
"""Metrics by name."""

State = dict[str, np.ndarray]
"""A component's own arrays by name, kept from round to round."""

ClientInputs = dict[str, Any]
"""Inputs of a client's objective besides a batch: client statistics by name, and dicts of
tensors (``sent``, ``carry``).
"""

Forward = Callable[..., Any]
"""``forward(arrays, x, **options)``: logits [batch, classes] of a network with parameters
``arrays`` by name.
"""

GradientStep = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]
"""Fills the network's gradients for a batch of inputs and labels, and returns the batch's loss."""


@dataclass(frozen=True)
class Outcome:
    """The rounds of a finished run, from which components compute their final metrics.

    Attributes:
        rows: the rows of ``rounds.parquet``.
        spent: the privacy events of each round and model.
        sizes: [clients] number of training examples of each client.
        canaries: the scores of an audit by canaries, arrays by name
            (`algorithms.auditing.finding`); empty without one.
        history: [rounds, clients] the model that each client trained in each round, -1 if it took
            no part.
    """

    rows: Sequence[Mapping[str, Any]]
    spent: Sequence[Spending]
    sizes: Ints
    canaries: Mapping[str, np.ndarray] = field(default_factory=dict)
    history: np.ndarray = field(default_factory=lambda: np.empty((0, 0), np.int16))


class ComponentContract(BaseContract, Protocol):
    """What a component of any slot may define.

    A defense says for the table of defenses what it is one against; three texts, or none of them.

    Attributes:
        AGAINST: whom it protects from, or which attack; empty: it is no defense.
        GUARANTEE: what holds and under which assumption, or "none: " and what it does instead.
        COST: what it takes, as the formula of its noise.
        PAPERS: where it was published, names with their addresses.
    """

    AGAINST: ClassVar[str] = ""
    GUARANTEE: ClassVar[str] = ""
    COST: ClassVar[str] = ""
    PAPERS: ClassVar[Mapping[str, str]] = {}

    @staticmethod
    def resolve(config: Any, run: Run) -> Any:
        """Return ``config`` with every ``auto`` replaced, which makes the choice part of the
        trial's identity.
        """
        return config

    @staticmethod
    def problems(config: Any, run: Run) -> Problems:
        """List the combinations with other components that cannot work; called after all
        components have been resolved.
        """
        return []

    @staticmethod
    def settle(config: Any, run: Run, sizes: Ints) -> Any:
        """Return ``config`` with what follows from the clients' numbers of training examples
        ``sizes`` [clients] filled in.

        It is called once the data are dealt, and what it fills in is no part of the trial's
        identity. Raises ValueError if nothing can be filled in.
        """
        return config

    @staticmethod
    def so_far(config: Any, run: Run, outcome: Outcome) -> Metrics:
        """Compute what the rounds so far have spent, cheaply, because it is asked for in every
        round.

        Of ``outcome``, ``rows`` has one entry for each of them, which is empty, and there are no
        canaries.
        """
        return {}

    @staticmethod
    def final_metrics(config: Any, run: Run, outcome: Outcome) -> Metrics:
        """Compute this component's metrics of the whole run from its rounds; None stands for an
        undefined value.
        """
        return {}


class ModelContract(ComponentContract, Protocol):
    """A network.

    Attributes:
        CONVOLUTIONAL: whether it has convolutions.
        BATCH_NORM: whether it has batch normalization.
        RANDOM: whether a forward pass draws random numbers in training (`algorithms.core.dropout`).
        SLIM: whether its last stage can be slimmed (``forward(x, features=True)``, ``forward(x,
            narrow=width)``).
        OWN_VALUES: whether initial values are those of its constructor
            (`algorithms.core.own_values`).
        VMAP: whether many clients can compute it at once (torch.func.vmap).
        RAW: names of its parameters of several dimensions that are no layer's weight, such as a
            class token.
    """

    CONVOLUTIONAL: bool
    BATCH_NORM: bool
    RANDOM: ClassVar[bool] = False
    SLIM: ClassVar[bool] = False
    OWN_VALUES: ClassVar[bool] = False
    VMAP: ClassVar[bool] = True
    RAW: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    @abstractmethod
    def build(
        config: Any,
        shape: tuple[int, ...],
        classes: int,
    ) -> nn.Module:
        """Build a module for examples of ``shape``; `algorithms.core.initialization` fills it,
        unless ``OWN_VALUES``.
        """

    @staticmethod
    def parameters(
        config: Any,
        shape: tuple[int, ...],
        classes: int,
    ) -> int | None:
        """Return the number of parameters, found without making them, for a model that fields
        can make huge; else None.
        """
        return None

    @staticmethod
    def shape_problem(
        config: Any,
        shape: tuple[int, ...],
    ) -> str | None:
        """Explain in a sentence why examples of ``shape`` cannot be used; return None if they
        can.
        """
        return None

    @staticmethod
    def remark(config: Any, run: Run) -> str | None:
        """Return what a plan of ``run`` should say of the model; None if there is nothing to
        say.
        """
        return None


class TrainingContract(ComponentContract, Protocol):
    """Local training of a client; `algorithms.engine` runs it.

    Attributes:
        PRIVATE_STEPS: whether steps follow `private_gradient` instead of the objective's own
            gradient.
    """

    PRIVATE_STEPS: ClassVar[bool] = False

    @staticmethod
    @abstractmethod
    def schedule(
        config: Any,
        examples: int,
        chosen_with: Ints | None,
        rng: np.random.Generator,
    ) -> Ints:
        """Draw all batches of a client's round: positions in its ``examples`` (a number),
        [steps, batch], padded with -1.

        ``chosen_with`` are positions of the examples with which the client chose its model; None
        stands for all. ``rng`` is the client's own generator of this round.
        """

    @staticmethod
    @abstractmethod
    def one_epoch(
        config: Any,
        examples: int,
        rng: np.random.Generator,
    ) -> Ints:
        """Draw the batches of one pass over ``examples`` examples: positions [steps, batch],
        padded with -1.
        """

    @staticmethod
    def learning_rate(config: Any, round_: int) -> float:
        """Compute the local learning rate in round ``round_`` (0 is the first)."""
        return float(config.lr * config.lr_decay**round_)

    @staticmethod
    def shape_problem(
        config: Any,
        shape: tuple[int, ...],
    ) -> str | None:
        """Explain in a sentence why examples of ``shape`` cannot be trained on; return None if
        they can.
        """
        if config.augment == "none" or len(shape) == 3:
            return None
        return (
            f"training.augment {config.augment} moves images [channels, height, width]; "
            f"examples have shape {shape}"
        )

    @staticmethod
    def remark(config: Any, run: Run) -> str | None:
        """Return what a plan of ``run`` should say of the training; None if there is nothing to
        say.
        """
        return None

    @staticmethod
    def reduced_precision(config: Any) -> bool:
        """Return whether gradients are computed in a lower precision than float32."""
        return False

    @staticmethod
    def private_gradient(
        config: Any, network: Network, examples: int, noise: torch.Generator
    ) -> GradientStep:
        """Return the gradient of private steps, for a client with ``examples`` examples; used if
        ``PRIVATE_STEPS`` is True.
        """
        raise TypeError("this component defines no private steps")


class ClusteringContract(ComponentContract, Protocol):
    """The clients' choice among the server's models.

    Attributes:
        SORTS_LIKE: the component, this one or another with the fields of `ClusteredConfig`, whose
            choices are those of this one while risk does not count; empty: none is known.
            Initializations are compared once for all that name it.
    """

    SORTS_LIKE: ClassVar[str] = ""

    @staticmethod
    @abstractmethod
    def preferences(
        config: Any,
        clients: int,
        rng: np.random.Generator,
    ) -> Preferences:
        """Draw each client's tolerance and weight of risk."""

    @staticmethod
    @abstractmethod
    def choose(
        config: Any,
        view: View,
        preferences: Preferences,
    ) -> tuple[Ints, Doubles]:
        """Choose each client's model [clients], and return what each model costs it [clients,
        clusters] as well.
        """

    @staticmethod
    def starts(config: Any) -> Starts:
        """Return how the models are initialized; by default once, and clients choose from the
        first round on.
        """
        return Starts()

    @staticmethod
    def selection_size(config: Any) -> int | None:
        """Return the largest number of examples on which a client compares models; None means
        all.
        """
        return None

    @staticmethod
    def risk_signal(config: Any) -> str | None:
        """Return the attack whose result is published as risk; None: the run's first attack that
        measures a risk.
        """
        return None


class ObjectiveContract(ComponentContract, Protocol):
    """The loss that a client minimizes.

    Attributes:
        NEEDS: entries of ``client`` that `loss` reads: client statistics (``rho``), or ``sent``,
            the weights received.
        VMAP: whether it can be computed for many clients at once (torch.func.vmap).
        ITERATES: whether it keeps tensors from step to step of a client's round (`carry`,
            `advance`).
        MODEL: a model to test it with, if it does not work with every model.
    """

    NEEDS: ClassVar[tuple[str, ...]] = ()
    VMAP: ClassVar[bool] = True
    ITERATES: ClassVar[bool] = False
    MODEL: ClassVar[str | None] = None

    @staticmethod
    @abstractmethod
    def loss(
        config: Any,
        forward: Forward,
        arrays: Any,
        x: Any,
        y: Any,
        client: ClientInputs,
    ) -> Any:
        """Compute a batch's loss: a scalar in nats, differentiable in the parameters ``arrays``,
        alone and under vmap.

        ``x`` are inputs [batch, ...] and ``y`` labels [batch], of which -100 marks padding;
        ``client`` has the entries listed in ``NEEDS``, and ``carry`` if the objective iterates.
        """

    @staticmethod
    def carry(
        config: Any,
        forward: Forward,
        arrays: Any,
        shape: tuple[int, ...],
        generator: torch.Generator,
    ) -> Any:
        """Return the tensors, by name, that a client's round starts with; ``shape`` is the shape
        of an example.
        """
        return {}

    @staticmethod
    def advance(
        config: Any,
        forward: Forward,
        arrays: Any,
        carry: Any,
        x: Any,
    ) -> Any:
        """Update these tensors before each step on inputs ``x`` [batch, ...]."""
        return carry


class AggregationContract(ComponentContract, Protocol):
    """The server's update of a model from the updates of its clients.

    Attributes:
        NEEDS: ``"mean"``, or ``"updates"`` if it reads every client's own update.
        SENSITIVITY: ``"mean"`` if the new model is the weighted mean update plus a function of the
            models sent so far, so that a client moves it by at most its weight times its clipped
            norm; None if no bound is known.
        UPDATES_FOR: why it needs every client's update, as the predicate of a sentence; read if
            ``NEEDS`` is "updates".
    """

    NEEDS: Literal["mean", "updates"]
    SENSITIVITY: ClassVar[Literal["mean"] | None] = None
    UPDATES_FOR: ClassVar[str] = "reads every client's own update"

    @staticmethod
    def begin(config: Any, params: Floats) -> State:
        """Return the server's own state before the first round, from the first model's
        parameters ``params`` [d].
        """
        return {}

    @staticmethod
    @abstractmethod
    def weigh(config: Any, examples: Ints) -> Doubles:
        """Return weights [clients] before normalization, from the clients' numbers of training
        ``examples`` [clients].
        """

    @staticmethod
    @abstractmethod
    def apply(
        config: Any, state: State, params: Floats, received: ClientUpdates
    ) -> tuple[Floats, State, Metrics]:
        """Compute a cluster's next model from the parameters [d] that the clients were sent, and
        their updates.

        Returns:
            New parameters [d] (float32, computed in float64), the server's new state, and metrics
            of the round.
        """

    @staticmethod
    def reweigh(
        config: Any,
        received: ClientUpdates,
    ) -> tuple[Doubles, Metrics] | None:
        """Choose weights [clients] that sum to one after seeing the updates; None keeps those of
        `weigh`.
        """
        return None

    @staticmethod
    def equal_weights(config: Any) -> bool:
        """Return whether all clients have the same weight, regardless of their numbers of
        examples.
        """
        return False

    @staticmethod
    def statistics(config: Any) -> tuple[str, ...]:
        """Return the names of the client statistics that it reads, such as ``rho``."""
        return ()

    @staticmethod
    def warm_start(config: Any) -> WarmStart | None:
        """Return the training on the server's examples before the first round; None for none."""
        return None


class PrivacyContract(ComponentContract, Protocol):
    """Clipping of the updates, and protection of a model, or of every client's update, before it
    is sent.

    Attributes:
        NEEDS: ``"mean"``, or ``"updates"`` if it reads every client's own update.
        NOISY: whether ``noise`` is drawn while clients train.
        PRIVATE_UPDATES: whether every client sends `private_update` instead of its update, to
            attacks on updates as well.
        UPDATES_FOR: why it needs every client's update, as the predicate of a sentence; read if
            ``NEEDS`` is "updates".
    """

    NEEDS: Literal["mean", "updates"]
    NOISY: ClassVar[bool] = False
    PRIVATE_UPDATES: ClassVar[bool] = False
    UPDATES_FOR: ClassVar[str] = "reads every client's own update"

    @staticmethod
    def private_update(config: Any, update: Floats, noise: Normals) -> Floats:
        """Return what a client sends in place of its ``update`` [d], which is finite; used if
        ``PRIVATE_UPDATES`` is True.

        ``noise`` is the client's own of this round. ``update`` is not changed, and is returned
        itself where it may be sent.
        """
        raise TypeError("this component defines no private updates")

    @staticmethod
    @abstractmethod
    def bound(config: Any, norms: Doubles) -> Doubles:
        """Return the factors [clients] that scale the updates before they are summed, from their
        L2 ``norms`` [clients].

        With factor 0 an update counts as zero even if it is not finite; who protects clients
        returns 0 for such norms.
        """

    @staticmethod
    @abstractmethod
    def release(
        config: Any, params: Floats, received: ClientUpdates, noise: Normals | None
    ) -> tuple[Floats, Metrics]:
        """Return parameters [d] that may be sent, from the aggregated ``params`` [d], and
        metrics of the round.
        """

    @staticmethod
    def event(config: Any, received: ClientUpdates, run: Run) -> PrivacyEvent | None:
        """Return the privacy event of a round; None if no account is kept."""
        return None

    @staticmethod
    def planned(config: Any, run: Run) -> Account | None:
        """Return the account that a run will have, or one that bounds it; None if it states no
        epsilon of a client.
        """
        return None

    @staticmethod
    def rounds(config: Any, run: Run) -> int:
        """Return after how many of the run's rounds a budget ends it; by default after all."""
        return run.rounds

    @staticmethod
    def client_columns(
        config: Any,
        run: Run,
        history: np.ndarray,
    ) -> Mapping[str, Doubles]:
        """Return columns of the clients' table, [clients] each, after the rounds of ``history``
        (see `Outcome`).
        """
        return {}

    @staticmethod
    def remark(config: Any, run: Run) -> str | None:
        """Return what a plan of ``run`` should say of the protection; None if there is nothing
        to say.
        """
        return None

    @staticmethod
    def covers_empty_rounds(config: Any) -> bool:
        """Return whether a round without clients releases a model too, so that observers cannot
        tell such a round.
        """
        return False

    @staticmethod
    def canaries(config: Any, run: Run) -> CanaryPlan | None:
        """Return how canaries audit the release (`algorithms.engine.canary_audit`); None if they
        do not.
        """
        return None

    @staticmethod
    def noise_beside(
        config: Any,
        received: ClientUpdates,
        others: Iterable[Floats],
    ) -> Doubles:
        """Return the noise's standard deviation if one more client sent an update, for each of
        ``others`` [d].
        """
        raise TypeError("this component's noise does not depend on updates")

    @staticmethod
    def noise_without(config: Any, received: ClientUpdates) -> Doubles:
        """Return the noise's standard deviation [clients] if each client's update were not
        looked at.
        """
        raise TypeError("this component's noise does not depend on updates")


class AttackContract(ComponentContract, Protocol):
    """What the components may know of an attack; `attacks.interfaces` has the rest.

    Attributes:
        RISK: whether it measures a risk that may be published to the clients.
    """

    RISK: ClassVar[bool] = False


@dataclass(frozen=True)
class Run:
    """One training run, fully resolved: every default and every ``auto`` that a component
    decides has its value.

    Attributes:
        evaluate_every: number of rounds between evaluations.
        participation_rate: share (fixed) or probability (poisson) with which a client takes part in
            a round.
        curvature: how clients measure the curvature of their loss, if a component reads rho.
        server_sees: every client's update, the updates or their parameters shuffled, their sum for
            each model, or the models alone.
    """

    rounds: int
    seed: int
    evaluate_every: int
    participation: Literal["all", "fixed", "poisson"]
    participation_rate: float
    data: Component[SourceContract, SourceConfig]
    split: Component[SplitContract, Config]
    model: Component[ModelContract, Config]
    training: Component[TrainingContract, TrainingConfig]
    clustering: Component[ClusteringContract, ClusteringConfig]
    objective: Component[ObjectiveContract, Config]
    aggregation: Component[AggregationContract, Config]
    privacy: Component[PrivacyContract, PrivacyConfig]
    curvature: CurvatureConfig
    attacks: tuple[Component[Any, Any], ...] = ()
    server_sees: ServerSees = "updates"

    @property
    def measures_curvature(self) -> bool:
        """Whether clients measure their curvature, because a component reads rho."""
        statistics = self.aggregation.module.statistics(self.aggregation.config)
        return "rho" in self.objective.module.NEEDS or "rho" in statistics

    @property
    def draws_noise(self) -> bool:
        """Whether the server or the clients add noise, which ``privacy.noise`` makes
        reproducible or secret.
        """
        privacy = self.privacy.module
        return privacy.NOISY or privacy.PRIVATE_UPDATES or self.training.module.PRIVATE_STEPS

    @property
    def repeatable(self) -> bool:
        """Whether the run gives the same bytes again, which it does unless its noise is secret."""
        return not self.draws_noise or self.privacy.config.noise == "reproducible"

    def to_dict(self) -> dict[str, Any]:
        """Return the run as plain JSON values, with all fields that are read."""
        slots = ("model", "training", "clustering", "objective", "aggregation")
        settings = (
            "rounds",
            "seed",
            "evaluate_every",
            "participation",
            "participation_rate",
            "server_sees",
        )
        data = self.data.to_dict()
        for name in self.split.module.unread_of_data(self.split.config, self.data.config):
            data.pop(name, None)
        privacy = self.privacy.to_dict()
        if not self.draws_noise:
            privacy.pop("noise", None)
        # it is made anyway
        if not self.privacy.module.NOISY and privacy.get("audit_every") == "auto":
            del privacy["audit_every"]
        return {
            **{name: getattr(self, name) for name in settings},
            "data": {**data, "split": self.split.to_dict()},
            **{name: getattr(self, name).to_dict() for name in slots},
            "privacy": privacy,
            **({"curvature": self.curvature.dump_read()} if self.measures_curvature else {}),
            "attacks": [attack.to_dict() for attack in self.attacks],
        }
