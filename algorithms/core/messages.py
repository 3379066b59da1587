"""Messages between server and clients in a round.

This module does not import torch, so the server need not load it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.core.layout import Layout

Doubles = NDArray[np.float64]
Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# numbers of a vector that are processed at a time, so that they stay in a processor's cache
PIECE = 1 << 16


@dataclass(frozen=True)
class Weights:
    """A model's state as two vectors: trainable parameters [d] and running statistics [b], of
    which most models have none.
    """

    params: Floats
    buffers: Floats


@dataclass(frozen=True, eq=False)
class Assignment:
    """What a block of clients receives in a round besides the models, in the clients' order.

    Attributes:
        clients: ids of the clients.
        chosen: [clients] index, among the models that were sent, of the model each client starts
            from.
        round: the round, counted from 0.
        statistics: statistics that the server sends each client about itself, [clients] by name.
        optimizer_states: their `BlockResult.optimizer_states` of an earlier round; usually empty.
    """

    clients: Sequence[int]
    chosen: Ints
    round: int
    statistics: Mapping[str, Any] = field(default_factory=dict)
    optimizer_states: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class PartialSum:
    """One block's contribution to one cluster: sums in float64, added in the order of client ids.

    Attributes:
        clients: [c] ids of the clients.
        weights: [c] the clients' weights before normalization.
        norms: [c] L2 norms of the updates (client weights minus the weights that were sent).
        scales: [c] factors by which the privacy slot multiplies the updates.
        total: [d] weighted sum of the scaled updates.
        buffers: [b] weighted sum of the buffers.
        updates: [c, d] unscaled updates; None unless a slot needs them.
        own_buffers: [c, b] each client's buffers; None unless a slot needs the updates.
    """

    clients: Ints
    weights: Doubles
    norms: Doubles
    scales: Doubles
    total: Doubles
    buffers: Doubles
    updates: Floats | None = None
    own_buffers: Floats | None = None


@dataclass(frozen=True)
class BlockResult:
    """The message of a block of clients to the server after a round.

    Attributes:
        clients: [c] ids of the clients that took part.
        parts: the clients' updates, summed by cluster.
        statistics: measurements of each client, [c] by name.
        observed: what attacks recorded of the clients' models, [c, ...] by attack (or several such
            arrays by name).
        optimizer_states: those for the next round, [c, ...] by name; empty unless the training slot
            keeps them.
        halves: [c, halves, 2] curvatures on two halves of each client's examples; None unless they
            are due.
    """

    clients: Ints
    parts: Mapping[int, PartialSum]
    statistics: Mapping[str, Doubles]
    observed: Mapping[str, Any]
    optimizer_states: Mapping[str, NDArray[Any]]
    halves: Doubles | None = None


@dataclass(frozen=True)
class ClientUpdates:
    """Everything that the server received from the clients of one cluster in a round.

    Attributes:
        clients: [clients] ids.
        weights: [clients] weights that sum to one.
        mean: [d] weighted mean of the scaled updates.
        buffers: [b] weighted mean of the buffers.
        updates: [clients, d] updates as they arrived, before scaling; None unless a slot needs
            them.
        own_buffers: [clients, b] each client's buffers; None unless a slot needs the updates.
        norms: [clients] L2 norms of the unscaled updates.
        scales: [clients] factors by which the privacy slot multiplies the updates.
        statistics: client statistics by name, [clients] each (for example ``rho``).
        layout: where the model's arrays lie in [d].
    """

    clients: Ints
    weights: Doubles
    mean: Doubles
    buffers: Doubles
    updates: Floats | None = None
    own_buffers: Floats | None = None
    norms: Doubles = field(default_factory=lambda: np.empty(0))
    scales: Doubles = field(default_factory=lambda: np.empty(0))
    statistics: Mapping[str, Doubles] = field(default_factory=dict)
    layout: Layout = field(default_factory=lambda: Layout((), ()))


@dataclass(frozen=True)
class Evaluation:
    """Mean cross-entropy in nats and accuracy of every model on the training examples of some
    clients, [clients, clusters].

    ``selection`` is the mean cross-entropy on the examples with which the client chooses its next
    model.
    """

    losses: Doubles
    accuracies: Doubles
    selection: Doubles


def gather(
    parts: Sequence[PartialSum], layout: Layout, statistics: Mapping[str, Doubles]
) -> ClientUpdates:
    """Join the parts of all blocks, in their order, into the updates of one cluster, and the
    senders' ``statistics``.

    Raises:
        ValueError: the clients' weights sum to zero.
    """
    weights = np.concatenate([part.weights for part in parts])
    total = float(weights.sum())
    if not total > 0:
        raise ValueError("the clients' weights sum to zero")
    clients = np.concatenate([part.clients for part in parts])
    return ClientUpdates(
        clients=clients,
        weights=weights / total,
        mean=_total([part.total for part in parts]) / total,
        buffers=_total([part.buffers for part in parts]) / total,
        updates=_join([part.updates for part in parts]),
        own_buffers=_join([part.own_buffers for part in parts]),
        norms=np.concatenate([part.norms for part in parts]),
        scales=np.concatenate([part.scales for part in parts]),
        statistics={name: values[clients] for name, values in statistics.items()},
        layout=layout,
    )


def empty_updates(buffers: Floats, layout: Layout) -> ClientUpdates:
    """Return the updates of a cluster in a round without clients: the mean is zero, and the
    ``buffers`` [b] stay.
    """
    d = layout.size
    b = len(buffers)
    return ClientUpdates(
        clients=np.empty(0, np.int64),
        weights=np.empty(0),
        mean=np.zeros(d),
        buffers=buffers.astype(np.float64),
        updates=np.empty((0, d), np.float32),
        own_buffers=np.empty((0, b), np.float32),
        layout=layout,
    )


def reweight(received: ClientUpdates, weights: Doubles) -> ClientUpdates:
    """Return ``received``, with the updates themselves, under other client weights [clients]
    that sum to one.
    """
    assert received.updates is not None and received.own_buffers is not None
    return replace(
        received,
        weights=weights,
        mean=weighted_sum(weights * received.scales, received.updates),
        buffers=weighted_sum(weights, received.own_buffers),
    )


def weighted_sum(weights: Doubles, rows: Floats) -> Doubles:
    """Sum rows [clients, d] times weights [clients] in float64, in the order of the rows."""
    total = np.zeros(rows.shape[1])
    for at in range(0, len(total), PIECE):
        piece = slice(at, at + PIECE)
        for weight, row in zip(weights, rows, strict=True):
            total[piece] += weight * row[piece]
    return total


def _total(sums: Sequence[Doubles]) -> Doubles:
    """Add up in the order of the blocks."""
    return reduce(np.add, sums)


def _join(arrays: Sequence[Floats | None]) -> Floats | None:
    present = [array for array in arrays if array is not None]
    if len(present) > 1:
        return np.concatenate(present)
    return present[0] if present else None
