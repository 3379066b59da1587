"""A model as one vector: where each of its arrays lies, and how to view it there.

Clipping, noise, distances, averaging and transport all work on vectors; only a forward pass needs the arrays. A four-
dimensional kernel (out, in, height, width) is stored with its channels last, because that is the order in which CPU
convolutions are fast: viewing it costs nothing, re-ordering it at every step would.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import nn


@dataclass(frozen=True)
class Layout:
    """Names and shapes of the arrays that lie one after another in a vector."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(math.prod(shape) for shape in self.shapes)

    @property
    def size(self) -> int:
        """Length of the whole vector."""
        return sum(self.sizes)

    def views(self, vectors: torch.Tensor) -> dict[str, torch.Tensor]:
        """The arrays as views into ``vectors``: [d] gives ``shape`` each, [clients, d] gives [clients, *shape]."""
        pieces = vectors.split(self.sizes, dim=-1)
        return {name: _view(piece, shape) for name, shape, piece in zip(self.names, self.shapes, pieces, strict=True)}


def _view(piece: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    lead = piece.shape[:-1]
    if len(shape) != 4:
        return piece.unflatten(-1, shape) if shape else piece.squeeze(-1)
    out, channels, height, width = shape
    return piece.view(*lead, out, height, width, channels).movedim(-1, -3)


def parameter_layout(module: nn.Module) -> Layout:
    """Layout of the trainable arrays of ``module``, in its own order."""
    return _layout(dict(module.named_parameters()))


def buffer_layout(module: nn.Module) -> Layout:
    """Layout of the floating-point buffers (running means and variances). Integer counters are no state of ours:
    averaging them is meaningless and nothing reads them while the momentum of the statistics is fixed."""
    return _layout({name: buffer for name, buffer in module.named_buffers() if buffer.is_floating_point()})


def _layout(arrays: dict[str, torch.Tensor]) -> Layout:
    return Layout(tuple(arrays), tuple(tuple(array.shape) for array in arrays.values()))
