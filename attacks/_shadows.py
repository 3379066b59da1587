"""Shadow models: models that the server trains itself, so that it knows which examples they were trained on.

A job holds all that its model depends on besides the shadow set, the model and the training, and nothing of the round.
An unchanged cluster therefore gives an equal job, and a model that was trained for it before can be used again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Literal

import numpy as np

from attacks.metrics.membership import Outputs
from datasets.federation import Examples, Floats, Ints, Preparation

if TYPE_CHECKING:
    from algorithms.core.network import Network
    from algorithms.training.local_sgd import Config as Training

Role = Literal["shadow", "probe"]


@dataclass(frozen=True, eq=False)
class ShadowJob:
    """One shadow model to be trained.

    Attributes:
        members, nonmembers: positions in the shadow set, disjoint and equally many: trained on, and only looked at.
        strengths: [n shadow] the transform strength of every example of the shadow set.
        target_accuracy: training stops after the first epoch that reaches it on the members...
        max_epochs: ... or after this many.
        seed: of the initial weights and of the order of batches.
        role: a ``probe`` takes no part in training an attack and shows how well one does without any client's data.
    """

    members: Ints
    nonmembers: Ints
    strengths: Floats
    target_accuracy: float
    max_epochs: int
    seed: int
    role: Role = "shadow"

    def key(self, extra: str) -> str:
        """Hexadecimal digest of all that is in the job and of ``extra``: its data, model, training and device."""
        digest = hashlib.sha256()
        scalars = (self.target_accuracy, self.max_epochs, self.seed, self.role, len(self.members), extra)
        digest.update(repr(scalars).encode())
        for array, kind in ((self.members, np.int64), (self.nonmembers, np.int64), (self.strengths, np.float32)):
            digest.update(np.ascontiguousarray(array, kind).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Shadow(Outputs):
    """What a trained shadow model says of its members and non-members, its training ``accuracy`` and ``epochs``."""

    accuracy: float
    epochs: int
    role: Role = "shadow"


def train_shadow(
    job: ShadowJob, shadow: Examples, prepare: Preparation, network: Network, training: Training
) -> Shadow:
    """Train ``job``'s model from scratch on its half of the set ``shadow``, then look at both halves.

    ``network`` lends its module and is left holding the shadow model; ``training`` is the clients' own configuration,
    whose number of epochs does not count here. Raises FloatingPointError when the training diverges.
    """
    from algorithms.engine.backends.loop import passes

    rng = np.random.default_rng(job.seed)
    drawn, size = np.concatenate([job.members, job.nonmembers]), len(job.members)
    x, y = prepare(shadow.x[drawn], job.strengths[drawn]), shadow.y[drawn]
    network.load(network.initial(rng))
    accuracy, epochs = 0.0, 0
    for loss in islice(passes(network, x[:size], y[:size], training, rng, prepare), job.max_epochs):
        if not np.isfinite(loss):
            raise FloatingPointError(f"a shadow model diverged in epoch {epochs + 1}: its training loss is {loss}")
        epochs += 1
        accuracy = float(np.mean(network.logits(x[:size]).argmax(axis=1) == y[:size]))
        if accuracy >= job.target_accuracy:
            break
    return Shadow(network.logits(x), y, np.arange(len(y)) < size, accuracy, epochs, job.role)


def pool_outputs(shadows: Sequence[Shadow], role: Role) -> Outputs:
    """The outputs of all models with ``role``, one after another."""
    chosen = [shadow for shadow in shadows if shadow.role == role]
    return Outputs(
        np.concatenate([shadow.logits for shadow in chosen]),
        np.concatenate([shadow.labels for shadow in chosen]),
        np.concatenate([shadow.member for shadow in chosen]),
    )
