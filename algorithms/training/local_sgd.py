"""Local SGD (McMahan et al. 2017): every client takes optimizer steps on its own examples, from the weights it was sent.

    for each of E epochs, for each batch of the client's examples:  w <- w - lr * grad( objective on the batch )

Differences from the paper: other optimizers than plain SGD, augmentation and clipping of the gradient may be asked for.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from pydantic import Field

from algorithms.core.configs import TrainingConfig
from algorithms.core.messages import Ints
from algorithms.training._batches import (
    PADDING,
    concatenate_passes,
    conflicts,
    learning_rate,
    one_pass,
    shape_problem,
    without_vmap,
)

LITTLE = 100  # examples of a small dense net are trained on in less time than it takes to ask for it

__all__ = [
    "PADDING",
    "Config",
    "learning_rate",
    "one_epoch",
    "one_pass",
    "problems",
    "resolved",
    "schedule",
    "shape_problem",
]


class Config(TrainingConfig):
    """Fields of local training."""

    local_step: Literal["epochs", "one_batch"] = Field(
        "epochs", description="one_batch takes a single step on the examples that the cluster was chosen with"
    )
    clip_gradient: float | None = Field(
        None, gt=0, le=1e6, description="largest L2 norm of a step's whole gradient; null: no limit"
    )
    precision: Literal["float32", "bf16"] = Field("float32", description="number format of forward and backward passes")
    backend: Literal["auto", "loop", "vmap"] = Field(
        "auto",
        description="loop trains a block's clients one by one, vmap all at once; auto decides by model and device",
    )


def resolved(config: Config, run: Any) -> Config:
    """``config`` with every ``auto`` replaced, so that the choice is part of the trial's identity.

    Vectorizing over clients pays where a step is dominated by the cost of calling torch (small dense nets) and loses on
    CPU convolutions, which become grouped convolutions; both were measured on digits and MNIST.
    """
    dense = not run.model.module.CONVOLUTIONAL and without_vmap(run) is None
    fast = "vmap" if dense and config.precision == "float32" else "loop"
    backend = config.backend if config.backend != "auto" else fast
    size = config.clients_per_job if config.clients_per_job != "auto" else _cohort_size(config, run, backend)
    return config.model_copy(update={"backend": backend, "clients_per_job": size})


def _cohort_size(config: Config, run: Any, backend: str) -> int:
    """Enough clients that handing them out costs little, and few enough to share them among actors."""
    if backend == "loop":
        return 5
    seen = (run.data.config.examples_per_client or math.inf) * config.epochs  # examples, by each client in a round
    return 100 if seen <= LITTLE else 25


def problems(config: Config, run: Any) -> list[tuple[str, str]]:
    """What cannot be combined: (field, sentence) pairs."""
    found = conflicts(config)
    stopper = without_vmap(run)
    if config.backend == "vmap" and stopper:
        found.append(("backend", f"vmap cannot train {stopper}; use loop"))
    if config.backend == "vmap" and config.precision == "bf16":
        found.append(("precision", "bf16 is not available with the vmap backend; use backend loop or float32"))
    return found


def one_epoch(config: Config, examples: int, rng: np.random.Generator) -> Ints:
    """The batches of one pass over ``examples``, [steps, batch_size]; padded with -1."""
    return one_pass(examples, config.batch_size, rng, config.drop_last)


def schedule(config: Config, examples: int, chosen_with: Ints | None, rng: np.random.Generator) -> Ints:
    """All batches of a client's round, [steps, batch]; padded with -1.

    ``chosen_with`` holds the positions that the cluster was chosen with (None: all); only ``one_batch`` uses it.
    """
    if config.local_step == "one_batch":
        return (np.arange(examples) if chosen_with is None else chosen_with)[None, :]
    return concatenate_passes([one_epoch(config, examples, rng) for _ in range(config.epochs)], config.batch_size)
