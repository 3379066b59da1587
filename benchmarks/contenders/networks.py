"""The three networks in plain PyTorch, for environments without fedpriv.

A test holds them against fedpriv's own.
"""

from __future__ import annotations

import math

from torch import nn


def build(network: str, shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """The network of that name for examples of ``shape``. Raises KeyError for another name."""
    return {"mlp": _mlp, "mnist_cnn": _mnist_cnn, "tcn": _tcn}[network](shape, classes)


def _mlp(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(math.prod(shape), 64), nn.ReLU(), nn.Linear(64, classes)
    )


def _mnist_cnn(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    channels, height, width = shape
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * (height // 4) * (width // 4), classes),
    )


def _tcn(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    channels, length = shape
    return nn.Sequential(
        nn.Flatten(2),
        nn.Conv1d(channels, 64, 3),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Conv1d(64, 64, 3),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Flatten(),
        nn.Linear(64 * (((length - 2) // 2 - 2) // 2), classes),
    )
