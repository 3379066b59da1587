"""ResNet-56 for small images: the bottleneck net of FedML, FedAlign and FinP, or the basic one of He et al. (2016).

    stem 3x3 -> 16    three stages of blocks with 16, 32, 64 planes and strides 1, 2, 2    mean over the image    Linear

``bottleneck`` has 6 blocks of three convolutions a stage and a projection at the start of each; ``basic`` has 9 blocks of two
and shortcuts without parameters. The last stage can be run again at a fraction of its width (`_slimmable.py`).

Differences from the papers: none for ``bottleneck``; ``basic`` starts from the same Kaiming-normal fan-out weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from datasets.components import Config as SlotConfig

if TYPE_CHECKING:
    from torch import nn

CONVOLUTIONAL = True
BATCH_NORM = True
SLIM = True


class Config(SlotConfig):
    """Fields of the network."""

    # Both nets carry the name; FinP's code and its FedAlign baseline use the bottleneck one.
    block: Literal["bottleneck", "basic"] = Field("bottleneck", description="three convolutions a block, or two")


def shape_problem(config: Config, shape: tuple[int, ...]) -> str | None:
    """Why examples of ``shape`` cannot be used, in a sentence; None if they can.

    Images of fewer pixels are a single pixel in the last stage, and a batch of one example could not be normalized there.
    """
    if len(shape) == 3 and min(shape[1:]) >= 5:
        return None
    return f"resnet56 halves images twice and needs 5x5 pixels or more; examples have shape {shape}"


def build(config: Config, shape: tuple[int, ...], classes: int) -> nn.Module:
    """Module for images [channels, height, width]; 591 322 parameters for 3 channels and 10 classes (basic: 853 018)."""
    from algorithms.models._slimmable import Basic, Bottleneck, ResNet

    if config.block == "bottleneck":
        return ResNet(Bottleneck, 6, shape[0], classes)
    return ResNet(Basic, 9, shape[0], classes)
