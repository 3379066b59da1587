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

POOL = 0
PLANS = {
    11: (64, POOL, 128, POOL, 256, 256, POOL, 512, 512, POOL, 512, 512, POOL),
    13: (64, 64, POOL, 128, 128, POOL, 256, 256, POOL, 512, 512, POOL, 512, 512, POOL),
    16: (64, 64, POOL, 128, 128, POOL, *(256,) * 3, POOL, *(512,) * 3, POOL, *(512,) * 3, POOL),
    19: (64, 64, POOL, 128, 128, POOL, *(256,) * 4, POOL, *(512,) * 4, POOL, *(512,) * 4, POOL),
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
    for out in PLANS[config.depth]:
        if out == POOL:
            layers.insert(-1, nn.MaxPool2d(2))  # before the ReLU
        else:
            layers += [nn.Conv2d(channels, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU()]
            channels = out
    features = channels * (height // 32) * (width // 32)
    head = [
        nn.Linear(features, 512),
        nn.ReLU(),
        nn.Linear(512, 512),
        nn.ReLU(),
        nn.Linear(512, classes),
    ]
    return nn.Sequential(*layers, nn.Flatten(), *head)
