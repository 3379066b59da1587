"""What travels between server and clients in a round. No torch, so that the server's process need not load it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Weights:
    """A model's state as two vectors: ``params`` [d] and ``buffers`` [b] (running statistics; empty for most models)."""

    params: Floats
    buffers: Floats


@dataclass(frozen=True)
class Partial:
    """The part of one cohort, for one cluster: sums in float64, taken in the order of client ids.

    ``total`` [d] is the weighted sum of updates (client weights minus what was sent), ``buffers`` [b] that of the buffers
    themselves; ``updates`` [clients, d] only where an aggregation asks for them.
    """

    clients: Ints
    weights: Doubles
    total: Doubles
    buffers: Doubles
    updates: Floats | None = None


@dataclass(frozen=True)
class Received:
    """All of a cluster: ``mean`` [d] update, ``buffers`` [b] mean, by client ``weights`` [clients] that sum to one."""

    clients: Ints
    weights: Doubles
    mean: Doubles
    buffers: Doubles
    updates: Floats | None


@dataclass(frozen=True)
class Evaluated:
    """Every model on the training records of some clients: ``losses`` (nats) and ``accuracies`` [clients, clusters].

    ``selection`` [clients, clusters] are the losses on the records that the next choice is made with.
    """

    losses: Doubles
    accuracies: Doubles
    selection: Doubles


def gather(parts: Sequence[Partial]) -> Received:
    """Join the cohorts' parts, in their order. Raises ValueError where the weights sum to nothing."""
    weights = np.concatenate([part.weights for part in parts])
    whole = float(weights.sum())
    if not whole > 0:
        raise ValueError("the clients' weights sum to zero")
    updates = [part.updates for part in parts if part.updates is not None]
    return Received(
        clients=np.concatenate([part.clients for part in parts]),
        weights=weights / whole,
        mean=_ordered_sum([part.total for part in parts]) / whole,
        buffers=_ordered_sum([part.buffers for part in parts]) / whole,
        updates=np.concatenate(updates) if updates else None,
    )


def _ordered_sum(arrays: Sequence[Doubles]) -> Doubles:
    total = np.zeros_like(arrays[0])
    for array in arrays:
        total += array
    return total
