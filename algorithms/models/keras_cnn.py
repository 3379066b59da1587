"""The metric-privacy paper's network for MRI slices (Sainz-Pardo Diaz et al. 2025): three
convolutions, three dense layers.

    Conv 32, 3x3, ReLU, pool 2    Conv 64, 3x3, ReLU, pool 2    Conv 128, 3x3, ReLU
    Dense 64, ReLU, dropout 0.1    Dense 32, ReLU, dropout 0.1    Dense

Differences from the paper: it states neither kernel nor padding; 3x3 without padding is what the
samples of the authors' platform use. It is written in Keras, so kernels start Glorot-uniform and
biases at zero. The output is logits, not probabilities. Channels are flattened before pixels, not
after them, which only renumbers the first dense layer's inputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from algorithms.models._images import at_least
from datasets.components import Config as SlotConfig

if TYPE_CHECKING:
    from torch import nn

CONVOLUTIONAL = True
BATCH_NORM = False
RANDOM = True  # the forward pass draws numbers in training mode; see algorithms/core/dropout.py

FILTERS = (32, 64, 128)


class Config(SlotConfig):
    """Fields of the network."""

    # As in the samples of the authors' platform; it is Keras' default, too.
    padding: Literal["valid", "same"] = Field(
        "valid", description="same: convolutions keep an image's size; valid: no padding"
    )
    dropout: float = Field(
        0.1, ge=0, lt=1, description="probability that a unit of a hidden dense layer is left out"
    )


shape_problem = at_least(
    lambda config: 4 if config.padding == "same" else 18, "keras_cnn with padding {config.padding}"
)


def build(
    config: Config,
    shape: tuple[int, ...],
    classes: int,
) -> nn.Module:
    """Build the network for images [channels, height, width].

    It has 6 517 476 parameters for 1x128x128 and 4 classes (8 483 556 with padding ``same``).
    """
    from torch import nn

    from algorithms.core.dropout import Dropout

    channels, height, width = shape
    layers: list[nn.Module] = []
    same = config.padding == "same"
    padding = int(same)
    for out in FILTERS:
        layers.append(nn.Conv2d(channels, out, 3, padding=padding))
        if out != FILTERS[-1]:
            layers.append(nn.MaxPool2d(2))
        layers.append(nn.ReLU())
        channels = out
    features = channels * _remaining(height, same) * _remaining(width, same)
    layers += [
        nn.Flatten(),
        nn.Linear(features, 64),
        nn.ReLU(),
        Dropout(config.dropout),
        nn.Linear(64, 32),
        nn.ReLU(),
        Dropout(config.dropout),
        nn.Linear(32, classes),
    ]
    for layer in layers:
        layer.init = "xavier"  # type: ignore[assignment]
    return nn.Sequential(*layers)


def _remaining(side: int, same: bool) -> int:
    """Return the side of the last images: 28 for 128, or 32 with padding."""
    lost = 0 if same else 2
    return ((side - lost) // 2 - lost) // 2 - lost
