"""VGG with batch normalization (Simonyan and Zisserman 2015), with the head that IFCA-MIR
describes for CIFAR-10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from algorithms.models._images import at_least
from datasets.components import Config as SlotConfig

if TYPE_CHECKING:
    from torch import nn

CONVOLUTIONAL = True
BATCH_NORM = True

# By depth, how many layers have so many channels each; a pooling follows.
CHANNELS = (64, 128, 256, 512, 512)
LAYERS = {
    11: (1, 1, 2, 2, 2),
    13: (2, 2, 2, 2, 2),
    16: (2, 2, 3, 3, 3),
    19: (2, 2, 4, 4, 4),
}


class Config(SlotConfig):
    """Fields of the network."""

    # The paper does not say which depth it used; 11 is the cheapest of the family.
    depth: Literal[11, 13, 16, 19] = Field(
        11, description="number of weighted layers in the original naming"
    )


# Halved five times.
shape_problem = at_least(32, "vgg")


def build(
    config: Config,
    shape: tuple[int, ...],
    classes: int,
) -> nn.Module:
    """Build the network for images [channels, height, width]; 9 756 426 parameters at depth 11,
    32x32 and 10 classes.
    """
    from torch import nn

    channels, height, width = shape
    layers: list[nn.Module] = []
    for out, number in zip(CHANNELS, LAYERS[config.depth], strict=True):
        for _ in range(number):
            layers.append(nn.Conv2d(channels, out, 3, padding=1))
            layers.append(nn.BatchNorm2d(out))
            layers.append(nn.ReLU())
            channels = out
        layers.insert(-1, nn.MaxPool2d(2))  # before the ReLU
    features = channels * (height // 32) * (width // 32)
    head = [
        nn.Linear(features, 512),
        nn.ReLU(),
        nn.Linear(512, 512),
        nn.ReLU(),
        nn.Linear(512, classes),
    ]
    return nn.Sequential(*layers, nn.Flatten(), *head)
