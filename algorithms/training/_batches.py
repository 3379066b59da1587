"""What all local training shares: batches of a pass, the learning rate of a round, and what cannot be combined."""

from __future__ import annotations

from typing import Any

import numpy as np

from algorithms.core.configs import TrainingConfig
from algorithms.core.messages import Ints

PADDING = -1


def conflicts(config: TrainingConfig) -> list[tuple[str, str]]:
    """What the common fields do not allow together: (field, sentence) pairs."""
    found = []
    if config.optimizer == "adam" and config.momentum:
        found.append(("momentum", f"adam has its own moments; got {config.momentum}, allowed is 0"))
    if config.nesterov and (config.optimizer != "sgd" or not config.momentum):
        found.append(("nesterov", "is a kind of momentum; it needs optimizer sgd and a momentum above 0"))
    return found


def shape_problem(config: TrainingConfig, shape: tuple[int, ...]) -> str | None:
    """Why examples of ``shape`` cannot be trained on, in a sentence; None if they can."""
    if config.augment == "none" or len(shape) == 3:
        return None
    return f"training.augment {config.augment} moves images [channels, height, width]; examples have shape {shape}"


def learning_rate(config: TrainingConfig, round_: int) -> float:
    """The local learning rate in round ``round_`` (0 is the first)."""
    return config.lr * config.lr_decay**round_


def one_pass(examples: int, batch_size: int, rng: np.random.Generator, drop_last: bool = False) -> Ints:
    """The batches of one epoch: positions [batches, batch_size] of one permutation, the last row padded with -1.

    ``drop_last`` leaves that row out where it is padded, unless it is the only one.
    """
    batches = -(-examples // batch_size)
    rows = np.full(batches * batch_size, PADDING, dtype=np.int64)
    rows[:examples] = rng.permutation(examples)
    full = examples // batch_size
    return rows.reshape(batches, batch_size)[: full if drop_last and full else batches]


def concatenate_passes(passes: list[Ints], batch_size: int) -> Ints:
    """The batches of ``passes`` one after another; [0, batch_size] where there are none. A single one is given back itself."""
    if len(passes) == 1:
        return passes[0]
    width = max((rows.shape[1] for rows in passes), default=batch_size)
    plan = np.full((sum(len(rows) for rows in passes), width), PADDING, np.int64)
    at = 0
    for rows in passes:
        plan[at : at + len(rows), : rows.shape[1]] = rows
        at += len(rows)
    return plan


def without_vmap(run: Any) -> str | None:
    """What of ``run`` cannot be computed for many clients at once, as the end of a sentence; None if all can."""
    model, objective = run.model, run.objective
    if model.module.BATCH_NORM:
        return f"{model.name}, which has batch normalization"
    if getattr(model.module, "RANDOM", False):
        return f"{model.name}, which has dropout"
    return None if getattr(objective.module, "VMAP", True) else f"with the objective {objective.name}"
