"""What the noises of a trusted server share: clipping, sensitivity, noise, and what is reported of them.

u_i <- u_i * min(1, C / ||u_i||)        one norm over all arrays, of the update against the (noisy) model that was sent
theta <- aggregate({u_i}) + N(0, sd^2)  independently in every coordinate, sd = multiplier * sensitivity
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field

from algorithms.core.messages import PIECE, ClientUpdates, Doubles, Floats
from algorithms.core.noise import Normals
from datasets.components import Config as SlotConfig


class ServerNoiseConfig(SlotConfig):
    """Fields of every component that clips updates and adds noise to the aggregate."""

    # About the largest distance between client models in a first round, by which the paper was guided.
    clip: float = Field(5.0, gt=0, description="C, the largest L2 norm that an update is left with")
    # A level of noise and not a budget: 0.01 costs an epsilon of thousands in a single round.
    noise_multiplier: float = Field(0.01, ge=0, description="z, standard deviation of the noise over the sensitivity")
    # Clients with more examples move the mean further than 1/n of it; C/n, as released, then hides less than it says.
    sensitivity: Literal["weights", "uniform"] = Field(
        "weights", description="what one client can move: C times the largest weight, or C/n whatever the weights"
    )


def scales(clip: float, norms: Doubles) -> Doubles:
    """min(1, C / norm) [clients]; 1 for an update of norm 0.

    >>> scales(5.0, np.array([0.0, 2.5, 10.0])).tolist()
    [1.0, 1.0, 0.5]
    """
    return np.where(norms > clip, clip / np.maximum(norms, clip), 1.0)


def sensitivity(config: ServerNoiseConfig, received: ClientUpdates) -> float:
    """L2 distance by which the mean moves, at most, when one client sends zero instead of its update."""
    if config.sensitivity == "uniform":
        return config.clip / len(received.clients)
    return config.clip * float(received.weights.max())


def add_noise(params: Floats, sd: float, noise: Normals) -> Floats:
    """``params`` [d] plus ``noise`` of standard deviation ``sd``, in a new array."""
    released = noise.take()
    for at in range(0, len(params), PIECE):
        piece = released[at : at + PIECE]
        piece *= np.float32(sd)
        piece += params[at : at + PIECE]
    return released


def noise_metrics(config: ServerNoiseConfig, received: ClientUpdates, sd: float) -> dict[str, Any]:
    """What a round reports: the noise, the norms of the updates before clipping, and how the two compare.

    ``noise_to_update`` is the expected L2 norm of the noise over that of the mean update, not a number where that is 0.
    """
    norms = received.norms if len(received.norms) else np.zeros(1)  # nobody may come to a Poisson round
    moved = float(np.linalg.norm(received.mean))
    return {
        "noise_std": sd,
        "clip_fraction": float(np.mean(norms > config.clip)),
        "update_norm": float(norms.mean()),
        "update_norm_max": float(norms.max()),
        "noise_to_update": sd * len(received.mean) ** 0.5 / moved if moved else float("nan"),
    }
