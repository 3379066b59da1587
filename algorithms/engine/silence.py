"""Clients that take part and send nothing new: their update is zero, and everything else is as it would be."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from algorithms.core.messages import Assignment, Weights
from algorithms.engine.block import TrainedBlock


def silence(
    trained: TrainedBlock, assigned: Assignment, models: Sequence[Weights], silent: Collection[int]
) -> TrainedBlock:
    """Return the trained block in which silent clients have the model that they were sent, running statistics included.

    Their weight in the mean, their loss and their optimizer state stay.

    Args:
        trained: the block after local training.
        assigned: its clients and the models that they chose.
        models: the models that the server sent.
        silent: ids of the silent clients.
    """
    params, buffers = trained.params.copy(), trained.buffers.copy()
    for i in np.flatnonzero(np.isin(assigned.clients, list(silent))):
        sent = models[assigned.chosen[i]]
        params[i], buffers[i] = sent.params, sent.buffers
    return replace(trained, params=params, buffers=buffers)
