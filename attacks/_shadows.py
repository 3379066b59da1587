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
from dataclasses import dataclass
from typing import Literal

import numpy as np

from attacks._shadow_config import ShadowConfig
from attacks.metrics.membership import Bools, Outputs
from datasets import transforms
from datasets.federation import Federation, Floats, Ints
from datasets.roles import NOBODY

Role = Literal["shadow", "probe"]


@dataclass(frozen=True, eq=False)
class ShadowJob:
    """One shadow model to be trained.

    Attributes:
        members: positions in the shadow set of the examples that the model is trained on, client after client.
        nonmembers: other positions; the model is queried with these examples but not trained on them.
        strengths: [n shadow] transform strength of every example of the shadow set.
        sizes: [clients] the number of members that each client of the shadow federation holds; empty: there is no
            federation, but a single model.
        rounds: rounds of the shadow federation.
        target_accuracy: a single model's training stops after the first epoch whose accuracy on the members reaches
            this...
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
        """Return a hexadecimal digest of the job and of ``extra``.

        Args:
            extra: describes what else the model depends on: the shadow set and the run.
        """
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
    """The outputs of a trained shadow model on its members and non-members.

    Attributes:
        accuracy: its accuracy on the members.
        epochs: epochs that it was trained for; in a federation, those of all rounds.
        role: the role of its job.
    """

    accuracy: float
    epochs: int
    role: Role = "shadow"


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

    Args:
        config: the component's fields.
        members: training examples of the attacked model's clients.
        available: examples of the shadow set.
    """
    half = min(config.shadow_examples, available) // 2
    return min(half, members) if config.size_matched or imitates(config) else half


def client_sizes(sizes: Ints, total: int) -> Ints:
    """Return how many examples the clients of a shadow federation hold, in proportion to those of the imitated clients.

    The sizes are rounded so that they add up to ``total``, largest remainders first; a client may get none.

    >>> client_sizes(np.array([10, 20, 30]), 30).tolist()
    [5, 10, 15]

    Args:
        sizes: [clients] numbers of training examples of the imitated clients.
        total: examples to distribute, at most the sum of ``sizes``.
    """
    exact = sizes * (total / sizes.sum())
    floors = np.floor(exact).astype(np.int64)
    first = np.argsort(floors - exact, kind="stable")[: total - floors.sum()]
    floors[first] += 1
    return floors


def wear(data: Federation, clients: Ints, owners: Ints, rng: np.random.Generator) -> Ints:
    """Return the client whose transform each example wears: its owner or, if nobody owns it, a random one, [n].

    Args:
        data: the federation.
        clients: the clients from whom those of nobody's examples are drawn, in proportion to their examples.
        owners: [n] the owner of each example; -1: nobody.
        rng: the generator.
    """
    drawn = rng.choice(data.owner()[np.isin(data.owner(), clients)], len(owners))
    return np.where(owners == NOBODY, drawn, owners)


def untransformed(data: Federation, examples: int) -> Floats:
    """Return strengths [examples] that leave examples as they are stored."""
    return np.full(examples, transforms.identity(data.prepare.transform), np.float32)
