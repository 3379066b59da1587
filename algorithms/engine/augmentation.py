"""Augmentation of training images by random crops and mirroring (the CIFAR-10 recipe of He et
al. 2016, as in FedAlign).

    pad the image by 4 pixels of background; cut out a window of the original size anywhere; mirror
    it with probability 1/2

NumPy draws all random moves before training starts, so both backends and all devices see the same
images.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from algorithms.core.configs import TrainingConfig
from algorithms.core.messages import Ints
from datasets.federation import Preparation
from datasets.transforms import normalize

if TYPE_CHECKING:
    import torch

MARGIN = 4


@dataclass(frozen=True, eq=False)
class Crops:
    """The random moves of the images of a round, and the pixel values of the padding [channels].

    ``moves`` [steps, batch, 3] are the window's row and column in the padded image (0 to 8), and
    whether to mirror (0 or 1).
    """

    moves: NDArray[np.uint8]
    padding: NDArray[np.float32]


def draw_crops(
    config: TrainingConfig,
    batches: Ints,
    shape: tuple[int, ...],
    prepare: Preparation,
    rng: np.random.Generator,
) -> Crops | None:
    """Draw random moves of images of this shape for all ``batches`` [steps, batch] of a round.

    None without augmentation.
    """
    if config.augment == "none":
        return None
    ends = (2 * MARGIN + 1, 2 * MARGIN + 1, 2)
    moves = rng.integers(
        0,
        ends,
        (*batches.shape, 3),
        dtype=np.uint8,
    )
    background = np.full(
        (1, shape[0]),
        prepare.fill,
        np.float32,
    )
    padding = normalize(background, prepare.mean, prepare.std)
    return Crops(moves, padding[0])


def crop_flip(
    images: torch.Tensor,
    moves: NDArray[np.uint8],
    padding: NDArray[np.float32],
) -> torch.Tensor:
    """Crop and mirror images [n, channels, height, width] by ``moves`` [n, 3].

    A move of (4, 4, 0) changes nothing. The padding has the pixel values ``padding`` [channels].
    """
    import torch

    device = images.device
    n, channels = images.shape[:2]
    height, width = images.shape[2:]
    places = torch.from_numpy(moves.astype(np.int64)).to(device)
    rows = places[:, 0]
    columns = places[:, 1]
    mirrored = places[:, 2].bool()
    margin = torch.as_tensor(padding, device=device).view(
        1,
        channels,
        1,
        1,
    )
    padded = margin.expand(
        n,
        channels,
        height + 2 * MARGIN,
        width + 2 * MARGIN,
    ).contiguous()
    padded[..., MARGIN:-MARGIN, MARGIN:-MARGIN] = images
    # [n, channels, 9, 9, height, width], nothing is copied
    windows = padded.unfold(2, height, 1).unfold(
        3,
        width,
        1,
    )
    each = torch.arange(n, device=device)
    cut = windows[each, :, rows, columns]
    return torch.where(
        mirrored.view(n, 1, 1, 1),
        cut.flip(-1),
        cut,
    )
