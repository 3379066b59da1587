"""What aggregations with an optimizer on the server share: their fields, and a copy of the model that no noise has touched.

    Delta_t = (theta_t + mean update) - x_t         theta_t: what was sent, with any noise; x_t: the server's own copy
    x_{t+1} = x_t + step(Delta_t)                   sent out after the privacy slot has had its turn

Without noise theta_t = x_t, and Delta_t is the mean update (Reddi et al. 2021, algorithm 2). Under noise the two part, as in
Flower 1.13: clients' updates are measured and clipped against theta_t, the server steps from x_t. So the noise of one round
does not stay in the server's copy, but it does enter Delta_t.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field

from algorithms.aggregation import fedavg
from algorithms.core.messages import ClientUpdates, Doubles, Floats, Ints
from datasets.components import Config as SlotConfig

State = dict[str, np.ndarray]


class WarmStart(SlotConfig):
    """Fields of a start from a model that the server has trained on its own examples, with Adam."""

    # Sainz-Pardo Diaz et al. start FedAvgM, FedOpt and FedYogi warm and the others cold. Compare only what starts alike.
    warm_start_epochs: int = Field(0, ge=0, description="epochs of training on the server's shadow set before round 1")
    warm_start_lr: float = Field(1e-3, gt=0, le=10, description="Adam's step size in those epochs")
    warm_start_batch: int = Field(32, ge=1, description="batch size in those epochs")


class ServerConfig(fedavg.Config, WarmStart):
    """Fields of every aggregation that steps from the weighted mean of the clients' models."""


def problems(config: WarmStart, run: Any) -> list[tuple[str, str]]:
    """What cannot be combined: (field, sentence) pairs."""
    if config.warm_start_epochs > 0 and getattr(run.data.config, "shadow_size", None) == 0:
        sentence = f"trains on the server's shadow set for {config.warm_start_epochs} epochs, but data.shadow_size is 0"
        return [("warm_start_epochs", f"{sentence}; set this to 0 or give the server some examples")]
    return []


def weigh(config: ServerConfig, examples: Ints) -> Doubles:
    """Weights [clients] before normalization, as FedAvg's."""
    return fedavg.weigh(config, examples)


def begin(params: Floats, *moments: str) -> State:
    """The server's copy ``current`` [d] and its ``moments`` [d], which are zero. float32, as everything that is stored."""
    return {"current": params.copy()} | {name: np.zeros_like(params) for name in moments}


def difference(state: State, params: Floats, received: ClientUpdates) -> Doubles:
    """Delta_t [d]: the clients' mean model, which is ``params`` (as sent) plus their mean update, less the server's copy."""
    return params + received.mean - state["current"]


def take_step(state: State, step: Doubles, **moments: np.ndarray) -> tuple[Floats, State, dict[str, Any]]:
    """What ``apply`` returns: the new model [d], the state with new ``moments``, the L2 norm of the ``step`` [d]."""
    current = (state["current"] + step).astype(np.float32)
    kept = {name: array.astype(state[name].dtype) for name, array in moments.items()}
    return current, state | kept | {"current": current}, {"server_step": float(np.linalg.norm(step))}
