"""The examples that attackers ask about: which are drawn, and how held-out ones come to look like clients' own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datasets import transforms
from datasets.federation import Examples, Federation, Floats, Ints
from datasets.roles import NOBODY

NONE = np.empty(0, np.int64)


def at_most(limit: int, positions: Ints, rng: np.random.Generator) -> Ints:
    """Return the positions, or so many of them, drawn and in order."""
    return np.sort(rng.choice(positions, limit, replace=False)) if len(positions) > limit else positions


def wear(data: Federation, clients: Ints, owners: Ints, rng: np.random.Generator) -> Ints:
    """Return the client whose transform each example wears: its owner [n] or, if nobody owns it, a random one.

    The latter are drawn from ``clients`` in proportion to their examples.
    """
    drawn = rng.choice(data.owner()[np.isin(data.owner(), clients)], len(owners))
    return np.where(owners == NOBODY, drawn, owners)


def untransformed(data: Federation, examples: int) -> Floats:
    """Return strengths [examples] that leave examples as they are stored."""
    return np.full(examples, transforms.identity(data.prepare.transform), np.float32)


def dressed(data: Federation, stored: Examples, wearer: Ints | int, rng: np.random.Generator) -> Examples:
    """Return stored examples with the transforms of their ``wearer`` [n], ready for the model."""
    strengths = data.draw_strengths(np.broadcast_to(wearer, len(stored)), rng)
    return Examples(data.prepare(stored.x, strengths), stored.y)


def kept_back(data: Federation) -> Ints:
    """Count the test examples and non-members of each client's own, [clients]."""
    owners = np.concatenate([data.test_owner, data.nonmember_owner])
    return np.bincount(owners[owners != NOBODY], minlength=data.clients)


@dataclass(frozen=True, eq=False)
class Asked:
    """Training examples of some clients, and non-members that look like them, ready for the model; n in all."""

    inside: Examples
    outside: Examples
    owner: Ints  # [n] the client whose own example it is, trained on or held out; -1: nobody's
    worn: Ints  # [n] the client whose transform it wears

    @property
    def labels(self) -> Ints:
        """[n]."""
        return np.concatenate([self.inside.y, self.outside.y])

    @property
    def member(self) -> NDArray[np.bool_]:
        """[n] whether the example was trained on."""
        return np.arange(len(self.owner)) < len(self.inside)


def asked(
    limit: int, data: Federation, clients: Ints, rng: np.random.Generator, aside: Ints = NONE, transformed: bool = True
) -> Asked:
    """Draw training examples of ``clients`` and held-out ones, so many of each at most.

    The non-members ``aside`` are not drawn.
    """
    inside = at_most(limit, np.flatnonzero(np.isin(data.owner(), clients)), rng)
    # An example held out from a client looks like that client's; it is unfair as a non-member of another client's model.
    held_out = (data.nonmember_owner == NOBODY) | np.isin(data.nonmember_owner, clients)
    held_out[aside] = False
    outside = at_most(limit, np.flatnonzero(held_out), rng)
    stored, owner = data.nonmembers[outside], data.nonmember_owner[outside]
    worn = wear(data, clients, owner, rng)
    strengths = data.draw_strengths(worn, rng) if transformed else untransformed(data, len(worn))
    others = Examples(data.prepare(stored.x, strengths), stored.y)
    members = data.owner()[inside]
    return Asked(data.train[inside], others, np.concatenate([members, owner]), np.concatenate([members, worn]))


def set_aside(share: float, sides: Iterable[NDArray[np.bool_]], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw a share of the examples of each of several ``sides`` [n]: whether an example was drawn [n]."""
    sides = list(sides)
    aside = np.zeros(len(sides[0]), bool)
    for side in sides:
        drawn = rng.permutation(np.flatnonzero(side))
        aside[drawn[: round(share * len(drawn))]] = True
    return aside
