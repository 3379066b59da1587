"""FedAvg (McMahan et al. 2017, algorithm 1): the model moves by the weighted mean of its clients' updates.

    x_0 <- random, or after some epochs on the server's shadow set (``warm_start_epochs``)
    each round:  x_{t+1} = theta_t + mean update

The preset ``fedopt`` is what Sainz-Pardo Diaz et al. 2025 ran under that name: FedAvg from a warm start of 20 epochs.
The class ``FedOpt`` of Flower 1.13 is a base class; it stores a step size and betas, and aggregates like FedAvg. The
values that the paper lists are this class's unused defaults; the server optimizer that its text describes is
``fedadam``.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from algorithms.aggregation import _warm_start
from algorithms.aggregation._warm_start import WarmStartConfig
from algorithms.core.messages import ClientUpdates, Doubles, Floats, Ints
from algorithms.interfaces import Metrics, State
from datasets.components import Config as SlotConfig
from datasets.components import Preset

NEEDS = "mean"
SENSITIVITY = "mean"
PRESETS = {"fedopt": Preset("FedOpt", {"warm_start_epochs": 20})}
LABEL, COLOR = "FedAvg", 2


class Config(WarmStartConfig):
    """Fields of FedAvg."""

    weights: Literal["examples", "uniform"] = Field(
        "examples", description="a client's weight: its number of examples, or one"
    )


problems, warm_start = _warm_start.problems, _warm_start.warm_start


def by_examples(config: SlotConfig, examples: Ints) -> Doubles:
    """Return the numbers of examples [clients] as weights."""
    return examples.astype(np.float64)


def weigh(config: Config, examples: Ints) -> Doubles:
    """Return the clients' weights [clients] before normalization: their numbers of examples, or ones."""
    return by_examples(config, examples) if config.weights == "examples" else np.ones(len(examples))


def equal_weights(config: Config) -> bool:
    """Return whether all clients have the same weight."""
    return config.weights == "uniform"


def apply(config: SlotConfig, state: State, params: Floats, received: ClientUpdates) -> tuple[Floats, State, Metrics]:
    """Add the mean update; return new parameters [d] (float32, added in float64), the state and no metrics."""
    return (params + received.mean).astype(np.float32), state, {}
