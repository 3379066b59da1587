"""Initialization of weights from an explicit generator; PyTorch's own constructors use its
global one.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn


def initialize(module: nn.Module, generator: torch.Generator) -> None:
    """Initialize every layer of ``module`` in place, in the module's own order.

    Linear and convolution layers follow PyTorch's default, U(-1/sqrt(fan_in), 1/sqrt(fan_in)) for
    weights and biases, unless the layer has the attribute ``init = "xavier"`` (uniform Glorot
    weights, zero bias) or ``"kaiming_fan_out"`` (normal weights of variance 2 / fan_out, zero bias:
    the backward case of He et al. 2015). Normalization layers start as the identity.
    """
    layer: Any
    for layer in module.modules():
        parameters = {
            name: parameter.data for name, parameter in layer.named_parameters(recurse=False)
        }
        if "running_mean" in dict(layer.named_buffers(recurse=False)):
            layer.reset_running_stats()
        if "weight" not in parameters:
            continue
        weight = parameters["weight"]
        bias = parameters.get("bias")
        scheme = getattr(layer, "init", "default")
        if weight.dim() < 2:
            weight.fill_(1.0)
            parameters["bias"].zero_()
            continue
        receptive = math.prod(weight.shape[2:])
        fan_in = weight.shape[1] * receptive
        fan_out = weight.shape[0] * receptive
        bound = 1.0 / math.sqrt(fan_in)
        if scheme == "xavier":
            bound = math.sqrt(6.0 / (fan_in + fan_out))
        if scheme == "kaiming_fan_out":
            weight.normal_(0.0, math.sqrt(2.0 / fan_out), generator=generator)
        else:
            weight.uniform_(-bound, bound, generator=generator)
        if bias is not None:
            bias.uniform_(
                -bound, bound, generator=generator
            ) if scheme == "default" else bias.zero_()
