"""The records that a passive server asks about: members and non-members of every client, the same in all rounds.

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
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from algorithms.interfaces import Problems
from attacks import _targets
from attacks.metrics.membership import FEWEST_NONMEMBERS
from datasets.federation import Examples, Federation, Ints
from datasets.roles import NOBODY

if TYPE_CHECKING:
    from attacks.interfaces import Stream


class Config(_targets.Config, Protocol):
    """The fields of the attack that decide on its records."""

    @property
    def nonmembers(self) -> Literal["outside", "other_client"]:
        """Whether non-members are nobody's or the other clients' training examples."""

    @property
    def compared(self) -> int:
        """Most non-members of a client."""


Drawn = TypeVar("Drawn")
# What was drawn last of a federation, by name, with what it depends on besides.
_REMEMBERED: WeakKeyDictionary[Federation, tuple[tuple[Any, ...], dict[str, Any]]] = WeakKeyDictionary()


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


def places(config: Config, data: Federation, stream: Stream) -> Places:
    """Return the records of every client, drawn once; they depend on the seed, not on the round.

    Args:
        config: the component's fields.
        data: the federation; `data_problems` must be empty.
        stream: returns generators that are the same in every round.
    """
    return _remembered(config, data, stream, "places", lambda: _places(config, data, stream))


def _remembered(config: Config, data: Federation, stream: Stream, name: str, draw: Callable[[], Drawn]) -> Drawn:
    """Return what ``draw`` returned for this federation, configuration and seed; nobody may change it."""
    seed = int(stream("attack_targets", 0, 11).integers(2**62))  # tells streams of different seeds apart
    key = config.nonmembers, config.compared, config.targets, config.pool, seed
    known = _REMEMBERED.get(data)
    if known is None or known[0] != key:
        known = _REMEMBERED[data] = (key, {})
    if name not in known[1]:
        known[1][name] = draw()
    found: Drawn = known[1][name]
    return found


def _places(config: Config, data: Federation, stream: Stream) -> Places:
    members = _targets.targets(config, data, stream)
    if config.nonmembers == "other_client":
        others = _of_others(config, members, stream)
        return Places(members, others, others)
    size, holding = _outsiders(config, data), _holds_out(data)
    each, common = np.arange(data.clients * size).reshape(-1, size), np.arange(size)
    own = np.tile(common, (data.clients, 1)) if _shared(data) else each
    same = np.where(holding[:, None], size + each, common)
    return Places(members, members.size + own, members.size + same)


def labels(config: Config, data: Federation, stream: Stream, places: Places) -> Ints:
    """Return the labels of every client's records, members first, [clients, n + m]."""
    every = np.concatenate([data.train.y[places.members.ravel()], outside(config, data, stream).y])
    return every[places.records]


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
    size, common = _outsiders(config, data), np.flatnonzero(data.nonmember_owner == NOBODY)
    holding = _holds_out(data)
    fixed = np.sort(stream("attack_targets", 0, 9).choice(common, size, replace=False)) if not holding.all() else common
    if _shared(data):
        return _dressed(data, fixed, 0, stream)
    parts = [
        _own(data, i, size, stream) if holding[i] else _dressed(data, fixed, i, stream) for i in range(data.clients)
    ]
    return Examples(np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts]))


def _own(data: Federation, client: int, size: int, stream: Stream) -> Examples:
    """Draw non-members among the test and held-out examples of a client, which wear its transform already or get it."""
    tested, held = (np.flatnonzero(owner == client) for owner in (data.test_owner, data.nonmember_owner))
    drawn = np.sort(stream("attack_targets", client, 5).choice(len(tested) + len(held), size, replace=False))
    first = data.test[tested[drawn[drawn < len(tested)]]]
    rest = _dressed(data, held[drawn[drawn >= len(tested)] - len(tested)], client, stream)
    return Examples(np.concatenate([first.x, rest.x]), np.concatenate([first.y, rest.y]))


def _dressed(data: Federation, rows: Ints, client: int, stream: Stream) -> Examples:
    """Return stored non-members with the transform of ``client``, ready for the model."""
    stored = data.nonmembers[rows]
    strengths = data.draw_strengths(np.full(len(rows), client), stream("attack_targets", client, 7))
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
        found = min(config.compared, (data.clients - 1) * int(min(config.targets, data.sizes.min())))
        remedy = "raise targets"
    else:
        found, remedy = _outsiders(config, data), "hold more out, or set nonmembers: other_client"
    if found >= FEWEST_NONMEMBERS:
        return []
    return [
        (
            "nonmembers",
            f"fedmia compares every client with {FEWEST_NONMEMBERS} non-members or more, and {data.name} has {found} for "
            f"one of them; {remedy}",
        )
    ]
