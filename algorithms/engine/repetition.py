"""Repeats the local training of a single client of a block, with other random numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from algorithms.core.messages import Assignment, Floats, Weights
from algorithms.core.network import Network
from algorithms.engine import block
from algorithms.interfaces import Run
from datasets.federation import Federation

Stream = Callable[[str, int], np.random.Generator]


def only(assigned: Assignment, position: int) -> Assignment:
    """Return what one client of a block receives, given its position in the block."""
    here = slice(position, position + 1)
    return replace(
        assigned,
        clients=assigned.clients[here],
        chosen=assigned.chosen[here],
        statistics={name: values[here] for name, values in assigned.statistics.items()},
        optimizer_states={name: values[here] for name, values in assigned.optimizer_states.items()},
    )


def train_again(
    run: Run,
    data: Federation,
    network: Network,
    models: Sequence[Weights],
    assigned: Assignment,
    position: int,
    stream: Stream,
) -> Floats:
    """Repeat what one client of a block does in a round: the same examples and model, trained in the same way.

    With the generators that it had, the result is the same, bit for bit where clients are trained one after another.

    Args:
        run: the components, and their fields.
        data: all clients' examples.
        network: the module to train with, which afterwards holds some other weights.
        models: the models that the server sent.
        assigned: what the block received in this round.
        position: the client's position in the block.
        stream: ``stream(purpose, client)`` returns a generator.

    Returns:
        [d] the trained parameters.
    """
    return block.train(run, data, network, models, only(assigned, position), stream).params[0]
