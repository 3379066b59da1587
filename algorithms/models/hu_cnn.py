"""CIFAR-10 network of source inference (Hu et al. 2021), also FinP's CNN: two 5x5 convolutions,
three linear layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from algorithms.models._images import at_least
from datasets.components import Config as SlotConfig

if TYPE_CHECKING:
    from torch import nn

CONVOLUTIONAL = True
BATCH_NORM = False


class Config(SlotConfig):
    """No fields: the paper fixes the network."""


# Two convolutions without padding and two pools leave a pixel.
shape_problem = at_least(16, "hu_cnn")


def build(
    config: Config,
    shape: tuple[int, ...],
    classes: int,
) -> nn.Module:
    """Build the network for images [channels, height, width]; 940 362 parameters for 3x32x32 and
    10 classes.
    """
    from torch import nn

    channels, height, width = shape
    after = lambda side: ((side - 4) // 2 - 4) // 2  # noqa: E731
    return nn.Sequential(
        nn.Conv2d(channels, 32, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(32, 64, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * after(height) * after(width), 512),
        nn.ReLU(),
        nn.Linear(512, 128),
        nn.ReLU(),
        nn.Linear(128, classes),
    )
