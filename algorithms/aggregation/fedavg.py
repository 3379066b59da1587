"""FedAvg (McMahan et al. 2017, algorithm 1): the model moves by the weighted mean of its clients' updates."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field

from algorithms.core.messages import ClientUpdates, Doubles, Ints
from datasets.components import Config as SlotConfig

NEEDS = "mean"


class Config(SlotConfig):
    """Fields of FedAvg."""

    weights: Literal["examples", "uniform"] = Field(
        "examples", description="a client counts by its examples, or as one"
    )


def begin(config: Config, params: np.ndarray) -> dict[str, np.ndarray]:
    """The server keeps nothing between rounds."""
    return {}


def weigh(config: Config, examples: Ints) -> Doubles:
    """Weights [clients] before normalization, from the numbers of training examples."""
    return examples.astype(np.float64) if config.weights == "examples" else np.ones(len(examples))


def apply(
    config: Config, state: dict[str, np.ndarray], params: np.ndarray, received: ClientUpdates
) -> tuple[np.ndarray, dict[str, np.ndarray], dict[str, Any]]:
    """New parameters [d] (float32, added in float64), the server's state, and nothing to report."""
    return (params + received.mean).astype(np.float32), state, {}
