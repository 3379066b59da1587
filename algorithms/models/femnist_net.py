"""FEMNIST network of FinP's later released code (Zhao et al. 2025): group normalization, GELU,
strided convolutions.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from algorithms.models._images import at_least
from datasets.components import Config as SlotConfig

if TYPE_CHECKING:
    from torch import nn

CONVOLUTIONAL = True
BATCH_NORM = False
# Before torch 2.14, vmap cannot normalize groups of channels of images that are laid out
# channels-last.
VMAP = tuple(map(int, version("torch").split(".")[:2])) >= (2, 14)


class Config(SlotConfig):
    """No fields: the released code fixes the network."""


# Halved twice.
shape_problem = at_least(4, "femnist_net")


def build(
    config: Config,
    shape: tuple[int, ...],
    classes: int,
) -> nn.Module:
    """Build the network for images [channels, height, width]; 858 590 parameters for 1x28x28 and
    62 classes.
    """
    from torch import nn

    channels, height, width = shape
    features = 64 * (height // 4) * (width // 4)
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, padding=1),
        nn.GroupNorm(8, 32),
        nn.GELU(),
        nn.Conv2d(32, 32, 2, stride=2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.GroupNorm(16, 64),
        nn.GELU(),
        nn.Conv2d(64, 64, 2, stride=2),
        nn.Flatten(),
        nn.Linear(features, 256),
        nn.GELU(),
        nn.Linear(256, classes),
    )
