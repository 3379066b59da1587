"""No protection: updates and models are used as they are."""

from __future__ import annotations

import numpy as np

from algorithms.core.messages import ClientUpdates, Doubles, Floats
from algorithms.core.noise import Normals
from algorithms.interfaces import Metrics
from datasets.components import Config as SlotConfig

NEEDS, NOISY = "mean", False


class Config(SlotConfig):
    """No fields."""


def bound(config: Config, norms: Doubles) -> Doubles:
    """Return factor 1 for every update [clients]."""
    return np.ones(len(norms))


def release(config: Config, params: Floats, received: ClientUpdates, noise: Normals | None) -> tuple[Floats, Metrics]:
    """Return the parameters [d] unchanged, and no metrics."""
    return params, {}
