"""Augmentation of training images by random crops and mirroring (the CIFAR-10 recipe of He et al. 2016, as in FedAlign).

    pad the image by 4 pixels of background; cut out a window of its own size anywhere; mirror it with probability 1/2

What is drawn comes from NumPy and before training starts, so both backends and all devices see the same images.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from algorithms.core.configs import TrainingConfig
from algorithms.core.messages import Ints
from algorithms.training._batches import shape_problem
from datasets.federation import Preparation
from datasets.transforms import normalize

if TYPE_CHECKING:
    import torch

MARGIN = 4


@dataclass(frozen=True, eq=False)
class Crops:
    """How the images of a round are moved.

    Attributes:
        moves: [steps, batch, 3] for each place of each batch the window's row and column in the padded image, 0 to 8, and
            whether to mirror, 0 or 1.
        around: [channels] the value that lies around an image.
    """

    moves: NDArray[np.uint8]
    around: NDArray[np.float32]


def draw_crops(
    config: TrainingConfig, batches: Ints, shape: tuple[int, ...], prepare: Preparation, rng: np.random.Generator
) -> Crops | None:
    """Random moves for ``batches`` [steps, batch] of examples of ``shape``; None where nothing is to be moved.

    ``prepare`` tells what a data set's background looks like. Raises ValueError where examples are no images.
    """
    if config.augment == "none":
        return None
    complaint = shape_problem(config, shape)
    if complaint:
        raise ValueError(complaint)
    moves = rng.integers(0, (2 * MARGIN + 1, 2 * MARGIN + 1, 2), (*batches.shape, 3), dtype=np.uint8)
    return Crops(moves, background(prepare, shape[0]))


def background(prepare: Preparation, channels: int) -> NDArray[np.float32]:
    """The value [channels] that the data set's background has when it reaches the model."""
    blank = np.full((1, channels), prepare.fill, np.float32)
    return normalize(blank, prepare.mean, prepare.std)[0]


def crop_flip(images: torch.Tensor, moves: NDArray[np.uint8], around: NDArray[np.float32]) -> torch.Tensor:
    """``images`` [n, channels, height, width], each cut out and mirrored as ``moves`` [n, 3] says.

    ``around`` [channels] is what lies around an image. Moves of (4, 4, 0) change nothing.
    """
    import torch

    n, channels, height, width = images.shape
    rows, columns, mirror = torch.from_numpy(moves.astype(np.int64)).to(images.device).unbind(-1)
    margin = torch.as_tensor(around, device=images.device).view(1, channels, 1, 1)
    padded = margin.expand(n, channels, height + 2 * MARGIN, width + 2 * MARGIN).contiguous()
    padded[..., MARGIN:-MARGIN, MARGIN:-MARGIN] = images
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)  # [n, channels, 9, 9, height, width], nothing is copied
    cut = windows[torch.arange(n, device=images.device), :, rows, columns]
    return torch.where(mirror.bool().view(n, 1, 1, 1), cut.flip(-1), cut)
