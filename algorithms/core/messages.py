"""What travels between server and clients in a round. No torch, so that the server's process need not load it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.core.layout import Layout

Doubles = NDArray[np.float64]
Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

PIECE = 1 << 16  # numbers of a vector that are worked on at a time: what fits a processor's cache is read once


@dataclass(frozen=True)
class Weights:
    """A model's state as two vectors: ``params`` [d] and ``buffers`` [b] (running statistics; empty for most models)."""

    params: Floats
    buffers: Floats


@dataclass(frozen=True)
class PartialSum:
    """The part of one block, for one cluster: sums in float64, taken in the order of client ids.

    ``norms`` [clients] are the L2 norms of the updates (client weights minus what was sent), ``scales`` [clients] what the
    privacy slot multiplies each by; ``total`` [d] is the weighted sum of the scaled updates, ``buffers`` [b] that of the
    buffers themselves. ``updates`` [clients, d], unscaled, and ``own_buffers`` [clients, b] only where a slot asks for them.
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
    """A block's round: the ``clients`` [c] that took part, their ``parts`` by cluster, what was ``known`` of each of them
    afterwards ([c] by name), what attacks ``observed`` of their models ([c, ...], or several by name, by attack), and the
    optimizers ``carried`` to the next round (arrays [c, ...] by name; empty unless the training slot keeps them)."""

    clients: Ints
    parts: Mapping[int, PartialSum]
    known: Mapping[str, Doubles]
    observed: Mapping[str, Any]
    carried: Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class ClientUpdates:
    """All that the clients of a cluster sent in a round, by client ``weights`` [clients] that sum to one.

    ``mean`` [d] is that of the scaled updates, ``buffers`` [b] that of the buffers; ``updates`` [clients, d] are as they
    arrived, before scaling, and None unless a slot asked for them (as are ``own_buffers`` [clients, b]); ``norms`` and
    ``scales`` [clients] as in `PartialSum`. ``known`` holds what the server knows of each client by name, [clients] each
    (for example ``rho``); ``layout`` says where a model's arrays lie in [d].
    """

    clients: Ints
    weights: Doubles
    mean: Doubles
    buffers: Doubles
    updates: Floats | None = None
    own_buffers: Floats | None = None
    norms: Doubles = field(default_factory=lambda: np.empty(0))
    scales: Doubles = field(default_factory=lambda: np.empty(0))
    known: Mapping[str, Doubles] = field(default_factory=dict)
    layout: Layout = field(default_factory=lambda: Layout((), ()))


@dataclass(frozen=True)
class Evaluation:
    """Every model on the training examples of some clients: ``losses`` (nats) and ``accuracies`` [clients, clusters].

    ``selection`` [clients, clusters] are the losses on the examples that the next choice is made with.
    """

    losses: Doubles
    accuracies: Doubles
    selection: Doubles


def gather(parts: Sequence[PartialSum], layout: Layout, known: Mapping[str, Doubles]) -> ClientUpdates:
    """Join the blocks' parts, in their order; ``known`` [all clients] is cut down to those who sent something.

    Raises ValueError where the weights sum to nothing.
    """
    weights = np.concatenate([part.weights for part in parts])
    whole = float(weights.sum())
    if not whole > 0:
        raise ValueError("the clients' weights sum to zero")
    clients = np.concatenate([part.clients for part in parts])
    return ClientUpdates(
        clients=clients,
        weights=weights / whole,
        mean=_ordered_sum([part.total for part in parts]) / whole,
        buffers=_ordered_sum([part.buffers for part in parts]) / whole,
        updates=_join([part.updates for part in parts]),
        own_buffers=_join([part.own_buffers for part in parts]),
        norms=np.concatenate([part.norms for part in parts]),
        scales=np.concatenate([part.scales for part in parts]),
        known={name: values[clients] for name, values in known.items()},
        layout=layout,
    )


def empty_updates(d: int, buffers: Floats, layout: Layout) -> ClientUpdates:
    """What a cluster received in a round in which nobody came: no clients, a mean update [d] of zero, its own ``buffers``."""
    nobody = np.empty(0)
    return ClientUpdates(
        clients=np.empty(0, np.int64),
        weights=nobody,
        mean=np.zeros(d),
        buffers=buffers.astype(np.float64),
        updates=np.empty((0, d), np.float32),
        own_buffers=np.empty((0, len(buffers)), np.float32),
        norms=nobody,
        scales=nobody,
        layout=layout,
    )


def reweight(received: ClientUpdates, weights: Doubles) -> ClientUpdates:
    """``received`` under other client weights [clients], which must sum to one. Needs the updates themselves."""
    assert received.updates is not None and received.own_buffers is not None
    return replace(
        received,
        weights=weights,
        mean=weighted_sum(weights * received.scales, received.updates),
        buffers=weighted_sum(weights, received.own_buffers),
    )


def weighted_sum(weights: Doubles, rows: Floats) -> Doubles:
    """Sum over clients of ``weights`` [clients] times ``rows`` [clients, d], in float64 and in the order of the rows."""
    total = np.zeros(rows.shape[1])
    for at in range(0, len(total), PIECE):
        piece = slice(at, at + PIECE)
        for weight, row in zip(weights, rows, strict=True):
            total[piece] += weight * row[piece]
    return total


def _join(arrays: Sequence[Floats | None]) -> Floats | None:
    held = [array for array in arrays if array is not None]
    return (held[0] if len(held) == 1 else np.concatenate(held)) if held else None


def _ordered_sum(arrays: Sequence[Doubles]) -> Doubles:
    total = arrays[0].copy()
    for array in arrays[1:]:
        total += array
    return total
