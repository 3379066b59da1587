"""Which examples of the clients are attacked in their updates, and the losses of every model of a block on them.

Source inference and FedMIA read the same matrix. If they attack the same examples, it is computed once for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from attacks.metrics import membership
from datasets.federation import DataError, Examples, Federation, Ints, examples_of_both

if TYPE_CHECKING:
    from attacks.interfaces import SeenUpdates, Stream

Doubles = NDArray[np.float64]


class Config(Protocol):
    """The fields of an attack that decide on its targets."""

    @property
    def targets(self) -> int:
        """Most attacked examples of a client."""

    @property
    def pool(self) -> Literal["training", "all"]:
        """Whether a client's test examples may be attacked, too."""


def targets(config: Config, data: Federation, stream: Stream) -> Ints:
    """Draw the attacked examples of every client, equally many of each; the draw depends on the seed, not on the round.

    Args:
        config: the component's fields.
        data: the federation.
        stream: returns generators that are the same in every round.

    Returns:
        [clients, n] positions, which count the training examples first and then the test examples.

    Raises:
        DataError: a client has no example to attack.
    """
    pools = [_pool(config, data, i) for i in range(data.clients)]
    size = min(config.targets, *map(len, pools))
    if size < 1:
        raise DataError(f"source inference needs 1 training example or more of every client of {data.name}")
    drawn = [stream("attack_targets", i).choice(own, size, replace=False) for i, own in enumerate(pools)]
    return np.sort(drawn, axis=1)


def _pool(config: Config, data: Federation, client: int) -> Ints:
    trained_on = np.arange(data.offsets[client], data.offsets[client + 1])
    tested_on = len(data.train) + np.flatnonzero(data.test_owner == client)
    return trained_on if config.pool == "training" else np.concatenate([trained_on, tested_on])


def targets_seen(config: Config, seen: SeenUpdates) -> Ints:
    """Return the `targets` [clients, n] of a round, drawn once for all attacks on the block that ask for as many."""
    key = "targets", config.targets, config.pool
    return seen.once(key, lambda: targets(config, seen.data, seen.stream))


def examples_at(data: Federation, places: Ints) -> Examples:
    """Return the examples at ``places`` [n], which count the training examples first and then the test examples."""
    return examples_of_both(data.train, data.test, places)


def target_losses(seen: SeenUpdates, places: Ints) -> Doubles:
    """Compute the losses of a block's c models on the examples at ``places`` [n]: [c, n] in nats.

    They are computed once for all attacks that ask for the same places; nobody may change them.
    """
    return seen.once(("losses", places.tobytes()), lambda: model_losses(seen, examples_at(seen.data, places)))


def model_losses(seen: SeenUpdates, examples: Examples) -> Doubles:
    """Compute the losses of a block's c models on examples, [c, n] in nats.

    The models are used as the server receives them (with each client's own running statistics), in evaluation mode, and
    all are queried with the same examples in the same order.
    """
    from algorithms.core.messages import Weights

    losses = np.empty((len(seen.clients), len(examples)))
    updates = zip(losses, seen.params, seen.buffers, strict=True) if len(examples) else ()
    for row, own, statistics in updates:
        seen.network.load(Weights(own, statistics))
        # Exact where the probability rounds to 1; otherwise all overfitted models would tie at 0, in favor of the first.
        row[:] = membership.losses(seen.network.logits(examples.x), examples.y)
    return losses
