"""PyTorch's optimizers by their functional names: the arithmetic of the classes, whose first use
loads a compiler (15 s).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from algorithms.training.local_sgd import Config

COMMON: dict[str, Any] = {"foreach": False, "maximize": False}


class TorchsOwn:
    """Steps one list of arrays as ``torch.optim.SGD`` or ``torch.optim.Adam`` with
    ``training``'s fields would.
    """

    def __init__(self, training: Config, arrays: Sequence[torch.Tensor]) -> None:
        self.training, self.arrays = training, list(arrays)
        self.velocity: list[torch.Tensor | None] = [None] * len(arrays)
        self.means, self.squares = ([torch.zeros_like(array) for array in arrays] for _ in range(2))
        self.steps = [torch.tensor(0.0) for _ in arrays]

    @torch.no_grad()
    def step(self, grads: list[torch.Tensor]) -> None:
        fields = self.training
        own = COMMON | {"lr": fields.lr, "weight_decay": fields.weight_decay}
        if fields.optimizer == "sgd":
            # The reference fills `velocity` in place; it is not read where momentum is 0.
            own |= {"momentum": fields.momentum, "dampening": 0.0, "nesterov": fields.nesterov}
            sgd(self.arrays, grads, self.velocity, **own)
        else:
            own |= {"amsgrad": False, "beta1": 0.9, "beta2": 0.999, "eps": fields.adam_epsilon}
            adam(self.arrays, grads, self.means, self.squares, [], self.steps, **own)
