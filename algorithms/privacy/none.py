"""No protection: updates and models are used as they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from algorithms.messages import Floats, Received
from datasets.slot import Config as SlotConfig


class Config(SlotConfig):
    """No fields."""


def bound(config: Config, updates: Floats) -> Floats:
    """The updates [clients, d], unchanged."""
    return updates


def release(
    config: Config, params: Floats, received: Received, rng: np.random.Generator
) -> tuple[Floats, dict[str, Any]]:
    """The parameters [d], unchanged, and nothing to report."""
    return params, {}
