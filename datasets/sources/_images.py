"""Reads images of a user's own, and the fields that say how."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from datasets.components import inherited
from datasets.federation import DataError
from datasets.source_configs import Constants, OwnFilesConfig, StatisticsConfig, StatisticsOf

if TYPE_CHECKING:
    from PIL import Image

MODES = {"rgb": "RGB", "gray": "L"}


def _square(value: Any) -> Any:
    """A single number stands for a square; YAML gives a list for a pair."""
    return (
        (value, value)
        if isinstance(value, int)
        else tuple(value)
        if isinstance(value, list)
        else value
    )


Side = Annotated[int, Field(ge=1, le=4096)]


class ImagesConfig(OwnFilesConfig):
    """How images become pixels."""

    size: Annotated[tuple[Side, Side], BeforeValidator(_square)] | None = Field(
        None,
        description="[height, width] to which images are resized; null: all must have one size",
    )
    color: Literal["rgb", "gray"] = Field("rgb", description="channels: three or one")
    standardize: bool = Field(
        True, description="pixels less the mean, by the deviation, of each channel"
    )
    statistics: StatisticsOf = inherited(StatisticsConfig, "statistics", standardize=True)
    constants: Constants = inherited(
        StatisticsConfig, "constants", standardize=True, statistics="constants"
    )


@contextmanager
def opened(name: str, content: Path | bytes) -> Iterator[Image.Image]:
    """Yield the image ``name`` from a file or its bytes, upright: turned as its EXIF orientation
    says.

    Raises DataError if it has more than 8 bits in a pixel or cannot be read, here or in the block.
    """
    from PIL import Image, ImageOps

    file = BytesIO(content) if isinstance(content, bytes) else content
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(file) as image:
            if image.mode.startswith(("I", "F")):
                raise ValueError(
                    f"it has more than 8 bits in a pixel (mode {image.mode}); convert it to 8 bits"
                )
            with suppress(Exception):  # damaged EXIF says nothing
                ImageOps.exif_transpose(image, in_place=True)
            yield image
    except (
        Exception
    ) as error:  # PIL has many kinds of errors for damaged images, SyntaxError among them
        raise DataError(
            f"data.path: the image {name} cannot be read: {' '.join(str(error).split())}"
        ) from error


def decode(
    config: ImagesConfig, names: Sequence[str], content: Callable[[int], Path | bytes]
) -> NDArray[np.uint8]:
    """Return the pixels of images, uint8 [n, channels, height, width]; ``content`` returns the
    file or the bytes of one.

    Raises DataError if a file is no image, has more than 8 bits in a pixel, or (unless resized)
    another size than the first.
    """
    from PIL import Image

    x = np.empty(0, np.uint8)
    for row, name in enumerate(names):
        with opened(name, content(row)) as image:
            converted = image.convert(MODES[config.color])
        if config.size:
            converted = converted.resize(config.size[::-1], Image.Resampling.BILINEAR)
        pixels = np.atleast_3d(np.asarray(converted, np.uint8)).transpose(2, 0, 1)
        if not row:
            x = np.empty((len(names), *pixels.shape), np.uint8)
        if pixels.shape != x.shape[1:]:
            sizes = [
                f"{file} ({height} x {width})"
                for file, (_, height, width) in ((names[0], x.shape[1:]), (name, pixels.shape))
            ]
            raise DataError(
                f"data.size: the images have several heights and widths: {sizes[0]}, "
                f"{sizes[1]}; write size: [height, width] to resize them"
            )
        x[row] = pixels
    return x
