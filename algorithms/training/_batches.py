"""Shared parts of local training: the batches of an epoch, and what vmap cannot train."""

from __future__ import annotations

import numpy as np

from algorithms.core.messages import Ints
from algorithms.interfaces import Run

PADDING = -1
WIDEST = 1 << 16  # places in a row of batches that hold no example; wider ones would only take memory


def one_pass(examples: int, batch_size: int, rng: np.random.Generator, drop_last: bool = False) -> Ints:
    """Draw the batches of one epoch from a random permutation of the examples: positions [batches, batch_size].

    The last row is padded with -1, or left out with ``drop_last``, unless it is the only one; all are narrower if they would
    be mostly padding.
    """
    batches, width = -(-examples // batch_size), min(batch_size, max(examples, WIDEST))
    rows = np.full(batches * width, PADDING, dtype=np.int64)
    rows[:examples] = rng.permutation(examples)
    full = examples // batch_size
    return rows.reshape(batches, width)[: full if drop_last and full else batches]


def concatenate_passes(passes: list[Ints], batch_size: int) -> Ints:
    """Join the batches of several epochs, [0, batch_size] if there are none; a single epoch is returned as it is."""
    if len(passes) == 1:
        return passes[0]
    width = max((rows.shape[1] for rows in passes), default=min(batch_size, WIDEST))
    plan = np.full((sum(len(rows) for rows in passes), width), PADDING, np.int64)
    at = 0
    for rows in passes:
        plan[at : at + len(rows), : rows.shape[1]] = rows
        at += len(rows)
    return plan


def without_vmap(run: Run) -> str | None:
    """Name the component of ``run`` that vmap cannot handle, as the end of a sentence; return None if there is none."""
    model, objective = run.model, run.objective
    if model.module.BATCH_NORM:
        return f"{model.title}, which has batch normalization"
    if model.module.RANDOM:
        return f"{model.title}, which has dropout"
    if not model.module.VMAP:
        return model.title
    return None if objective.module.VMAP else f"with the objective {objective.name}"
