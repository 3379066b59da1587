"""Optimisers on flat vectors. Shapes are [d] for one client or [clients, d] for many: the arithmetic is the same."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from algorithms.training.local_sgd import Config

ADAM_BETAS = (0.9, 0.999)
ADAM_EPSILON = 1e-8


@dataclass
class Optimizer:
    """One client's (or cohort's) local optimiser. ``moments`` are made at the first step and forgotten with the object."""

    config: Config
    lr: float
    moments: list[torch.Tensor] = field(default_factory=list)
    steps: int = 0

    def step(self, params: torch.Tensor, grads: torch.Tensor) -> None:
        """Move ``params`` in place along ``grads``. Rows beyond ``len(params)`` of the moments stay as they are:
        a cohort's clients are ordered so that those who have finished come last."""
        self.steps += 1
        if self.config.weight_decay:
            grads = grads.add(params, alpha=self.config.weight_decay)
        if self.config.optimizer == "adam":
            self._adam(params, grads)
        elif self.config.momentum:
            self._momentum(params, grads)
        else:
            params.add_(grads, alpha=-self.lr)

    def _moment(self, index: int, like: torch.Tensor) -> torch.Tensor:
        if len(self.moments) <= index:
            self.moments.append(torch.zeros_like(like))
        return self.moments[index][: len(like)]

    def _momentum(self, params: torch.Tensor, grads: torch.Tensor) -> None:
        velocity = self._moment(0, grads).mul_(self.config.momentum).add_(grads)
        params.add_(velocity, alpha=-self.lr)

    def _adam(self, params: torch.Tensor, grads: torch.Tensor) -> None:
        """Kingma and Ba 2015, algorithm 1."""
        first, second = ADAM_BETAS
        mean = self._moment(0, grads).lerp_(grads, 1 - first)
        square = self._moment(1, grads).mul_(second).addcmul_(grads, grads, value=1 - second)
        scale = (square / (1 - second**self.steps)).sqrt_().add_(ADAM_EPSILON)
        params.addcdiv_(mean, scale, value=-self.lr / (1 - first**self.steps))
