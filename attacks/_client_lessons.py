"""What a client that attacks others learns from: its own training examples, and examples that nobody trained on.

    members:      all training examples of the attacker
    non-members:  its own test examples and the non-members held out from it; if these are fewer than ten, also examples
                  of nobody, out of a share of them that is set aside for attackers and that no attacker is asked about

What is set aside, and what each attacker gets of it, is the same for all models and in every round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from algorithms.interfaces import Problems
from attacks.metrics.membership import FEWEST_NONMEMBERS, Bools
from datasets.federation import Examples, Federation, Ints
from datasets.roles import NOBODY

if TYPE_CHECKING:
    from attacks.interfaces import Stream

FEWEST = FEWEST_NONMEMBERS  # members, and non-members, below which no threshold can be learned
RESERVED, CHOSEN, DRAWN = 21, 22, 23  # places of the streams


class Config(Protocol):
    """The fields of the attack that decide on who attacks and what it learns from."""

    @property
    def attackers(self) -> int | Literal["all"]:
        """Number of clients that attack."""

    @property
    def set_aside(self) -> float:
        """Share of the non-members of nobody that attackers without enough of their own learn from."""


def attackers(config: Config, data: Federation, stream: Stream) -> Ints:
    """Return the clients that attack, ascending: those with enough examples to learn from, or some of them."""
    able = _able(config, data)
    if config.attackers == "all" or config.attackers >= len(able):
        return able
    return np.sort(stream("attack_targets", 1, CHOSEN).choice(able, config.attackers, replace=False))


def reserved(config: Config, data: Federation, stream: Stream) -> Ints:
    """Return the positions of the non-members that are set aside for attackers; none if all have enough of their own."""
    size = _reserve_size(config, data)
    pool = np.flatnonzero(data.nonmember_owner == NOBODY)
    return np.sort(stream("attack_targets", 1, RESERVED).choice(pool, size, replace=False)) if size else pool[:0]


def lesson(config: Config, data: Federation, client: int, stream: Stream) -> tuple[Examples, Bools]:
    """Return the examples that ``client`` learns from, ready for the model, and whether each is a member [n]."""
    rng = stream("attack_targets", client, DRAWN)
    own = data.client(client)
    tests, outside = np.flatnonzero(data.test_owner == client), np.flatnonzero(data.nonmember_owner == client)
    if len(tests) + len(outside) < FEWEST:
        common = reserved(config, data, stream)
        wanted = min(len(common), max(len(own), FEWEST))
        outside = np.concatenate([outside, np.sort(rng.choice(common, wanted, replace=False))])
    stored = data.nonmembers[outside]
    prepared = data.prepare(stored.x, data.draw_strengths(np.full(len(outside), client), rng))
    x = [own.x, data.test.x[tests], prepared] if len(tests) else [own.x, prepared]
    labels = np.concatenate([own.y, data.test.y[tests], stored.y])
    return Examples(np.concatenate(x), labels), np.arange(len(labels)) < len(own)


def data_problems(config: Config, data: Federation) -> Problems:
    """List why no client can attack on ``data``: (field, sentence) pairs."""
    if not len(_able(config, data)):
        sentence = (
            f"client_mia needs a client with {FEWEST} training examples, and {FEWEST} that nobody trains on to learn from; "
            f"{data.name} has none: hold more out"
        )
        return [("", sentence)]
    left = len(data.nonmembers) - _reserve_size(config, data)
    if left < FEWEST:
        sentence = (
            f"leaves {left} of {len(data.nonmembers)} non-members of {data.name} to ask about, and {FEWEST} are needed; "
            "hold more out, or set less aside"
        )
        return [("set_aside", sentence)]
    return []


def _own_outside(data: Federation) -> Ints:
    """Count the examples that each client kept back [clients]."""
    owners = np.concatenate([data.test_owner, data.nonmember_owner])
    return np.bincount(owners[owners != NOBODY], minlength=data.clients)


def _reserve_size(config: Config, data: Federation) -> int:
    if (_own_outside(data) >= FEWEST).all():
        return 0
    return round(config.set_aside * int((data.nonmember_owner == NOBODY).sum()))


def _able(config: Config, data: Federation) -> Ints:
    outside = _own_outside(data)
    outside = np.where(outside < FEWEST, outside + _reserve_size(config, data), outside)
    return np.flatnonzero((data.sizes >= FEWEST) & (outside >= FEWEST))
