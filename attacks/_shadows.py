"""Shadow models: models that the server trains itself, so that it knows which examples they were trained on.

A shadow model imitates the attacked one. It is the result of a small federation with the same number of clients,
rounds, epochs, aggregation and privacy mechanism, whose clients hold examples of the server's shadow set; or, as an
alternative, a single model that is trained until it is as accurate on its examples as the attacked one is on its own.

A job holds everything that its model depends on besides the shadow set and the run. An equal job therefore gives an
equal model, and a model that was trained for it before can be reused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Literal
from zlib import crc32

import numpy as np

from algorithms.interfaces import Run
from attacks.metrics.membership import Bools, Outputs
from datasets.federation import Examples, Federation, Floats, Ints

if TYPE_CHECKING:
    from algorithms.core.network import Network

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


def train_shadow(job: ShadowJob, data: Federation, network: Network, run: Run) -> Shadow:
    """Train a job's model from scratch on its members, then query it with members and non-members.

    Args:
        job: the shadow model to train.
        data: the federation, with the server's shadow set.
        network: provides the torch module, which holds the shadow model afterwards.
        run: the run whose models are attacked.

    Raises:
        FloatingPointError: the training diverged.
    """
    drawn, size = np.concatenate([job.members, job.nonmembers]), len(job.members)
    asked = Examples(data.prepare(data.shadow.x[drawn], job.strengths[drawn]), data.shadow.y[drawn])
    train = _train_federation if len(job.sizes) else _train_single
    epochs = train(job, asked[:size], data, network, run)
    logits = network.logits(asked.x)
    accuracy = float(np.mean(logits[:size].argmax(axis=1) == asked.y[:size]))
    return Shadow(logits, asked.y, np.arange(len(drawn)) < size, accuracy, epochs, job.role)


def _train_federation(job: ShadowJob, members: Examples, data: Federation, network: Network, run: Run) -> int:
    """Train the model of a federation that imitates the run's; return its epochs."""
    from algorithms.engine.federation import train_model

    unused = np.setdiff1d(np.arange(len(data.shadow)), np.concatenate([job.members, job.nonmembers]))
    clients, nobody = len(job.sizes), np.empty(0, np.int64)
    imitation = replace(
        data,
        train=members,
        offsets=np.concatenate([[0], np.cumsum(job.sizes)]),
        groups=np.zeros(clients, np.int64),
        group_names=("shadow",),
        strengths=np.zeros(clients, np.float32),
        example_strengths=job.strengths[job.members],
        test=members[:0],
        test_owner=nobody,
        nonmembers=data.shadow[:0],
        nonmember_owner=nobody,
        # Where the server trains its first model on examples of its own, the shadow's server does so, on others.
        shadow=data.shadow[unused if len(unused) else job.members],
    )
    stream = lambda purpose, *place: np.random.default_rng([job.seed, crc32(purpose.encode()), *place])  # noqa: E731
    network.load(train_model(run, imitation, network, job.rounds, stream, job.took_part))
    return job.rounds * run.training.config.epochs


def _train_single(job: ShadowJob, members: Examples, data: Federation, network: Network, run: Run) -> int:
    """Train one model until it is accurate enough on ``members``; return its epochs."""
    from algorithms.engine.backends.loop import passes

    rng = np.random.default_rng(job.seed)
    network.load(network.initial(rng))
    epochs = 0
    for loss in islice(passes(network, members, run.training, rng, data.prepare), job.max_epochs):
        if not np.isfinite(loss):
            raise FloatingPointError(f"a shadow model diverged in epoch {epochs + 1}: its training loss is {loss}")
        epochs += 1
        if np.mean(network.logits(members.x).argmax(axis=1) == members.y) >= job.target_accuracy:
            break
    return epochs


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
