"""FedAvg (McMahan et al. 2017, algorithm 1): the model moves by the weighted mean of its
clients' updates.

    x_0 <- random, or after some epochs on the server's shadow set (``warm_start_epochs``)
    each round:  x_{t+1} = theta_t + mean update

The preset ``fedopt`` is what Sainz-Pardo Diaz et al. 2025 ran under that name: FedAvg from a warm
start of 20 epochs. The class ``FedOpt`` of Flower 1.13 is a base class; it stores a step size and
betas, and aggregates like FedAvg. The values that the paper lists are this class's unused defaults;
the server optimizer that its text describes is ``fedadam``.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from algorithms.core.choices import WarmStart
from algorithms.core.messages import ClientUpdates, Doubles, Floats, Ints
from algorithms.interfaces import Metrics, Problems, Run, State
from datasets.components import Above, Preset, read_when
from datasets.components import Config as SlotConfig
from datasets.source_configs import HeldOutConfig, SharedTestConfig

NEEDS = "mean"
SENSITIVITY = "mean"
PRESETS = {"fedopt": Preset("FedOpt", {"warm_start_epochs": 20})}
LABEL = "FedAvg"
COLOR = 2


class WarmStartConfig(SlotConfig):
    """Fields of every aggregation that supports a warm start."""

    # Sainz-Pardo Diaz et al. start FedAvgM, FedOpt and FedYogi warm and the others cold. Compare
    # only methods that start alike.
    warm_start_epochs: int = Field(
        0, ge=0, description="epochs of training on the server's shadow set before round 1"
    )
    warm_start_lr: float = Field(
        1e-3,
        gt=0,
        le=10,
        description="Adam's step size in those epochs",
        json_schema_extra=read_when(warm_start_epochs=Above(0)),
    )
    warm_start_batch: int = Field(
        32,
        ge=1,
        description="batch size in those epochs",
        json_schema_extra=read_when(warm_start_epochs=Above(0)),
    )


class Config(WarmStartConfig):
    """Fields of FedAvg."""

    weights: Literal["examples", "uniform"] = Field(
        "examples", description="a client's weight: its number of examples, or one"
    )


def problems(config: WarmStartConfig, run: Run) -> Problems:
    """Refuse a warm start if the server has no examples of its own."""
    data = run.data.config
    nothing = isinstance(data, SharedTestConfig | HeldOutConfig) and data.shadow_size == 0
    if config.warm_start_epochs > 0 and nothing:
        sentence = (
            f"trains on the server's shadow set for {config.warm_start_epochs} epochs, but "
            "data.shadow_size is 0"
        )
        return [
            ("warm_start_epochs", f"{sentence}; set this to 0 or give the server some examples")
        ]
    return []


def warm_start(config: WarmStartConfig) -> WarmStart | None:
    """Return the settings of the warm start, or None if it is switched off."""
    if not config.warm_start_epochs:
        return None
    return WarmStart(config.warm_start_epochs, config.warm_start_lr, config.warm_start_batch)


def by_examples(config: SlotConfig, examples: Ints) -> Doubles:
    """Return the numbers of examples [clients] as weights."""
    return examples.astype(np.float64)


def weigh(config: Config, examples: Ints) -> Doubles:
    """Return the clients' weights [clients] before normalization: their numbers of examples, or
    ones.
    """
    if config.weights == "examples":
        return by_examples(config, examples)
    return np.ones(len(examples))


def equal_weights(config: Config) -> bool:
    """Return whether all clients have the same weight."""
    return config.weights == "uniform"


def apply(
    config: SlotConfig, state: State, params: Floats, received: ClientUpdates
) -> tuple[Floats, State, Metrics]:
    """Add the mean update; return new parameters [d] (float32, added in float64), the state and
    no metrics.
    """
    return (params + received.mean).astype(np.float32), state, {}
