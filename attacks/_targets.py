"""Which examples attacks on clients' updates ask about, and the losses of every model of a block on them.

Source inference and FedMIA read the same matrix. If they attack the same examples, it is computed once for both. A
passive server (FedMIA) asks about members and non-members of every client, the same in all rounds:

    members of a client             its own training examples, those that source inference attacks, too
    outside       its own held-out and test examples, if non-members were held out from it or there are none of nobody;
                  else examples of nobody that wear the client's transform
    other_client  members of the other clients: "is this record this client's?" instead of "did anybody train on it?"

The released code of FedMIA draws non-members anew for every client and round. A non-member's scores are then averaged
over different records, which draws the averages together, and members stand out who are no more exposed than before.
Here a record is fixed before the first round, so that the score of a non-member is an average over rounds like any
member's.

Where clients have labels of their own and non-members are nobody's, a label would tell that a record is none of a
client's. So what is measured takes non-members as if they had the client's labels (`metrics.client_auc`).

By references the server learns what a model makes of a label, whoever has the record (`metrics.out_worlds.centered`):
examples of its shadow set or, without one, non-members of nobody that are not compared. They wear every client's
transform in turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from algorithms.interfaces import Problems
from attacks.metrics import membership
from attacks.metrics.membership import FEWEST_NONMEMBERS
from datasets.federation import DataError, Examples, Federation, Ints, examples_of_both, joined
from datasets.roles import NOBODY

if TYPE_CHECKING:
    from attacks.interfaces import SeenUpdates, Stream


Doubles = NDArray[np.float64]


class Targeting(Protocol):
    """The fields of an attack that decide on its targets; see `attacks.sia.Config`."""

    @property
    def targets(self) -> int: ...
    @property
    def pool(self) -> Literal["training", "all"]: ...


class Config(Targeting, Protocol):
    """The fields that decide on the records of a passive server; see `attacks.fedmia.Config`."""

    @property
    def nonmembers(self) -> Literal["outside", "other_client"]: ...
    @property
    def compared(self) -> int: ...
    @property
    def center(self) -> Literal["label", "none"]: ...
    @property
    def references(self) -> int: ...


def targets(config: Targeting, data: Federation, stream: Stream) -> Ints:
    """Draw the attacked examples of every client, equally many of each: [clients, n]. Raises DataError if one has none.

    The positions count the training examples first and then the test examples; they depend on the seed, not on the
    round.
    """
    pools = [_pool(config, data, i) for i in range(data.clients)]
    size = min(config.targets, *map(len, pools))
    if size < 1:
        raise DataError(f"source inference needs 1 training example or more of every client of {data.name}")
    drawn = [stream("attack_targets", i).choice(own, size, replace=False) for i, own in enumerate(pools)]
    return np.sort(drawn, axis=1)


def _pool(config: Targeting, data: Federation, client: int) -> Ints:
    trained_on = np.arange(data.offsets[client], data.offsets[client + 1])
    tested_on = len(data.train) + np.flatnonzero(data.test_owner == client)
    return trained_on if config.pool == "training" else np.concatenate([trained_on, tested_on])


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


@dataclass(frozen=True, eq=False)
class Records:
    """The R records that a passive server asks about, and references; they depend on the seed, not on the round.

    Records have numbers: first all clients' members, client by client, and then ``outside``.

    Attributes:
        members: [clients, n] positions of members among the training examples.
        numbers: [clients, n + m] numbers of each client's members, and then of its non-members.
        examples: [clients, n + m] numbers of their examples: equal for one example that wears two transforms.
        outside: non-members that are no client's members, ready for the model.
        references: ready for the model, r for each transform; none if nothing is centered.
        labels: [R] of the records.
        transforms: [R] number of the transform that each record wears, its client's; 0 if there are no transforms.
        reference_labels: [r] of the references with any transform.
    """

    members: Ints
    numbers: Ints
    examples: Ints
    outside: Examples
    references: Examples
    labels: Ints
    transforms: Ints
    reference_labels: Ints


# The records that were drawn last of a federation, with what they depend on besides: to transform them takes longer than
# to evaluate them.
_REMEMBERED: WeakKeyDictionary[Federation, tuple[tuple[Any, ...], Records]] = WeakKeyDictionary()


def records_of(config: Config, data: Federation, stream: Stream) -> Records:
    """Return the records of a federation for which `data_problems` is empty; nobody may change them."""
    seed = int(stream("attack_targets", 0, 11).integers(2**62))  # tells streams of different seeds apart
    key = config.nonmembers, config.compared, config.targets, config.pool, config.center, config.references, seed
    if data not in _REMEMBERED or _REMEMBERED[data][0] != key:
        _REMEMBERED[data] = key, _records(config, data, stream)
    return _REMEMBERED[data][1]


def _records(config: Config, data: Federation, stream: Stream) -> Records:
    members, plain = targets(config, data, stream), data.prepare.transform == "none"
    inside = np.arange(members.size).reshape(members.shape)
    outside, references = _outside(config, data, stream), _references(config, data, stream)
    if config.nonmembers == "other_client":
        own = same = _of_others(config, members, stream)
    else:
        size, common = _outsiders(config, data), np.arange(_outsiders(config, data))
        each = np.arange(data.clients * size).reshape(-1, size)
        own = members.size + (np.tile(common, (data.clients, 1)) if _shared(data) else each)
        same = members.size + np.where(_holds_out(data)[:, None], size + each, common)
    sides = [np.repeat(np.arange(data.clients), count // data.clients) for count in (members.size, len(outside))]
    return Records(
        members=members,
        numbers=np.concatenate([inside, own], axis=1),
        examples=np.concatenate([inside, same], axis=1),
        outside=outside,
        references=references,
        labels=np.concatenate([data.train.y[members.ravel()], outside.y]),
        transforms=np.zeros(members.size + len(outside), np.int64) if plain else np.concatenate(sides),
        reference_labels=references.y if plain else references.y[: len(references) // data.clients],
    )


def _shared(data: Federation) -> bool:
    """Return whether all clients are compared with the same examples, which look the same for all."""
    return data.prepare.transform == "none" and not _holds_out(data).any()


def _of_others(config: Config, members: Ints, stream: Stream) -> Ints:
    """Draw numbers of the other clients' members for every client, [clients, m]."""
    clients, n = members.shape
    size = min(config.compared, (clients - 1) * n)
    drawn = [
        np.sort(stream("attack_targets", i, 5).choice((clients - 1) * n, size, replace=False)) for i in range(clients)
    ]
    own = np.stack(drawn)
    return own + np.where(own >= n * np.arange(clients)[:, None], n, 0)  # the client's own n members are left out


def _outside(config: Config, data: Federation, stream: Stream) -> Examples:
    if config.nonmembers == "other_client":
        return data.train[:0]
    size, holding, common = _outsiders(config, data), _holds_out(data), _compared_of_nobody(config, data, stream)
    if _shared(data):
        return _dressed(data, data.nonmembers[common], 0, stream)
    return joined(
        [
            _own(data, i, size, stream) if holding[i] else _dressed(data, data.nonmembers[common], i, stream)
            for i in range(data.clients)
        ]
    )


def _compared_of_nobody(config: Config, data: Federation, stream: Stream) -> Ints:
    """Draw the non-members of nobody with whom clients are compared, as positions among all non-members."""
    common = np.flatnonzero(data.nonmember_owner == NOBODY)
    size = _of_nobody(config, data)
    drawn: Ints = np.sort(stream("attack_targets", 0, 9).choice(common, size, replace=False)) if size else common[:0]
    return drawn


def _of_nobody(config: Config, data: Federation) -> int:
    """Return the number of non-members of nobody with whom clients are compared."""
    return 0 if config.nonmembers == "other_client" or _holds_out(data).all() else _outsiders(config, data)


def _references(config: Config, data: Federation, stream: Stream) -> Examples:
    if config.center == "none":
        return data.train[:0]
    stored = data.shadow
    if not len(stored):
        nobodys, compared = np.flatnonzero(data.nonmember_owner == NOBODY), _compared_of_nobody(config, data, stream)
        stored = data.nonmembers[np.setdiff1d(nobodys, compared)]
    size = min(config.references, len(stored))
    drawn = stored[np.sort(stream("attack_targets", 0, 13).choice(len(stored), size, replace=False))]
    wearing = [0] if data.prepare.transform == "none" else range(data.clients)
    return joined([_dressed(data, drawn, i, stream) for i in wearing])


def _own(data: Federation, client: int, size: int, stream: Stream) -> Examples:
    """Draw non-members among the test and held-out examples of a client, which wear its transform already or get it."""
    tested, held = (np.flatnonzero(owner == client) for owner in (data.test_owner, data.nonmember_owner))
    drawn = np.sort(stream("attack_targets", client, 5).choice(len(tested) + len(held), size, replace=False))
    first = data.test[tested[drawn[drawn < len(tested)]]]
    rest = _dressed(data, data.nonmembers[held[drawn[drawn >= len(tested)] - len(tested)]], client, stream)
    return joined([first, rest])


def _dressed(data: Federation, stored: Examples, client: int, stream: Stream) -> Examples:
    """Return stored examples of nobody with the transform of ``client``, ready for the model."""
    strengths = data.draw_strengths(np.full(len(stored), client), stream("attack_targets", client, 7))
    return Examples(data.prepare(stored.x, strengths), stored.y)


def _holds_out(data: Federation) -> np.ndarray:
    """Return whether each client is compared with examples of its own, [clients]."""
    owners = data.nonmember_owner
    needs = np.isin(np.arange(data.clients), owners) | ((owners == NOBODY).sum() < FEWEST_NONMEMBERS)
    found: np.ndarray = needs & (_held(data) >= FEWEST_NONMEMBERS)
    return found


def _held(data: Federation) -> Ints:
    owners = np.concatenate([data.test_owner, data.nonmember_owner])
    return np.bincount(owners[owners >= 0], minlength=data.clients)


def _outsiders(config: Config, data: Federation) -> int:
    """Return the number of non-members of each client: the same for all, so that their results can be compared."""
    holding, nobody = _holds_out(data), int((data.nonmember_owner == NOBODY).sum())
    available = np.where(holding, _held(data), nobody)
    return min(config.compared, int(available.min()))


def data_problems(config: Config, data: Federation) -> Problems:
    """List why the attack cannot be made on ``data``: (field, sentence) pairs."""
    if data.sizes.min() < 1:
        return [("targets", f"fedmia asks about training examples of every client, and one of {data.name} has none")]
    others = config.nonmembers == "other_client"
    most = (data.clients - 1) * int(min(config.targets, data.sizes.min()))
    if (count := min(config.compared, most) if others else _outsiders(config, data)) < FEWEST_NONMEMBERS:
        remedy = "raise targets" if others else "hold more out, or set nonmembers: other_client"
        sentence = (
            f"fedmia compares every client with {FEWEST_NONMEMBERS} non-members or more, and {data.name} has {count}"
        )
        return [("nonmembers", f"{sentence} for one of them; {remedy}")]
    left = len(data.shadow) or int((data.nonmember_owner == NOBODY).sum()) - _of_nobody(config, data)
    if config.center == "label" and left < FEWEST_NONMEMBERS:
        sentence = (
            f"fedmia centers by {FEWEST_NONMEMBERS} examples or more of the server's shadow set, and {data.name} has"
        )
        return [("center", f"{sentence} {left}; raise data.shadow_size, or set center: none")]
    return []
