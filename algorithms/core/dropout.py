"""Dropout (Srivastava et al. 2014) whose masks come from a generator that is handed in, not from PyTorch's global one."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Dropout(nn.Module):
    """Sets each element to zero with probability ``p`` and divides the others by 1 - p; in evaluation mode the identity.

    ``generator`` is set by whoever trains (see `reseed`). A mask is a function of the generator's state and the shape of the
    input alone, whatever its precision and its order in memory.
    """

    generator: torch.Generator | None = None

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"a dropout probability must lie in [0, 1); got {p:g}")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """[...] to the same shape. Raises RuntimeError in training mode if there is no generator to draw from."""
        if not self.training or self.p == 0:
            return x
        if self.generator is None:
            raise RuntimeError(
                "Dropout has no generator; call algorithms.dropout.reseed(module, seed, device) before training"
            )
        kept = torch.rand(x.shape, generator=self.generator, device=x.device) >= self.p
        return x * kept / (1 - self.p)

    def extra_repr(self) -> str:
        """The probability, as ``print(module)`` shows it."""
        return f"p={self.p:g}"


def reseed(module: nn.Module, seed: int, device: torch.device | str) -> None:
    """Give all `Dropout` layers of ``module`` one new generator on ``device``, seeded with ``seed``; others are left alone."""
    generator = torch.Generator(device).manual_seed(seed)
    for layer in module.modules():
        if isinstance(layer, Dropout):
            layer.generator = generator
