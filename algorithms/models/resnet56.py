"""ResNet-56 for small images: the bottleneck network of FedML, FedAlign and FinP, or the basic
one of He et al. (2016).

    stem 3x3 -> 16    three stages of blocks with 16, 32, 64 planes and strides 1, 2, 2
    mean over the image    Linear

``bottleneck`` has 6 blocks of three convolutions per stage and a projection at the start of each
stage; ``basic`` has 9 blocks of two convolutions and shortcuts without parameters. The last stage
can be run again at a fraction of its width (`_slimmable.py`).

Differences from the papers: none for ``bottleneck``; ``basic`` starts from the same Kaiming-normal
fan-out weights.
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
SLIM = True


class Config(SlotConfig):
    """Fields of the network."""

    # Both networks have this name; FinP's code and its FedAlign baseline use the bottleneck one.
    block: Literal["bottleneck", "basic"] = Field(
        "bottleneck", description="three convolutions per block, or two"
    )


# Smaller images shrink to a pixel in the last stage, where a batch of one example could not be
# normalized.
shape_problem = at_least(5, "resnet56")


def build(
    config: Config,
    shape: tuple[int, ...],
    classes: int,
) -> nn.Module:
    """Build the network for images [channels, height, width].

    It has 591 322 parameters for 3 channels and 10 classes (basic: 853 018).
    """
    from algorithms.models._slimmable import Basic, Bottleneck, ResNet

    if config.block == "bottleneck":
        return ResNet(Bottleneck, 6, shape[0], classes)
    return ResNet(Basic, 9, shape[0], classes)
