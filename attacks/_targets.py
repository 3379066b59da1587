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

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar
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
Drawn = TypeVar("Drawn")
# What was drawn last of a federation, by name, with what it depends on besides.
_REMEMBERED: WeakKeyDictionary[Federation, tuple[tuple[Any, ...], dict[str, Any]]] = WeakKeyDictionary()


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


def targets_seen(config: Targeting, seen: SeenUpdates) -> Ints:
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


@dataclass(frozen=True, eq=False)
class Places:
    """Where the records of every client are.

    Attributes:
        members: [clients, n] positions among the training examples.
        own: [clients, m] numbers of each client's non-members among all records, which are all clients' members, client
            by client, and then `outside`.
        same: [clients, m] equal numbers where a non-member is the same example, whatever transform it wears.
    """

    members: Ints
    own: Ints
    same: Ints

    @property
    def records(self) -> Ints:
        """The numbers of each client's records, members first, [clients, n + m]."""
        return np.concatenate([self._members(), self.own], axis=1)

    @property
    def examples(self) -> Ints:
        """Numbers of the records' examples, [clients, n + m]: equal for one example that wears two transforms."""
        return np.concatenate([self._members(), self.same], axis=1)

    def _members(self) -> Ints:
        return np.arange(self.members.size).reshape(self.members.shape)


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of records and references.

    Attributes:
        records: [R] of all records, by their numbers.
        transforms: [R] number of the transform that each record wears, its client's; 0 if there are no transforms.
        references: [r] of the references, of which there are r for each transform.
    """

    records: Ints
    transforms: Ints
    references: Ints


def places(config: Config, data: Federation, stream: Stream) -> Places:
    """Return the records of every client, which depend on the seed, not on the round."""
    return _remembered(config, data, stream, "places", lambda: _places(config, data, stream))


def _remembered(config: Config, data: Federation, stream: Stream, name: str, draw: Callable[[], Drawn]) -> Drawn:
    """Return what ``draw`` returned for this federation, configuration and seed; nobody may change it."""
    seed = int(stream("attack_targets", 0, 11).integers(2**62))  # tells streams of different seeds apart
    key = config.nonmembers, config.compared, config.targets, config.pool, config.center, config.references, seed
    known = _REMEMBERED.get(data)
    if known is None or known[0] != key:
        known = _REMEMBERED[data] = (key, {})
    if name not in known[1]:
        known[1][name] = draw()
    found: Drawn = known[1][name]
    return found


def _places(config: Config, data: Federation, stream: Stream) -> Places:
    members = targets(config, data, stream)
    if config.nonmembers == "other_client":
        others = _of_others(config, members, stream)
        return Places(members, others, others)
    size, holding = _outsiders(config, data), _holds_out(data)
    each, common = np.arange(data.clients * size).reshape(-1, size), np.arange(size)
    own = np.tile(common, (data.clients, 1)) if _shared(data) else each
    same = np.where(holding[:, None], size + each, common)
    return Places(members, members.size + own, members.size + same)


def labels(config: Config, data: Federation, stream: Stream) -> Labels:
    """Return the labels of all records and references, in the order in which they are evaluated."""
    members, others = targets(config, data, stream).ravel(), outside(config, data, stream).y
    records, reference = np.concatenate([data.train.y[members], others]), references(config, data, stream).y
    if data.prepare.transform == "none":
        return Labels(records, np.zeros(len(records), np.int64), reference)
    transforms = [np.repeat(np.arange(data.clients), len(part) // data.clients) for part in (members, others)]
    return Labels(records, np.concatenate(transforms), reference[: len(reference) // data.clients])


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


def outside(config: Config, data: Federation, stream: Stream) -> Examples:
    """Return the non-members, ready for the model, in the order that `Places.own` counts them; none of other clients'.

    They are remembered, because to transform them takes longer than to evaluate them.
    """
    return _remembered(config, data, stream, "outside", lambda: _outside(config, data, stream))


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


def references(config: Config, data: Federation, stream: Stream) -> Examples:
    """Return the references, ready for the model, transform after transform; none if nothing is centered."""
    return _remembered(config, data, stream, "references", lambda: _references(config, data, stream))


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


def untrained(config: Config, data: Federation, stream: Stream) -> Examples:
    """Return all on which models are evaluated besides members: non-members, and then references."""
    return joined([outside(config, data, stream), references(config, data, stream)])


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
    if config.nonmembers == "other_client":
        count = min(config.compared, (data.clients - 1) * int(min(config.targets, data.sizes.min())))
        remedy = "raise targets"
    else:
        count, remedy = _outsiders(config, data), "hold more out, or set nonmembers: other_client"
    if count < FEWEST_NONMEMBERS:
        needs = (
            f"compares every client with {FEWEST_NONMEMBERS} non-members or more, and {data.name} has {count} for one"
        )
        return [("nonmembers", f"fedmia {needs} of them; {remedy}")]
    left = len(data.shadow) or int((data.nonmember_owner == NOBODY).sum()) - _of_nobody(config, data)
    if config.center == "label" and left < FEWEST_NONMEMBERS:
        needs = (
            f"centers by {FEWEST_NONMEMBERS} examples or more of the server's shadow set, and {data.name} has {left}"
        )
        return [("center", f"fedmia {needs}; raise data.shadow_size, or set center: none")]
    return []
