"""Multi-layer perceptron for small images and tables: flatten, hidden ReLU layers, logits."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from datasets.components import Config as SlotConfig

if TYPE_CHECKING:
    from torch import nn

CONVOLUTIONAL = False
BATCH_NORM = False


class Config(SlotConfig):
    """Fields of the perceptron."""

    # 64 units memorize 40 digits within a few epochs, which is the leakage that the quickstart
    # wants to show.
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (64,), max_length=8, description="width of each hidden layer"
    )


def parameters(
    config: Config,
    shape: tuple[int, ...],
    classes: int,
) -> int:
    """Return the number of weights and biases."""
    widths = (math.prod(shape), *config.hidden, classes)
    return sum((width + 1) * following for width, following in pairwise(widths))


def build(
    config: Config,
    shape: tuple[int, ...],
    classes: int,
) -> nn.Module:
    """Build the network for examples of ``shape``; with one hidden layer of 64 on 8x8 digits it
    has 4 810 parameters.
    """
    from torch import nn

    layers: list[nn.Module] = [nn.Flatten()]
    width = math.prod(shape)
    for following in config.hidden:
        layers.append(nn.Linear(width, following))
        layers.append(nn.ReLU())
        width = following
    return nn.Sequential(*layers, nn.Linear(width, classes))
