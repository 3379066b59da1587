"""Plain empirical risk: the mean cross-entropy of the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from algorithms.interfaces import ClientInputs, Forward
from datasets.components import Config as SlotConfig

if TYPE_CHECKING:
    from torch import Tensor

    Arrays = dict[str, Tensor]

COLOR = 2


class Config(SlotConfig):
    """No fields."""


def loss(
    config: Config,
    forward: Forward,
    arrays: Arrays,
    x: Tensor,
    y: Tensor,
    client: ClientInputs,
) -> Tensor:
    """Compute the mean cross-entropy in nats over the examples whose label is not -100."""
    from algorithms.core.gradients import mean_cross_entropy

    return mean_cross_entropy(forward(arrays, x), y)
