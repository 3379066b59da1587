"""The worlds of client inference's paired test: four federations that differ in one client's slot only.

    in         the federation as it is
    stand_in   the target's slot holds as many examples of the same classes from the server's shadow set
    zero       the target takes part and sends a zero update: the neighboring relation of a central guarantee
    reference  another stand-in, and no noise by the server: what an attacker could train who knows all other clients

The reference goes without noise, because noise that it shared with the other worlds would cancel in the score, and the
test would say that noise does not protect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from attacks.interfaces import Stream, World
from datasets.federation import DataError, Examples, Federation, Ints
from datasets.roles import NOBODY

Kind: TypeAlias = Literal["in", "stand_in", "zero", "reference"]
KINDS: tuple[Kind, ...] = ("in", "stand_in", "zero", "reference")
DRAWS = {"stand_in": 1, "reference": 2}  # not 0, because seed sequences do not see trailing zeros
MOST_OF_NOBODY = 2000  # records of nobody on which every model is measured


@dataclass(frozen=True)
class Replica:
    """A federation to be trained for the paired test.

    Attributes:
        world: how it differs from the run.
        number: the number of its pair, which selects the random numbers of all four worlds.
        rounds: the number of rounds.
    """

    world: Kind
    number: int
    rounds: int


def pairs(count: int, rounds: int) -> tuple[Replica, ...]:
    """Return the federations of ``count`` pairs."""
    return tuple(Replica(world, number, rounds) for number in range(count) for world in KINDS)


def world_of(data: Federation, target: int, replica: Replica, stream: Stream) -> World:
    """Return what a replica is trained on.

    Args:
        data: the federation of the run.
        target: the attacked client.
        replica: the replica.
        stream: returns the generators of the run.

    Raises:
        DataError: there is no stand-in for the target.
    """
    if replica.world == "in":
        return World(data)
    if replica.world == "zero":
        return World(data, silent=(target,))
    rng = stream("replicas", replica.number, DRAWS[replica.world])
    return World(with_stand_in(data, target, rng), noisy=replica.world == "stand_in")


def with_stand_in(data: Federation, target: int, rng: np.random.Generator) -> Federation:
    """Return the federation in which other examples of the same classes hold the target's slot.

    They are drawn from the shadow set and get the target's transforms. Where a class has fewer examples there than the
    target has, they are repeated evenly.

    Args:
        data: the federation.
        target: the client that is replaced.
        rng: draws the examples and their transforms.

    Raises:
        DataError: the shadow set has no example of a class of the target's.
    """
    if lack := lacking(data, target):
        raise DataError(lack)
    own, labels = slice(data.offsets[target], data.offsets[target + 1]), data.client(target).y
    rows = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        places = np.flatnonzero(labels == label)
        rows[places] = _drawn(np.flatnonzero(data.shadow.y == label), len(places), rng)
    strengths = data.draw_strengths(np.full(len(rows), target), rng)
    x, example_strengths = data.train.x.copy(), data.example_strengths.copy()
    x[own], example_strengths[own] = data.prepare(data.shadow.x[rows], strengths), strengths
    return replace(data, train=Examples(x, data.train.y), example_strengths=example_strengths)


def _drawn(available: Ints, size: int, rng: np.random.Generator) -> Ints:
    """Return ``size`` of the available examples in random order, none more than once more often than another."""
    rounds = -(-size // len(available))
    return np.concatenate([rng.permutation(available) for _ in range(rounds)])[:size]


def lacking(data: Federation, target: int) -> str:
    """Return why there is no stand-in for the target; empty if there is one."""
    if not len(data.shadow):
        return f"a stand-in for client {target} needs a shadow set of the server, and {data.name} gives it none"
    missing = sorted(set(data.client(target).y.tolist()) - set(data.shadow.y.tolist()))
    if not missing:
        return ""
    classes = f"class {missing[0]}" if len(missing) == 1 else f"classes {', '.join(map(str, missing))}"
    return (
        f"a stand-in for client {target} needs examples of all of its classes, and none of the {len(data.shadow)} "
        f"in the server's shadow set is of {classes}"
    )


def distinct(data: Federation, target: int) -> float:
    """Return the share of distinct examples among a stand-in's."""
    needed, held = (np.bincount(y, minlength=data.classes) for y in (data.client(target).y, data.shadow.y))
    return float(np.minimum(needed, held).sum() / needed.sum())


def attacker_examples(data: Federation, target: int, shadow: Literal["subset", "disjoint"], share: float) -> Examples:
    """Return the target's examples that the attacker holds.

    They are a share of its training examples or of its own test examples, evenly spaced in the client's order, so every
    model is queried with the same examples.

    Args:
        data: the federation.
        target: the attacked client.
        shadow: its training examples ("subset") or its own test examples ("disjoint").
        share: the share of them.

    Raises:
        DataError: the target has no test examples of its own.
    """
    own = data.client(target) if shadow == "subset" else data.test[data.test_owner == target]
    if not len(own):
        raise DataError(f"client {target} of {data.name} has no test examples of its own; use shadow: subset")
    return own[_spaced(len(own), max(1, round(share * len(own))))]


def records_of_nobody(data: Federation, target: int) -> Examples:
    """Return examples that neither the target nor its stand-in trains on, evenly spaced, 2 000 at most.

    They are non-members that were not held out from the target, in their order; where there are none, test examples
    that are not the target's. Non-members of nobody get the clients' transforms in turn.
    """
    held = np.flatnonzero(data.nonmember_owner != target)
    if not len(held):
        tests = data.test[data.test_owner != target]
        return tests[_spaced(len(tests), min(len(tests), MOST_OF_NOBODY))]
    held = held[_spaced(len(held), min(len(held), MOST_OF_NOBODY))]
    owner = data.nonmember_owner[held]
    wearer = np.where(owner == NOBODY, np.arange(len(held)) % data.clients, owner)
    chosen = data.nonmembers[held]
    return Examples(data.prepare(chosen.x, data.strengths[wearer]), chosen.y)


def _spaced(size: int, count: int) -> Ints:
    return np.linspace(0, size - 1, count).round().astype(np.int64)


def paired_scores(
    found: Sequence[tuple[Replica, Mapping[int, Mapping[str, float]]]], round_: int, losses: str, reference: bool
) -> dict[str, np.ndarray]:
    """Return the scores of the three worlds that are compared, of the pairs that are complete.

    Args:
        found: for each replica, its losses by round; a federation that diverged lacks rounds.
        round_: the round that is scored.
        losses: the name of the loss that is scored.
        reference: whether the score is relative to the loss of the pair's reference model.

    Returns:
        "in", "stand_in" and "zero": [pairs] the reference's loss, or 0, minus the world's.
    """
    held: dict[int, dict[str, float]] = {}
    for replica, by_round in found:
        if round_ in by_round and np.isfinite(loss := by_round[round_][losses]):
            held.setdefault(replica.number, {})[replica.world] = loss
    complete = [one for _, one in sorted(held.items()) if len(one) == len(KINDS)]
    base = np.array([one["reference"] * reference for one in complete])
    return {world: base - np.array([one[world] for one in complete]) for world in KINDS if world != "reference"}
