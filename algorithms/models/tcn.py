"""The network over time that FinP calls TCN (Zhao et al. 2025): two 1-d convolutions, each with
a pool, and a linear layer.

    Conv 64 x 3, ReLU, pool 2    Conv 64 x 3, ReLU, pool 2    Linear

Differences from the paper: it says "causal", but neither its text nor the released code pads
anything; ``causal`` adds the padding. The output is logits, not log-probabilities (as released);
cross-entropy is the same for both. Images are accepted too; they are read row after row as one long
signal.

A signal is treated as an image of one row, so that its channels can lie last in memory:
convolutions and pools of images are up to ten times as fast that way, and torch has no such memory
format for signals.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pydantic import Field

from datasets.components import Config as SlotConfig

if TYPE_CHECKING:
    from torch import nn

CONVOLUTIONAL = True
BATCH_NORM = False

CHANNELS = 64
KERNEL = 3


class Config(SlotConfig):
    """Fields of the network."""

    # As released; it is also the cheaper one.
    causal: bool = Field(
        False, description="pad two zeros on the left, so that no output sees a later sample"
    )


def shape_problem(
    config: Config,
    shape: tuple[int, ...],
) -> str | None:
    """Explain in a sentence why examples of ``shape`` cannot be used; return None if they can."""
    shortest = 4 if config.causal else 10
    if len(shape) >= 2 and math.prod(shape[1:]) >= shortest:
        return None
    return (
        f"tcn needs examples [channels, length] with a length of {shortest} or more; examples "
        f"have shape {shape}"
    )


def build(
    config: Config,
    shape: tuple[int, ...],
    classes: int,
) -> nn.Module:
    """Build the network for examples [channels, length]; 25 670 parameters for 9x128 and 6
    classes (26 438 causal).
    """
    from torch import nn

    channels = shape[0]
    length = math.prod(shape[1:])
    layers: list[nn.Module] = [nn.Flatten(2)]
    layers.append(nn.Unflatten(2, (1, length)))
    for _ in range(2):
        if config.causal:
            layers.append(nn.ZeroPad2d((KERNEL - 1, 0, 0, 0)))
        layers.append(nn.Conv2d(channels, CHANNELS, (1, KERNEL)))
        layers.append(nn.MaxPool2d((1, 2)))
        layers.append(nn.ReLU())
        channels = CHANNELS
        length = (length if config.causal else length - KERNEL + 1) // 2
    return nn.Sequential(
        *layers,
        nn.Flatten(),
        nn.Linear(CHANNELS * length, classes),
    )
