"""MNIST network of IFCA-MIR (Jung et al., appendix): two padded 3x3 convolutions, one
Glorot-initialized linear layer.
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


# Halved twice.
shape_problem = at_least(4, "mnist_cnn")


def build(
    config: Config,
    shape: tuple[int, ...],
    classes: int,
) -> nn.Module:
    """Build the network for images [channels, height, width]; 50 186 parameters for 1x28x28 and
    10 classes.

    The paper does not state the padding; the sizes that it states (28 before, 14 after the pool)
    imply padding 1.
    """
    from torch import nn

    channels, height, width = shape
    features = 64 * (height // 4) * (width // 4)
    head = nn.Linear(features, classes)
    head.init = "xavier"  # type: ignore[assignment]
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        head,
    )
