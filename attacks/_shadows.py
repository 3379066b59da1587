"""Shadow models: models that the server trains itself (`attacks.shadow_mia`), so that it knows their training examples.

A shadow model imitates the attacked one. It is the result of a small federation with the same number of clients,
rounds, epochs, aggregation and privacy mechanism, whose clients hold examples of the server's shadow set; or, as an
alternative, a single model that is trained until it is as accurate on its examples as the attacked one is on its own.

A job holds everything that its model depends on besides the shadow set and the run. An equal job therefore gives an
equal model, and a model that was trained for it before can be reused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.interfaces import Problems
from attacks.interfaces import AttackedModel
from attacks.metrics.membership import Bools, Outputs
from datasets import transforms
from datasets.components import Config as SlotConfig
from datasets.components import read_when
from datasets.federation import DataError, Federation, Floats, Ints
from datasets.roles import NOBODY

ALONE = read_when(shadow_training="accuracy")


class ShadowConfig(SlotConfig):
    """Fields of the shadow attack, for the modules that share them."""

    every: int = Field(5, ge=1, description="rounds from one attack to the next; its result is kept in between")
    shadows: int = Field(3, ge=1, le=100, description="shadow models per cluster")
    # The learned attack alone, which the paper publishes, is often weaker than a threshold.
    risk: Literal["strongest", "shadow_mia", "loss_threshold", "confidence", "gap"] = Field(
        "strongest", description="the attack whose accuracy is the risk; strongest: the one that does best on shadows"
    )
    # A model that is stopped at an accuracy is less confident than one that has been trained for all rounds.
    shadow_training: Literal["federation", "accuracy"] = Field(
        "federation",
        description="federation: imitate the clients, rounds and epochs; accuracy: train one model until it is as accurate",
    )
    # With other transforms, the attack would learn from rotations that the clients' images do not have.
    shadow_transform: Literal["cluster", "mixture", "none"] = Field(
        "cluster", description="whose transforms shadow images get: the cluster's clients', all clients' or none"
    )
    # A model trained on few examples overfits more, so shadows of another size would show the attack a different gap.
    size_matched: bool = Field(
        True,
        description="train shadows on at most as many examples as the cluster has; a federation always does",
        json_schema_extra=ALONE,
    )
    # The published FEMNIST set has 100 000 images; three shadows on half of them would cost more than the federation.
    shadow_examples: int = Field(
        10_000, ge=2, description="examples drawn from the shadow set for each shadow, at most"
    )
    max_epochs: int = Field(
        50,
        ge=1,
        description="epochs after which a shadow stops even if it is not accurate enough",
        json_schema_extra=ALONE,
    )
    attack_model: Literal["mlp", "mlp_per_class", "art"] = Field(
        "mlp", description="network that reads softmax vectors: one for all classes, one for each, or ART's"
    )
    # More vectors do not improve a network of some 800 weights, and the training time grows with their number.
    attack_examples: int = Field(10_000, ge=2, description="softmax vectors that the attack is trained on, at most")
    signal: Literal["oracle", "server_only"] = Field(
        "oracle", description="risk sent to clients: accuracy on their own examples, or on one more shadow model"
    )
    # Clients that choose the model with the lower measured risk also choose measurements that are too low by chance.
    published_share: Annotated[float, Field(ge=0, lt=1)] | Literal["auto"] = Field(
        "auto",
        description="share of the attacked examples that serve the published risk alone; auto: 0.5 with several models",
        json_schema_extra=read_when(signal="oracle"),
    )
    # "unrotated" is diagnostic: it shows how much of a published accuracy a mismatch of transforms can explain.
    nonmember_transform: Literal["cluster", "unrotated"] = Field(
        "cluster", description="non-members: transformed like the cluster's clients' examples, or left as they are"
    )
    queries: int = Field(2000, ge=1, description="attacked members of a model at most, and so many non-members at most")


Role = Literal["shadow", "probe"]
NO_STATE = np.empty(0, np.uint8)


@dataclass(frozen=True, eq=False)
class ShadowJob:
    """One shadow model to be trained.

    Attributes:
        members: positions in the shadow set of the examples that the model is trained on, client after client.
        nonmembers: other positions; the model is queried with these examples but not trained on them.
        strengths: [n shadow] transform strength of every example of the shadow set.
        sizes: [clients] the members that each client of the shadow federation holds; empty: a single model is trained.
        rounds: rounds of the shadow federation.
        target_accuracy: a single model's training stops after the first epoch with this accuracy on the members...
        max_epochs: ... or after this many epochs.
        seed: seed of everything random.
        role: a "shadow" trains the attack; a "probe" instead shows how well the attack does without any client's data.
        took_part: [rounds, clients] who trains in which round of the shadow federation, so that each member is trained
            on as those of the attacked model are; None: as the run samples clients.
    """

    members: Ints
    nonmembers: Ints
    strengths: Floats
    sizes: Ints
    rounds: int
    target_accuracy: float
    max_epochs: int
    seed: int
    role: Role = "shadow"
    took_part: Bools | None = None

    def key(self, extra: str) -> str:
        """Return a hexadecimal digest of the job and of ``extra``: the shadow set and the run."""
        digest = hashlib.sha256()
        limits = (self.rounds, self.target_accuracy, self.max_epochs)
        digest.update(repr((*limits, self.seed, self.role, len(self.members), extra)).encode())
        for array in self.members, self.nonmembers, self.sizes:
            digest.update(np.ascontiguousarray(array, np.int64).tobytes())
        digest.update(np.ascontiguousarray(self.strengths, np.float32).tobytes())
        if self.took_part is not None:
            digest.update(repr(self.took_part.shape).encode() + np.packbits(self.took_part).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Shadow(Outputs):
    """A trained shadow model: its outputs, accuracy on members, epochs (of all rounds) and role.

    ``state`` are the bytes of its federation, from which a job with more rounds continues; empty: there is none.
    """

    accuracy: float
    epochs: int
    role: Role = "shadow"
    state: NDArray[np.uint8] = field(default_factory=lambda: NO_STATE)


def of_role(shadows: Sequence[Shadow], role: Role) -> list[Shadow]:
    """Return the models with the given role."""
    return [shadow for shadow in shadows if shadow.role == role]


def pool_outputs(shadows: Sequence[Outputs]) -> Outputs:
    """Concatenate the outputs of several models."""
    return Outputs(
        np.concatenate([shadow.logits for shadow in shadows]),
        np.concatenate([shadow.labels for shadow in shadows]),
        np.concatenate([shadow.member for shadow in shadows]),
    )


def imitates(config: ShadowConfig) -> bool:
    """Return whether each shadow model is trained in a federation that imitates that of the attacked model."""
    return config.shadow_training == "federation"


def shadow_size(config: ShadowConfig, members: int, available: int) -> int:
    """Return the number of examples that a shadow model is trained on, which is also the number of its non-members.

    ``members`` are the training examples of the attacked model's clients, ``available`` those of the shadow set.
    """
    half = min(config.shadow_examples, available) // 2
    return min(half, members) if config.size_matched or imitates(config) else half


def client_sizes(sizes: Ints, total: int) -> Ints:
    """Return how many examples clients hold, in proportion to the ``sizes`` [clients] of those that they imitate.

    They are rounded so that they add up to ``total``, largest remainders first; a client may get none.

    >>> client_sizes(np.array([10, 20, 30]), 30).tolist()
    [5, 10, 15]
    """
    exact = sizes * (total / sizes.sum())
    floors = np.floor(exact).astype(np.int64)
    first = np.argsort(floors - exact, kind="stable")[: total - floors.sum()]
    floors[first] += 1
    return floors


def wear(data: Federation, clients: Ints, owners: Ints, rng: np.random.Generator) -> Ints:
    """Return the client whose transform each example wears: its owner [n] or, if nobody owns it, a random one.

    The latter are drawn from ``clients`` in proportion to their examples.
    """
    drawn = rng.choice(data.owner()[np.isin(data.owner(), clients)], len(owners))
    return np.where(owners == NOBODY, drawn, owners)


def untransformed(data: Federation, examples: int) -> Floats:
    """Return strengths [examples] that leave examples as they are stored."""
    return np.full(examples, transforms.identity(data.prepare.transform), np.float32)


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model says about the examples that an attacker asks about.

    Attributes:
        outputs: [n] the model's outputs; ``member`` says whether a client trained on the example: on this model or,
            where ``left`` is True, formerly on this model.
        client: [n] the owner of an example; for a held-out one the client from whom it was held out, or whose transform
            it wears.
        left: [n] whether an example belongs to the comparison of clients that left.
    """

    outputs: Outputs
    client: Ints
    left: NDArray[np.bool_]

    def __getitem__(self, index: NDArray[np.bool_]) -> Answers:
        return Answers(self.outputs[index], self.client[index], self.left[index])


def data_problems(config: ShadowConfig, data: Federation) -> Problems:
    """Return what the attack lacks in the data: (field, sentence) pairs."""
    found = []
    if shadow_size(config, len(data.train), len(data.shadow)) < 1:
        sentence = (
            f"shadow_mia trains shadow models on the server's shadow set, which has {len(data.shadow)} examples of "
            f"{data.name}; it needs 2 or more, see data.shadow_size"
        )
        found.append(("", sentence))
    if not len(data.nonmembers):
        sentence = (
            f"shadow_mia compares members with examples that nobody trains on, and {data.name} has none left for that; a "
            "larger test part, or a larger share of held-out examples, leaves some"
        )
        found.append(("", sentence))
    return found


def ask(config: ShadowConfig, model: AttackedModel, rng: np.random.Generator) -> Answers:
    """Query the loaded model about its clients' records, about those of clients that left it, and about non-members.

    Each of the two groups of records is compared with non-members of its own, which wear the transforms of its clients.
    Raises DataError if there is no held-out example that can serve as a non-member.
    """
    parts = [_ask_about(config, model, model.cluster.clients, False, rng)]
    if len(model.cluster.left):
        # An independent generator, so that the comparison of those who left does not change the other one.
        parts.append(_ask_about(config, model, model.cluster.left, True, rng.spawn(1)[0]))
    return Answers(
        pool_outputs([part.outputs for part in parts]),
        np.concatenate([part.client for part in parts]),
        np.concatenate([part.left for part in parts]),
    )


def _ask_about(
    config: ShadowConfig, model: AttackedModel, clients: Ints, left: bool, rng: np.random.Generator
) -> Answers:
    """Query the model about records of ``clients`` and about non-members that look like them."""
    data = model.cluster.data
    inside = at_most(config.queries, np.flatnonzero(np.isin(data.owner(), clients)), rng)
    # An example held out from a client looks like that client's; it is unfair as a non-member of another client's model.
    held_out = (data.nonmember_owner == NOBODY) | np.isin(data.nonmember_owner, clients)
    if not held_out.any():
        raise DataError(f"{data.name} has no held-out example to compare with the {len(inside)} members of a cluster")
    outside = at_most(config.queries, np.flatnonzero(held_out), rng)
    worn = wear(data, clients, data.nonmember_owner[outside], rng)
    matched = config.nonmember_transform == "cluster"
    strengths = data.draw_strengths(worn, rng) if matched else untransformed(data, len(worn))
    stored, examples = data.nonmembers[outside], len(inside) + len(outside)
    logits = [model.network.logits(data.train.x[inside]), model.network.logits(data.prepare(stored.x, strengths))]
    labels = np.concatenate([data.train.y[inside], stored.y])
    outputs = Outputs(np.concatenate(logits), labels, np.arange(examples) < len(inside))
    return Answers(outputs, np.concatenate([data.owner()[inside], worn]), np.full(examples, left))


def at_most(limit: int, positions: Ints, rng: np.random.Generator) -> Ints:
    return np.sort(rng.choice(positions, limit, replace=False)) if len(positions) > limit else positions
