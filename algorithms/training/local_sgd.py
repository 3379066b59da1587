"""Local SGD (McMahan et al. 2017): every client takes optimizer steps on its own examples, from
the weights it was sent.

    for each of E epochs, for each batch of the client's examples:  w <- w - lr * grad( objective on
    the batch )

Differences from the paper: optimizers other than plain SGD, augmentation and clipping of the
gradient are available.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from pydantic import Field

from algorithms.core.configs import TrainingConfig
from algorithms.core.messages import Ints
from algorithms.interfaces import Problems, Run
from datasets.components import inherited

LABEL = "local SGD"
PADDING = -1  # in place of an example in a batch that is not full
# places in a row of batches that hold no example; wider ones would only take memory
WIDEST = 1 << 16
LITTLE = 100  # examples of a small dense network take less time to train on than to dispatch


class Config(TrainingConfig):
    """Fields of local training."""

    local_step: Literal["epochs", "one_batch"] = Field(
        "epochs",
        description=(
            "one_batch takes a single step on the examples that the cluster was chosen with"
        ),
    )
    epochs: int = inherited(TrainingConfig, "epochs", local_step="epochs")
    batch_size: int = inherited(TrainingConfig, "batch_size", local_step="epochs")
    drop_last: bool = inherited(TrainingConfig, "drop_last", local_step="epochs")
    clip_gradient: float | None = Field(
        None, gt=0, le=1e6, description="largest L2 norm of a step's whole gradient; null: no limit"
    )
    precision: Literal["float32", "bf16"] = Field(
        "float32", description="number format of forward and backward passes"
    )
    backend: Literal["auto", "loop", "vmap"] = Field(
        "auto",
        description=(
            "loop trains a block's clients one by one, vmap all at once; auto decides by model "
            "and device"
        ),
    )


def resolve(config: Config, run: Run) -> Config:
    """Replace every ``auto``, so that the choice is part of the trial's identity.

    Vectorizing over clients pays off where the cost of calling torch dominates a step (small dense
    networks) and is slower for CPU convolutions, which become grouped convolutions; both were
    measured on digits and MNIST.
    """
    dense = not run.model.module.CONVOLUTIONAL and _without_vmap(run) is None
    fast = "vmap" if dense and config.precision == "float32" else "loop"
    backend = config.backend if config.backend != "auto" else fast
    examples = (
        run.data.config.examples_per_client or math.inf
    ) * config.epochs  # examples, by each client in a round
    # Large enough that dispatching a block costs little, and small enough to spread clients over
    # actors.
    block = 5 if backend == "loop" else 100 if examples <= LITTLE else 25
    size = config.clients_per_job if config.clients_per_job != "auto" else block
    return config.model_copy(update={"backend": backend, "clients_per_job": size})


def _without_vmap(run: Run) -> str | None:
    """Name the component of ``run`` that vmap cannot handle, as the end of a sentence; return
    None if there is none.
    """
    model = run.model
    objective = run.objective
    if model.module.BATCH_NORM:
        return f"{model.title}, which has batch normalization"
    if model.module.RANDOM:
        return f"{model.title}, which has dropout"
    if not model.module.VMAP:
        return model.title
    return None if objective.module.VMAP else f"with the objective {objective.name}"


def problems(config: Config, run: Run) -> Problems:
    """Refuse the vmap backend for components or precisions that it cannot handle."""
    if config.backend != "vmap":
        return []
    stopper = _without_vmap(run)
    refused = [("backend", f"vmap cannot train {stopper}; use loop")] if stopper else []
    bf16 = ("precision", "bf16 is not available with the vmap backend; use backend loop or float32")
    return [*refused, bf16] if config.precision == "bf16" else refused


def reduced_precision(config: Config) -> bool:
    """Return whether forward and backward passes are computed in bf16."""
    return config.precision != "float32"


def one_pass(
    examples: int,
    batch_size: int,
    rng: np.random.Generator,
    drop_last: bool = False,
) -> Ints:
    """Draw the batches of one epoch from a random permutation of the examples: positions
    [batches, batch_size].

    The last row is padded with -1, or left out with ``drop_last``, unless it is the only one; all
    are narrower if they would be mostly padding.
    """
    batches = -(-examples // batch_size)
    width = min(batch_size, max(examples, WIDEST))
    rows = np.full(batches * width, PADDING, dtype=np.int64)
    rows[:examples] = rng.permutation(examples)
    full = examples // batch_size
    return rows.reshape(batches, width)[: full if drop_last and full else batches]


def concatenate_passes(passes: list[Ints], batch_size: int) -> Ints:
    """Join the batches of several epochs, [0, batch_size] if there are none; a single epoch is
    returned as it is.
    """
    if len(passes) == 1:
        return passes[0]
    widths = [rows.shape[1] for rows in passes]
    width = max(widths, default=min(batch_size, WIDEST))
    plan = np.full(
        (sum(len(rows) for rows in passes), width),
        PADDING,
        np.int64,
    )
    at = 0
    for rows in passes:
        plan[at : at + len(rows), : rows.shape[1]] = rows
        at += len(rows)
    return plan


def one_epoch(
    config: Config,
    examples: int,
    rng: np.random.Generator,
) -> Ints:
    """Draw the batches of one pass, [steps, batch_size], padded with -1."""
    return one_pass(examples, config.batch_size, rng, config.drop_last)


def schedule(
    config: Config,
    examples: int,
    chosen_with: Ints | None,
    rng: np.random.Generator,
) -> Ints:
    """Draw all batches of a client's round, [steps, batch], padded with -1.

    ``chosen_with`` holds the positions that the cluster was chosen with (None: all); only
    ``one_batch`` uses it.
    """
    if config.local_step == "one_batch":
        return (np.arange(examples) if chosen_with is None else chosen_with)[None, :]
    passes = [one_epoch(config, examples, rng) for _ in range(config.epochs)]
    return concatenate_passes(passes, config.batch_size)
