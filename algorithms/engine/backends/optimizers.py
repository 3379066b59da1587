"""Optimizers on flat vectors: [d] for one client or [clients, d] for many, with the same
formulas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
        """Take a momentum step (Sutskever et al. 2013); Nesterov's form as arranged in PyTorch,
        from the new velocity.
        """
        velocity = self._moment(0, grads).mul_(self.config.momentum).add_(grads)
        if self.config.nesterov:
            velocity = grads.add(velocity, alpha=self.config.momentum)
        params.add_(velocity, alpha=-self.lr)

    def _adam(self, params: torch.Tensor, grads: torch.Tensor) -> None:
        """Take an Adam step (Kingma and Ba 2015, algorithm 1)."""
        first, second = ADAM_BETAS
        mean = self._moment(0, grads)
        square = self._moment(1, grads)
        if isinstance(self.steps, int) and grads.dim() == 1:
            # PyTorch's own step, in one pass over the vectors. A block is left to single
            # operations: the last digits of this one depend on a number's place in a vector, and so
            # a client's weights would depend on who shares its block.
            # PyTorch counts this step itself
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
                [before],
                lr=self.lr,
                beta1=first,
                beta2=second,
                eps=self.config.adam_epsilon,
                weight_decay=0.0,
                fused=True,
                amsgrad=False,
                maximize=False,
            )
            return
        mean.lerp_(grads, 1 - first)
        square.mul_(second).addcmul_(grads, grads, value=1 - second)
        if isinstance(self.steps, int):
            scale = (square / (1 - second**self.steps)).sqrt_().add_(self.config.adam_epsilon)
            params.addcdiv_(
                mean,
                scale,
                value=-self.lr / (1 - first**self.steps),
            )
        else:
            steps = self.steps[: len(grads)]
            scale = (square / (1 - second**steps).to(square)).sqrt_().add_(self.config.adam_epsilon)
            params.sub_(mean / scale * (self.lr / (1 - first**steps)).to(mean))


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
    if config.optimizer_state == "reset" or not moment_count(config):
        return Optimizer(config, lr)
    steps = np.asarray(carried["steps"] if carried else np.zeros(shape[:-1]))
    if carried:
        steps = steps * np.isfinite(carried["moments"]).all(axis=(-2, -1))
    blank = np.zeros((*shape[:-1], moment_count(config), shape[-1]), np.float32)
    moments = np.where(steps[..., None, None] > 0, carried["moments"], blank) if carried else blank
    rows = [torch.from_numpy(moment.copy()).to(device) for moment in np.moveaxis(moments, -2, 0)]
    return Optimizer(
        config,
        lr,
        rows,
        torch.tensor(steps, dtype=torch.float64, device=device)[:, None]
        if steps.ndim
        else int(steps),
    )


def optimizer_state(optimizer: Optimizer) -> dict[str, np.ndarray]:
    """Return what the next round needs: ``moments`` [m, d] or [clients, m, d] float32, and
    ``steps``, a number or [clients].

    It is empty if nothing is kept.
    """
    if optimizer.config.optimizer_state == "reset" or not optimizer.moments:
        return {}
    steps = optimizer.steps
    counts = steps[:, 0].cpu().numpy() if isinstance(steps, torch.Tensor) else steps
    return {
        "moments": torch.stack(optimizer.moments, dim=-2).cpu().numpy(),
        "steps": np.asarray(counts, np.int64),
    }
