"""FEMNIST network of IFCA-MIR (Jung et al., appendix): two 3x3 convolutions, one pool, two
linear layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from algorithms.models._images import at_least
from datasets.components import Config as SlotConfig

if TYPE_CHECKING:
    from torch import nn

CONVOLUTIONAL = True
BATCH_NORM = False


class Config(SlotConfig):
    """Fields of the network."""

    # The paper does not say; its layer list is that of the well-known MNIST example, which does not
    # pad.
    padding: int = Field(
        0, ge=0, le=1, description="pixels of zero padding around each convolution"
    )


shape_problem = at_least(
    lambda config: 2 if config.padding else 6, "femnist_cnn with padding {config.padding}"
)


def build(
    config: Config,
    shape: tuple[int, ...],
    classes: int,
) -> nn.Module:
    """Build the network for images [channels, height, width].

    It has 1 206 590 parameters for 1x28x28 and 62 classes (1 632 574 with padding).
    """
    from torch import nn

    channels, height, width = shape
    lost = 4 * (1 - config.padding)
    high = (height - lost) // 2
    wide = (width - lost) // 2
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, padding=config.padding),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=config.padding),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * high * wide, 128),
        nn.ReLU(),
        nn.Linear(128, classes),
    )
