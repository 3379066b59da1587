"""Initialization of weights from an explicit generator; PyTorch's own constructors use its global one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import nn


def initialize(module: nn.Module, generator: torch.Generator) -> None:
    """Initialize every layer of ``module`` in place, in the module's own order.

    Linear and convolution layers follow PyTorch's default, U(-1/sqrt(fan_in), 1/sqrt(fan_in)) for weights and biases,
    unless the layer has the attribute ``init = "xavier"`` (uniform Glorot weights, zero bias) or ``"kaiming_fan_out"``
    (normal weights of variance 2 / fan_out, zero bias: the backward case of He et al. 2015). Normalization layers start
    as the identity.
    """
    layer: Any
    for layer in module.modules():
        own = dict(layer.named_parameters(recurse=False))
        if "running_mean" in dict(layer.named_buffers(recurse=False)):
            layer.reset_running_stats()
        if "weight" in own and own["weight"].dim() >= 2:
            _fill_weighted(own, getattr(layer, "init", "default"), generator)
        elif "weight" in own:
            own["weight"].data.fill_(1.0)
            own["bias"].data.zero_()


def _fill_weighted(own: Mapping[str, torch.Tensor], scheme: str, generator: torch.Generator) -> None:
    weight = own["weight"].data
    receptive = math.prod(weight.shape[2:])
    fan_in, fan_out = weight.shape[1] * receptive, weight.shape[0] * receptive
    if scheme == "kaiming_fan_out":
        weight.normal_(0.0, math.sqrt(2.0 / fan_out), generator=generator)
        if "bias" in own:
            own["bias"].data.zero_()
        return
    bound = math.sqrt(6.0 / (fan_in + fan_out)) if scheme == "xavier" else 1.0 / math.sqrt(fan_in)
    weight.uniform_(-bound, bound, generator=generator)
    if "bias" in own:
        bias = own["bias"].data
        bias.zero_() if scheme == "xavier" else bias.uniform_(-bound, bound, generator=generator)
