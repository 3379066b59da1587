"""The examples that attackers ask about: which are drawn, and how held-out ones come to look
like clients' own.

Source inference and FedMIA read the same losses, of every model of a block on the same examples. If
they attack the same ones, the losses are computed once for both. A passive server (FedMIA) asks
about members and non-members of every client, the same in all rounds:

    members of a client             its own training examples, those that source inference attacks, too
    outside       its own held-out and test examples, if it has ten, and non-members were held out from it or fewer than
                  ten are nobody's; else examples of nobody with the client's transform
    other_client  members of the other clients: "is this example this client's?" instead of "did anybody train on it?"

The released code of FedMIA draws non-members anew for every client and round. A non-member's scores
are then averaged over different examples, which draws the averages together, and members stand out
who are no more exposed than before. Here an example is fixed before the first round, so that the
score of a non-member is an average over rounds like any member's.

Where clients have labels of their own and non-members are nobody's, a label would tell that an
example is none of a client's. So what is measured takes non-members as if they had the client's
labels (`metrics.client_auc`).

By references the server learns what a model makes of a label, whoever has the example
(`metrics.out_worlds.centered`): examples of its shadow set or, without one, non-members of nobody
that are not compared. They get every client's transform in turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
from pydantic import Field

from algorithms.core.messages import Doubles, Weights
from algorithms.interfaces import Problems, Run
from attacks.metrics import membership
from attacks.metrics.membership import FEWEST_NONMEMBERS, Bools
from datasets import transforms
from datasets.components import Config, read_when
from datasets.federation import (
    DataError,
    Examples,
    Federation,
    Floats,
    Ints,
    examples_of_both,
    joined,
)
from datasets.roles import NOBODY

if TYPE_CHECKING:
    from attacks.interfaces import SeenUpdates, Stream

NONE = np.empty(0, np.int64)
SIDES = 15  # place of a stream


class TargetsConfig(Config):
    """The fields of an attack that asks about training examples of every client, round after
    round.
    """

    every: int = Field(1, ge=1, description="rounds from one attack to the next")
    targets: int = Field(
        100, ge=1, description="attacked examples of each client; at most what the smallest one has"
    )


class ComparedConfig(TargetsConfig):
    """The fields of an attack that compares a client's members with other examples."""

    # A TPR at 1 % needs a hundred. More would sharpen its threshold, and cost an evaluation of
    # every model on each of them.
    compared: int = Field(
        100,
        ge=FEWEST_NONMEMBERS,
        description="non-members of each client; at most what is held out",
    )


class CenteredConfig(ComparedConfig):
    """The fields of an attack by what is unusual for an example's label."""

    # What a label does to all its examples is no example's own. On 16 clients with 30 digits each,
    # FedMIA's AUC is 0.82 centered and 0.63 as published; sums have 0.60 and 0.57.
    center: Literal["label", "none"] = Field(
        "label",
        description=(
            "what signals are less of: the mean on references of the label, or nothing (published)"
        ),
    )
    references: int = Field(
        200,
        ge=FEWEST_NONMEMBERS,
        description="examples of the server's shadow set on which means are measured, at most",
        json_schema_extra=read_when(center="label"),
    )


def at_most(limit: int, positions: Ints, rng: np.random.Generator) -> Ints:
    """Return the positions, or so many of them, drawn and in order."""
    return (
        np.sort(rng.choice(positions, limit, replace=False))
        if len(positions) > limit
        else positions
    )


def resembled_clients(
    data: Federation, clients: Ints, owners: Ints, rng: np.random.Generator
) -> Ints:
    """Return the client whose transform each example gets: its owner [n] or, if nobody owns it,
    a random one.

    The latter are drawn from ``clients`` in proportion to their examples.
    """
    resembled = rng.choice(data.owner()[np.isin(data.owner(), clients)], len(owners))
    return np.where(owners == NOBODY, resembled, owners)


def untransformed(data: Federation, examples: int) -> Floats:
    """Return strengths [examples] that leave examples as they are stored."""
    return np.full(examples, transforms.identity(data.prepare.transform), np.float32)


def transformed(
    data: Federation, stored: Examples, clients: Ints | int, rng: np.random.Generator
) -> Examples:
    """Return stored examples with the transforms of ``clients`` [n], ready for the model."""
    strengths = data.draw_strengths(np.broadcast_to(clients, len(stored)), rng)
    return Examples(data.prepare(stored.x, strengths), stored.y)


def held_out_sizes(data: Federation) -> Ints:
    """Count the test examples and non-members of each client's own, [clients]."""
    owners = np.concatenate([data.test_owner, data.nonmember_owner])
    return np.bincount(owners[owners != NOBODY], minlength=data.clients)


# What is asked of a model


@dataclass(frozen=True, eq=False)
class Asked:
    """Training examples of some clients, and non-members that look like them, ready for the
    model; n in all.
    """

    inside: Examples
    outside: Examples
    # [n] where the examples are, the training examples of all clients first, then the non-members
    place: Ints
    owner: Ints  # [n] the client whose own example it is, trained on or held out; -1: nobody's
    resembled: Ints  # [n] the client whose transform it has

    @property
    def labels(self) -> Ints:
        """[n]."""
        return np.concatenate([self.inside.y, self.outside.y])

    @property
    def member(self) -> Bools:
        """[n] whether the example was trained on."""
        return np.arange(len(self.owner)) < len(self.inside)


def draw_queries(
    limit: int,
    data: Federation,
    clients: Ints,
    rng: np.random.Generator,
    aside: Ints = NONE,
    matched: bool = True,
) -> Asked:
    """Draw training examples of ``clients`` and held-out ones, so many of each at most.

    The non-members ``aside`` are not drawn. Without ``matched``, held-out examples are not
    transformed.
    """
    inside = at_most(limit, np.flatnonzero(np.isin(data.owner(), clients)), rng)
    # An example held out from a client looks like that client's; it is unfair as a non-member of
    # another client's model.
    available = (data.nonmember_owner == NOBODY) | np.isin(data.nonmember_owner, clients)
    available[aside] = False
    outside = at_most(limit, np.flatnonzero(available), rng)
    stored = data.nonmembers[outside]
    owner = data.nonmember_owner[outside]
    members = data.owner()[inside]
    resembled = resembled_clients(data, clients, owner, rng)
    if matched:
        shown = transformed(data, stored, resembled, rng)
    else:
        shown = Examples(data.prepare(stored.x, untransformed(data, len(stored))), stored.y)
    place = np.concatenate([inside, len(data.train) + outside])
    whose = (np.concatenate([members, others]) for others in (owner, resembled))
    return Asked(data.train[inside], shown, place, *whose)


def set_aside(share: float | Literal["auto"], data: Federation, stream: Stream) -> Bools:
    """Return which examples serve the risk by which clients choose, and nothing else, by their
    `Asked.place`.

    Whoever chooses the model with the lower risk also chooses errors that are too low. So what is
    reported is measured on other examples than what was published in this round or an earlier one:
    in all of them the same are set aside, a ``share`` of each client's examples and of nobody's,
    one more or less. ``auto``, if not resolved, is none.
    """
    owners = np.concatenate([data.owner(), data.nonmember_owner])
    outside = np.arange(len(owners)) >= len(data.train)
    number = np.arange(len(owners) + 1)
    order = np.lexsort((stream("attack_targets", 0, SIDES).random(len(owners)), owners, outside))
    aside = np.empty(len(owners), bool)
    aside[order] = np.diff(np.floor(number * (0 if share == "auto" else share))) > 0
    return aside


# What is asked of clients' updates


def targets(data: Federation, stream: Stream, most: int, tests: bool = False) -> Ints:
    """Draw the attacked examples of every client, equally many of each: [clients, n]. Raises
    DataError if one has none.

    The positions count the training examples first and then the test examples, of which clients'
    own are drawn with ``tests``; they depend on the seed, not on the round.
    """
    pools = []
    for client in range(data.clients):
        own_tests = len(data.train) + np.flatnonzero((data.test_owner == client) & tests)
        pools.append(
            np.append(np.arange(data.offsets[client], data.offsets[client + 1]), own_tests)
        )
    size = min(most, *map(len, pools))
    if size < 1:
        raise DataError(
            f"source inference needs 1 training example or more of every client of {data.name}"
        )
    places = [
        stream("attack_targets", i).choice(pool, size, replace=False)
        for i, pool in enumerate(pools)
    ]
    return np.sort(places, axis=1)


def target_losses(seen: SeenUpdates, places: Ints) -> Doubles:
    """Compute the losses of a block's c models on the `targets` at ``places`` [n]: [c, n] in nats.

    They are computed once for all attacks that ask for the same places; nobody may change them.
    """
    examples = examples_of_both(seen.data.train, seen.data.test, places)
    return seen.once(("losses", places.tobytes()), lambda: model_losses(seen, examples))


def model_losses(seen: SeenUpdates, examples: Examples) -> Doubles:
    """Compute the losses of a block's c models on examples, [c, n] in nats.

    The models are used as the server receives them (with each client's own running statistics), in
    evaluation mode, and all are queried with the same examples in the same order.
    """
    losses = np.empty((len(seen.clients), len(examples)))
    updates = zip(losses, seen.params, seen.buffers, strict=True) if len(examples) else ()
    for row, params, statistics in updates:
        seen.network.load(Weights(params, statistics))
        # Exact where the probability rounds to 1; otherwise all overfitted models would tie at 0,
        # in favor of the first.
        row[:] = membership.losses(seen.network.logits(examples.x), examples.y)
    return losses


@dataclass(frozen=True, eq=False)
class Queries:
    """The R examples that a passive server asks about, and references; they depend on the seed,
    not on the round.

    They have numbers: first all clients' members, client by client, and then ``outside``.
    """

    members: Ints  # [clients, n] positions of members among the training examples
    numbers: Ints  # [clients, n + m] numbers of each client's members, and then of its non-members
    examples: Ints  # [clients, n + m] the same, but equal where one example has two transforms
    outside: Examples  # non-members that are no client's members, ready for the model
    references: Examples  # ready for the model, r for each transform; none if nothing is centered
    labels: Ints  # [R]
    # [R] number of each example's transform, that of its client; 0 if there are no transforms
    transforms: Ints
    reference_labels: Ints  # [r] of the references with any transform


# The queries that were drawn last of a federation, by what they depend on besides: to transform
# them takes longer than to evaluate them.
_REMEMBERED: WeakKeyDictionary[Federation, dict[tuple[Any, ...], Queries]] = WeakKeyDictionary()


def queries_of(config: Any, data: Federation, stream: Stream) -> Queries:
    """Return what a passive server asks about a federation without `comparison_problems`; nobody
    may change it.
    """
    read = [
        getattr(config, name, None)
        for name in ("targets", "compared", "nonmembers", "center", "references")
    ]
    key = (
        *read,
        int(stream("attack_targets", 0, 11).integers(2**62)),
    )  # tells streams of different seeds apart
    drawn = _REMEMBERED.setdefault(data, {})
    if key not in drawn:
        drawn[key] = _drawn_queries(config, data, stream)
    return drawn[key]


def cohort_problems(name: str, run: Run, fewest: int) -> Problems:
    """Say if in every round fewer than so many clients take part, whom an attack of this name
    compares.
    """
    clients = run.data.config.clients
    sampled = run.participation == "fixed"
    cohort = max(1, round(run.participation_rate * clients)) if sampled else clients
    if cohort >= fewest:
        return []
    sentence = (
        f"{name} needs at least {fewest} participating clients per round, but {cohort} of "
        f"{clients} take part"
    )
    if sampled and clients >= fewest:
        return [("", f"{sentence}; raise participation_rate, which is {run.participation_rate:g}")]
    return [("", f"{sentence}; raise data.clients")]


def comparison_problems(name: str, config: Any, data: Federation) -> Problems:
    """List why an attack of this name has no members or too few non-members on ``data``: (field,
    sentence) pairs.
    """
    if data.sizes.min() < 1:
        return [
            (
                "targets",
                f"{name} asks about training examples of every client, and one of "
                f"{data.name} has none",
            )
        ]
    others = config.nonmembers == "other_client"
    offered = "nonmembers" in type(config).model_fields
    most = min(config.compared, (data.clients - 1) * int(min(config.targets, data.sizes.min())))
    count = most if others else outsiders(config, data)
    if count < FEWEST_NONMEMBERS:
        remedy = (
            "raise targets"
            if others
            else "hold more out" + ", or set nonmembers: other_client" * offered
        )
        sentence = (
            f"{name} compares every client with {FEWEST_NONMEMBERS} non-members or more, and "
            f"{data.name} has"
        )
        return [
            (
                "nonmembers" if offered or others else "compared",
                f"{sentence} {count} for one of them; {remedy}",
            )
        ]
    return []


def problems(name: str, config: Any, data: Federation) -> Problems:
    """List `comparison_problems`, and why labels cannot be centered: (field, sentence) pairs."""
    left = len(data.shadow) or int((data.nonmember_owner == NOBODY).sum()) - of_nobody(config, data)
    conflicts = comparison_problems(name, config, data)
    if not conflicts and config.center == "label" and left < FEWEST_NONMEMBERS:
        sentence = (
            f"{name} centers by {FEWEST_NONMEMBERS} examples or more of the server's shadow "
            "set, and"
        )
        return [
            (
                "center",
                f"{sentence} {data.name} has {left}; raise data.shadow_size, or set center: none",
            )
        ]
    return conflicts


def _drawn_queries(config: Any, data: Federation, stream: Stream) -> Queries:
    members = targets(data, stream, config.targets)
    plain = data.prepare.transform == "none"
    inside = np.arange(members.size).reshape(members.shape)
    own_held_out = holds_out(data)
    size = outsiders(config, data)
    nobodys = np.flatnonzero(data.nonmember_owner == NOBODY)
    compared = nobodys[:0]
    count = of_nobody(config, data)
    if count:
        compared = np.sort(stream("attack_targets", 0, 9).choice(nobodys, count, replace=False))

    def like(stored: Examples, client: int) -> Examples:
        return transformed(data, stored, client, stream("attack_targets", client, 7))

    if config.nonmembers == "other_client":
        outside = data.train[:0]
        numbers = of_others(config, members, stream)
        examples = numbers
    elif plain and not own_held_out.any():
        # All clients are compared with the same examples, which look the same for all.
        outside = like(data.nonmembers[compared], 0)
        numbers = examples = members.size + np.tile(np.arange(size), (data.clients, 1))
    else:
        parts = []
        for i in range(data.clients):
            tests = data.test[:0]
            stored = data.nonmembers[compared]
            if own_held_out[i]:
                tests, stored = _own(data, i, size, stream)
            parts += [tests, like(stored, i)]
        outside = joined(parts)
        each = np.arange(data.clients * size).reshape(-1, size)
        numbers = members.size + each
        examples = members.size + np.where(own_held_out[:, None], size + each, np.arange(size))
    stored = data.shadow if len(data.shadow) else data.nonmembers[np.setdiff1d(nobodys, compared)]
    references = data.train[:0]
    if config.center != "none":
        chosen = stream("attack_targets", 0, 13).choice(
            len(stored), min(config.references, len(stored)), replace=False
        )
        candidates = stored[np.sort(chosen)]
        references = joined([like(candidates, i) for i in range(1 if plain else data.clients)])
    sides = [
        np.repeat(np.arange(data.clients), count // data.clients)
        for count in (members.size, len(outside))
    ]
    return Queries(
        members=members,
        numbers=np.concatenate([inside, numbers], axis=1),
        examples=np.concatenate([inside, examples], axis=1),
        outside=outside,
        references=references,
        labels=np.concatenate([data.train.y[members.ravel()], outside.y]),
        transforms=np.zeros(members.size + len(outside), np.int64)
        if plain
        else np.concatenate(sides),
        reference_labels=references.y if plain else references.y[: len(references) // data.clients],
    )


def of_others(config: Any, members: Ints, stream: Stream) -> Ints:
    """Draw numbers of the other clients' members for every client, [clients, m]."""
    clients, n = members.shape
    most = (clients - 1) * n
    size = min(config.compared, most)
    draws = [
        stream("attack_targets", i, 5).choice(most, size, replace=False) for i in range(clients)
    ]
    numbers = np.sort(draws, axis=1)
    # The client's own n members are left out.
    return numbers + np.where(numbers >= n * np.arange(clients)[:, None], n, 0)


def _own(data: Federation, client: int, size: int, stream: Stream) -> tuple[Examples, Examples]:
    """Draw non-members among a client's test examples, which have its transform, and its
    held-out ones, which do not.
    """
    tests, stored = (
        np.flatnonzero(owner == client) for owner in (data.test_owner, data.nonmember_owner)
    )
    places = np.sort(
        stream("attack_targets", client, 5).choice(len(tests) + len(stored), size, replace=False)
    )
    first = places < len(tests)
    return data.test[tests[places[first]]], data.nonmembers[stored[places[~first] - len(tests)]]


def holds_out(data: Federation) -> Bools:
    """Return whether each client is compared with examples of its own, [clients]."""
    owners = data.nonmember_owner
    needs = np.isin(np.arange(data.clients), owners) | (
        (owners == NOBODY).sum() < FEWEST_NONMEMBERS
    )
    return needs & (held_out_sizes(data) >= FEWEST_NONMEMBERS)


def outsiders(config: Any, data: Federation) -> int:
    """Return the number of non-members of each client: the same for all, so that their results
    can be compared.
    """
    available = np.where(
        holds_out(data), held_out_sizes(data), (data.nonmember_owner == NOBODY).sum()
    )
    return min(config.compared, int(available.min()))


def of_nobody(config: Any, data: Federation) -> int:
    """Return the number of non-members of nobody with whom clients are compared."""
    return (
        0
        if config.nonmembers == "other_client" or holds_out(data).all()
        else outsiders(config, data)
    )
