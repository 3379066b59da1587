"""Shadow models: models that the server trains itself, so that it knows which examples they were trained on.

A job holds everything that its model depends on besides the shadow set, the model and the training, and nothing of the
round. An unchanged cluster therefore gives an equal job, and a model that was trained for it before can be reused.
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
    from algorithms.core.configs import TrainingConfig
    from algorithms.core.network import Network
    from algorithms.interfaces import TrainingContract
    from datasets.components import Component

Role = Literal["shadow", "probe"]


@dataclass(frozen=True, eq=False)
class ShadowJob:
    """One shadow model to be trained.

    Attributes:
        members: positions in the shadow set of the examples that the model is trained on.
        nonmembers: as many other positions; the model is queried with these examples but not trained on them.
        strengths: [n shadow] transform strength of every example of the shadow set.
        target_accuracy: training stops after the first epoch whose accuracy on the members reaches this...
        max_epochs: ... or after this many epochs.
        seed: seed of the initial weights and of the order of batches.
        role: a "shadow" trains the attack; a "probe" instead shows how well the attack does without any client's data.
    """

    members: Ints
    nonmembers: Ints
    strengths: Floats
    target_accuracy: float
    max_epochs: int
    seed: int
    role: Role = "shadow"

    def key(self, extra: str) -> str:
        """Return a hexadecimal digest of the job and of ``extra``.

        Args:
            extra: describes what else the model depends on: the shadow set, the model, the training and the device.
        """
        digest = hashlib.sha256()
        scalars = (self.target_accuracy, self.max_epochs, self.seed, self.role, len(self.members), extra)
        digest.update(repr(scalars).encode())
        for array, kind in ((self.members, np.int64), (self.nonmembers, np.int64), (self.strengths, np.float32)):
            digest.update(np.ascontiguousarray(array, kind).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Shadow(Outputs):
    """The outputs of a trained shadow model on its members and non-members.

    Attributes:
        accuracy: accuracy on the members after the last epoch.
        epochs: epochs that it was trained for.
        role: the role of its job.
    """

    accuracy: float
    epochs: int
    role: Role = "shadow"


def train_shadow(
    job: ShadowJob,
    shadow: Examples,
    prepare: Preparation,
    network: Network,
    training: Component[TrainingContract, TrainingConfig],
) -> Shadow:
    """Train a job's model from scratch on its members, then query it with members and non-members.

    Args:
        job: the shadow model to train.
        shadow: the server's shadow set, stored examples.
        prepare: turns stored examples into model inputs.
        network: provides the torch module, which holds the shadow model afterwards.
        training: the clients' training component; its number of epochs is ignored.

    Raises:
        FloatingPointError: the training diverged.
    """
    from algorithms.engine.backends.loop import passes

    rng = np.random.default_rng(job.seed)
    drawn, size = np.concatenate([job.members, job.nonmembers]), len(job.members)
    x, y = prepare(shadow.x[drawn], job.strengths[drawn]), shadow.y[drawn]
    network.load(network.initial(rng))
    accuracy, epochs = 0.0, 0
    trained_on = Examples(x[:size], y[:size])
    for loss in islice(passes(network, trained_on, training, rng, prepare), job.max_epochs):
        if not np.isfinite(loss):
            raise FloatingPointError(f"a shadow model diverged in epoch {epochs + 1}: its training loss is {loss}")
        epochs += 1
        accuracy = float(np.mean(network.logits(x[:size]).argmax(axis=1) == y[:size]))
        if accuracy >= job.target_accuracy:
            break
    return Shadow(network.logits(x), y, np.arange(len(y)) < size, accuracy, epochs, job.role)


def pool_outputs(shadows: Sequence[Shadow], role: Role) -> Outputs:
    """Concatenate the outputs of all models with the given role."""
    chosen = [shadow for shadow in shadows if shadow.role == role]
    return Outputs(
        np.concatenate([shadow.logits for shadow in chosen]),
        np.concatenate([shadow.labels for shadow in chosen]),
        np.concatenate([shadow.member for shadow in chosen]),
    )
