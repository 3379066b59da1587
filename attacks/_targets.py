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

``config`` is that of `attacks.fedmia` or `attacks.sia`.

By references the server learns what a model makes of a label, whoever has the record (`metrics.out_worlds.centered`):
examples of its shadow set or, without one, non-members of nobody that are not compared. They wear every client's
transform in turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from algorithms.core.messages import Doubles, Weights
from attacks._queries import dressed, kept_back
from attacks.metrics import membership
from attacks.metrics.membership import FEWEST_NONMEMBERS, Bools
from datasets.federation import DataError, Examples, Federation, Ints, examples_of_both, joined
from datasets.roles import NOBODY

if TYPE_CHECKING:
    from attacks.interfaces import SeenUpdates, Stream


def targets(config: Any, data: Federation, stream: Stream) -> Ints:
    """Draw the attacked examples of every client, equally many of each: [clients, n]. Raises DataError if one has none.

    The positions count the training examples first and then the test examples; they depend on the seed, not on the
    round.
    """
    pools = []
    for client in range(data.clients):
        tested = len(data.train) + np.flatnonzero((data.test_owner == client) & (config.pool == "all"))
        pools.append(np.append(np.arange(data.offsets[client], data.offsets[client + 1]), tested))
    size = min(config.targets, *map(len, pools))
    if size < 1:
        raise DataError(f"source inference needs 1 training example or more of every client of {data.name}")
    drawn = [stream("attack_targets", i).choice(own, size, replace=False) for i, own in enumerate(pools)]
    return np.sort(drawn, axis=1)


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
    """

    members: Ints  # [clients, n] positions of members among the training examples
    numbers: Ints  # [clients, n + m] numbers of each client's members, and then of its non-members
    examples: Ints  # [clients, n + m] numbers of their examples: equal for one example that wears two transforms
    outside: Examples  # non-members that are no client's members, ready for the model
    references: Examples  # ready for the model, r for each transform; none if nothing is centered
    labels: Ints  # [R] of the records
    transforms: Ints  # [R] number of the transform that each record wears, its client's; 0 if there are no transforms
    reference_labels: Ints  # [r] of the references with any transform


# The records that were drawn last of a federation, with what they depend on besides: to transform them takes longer than
# to evaluate them.
_REMEMBERED: WeakKeyDictionary[Federation, tuple[tuple[Any, ...], Records]] = WeakKeyDictionary()


def records_of(config: Any, data: Federation, stream: Stream) -> Records:
    """Return the records of a federation for which `fedmia.data_problems` is empty; nobody may change them."""
    key = config, int(stream("attack_targets", 0, 11).integers(2**62))  # tells streams of different seeds apart
    if data not in _REMEMBERED or _REMEMBERED[data][0] != key:
        _REMEMBERED[data] = key, _records(config, data, stream)
    return _REMEMBERED[data][1]


def _records(config: Any, data: Federation, stream: Stream) -> Records:
    members, plain = targets(config, data, stream), data.prepare.transform == "none"
    inside = np.arange(members.size).reshape(members.shape)
    holds, size = holds_out(data), outsiders(config, data)
    nobodys = np.flatnonzero(data.nonmember_owner == NOBODY)
    compared = nobodys[:0]
    if count := of_nobody(config, data):
        compared = np.sort(stream("attack_targets", 0, 9).choice(nobodys, count, replace=False))

    def wearing(stored: Examples, client: int) -> Examples:
        return dressed(data, stored, client, stream("attack_targets", client, 7))

    if config.nonmembers == "other_client":
        outside, own = data.train[:0], _of_others(config, members, stream)
        same = own
    elif plain and not holds.any():  # all clients are compared with the same examples, which look the same for all
        outside = wearing(data.nonmembers[compared], 0)
        own = same = members.size + np.tile(np.arange(size), (data.clients, 1))
    else:
        parts = []
        for i in range(data.clients):
            tested, held = _own(data, i, size, stream) if holds[i] else (data.test[:0], data.nonmembers[compared])
            parts += [tested, wearing(held, i)]
        outside, each = joined(parts), np.arange(data.clients * size).reshape(-1, size)
        own, same = members.size + each, members.size + np.where(holds[:, None], size + each, np.arange(size))
    stored = data.shadow if len(data.shadow) else data.nonmembers[np.setdiff1d(nobodys, compared)]
    references = data.train[:0]
    if config.center != "none":
        chosen = stream("attack_targets", 0, 13).choice(len(stored), min(config.references, len(stored)), replace=False)
        drawn = stored[np.sort(chosen)]
        references = joined([wearing(drawn, i) for i in range(1 if plain else data.clients)])
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


def _of_others(config: Any, members: Ints, stream: Stream) -> Ints:
    """Draw numbers of the other clients' members for every client, [clients, m]."""
    clients, n = members.shape
    most = (clients - 1) * n
    drawn = [
        stream("attack_targets", i, 5).choice(most, min(config.compared, most), replace=False) for i in range(clients)
    ]
    own = np.sort(drawn, axis=1)
    return own + np.where(own >= n * np.arange(clients)[:, None], n, 0)  # the client's own n members are left out


def _own(data: Federation, client: int, size: int, stream: Stream) -> tuple[Examples, Examples]:
    """Draw non-members among a client's test examples, which wear its transform, and its held-out ones, which do not."""
    tested, held = (np.flatnonzero(owner == client) for owner in (data.test_owner, data.nonmember_owner))
    drawn = np.sort(stream("attack_targets", client, 5).choice(len(tested) + len(held), size, replace=False))
    first = drawn < len(tested)
    return data.test[tested[drawn[first]]], data.nonmembers[held[drawn[~first] - len(tested)]]


def holds_out(data: Federation) -> Bools:
    """Return whether each client is compared with examples of its own, [clients]."""
    owners = data.nonmember_owner
    needs = np.isin(np.arange(data.clients), owners) | ((owners == NOBODY).sum() < FEWEST_NONMEMBERS)
    return needs & (kept_back(data) >= FEWEST_NONMEMBERS)


def outsiders(config: Any, data: Federation) -> int:
    """Return the number of non-members of each client: the same for all, so that their results can be compared."""
    available = np.where(holds_out(data), kept_back(data), (data.nonmember_owner == NOBODY).sum())
    return min(config.compared, int(available.min()))


def of_nobody(config: Any, data: Federation) -> int:
    """Return the number of non-members of nobody with whom clients are compared."""
    return 0 if config.nonmembers == "other_client" or holds_out(data).all() else outsiders(config, data)
