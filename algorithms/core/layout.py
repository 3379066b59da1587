"""Layout of a model's arrays in one vector, and views of the arrays in it.

Clipping, noise, distances, averaging and transport all work on vectors; only a forward pass needs
the arrays. A four-dimensional kernel (out, in, height, width) of our own networks is stored with
its channels last, because CPU convolutions are fast in that order: a view of it costs nothing,
whereas re-ordering at every step would. A module of somebody else gets arrays in torch's usual
order, in which alone it may ``view`` them and what a convolution returns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Layout:
    """Names and shapes of the arrays that follow one another in a vector.

    Attributes:
        names: the arrays' names, in the order of the vector.
        shapes: the arrays' shapes, in the same order.
        channels_last: whether kernels are stored with their channels last.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    channels_last: bool = True

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of elements of each array."""
        return tuple(math.prod(shape) for shape in self.shapes)

    @property
    def size(self) -> int:
        """Length of the whole vector."""
        return sum(self.sizes)

    def views(
        self,
        vectors: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """Return the arrays by name as views: of shape ``shape`` into one vector [d], [clients,
        *shape] into [clients, d].
        """
        pieces = vectors.split(self.sizes, dim=-1)
        arrays = {}
        for name, shape, piece in zip(self.names, self.shapes, pieces, strict=True):
            arrays[name] = _view(piece, shape, self.channels_last)
        return arrays


def _view(
    piece: torch.Tensor,
    shape: tuple[int, ...],
    channels_last: bool,
) -> torch.Tensor:
    lead = piece.shape[:-1]
    if len(shape) != 4 or not channels_last:
        return piece.unflatten(-1, shape) if shape else piece.squeeze(-1)
    out, channels = shape[:2]
    last = piece.view(*lead, out, *shape[2:], channels)
    return last.movedim(-1, -3)


def layout_of(
    arrays: Mapping[str, torch.Tensor],
    channels_last: bool = True,
) -> Layout:
    """Return the layout of ``arrays`` by name, in their own order."""
    shapes = tuple(tuple(array.shape) for array in arrays.values())
    return Layout(tuple(arrays), shapes, channels_last)
