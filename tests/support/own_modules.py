"""Torch modules as somebody may bring them, for ``model: tests.support.own_modules:NAME``;
examples are [1, 8, 8] or [64].
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, scaled_dot_product_attention

SIDE, PIXELS, CLASSES = 8, 64, 10


class Plain(nn.Module):
    """Two linear layers; its signature asks for everything that is offered."""

    def __init__(self, in_features: int, num_classes: int, width: int = 16) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(in_features, width), nn.Linear(width, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x.flatten(1)).relu())


class Recurrent(nn.Module):
    """An LSTM that reads the rows of an image."""

    def __init__(self, classes: int, width: int = 16) -> None:
        super().__init__()
        self.reader, self.head = nn.LSTM(SIDE, width, batch_first=True), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.reader(x.reshape(len(x), SIDE, SIDE))[0][:, -1])


class Transformer(nn.Module):
    """One block of attention over rows, with raw parameters: a class token and positions."""

    def __init__(self, n_classes: int, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.Linear(SIDE, width)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.1)
        self.positions = nn.Parameter(torch.randn(1, SIDE + 1, width) * 0.1)
        self.before, self.after = nn.LayerNorm(width, elementwise_affine=False), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.head = nn.Linear(width, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.embed(x.reshape(len(x), SIDE, SIDE))
        rows = torch.cat([self.token.expand(len(x), -1, -1), rows], dim=1) + self.positions
        q, k, v = self.qkv(self.before(rows)).chunk(3, dim=-1)
        rows = rows + self.out(scaled_dot_product_attention(q, k, v))
        return self.head(self.after(rows)[:, 0])


class Encoder(nn.Module):
    """Torch's own encoder layer, with dropout and a norm without bias."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(
            SIDE, 2, 16, dropout=0.1, batch_first=True, bias=False
        )
        self.head = nn.Linear(SIDE, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x.reshape(len(x), SIDE, SIDE)).mean(1))


class Constants(nn.Module):
    """Buffers that are drawn, integer, infinite and shared, and a frozen random layer."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.register_buffer("order", torch.arange(PIXELS - 1, -1, -1))
        self.register_buffer("scale", torch.linspace(0.5, 1.5, PIXELS))
        self.register_buffer("mask", torch.full((PIXELS,), float("-inf")))
        self.features = nn.Linear(PIXELS, 32).requires_grad_(False)
        self.head = nn.Linear(32, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.maximum(x.flatten(1)[:, self.order] * self.scale, self.mask)
        return self.head(self.features(x).cos())


class Convolutional(nn.Module):
    """A convolution with batch normalization."""

    def __init__(self, in_channels: int, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(in_channels, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(3)
        )
        self.head = nn.Linear(36, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x).flatten(1))


def tied(classes: int) -> nn.Module:
    """Two layers that share one weight."""
    first, second = nn.Linear(PIXELS, PIXELS), nn.Linear(PIXELS, PIXELS)
    second.weight = first.weight
    return nn.Sequential(
        nn.Flatten(), first, nn.ReLU(), second, nn.ReLU(), nn.Linear(PIXELS, classes)
    )


def lazy(classes: int) -> nn.Module:
    """A layer that learns its size from an example."""
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(8), nn.ReLU(), nn.Linear(8, classes))


class Unsaved(nn.Module):
    """Random constants that no ``state_dict`` holds, and a weight that is shared and frozen."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.register_buffer("shift", torch.randn(PIXELS), persistent=False)
        self.scale = torch.rand(PIXELS).tolist()
        self.first, self.second = nn.Linear(PIXELS, PIXELS), nn.Linear(PIXELS, PIXELS)
        self.first.weight.requires_grad_(False)
        self.second.weight = self.first.weight
        self.head = nn.Linear(PIXELS, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = (x.flatten(1) + self.shift) * x.new_tensor(self.scale)
        return self.head(self.second(self.first(x).relu()))


def pretrained(classes: int) -> nn.Module:
    """A layer with the values that a file might hold."""
    layer = nn.Linear(PIXELS, classes)
    layer.weight.data.copy_(torch.linspace(-1, 1, layer.weight.numel()).view_as(layer.weight))
    layer.bias.data.fill_(0.25)
    return nn.Sequential(nn.Flatten(), layer)


FITTING = (
    "Plain",
    "Recurrent",
    "Transformer",
    "Encoder",
    "Constants",
    "Convolutional",
    "tied",
    "lazy",
    "pretrained",
)


# What is refused


class Wrapped(nn.Module):
    """A linear layer whose output is given on as ``kind`` says."""

    def __init__(self, kind: str, classes: int = CLASSES) -> None:
        super().__init__()
        self.kind, self.layer, self.calls = kind, nn.Linear(PIXELS, classes), 0
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Any:
        y = self.layer((x.relu_() if self.kind == "in place" else x).flatten(1))
        self.calls += self.kind == "calls"
        if self.kind == "state in training" and self.training:
            self.seen += 1
        if self.kind == "buffer":
            self.seen += 1
        others: dict[str, Callable[[], Any]] = {
            "tuple": lambda: (y, x),
            "dict": lambda: {"logits": y},
            "one value": lambda: y[:, 0],
            "not finite": lambda: y / 0,
            "softmax": lambda: y.softmax(1),
            "half": lambda: y.half(),
            "calls": lambda: y + self.calls,
            "batch": lambda: y - y.mean(0),
            "draws": lambda: dropout(y, 0.5),
            "detached": y.detach,
            "drops": lambda: dropout(y, 0.5, self.training),
            "branches": lambda: y if x.sum() >= 0 else 2 * y,
        }
        return others.get(self.kind, lambda: y)()


def from_numpy(classes: int) -> nn.Module:
    """Draws from numpy's generator."""
    layer = nn.Linear(PIXELS, classes)
    layer.weight.data.copy_(torch.from_numpy(np.random.rand(*layer.weight.shape)))  # noqa: NPY002
    return nn.Sequential(nn.Flatten(), layer)


def from_the_clock(classes: int) -> nn.Module:
    """Draws from Python's generator, and the time."""
    layer = nn.Linear(PIXELS, classes)
    layer.bias.data.fill_(random.random() + time.perf_counter())
    return nn.Sequential(nn.Flatten(), layer)


def double(classes: int) -> nn.Module:
    """Has parameters of the type float64."""
    return nn.Sequential(nn.Flatten(), nn.Linear(PIXELS, classes)).double()


def complex_numbers(classes: int) -> nn.Module:
    """Has a complex parameter."""
    module = nn.Sequential(nn.Flatten(), nn.Linear(PIXELS, classes))
    module.register_parameter("phase", nn.Parameter(torch.zeros(3, dtype=torch.complex64)))
    return module


def frozen(classes: int) -> nn.Module:
    """Has nothing to train."""
    return nn.Sequential(nn.Flatten(), nn.Linear(PIXELS, classes)).requires_grad_(False)


def tabular(classes: int) -> nn.Module:
    """Normalizes a batch of features, which needs two examples."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(PIXELS, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, classes)
    )


def none(classes: int) -> None:
    """Builds nothing."""


def broken(classes: int) -> nn.Module:
    """Fails."""
    raise RuntimeError(f"no {classes}")


built = nn.Linear(2, 2)
number = 3
