"""The ``training`` slot: how a client trains. What runs it is in `algorithms.backends`, because it needs torch.

Each module has ``Config`` (that of `local_sgd` or one that extends it), ``schedule(config, records, chosen_with, rng)``, all
batches of a client's round, ``one_epoch(config, records, rng)``, those of one pass (both [steps, batch], padded with -1),
``learning_rate(config, round_)``, and ``unfit(config, shape)``, why records of this shape cannot be trained on. A member whose
steps do not follow the gradient of the objective has ``slope(config, network, records, noise)`` (see `dp_sgd`), and its
``Config`` need only be a `TrainingConfig`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from datasets.slot import Config as SlotConfig

Ints = NDArray[np.int64]
PADDING = -1


class TrainingConfig(SlotConfig):
    """What all local training has. Everything that can change the bytes of a result is here and not in ``resources``."""

    optimizer: Literal["sgd", "adam"] = Field("sgd", description="local optimiser")
    # Carrying momentum from round to round means state on every client, which a rarely picked client would find outdated.
    optimizer_state: Literal["reset", "persist"] = Field(
        "reset", description="reset: a new optimiser every round; persist: a client's moments outlive the round"
    )
    lr: float = Field(0.05, gt=0, le=100, description="learning rate of the local optimiser")
    lr_decay: float = Field(1.0, gt=0, le=1, description="the learning rate is multiplied by this every round")
    momentum: float = Field(0.0, ge=0, lt=1, description="momentum of sgd; not used by adam")
    nesterov: bool = Field(False, description="Nesterov's momentum instead of the plain one")
    # Keras has 1e-7, and adds it before the corrections of the moments' start at zero instead of after them.
    adam_epsilon: float = Field(1e-8, gt=0, le=1, description="what adam adds to the root of the second moment")
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty that is added to the gradient")
    epochs: int = Field(5, ge=0, description="passes over the client's records per round")
    batch_size: int = Field(50, ge=1, description="records per step; the last batch of a pass may be smaller")
    drop_last: bool = Field(
        False, description="leave out the last batch of a pass if it is not full and not the only one"
    )
    augment: Literal["none", "crop_flip"] = Field(
        "none", description="crop_flip: images are shifted by up to 4 pixels and mirrored at random, in training only"
    )
    device: Literal["cpu", "cuda"] = Field("cpu", description="where clients train")
    # More threads change the order of additions and so the bytes; many single-threaded actors scale better on small nets.
    threads: int = Field(1, ge=1, le=256, description="CPU threads of each client actor")
    cohort_size: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto", description="clients that are trained and summed up together"
    )


def conflicts(config: TrainingConfig) -> list[tuple[str, str]]:
    """What the common fields do not allow together: (field, sentence) pairs."""
    found = []
    if config.optimizer == "adam" and config.momentum:
        found.append(("momentum", f"adam has its own moments; got {config.momentum}, allowed is 0"))
    if config.nesterov and (config.optimizer != "sgd" or not config.momentum):
        found.append(("nesterov", "is a kind of momentum; it needs optimizer sgd and a momentum above 0"))
    return found


def unfit(config: TrainingConfig, shape: tuple[int, ...]) -> str | None:
    """Why records of ``shape`` cannot be trained on, in a sentence; None if they can."""
    if config.augment == "none" or len(shape) == 3:
        return None
    return f"training.augment {config.augment} moves images [channels, height, width]; records have shape {shape}"


def learning_rate(config: TrainingConfig, round_: int) -> float:
    """The local learning rate in round ``round_`` (0 is the first)."""
    return config.lr * config.lr_decay**round_


def one_pass(records: int, batch_size: int, rng: np.random.Generator, drop_last: bool = False) -> Ints:
    """The batches of one epoch: positions [batches, batch_size] of one permutation, the last row padded with -1.

    ``drop_last`` leaves that row out where it is padded, unless it is the only one.
    """
    batches = -(-records // batch_size)
    rows = np.full(batches * batch_size, PADDING, dtype=np.int64)
    rows[:records] = rng.permutation(records)
    full = records // batch_size
    return rows.reshape(batches, batch_size)[: full if drop_last and full else batches]


def several(passes: list[Ints], batch_size: int) -> Ints:
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
        return f"{model.name}, which has batch normalisation"
    if getattr(model.module, "RANDOM", False):
        return f"{model.name}, which has dropout"
    return None if getattr(objective.module, "VMAP", True) else f"with the objective {objective.name}"
