"""Layout of a model's arrays in one vector, and views of the arrays in it.

Clipping, noise, distances, averaging and transport all work on vectors; only a forward pass needs the arrays. A
four-dimensional kernel (out, in, height, width) is stored with its channels last, because CPU convolutions are fast in
that order: a view of it costs nothing, whereas re-ordering at every step would.
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
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of elements of each array."""
        return tuple(math.prod(shape) for shape in self.shapes)

    @property
    def size(self) -> int:
        """Length of the whole vector."""
        return sum(self.sizes)

    def views(self, vectors: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the arrays by name as views: of shape ``shape`` into one vector [d], [clients, *shape] into [clients, d]."""
        pieces = vectors.split(self.sizes, dim=-1)
        return {name: _view(piece, shape) for name, shape, piece in zip(self.names, self.shapes, pieces, strict=True)}


def _view(piece: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    lead = piece.shape[:-1]
    if len(shape) != 4:
        return piece.unflatten(-1, shape) if shape else piece.squeeze(-1)
    out, channels, height, width = shape
    return piece.view(*lead, out, height, width, channels).movedim(-1, -3)


def layout_of(arrays: Mapping[str, torch.Tensor]) -> Layout:
    """Return the layout of ``arrays`` by name, in their own order."""
    return Layout(tuple(arrays), tuple(tuple(array.shape) for array in arrays.values()))
