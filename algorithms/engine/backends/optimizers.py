"""Optimizers on flat vectors, [d] for one client or [clients, d] for many: the same formulas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.optim.adam import adam

from algorithms.core.configs import TrainingConfig

ADAM_BETAS = (0.9, 0.999)


@dataclass
class Optimizer:
    """The local optimizer of one client, or of a block, with the learning rate of this round.

    Attributes:
        moments: momentum or Adam's moments, of the parameters' shape; created at the first step
            unless restored.
        steps: number of steps so far: an integer, or [clients, 1] float64 if the clients have
            different histories.
    """

    config: TrainingConfig
    lr: float
    moments: list[torch.Tensor] = field(default_factory=list)
    steps: int | torch.Tensor = 0

    def step(
        self, params: torch.Tensor, grads: torch.Tensor, reached: torch.Tensor | None = None
    ) -> None:
        """Update ``params`` in place along ``grads``, [d] or [clients, d] each.

        Those that no gradient has ``reached`` [d] do not decay, as in PyTorch.

        Only the first ``len(params)`` rows of the moments change: a block's clients are ordered so
        that those who have finished come last.
        """
        if isinstance(self.steps, int):
            self.steps += 1
        else:
            self.steps[: len(params)] += 1
        if self.config.weight_decay:
            decaying = params if reached is None else params * reached
            grads = grads.add(decaying, alpha=self.config.weight_decay)
        if self.config.optimizer == "adam":
            self._adam(params, grads)
        elif self.config.momentum:
            self._momentum(params, grads)
        else:
            params.add_(grads, alpha=-self.lr)

    def reorder(self, order: torch.Tensor) -> None:
        """Permute the clients, which are the rows of the moments and of the step counts."""
        self.moments = [moment[order] for moment in self.moments]
        if isinstance(self.steps, torch.Tensor):
            self.steps = self.steps[order]

    def _moment(self, index: int, like: torch.Tensor) -> torch.Tensor:
        if len(self.moments) <= index:
            self.moments.append(torch.zeros_like(like))
        return self.moments[index][: len(like)]

    def _momentum(self, params: torch.Tensor, grads: torch.Tensor) -> None:
        """Take a momentum step (Sutskever et al. 2013).

        Nesterov's form is arranged as in PyTorch, from the new velocity.
        """
        momentum = self.config.momentum
        velocity = self._moment(0, grads)
        velocity.mul_(momentum).add_(grads)
        if self.config.nesterov:
            velocity = grads.add(velocity, alpha=momentum)
        params.add_(velocity, alpha=-self.lr)

    def _adam(self, params: torch.Tensor, grads: torch.Tensor) -> None:
        """Take an Adam step (Kingma and Ba 2015, algorithm 1)."""
        mean = self._moment(0, grads)
        square = self._moment(1, grads)
        if isinstance(self.steps, int) and grads.dim() == 1:
            self._fused_adam(params, grads, mean, square)
            return
        first, second = ADAM_BETAS
        mean.lerp_(grads, 1 - first)
        square.mul_(second).addcmul_(grads, grads, value=1 - second)
        if isinstance(self.steps, int):
            unbiased = square / (1 - second**self.steps)
            scale = unbiased.sqrt_().add_(self.config.adam_epsilon)
            step = -self.lr / (1 - first**self.steps)
            params.addcdiv_(mean, scale, value=step)
            return
        steps = self.steps[: len(grads)]
        unbiased = square / (1 - second**steps).to(square)
        scale = unbiased.sqrt_().add_(self.config.adam_epsilon)
        sizes = self.lr / (1 - first**steps)
        params.sub_(mean / scale * sizes.to(mean))

    def _fused_adam(
        self,
        params: torch.Tensor,
        grads: torch.Tensor,
        mean: torch.Tensor,
        square: torch.Tensor,
    ) -> None:
        """Take PyTorch's own step, in one pass over the vectors.

        A block is left to single operations: the last digits of this one depend on a number's place
        in a vector, and so a client's weights would depend on who shares its block.
        """
        first, second = ADAM_BETAS
        before = torch.full(
            (),
            float(self.steps - 1),
            device=params.device,
        )
        adam(
            [params],
            [grads],
            [mean],
            [square],
            [],
            [before],  # PyTorch counts this step itself
            lr=self.lr,
            beta1=first,
            beta2=second,
            eps=self.config.adam_epsilon,
            weight_decay=0.0,
            fused=True,
            amsgrad=False,
            maximize=False,
        )


def moment_count(config: TrainingConfig) -> int:
    """Return how many vectors of the model's size the optimizer keeps between steps."""
    return 2 if config.optimizer == "adam" else int(config.momentum > 0)


def resume_optimizer(
    config: TrainingConfig,
    lr: float,
    carried: Mapping[str, np.ndarray],
    shape: tuple[int, ...],
    device: torch.device,
) -> Optimizer:
    """Create the optimizer of one client or of a block at the start of a round.

    A client that has not taken a step yet, or whose moments are no longer finite, starts from zero
    moments, whatever ``carried`` contains for it: the result of `optimizer_state` after the
    previous round, or nothing. ``shape`` is (d,) for one client, (clients, d) for a block.
    """
    kept = moment_count(config)
    if config.optimizer_state == "reset" or not kept:
        return Optimizer(config, lr)
    *clients, d = shape
    moments = np.zeros((*clients, kept, d), np.float32)
    steps = np.zeros(clients)
    if carried:
        before = carried["moments"]
        finite = np.isfinite(before).all(axis=(-2, -1))
        steps = np.asarray(carried["steps"] * finite)
        begun = steps[..., None, None] > 0
        moments = np.where(begun, before, moments)
    rows = []
    for moment in np.moveaxis(moments, -2, 0):
        rows.append(torch.from_numpy(moment.copy()).to(device))
    if not clients:
        return Optimizer(config, lr, rows, int(steps))
    counts = torch.tensor(steps, dtype=torch.float64, device=device)
    return Optimizer(config, lr, rows, counts[:, None])


def optimizer_state(optimizer: Optimizer) -> dict[str, np.ndarray]:
    """Return what the next round needs; nothing if nothing is kept.

    These are ``moments`` [m, d] or [clients, m, d] float32, and ``steps``, a number or [clients].
    """
    if optimizer.config.optimizer_state == "reset" or not optimizer.moments:
        return {}
    moments = torch.stack(optimizer.moments, dim=-2)
    steps: Any = optimizer.steps
    if isinstance(steps, torch.Tensor):
        steps = steps[:, 0].cpu().numpy()
    return {
        "moments": moments.cpu().numpy(),
        "steps": np.asarray(steps, np.int64),
    }
