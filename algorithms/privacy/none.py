"""No protection: updates and models are used as they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from algorithms.core.messages import ClientUpdates, Doubles, Floats
from datasets.components import Config as SlotConfig

NEEDS, NOISY = "mean", False


class Config(SlotConfig):
    """No fields."""


def bound(config: Config, norms: Doubles) -> Doubles:
    """Scale 1 for every update, whatever its norm [clients]."""
    return np.ones(len(norms))


def release(config: Config, params: Floats, received: ClientUpdates, noise: None) -> tuple[Floats, dict[str, Any]]:
    """The parameters [d], unchanged, and nothing to report."""
    return params, {}
