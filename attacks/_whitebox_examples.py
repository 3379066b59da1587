"""The examples of the white-box attack: those that it asks about, and those of the trainer that it learns from.

    members of a client:      training examples of its own
    its non-members:          its own test examples, else the non-members held out from it, else those of nobody
    if the trainer, too, can only have those of nobody: a part of them is reserved for it, and the others share the rest

So no example that the attack learns from as a non-member was trained on by anybody, in whatever round, and none of them
is asked about later. What is drawn is the same in every round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from algorithms.interfaces import Problems
from attacks.metrics.membership import FEWEST_NONMEMBERS
from datasets.federation import Examples, Federation, Ints
from datasets.roles import NOBODY

if TYPE_CHECKING:
    from attacks.interfaces import Stream


class Config(Protocol):
    """The fields of the attack that decide on its examples."""

    @property
    def trainer(self) -> int:
        """The client whose examples the attack learns from."""

    @property
    def queries(self) -> int:
        """Most members, and most non-members, of a client."""


def attacked_examples(config: Config, data: Federation, client: int, stream: Stream) -> tuple[Examples, Examples]:
    """Draw members and non-members of ``client``, ready for the model: equally many, and the same in every round.

    Those of the trainer are what the attack learns from.
    """
    rng = stream("attack_targets", client, 1)
    in_test_set, outside = held_out(config, data, client, stream)
    size = min(config.queries, int(data.sizes[client]), len(outside))
    inside = np.sort(rng.choice(int(data.sizes[client]), size, replace=False))
    outside = np.sort(rng.choice(outside, size, replace=False))
    if in_test_set:
        return data.client(client)[inside], data.test[outside]
    stored = data.nonmembers[outside]
    strengths = data.draw_strengths(np.full(size, client), rng)
    return data.client(client)[inside], Examples(data.prepare(stored.x, strengths), stored.y)


def held_out(config: Config, data: Federation, client: int, stream: Stream) -> tuple[bool, Ints]:
    """Find the examples that may be non-members of ``client``.

    Returns:
        Whether they are in the test set (and not among the non-members), and their positions there.
    """
    if (data.test_owner == client).any():
        return True, np.flatnonzero(data.test_owner == client)
    if (data.nonmember_owner == client).any():
        return False, np.flatnonzero(data.nonmember_owner == client)
    pool = np.flatnonzero(data.nonmember_owner == NOBODY)
    size = _reserved(config, data, len(pool))
    reserved = stream("attack_targets", config.trainer, 2).choice(pool, size, replace=False)
    return False, np.sort(reserved) if client == config.trainer else np.setdiff1d(pool, reserved)


def _reserved(config: Config, data: Federation, pool: int) -> int:
    """Return how many of the ``pool`` examples of nobody are the trainer's: none if it held out some of its own.

    If other clients need examples of nobody as well, the trainer gets no more than half of them.
    """
    without = np.setdiff1d(np.arange(data.clients), np.concatenate([data.test_owner, data.nonmember_owner]))
    if config.trainer not in without:
        return 0
    return min(config.queries, pool // 2 if len(without) > 1 else pool)


def data_problems(config: Config, data: Federation) -> Problems:
    """List why the attack cannot be made on ``data``: (field, sentence) pairs."""
    trainer, fewest = config.trainer, FEWEST_NONMEMBERS
    if data.sizes[trainer] < fewest:
        sentence = (
            f"whitebox_mia learns on client {trainer}, which has {data.sizes[trainer]} training examples; it needs "
            f"{fewest}: set trainer to a client with more"
        )
        return [("trainer", sentence)]
    if (found := _count(config, data, trainer)) < fewest:
        sentence = (
            f"whitebox_mia needs {fewest} examples that nobody trains on to learn from, beside those that it asks about, "
            f"but {data.name} has only {found} for client {trainer}, its trainer; hold more out, or set another trainer"
        )
        return [("trainer", sentence)]
    others = (client for client in range(data.clients) if client != trainer)
    if not any(min(_count(config, data, client), data.sizes[client]) >= fewest for client in others):
        sentence = (
            f"whitebox_mia needs a client besides its trainer {trainer} with {fewest} training examples and {fewest} that "
            f"nobody trains on; {data.name} has none: hold more out"
        )
        return [("trainer", sentence)]
    return []


def _count(config: Config, data: Federation, client: int) -> int:
    """Count what `held_out` finds; which examples are drawn is of no account here."""
    return len(held_out(config, data, client, lambda *_place: np.random.default_rng(0))[1])
