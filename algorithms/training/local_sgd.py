"""Local SGD (McMahan et al. 2017): every client takes optimiser steps on its own records, from the weights it was sent."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from datasets.slot import Config as SlotConfig

Ints = NDArray[np.int64]
PADDING = -1


class Config(SlotConfig):
    """Fields of local training. Everything that can change the bytes of a result is here and not in ``resources``."""

    optimizer: Literal["sgd", "adam"] = Field("sgd", description="local optimiser, re-created every round")
    lr: float = Field(0.05, gt=0, le=100, description="learning rate of the local optimiser")
    lr_decay: float = Field(1.0, gt=0, le=1, description="the learning rate is multiplied by this every round")
    momentum: float = Field(0.0, ge=0, lt=1, description="momentum of sgd; not used by adam")
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty that is added to the gradient")
    epochs: int = Field(5, ge=0, description="passes over the client's records per round")
    batch_size: int = Field(50, ge=1, description="records per step; the last batch of a pass may be smaller")
    local_step: Literal["epochs", "one_batch"] = Field(
        "epochs", description="one_batch takes a single step on the records that the cluster was chosen with"
    )
    precision: Literal["float32", "bf16"] = Field("float32", description="number format of forward and backward passes")
    device: Literal["cpu", "cuda"] = Field("cpu", description="where clients train")
    # More threads change the order of additions and so the bytes; many single-threaded actors scale better on small nets.
    threads: int = Field(1, ge=1, le=256, description="CPU threads of each client actor")
    backend: Literal["auto", "loop", "vmap"] = Field(
        "auto",
        description="loop trains a cohort's clients one by one, vmap all at once; auto decides by model and device",
    )
    cohort_size: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto", description="clients that are trained and summed up together"
    )


def resolved(config: Config, run: Any) -> Config:
    """``config`` with every ``auto`` replaced, so that the choice is part of the trial's identity.

    Vectorising over clients pays where a step is dominated by the cost of calling torch (small dense nets) and loses on
    CPU convolutions, which become grouped convolutions; both were measured on digits and MNIST.
    """
    model = run.model.module
    dense = not model.CONVOLUTIONAL and not model.BATCH_NORM
    fast = "vmap" if dense and config.precision == "float32" else "loop"
    backend = config.backend if config.backend != "auto" else fast
    size = config.cohort_size if config.cohort_size != "auto" else (25 if backend == "vmap" else 5)
    return config.model_copy(update={"backend": backend, "cohort_size": size})


def problems(config: Config, run: Any) -> list[tuple[str, str]]:
    """What cannot be combined: (field, sentence) pairs."""
    found = []
    if config.backend == "vmap" and run.model.module.BATCH_NORM:
        found.append(("backend", f"vmap cannot train {run.model.name}, which has batch normalisation; use loop"))
    if config.backend == "vmap" and config.precision == "bf16":
        found.append(("precision", "bf16 is not available with the vmap backend; use backend loop or float32"))
    if config.optimizer == "adam" and config.momentum:
        found.append(("momentum", f"adam has its own moments; got {config.momentum}, allowed is 0"))
    return found


def learning_rate(config: Config, round_: int) -> float:
    """The local learning rate in round ``round_`` (0 is the first)."""
    return config.lr * config.lr_decay**round_


def one_pass(records: int, batch_size: int, rng: np.random.Generator) -> Ints:
    """The batches of one epoch: positions [batches, batch_size] of one permutation, the last row padded with -1."""
    batches = -(-records // batch_size)
    rows = np.full(batches * batch_size, PADDING, dtype=np.int64)
    rows[:records] = rng.permutation(records)
    return rows.reshape(batches, batch_size)


def schedule(config: Config, records: int, chosen_with: Ints | None, rng: np.random.Generator) -> Ints:
    """All batches of a client's round, [steps, batch]; padded with -1.

    ``chosen_with`` holds the positions that the cluster was chosen with (None: all); only ``one_batch`` uses it.
    """
    if config.local_step == "one_batch":
        return (np.arange(records) if chosen_with is None else chosen_with)[None, :]
    passes = [one_pass(records, config.batch_size, rng) for _ in range(config.epochs)]
    return np.concatenate(passes) if passes else np.empty((0, config.batch_size), np.int64)
