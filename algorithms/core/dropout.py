"""Dropout (Srivastava et al. 2014) whose masks come from an explicit generator instead of
PyTorch's global one.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Dropout(nn.Module):
    """A layer that sets each element to zero with probability ``p`` and divides the others by 1
    - p.

    In evaluation mode it is the identity. A mask depends only on the state of the ``generator``,
    which the training code sets with `reseed`, and on the shape of the input, not on the input's
    precision or memory format.
    """

    generator: torch.Generator | None = None

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Apply dropout to ``x`` of any shape.

        Raises:
            RuntimeError: the layer is in training mode and has no generator.
        """
        if not self.training or self.p == 0:
            return x
        if self.generator is None:
            raise RuntimeError(
                "Dropout has no generator; call algorithms.core.dropout.reseed(module, "
                "seed, device) before training"
            )
        uniforms = torch.rand(x.shape, generator=self.generator, device=x.device)
        return x * (uniforms >= self.p) / (1 - self.p)


def reseed(
    module: nn.Module,
    seed: int,
    device: torch.device | str,
) -> None:
    """Give all `Dropout` layers of a module one new, shared generator on ``device``; other
    layers are unchanged.
    """
    generator = torch.Generator(device).manual_seed(seed)
    for layer in module.modules():
        if isinstance(layer, Dropout):
            layer.generator = generator
