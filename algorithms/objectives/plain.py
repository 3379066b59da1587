"""Plain empirical risk: the mean cross-entropy of the batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from datasets.components import Config as SlotConfig

if TYPE_CHECKING:
    from torch import Tensor

    Arrays = dict[str, Tensor]


class Config(SlotConfig):
    """No fields."""


def loss(
    config: Config,
    forward: Callable[[Arrays, Tensor], Tensor],
    arrays: Arrays,
    x: Tensor,
    y: Tensor,
    context: Arrays,
) -> Tensor:
    """Mean cross-entropy in nats over the examples whose label is not -100."""
    from algorithms.core.cross_entropy import mean_cross_entropy

    return mean_cross_entropy(forward(arrays, x), y)
