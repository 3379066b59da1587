"""A folder of images of your own, in the layout of torchvision's ``ImageFolder``: one sub-folder for each class.

    FOLDER/cat/1.png                  layout: class
    FOLDER/anna/cat/1.png             layout: client/class
    FOLDER/cat/anna/1.png             layout: class/client

The test part is drawn (``test_share``), unless FOLDER has the sub-folders train and test and no others, each of which then
has that layout. Instead of a layout with clients, a CSV may say whose each image is (``clients_file``).

Images are decoded once in each process that loads the data (not in each round or client), to uint8 [n, channels, height,
width], which is held in memory once; for the ones that do not fit, set ``size``. All must have one size unless ``size`` is
set. Equal images are refused by name. Hidden files and folders (.ipynb_checkpoints) are not read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from datasets.components import inherited
from datasets.federation import DataError, Source
from datasets.source_configs import Constants, OwnFilesConfig, StatisticsConfig, StatisticsOf
from datasets.sources import _own_files as own

if TYPE_CHECKING:
    import pandas as pd
    from PIL import Image

LABEL = "own images"
BESIDE_SWEEP = True
SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")  # those of ImageFolder
MODES = {"rgb": "RGB", "gray": "L"}


def _square(value: Any) -> Any:
    """A single number stands for a square; YAML gives a list for a pair."""
    return (value, value) if isinstance(value, int) else tuple(value) if isinstance(value, list) else value


Side = Annotated[int, Field(ge=1, le=4096)]


class Config(OwnFilesConfig):
    """How the folder is read."""

    layout: Literal["class", "client/class", "class/client"] = Field(
        "class", description="what the sub-folders stand for, from the outside in"
    )
    clients_file: str | None = Field(
        None, description="CSV in the folder with the columns file (relative to it), client and, optionally, group"
    )
    size: Annotated[tuple[Side, Side], BeforeValidator(_square)] | None = Field(
        None, description="[height, width] to which images are resized; null: all must have one size"
    )
    color: Literal["rgb", "gray"] = Field("rgb", description="channels: three or one")
    standardize: bool = Field(True, description="pixels less the mean, by the deviation, of each channel")
    statistics: StatisticsOf = inherited(StatisticsConfig, "statistics", standardize=True)
    constants: Constants = inherited(StatisticsConfig, "constants", standardize=True, statistics="constants")


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load the images, uint8 [n, channels, height, width]; classes are numbered in the order of their names.

    Raises DataError if the folder is absent or of another layout, or an image cannot be read or has another size.
    """
    folder = own.place(config, root)
    rows = listed(config, folder)
    names = rows.pop("file").tolist()
    if config.clients_file:
        if config.layout != "class":
            raise DataError("data.clients_file: the layout names clients already; write layout: class, or leave it out")
        clients = named_clients(folder / config.clients_file, names)
        rows[clients.columns] = clients
    x = decode(config, folder, names)
    where = {"label": f"the layout of {folder}", "group": f"{config.clients_file}", "part": str(folder)}
    own.refuse_lonely(config)
    return own.of_arrays(config, folder.name, x, rows, where, "data.path", names)


def listed(config: Config, folder: Path) -> pd.DataFrame:
    """Return the images below ``folder`` in the order of their names: file, label and, where folders say it, part and client.

    Raises DataError if the folder has another layout.
    """
    import pandas as pd

    if not folder.is_dir():
        raise DataError(f"data.path: {folder} is no folder; an image folder has a sub-folder for each class")
    below = {entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")}
    if "train" in below and below != set(own.PARTS):
        others = ", ".join(sorted(below - {"train"})) or "no other"
        raise DataError(
            f"data.path: {folder} has the folders train and {others}; train and test are read, and no others beside them"
        )
    layout = (["part"] if "train" in below else []) + config.layout.replace("class", "label").split("/")
    images = []
    for place, _, files in os.walk(folder, followlinks=True):
        for file in (Path(place, name).relative_to(folder) for name in files if name.lower().endswith(SUFFIXES)):
            if len(file.parts) > len(layout) and not any(name.startswith(".") for name in file.parts):
                images.append({"file": str(file)} | dict(zip(layout, file.parts, strict=False)))
    if not images:
        pattern = config.layout.upper()
        raise DataError(
            f"data.path: {folder} has no images in the layout {pattern}/IMAGE ({', '.join(SUFFIXES)}); see data.layout"
        )
    images.sort(key=lambda image: (image.get("part") == "test", Path(image["file"]).parts))
    return pd.DataFrame(images)


@contextmanager
def opened(folder: Path, name: str) -> Iterator[Image.Image]:
    """Yield an image. Raises DataError if it has more than 8 bits in a pixel or cannot be read, here or in the block."""
    from PIL import Image

    try:
        with Image.open(folder / name) as image:
            if image.mode.startswith(("I", "F")):
                raise ValueError(f"it has more than 8 bits in a pixel (mode {image.mode}); convert it to 8 bits")
            yield image
    except Exception as error:  # PIL has many kinds of errors for damaged images, SyntaxError among them
        raise DataError(f"data.path: the image {name} cannot be read: {' '.join(str(error).split())}") from error


def decode(config: Config, folder: Path, names: Sequence[str]) -> NDArray[np.uint8]:
    """Return the pixels of images, uint8 [n, channels, height, width].

    Raises DataError if a file is no image, has more than 8 bits in a pixel, or (unless resized) another size than the first.
    """
    from PIL import Image

    x = np.empty(0, np.uint8)
    for row, name in enumerate(names):
        with opened(folder, name) as image:
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
                f"data.size: the images have several heights and widths: {sizes[0]}, {sizes[1]}; write size: [height, "
                "width] to resize them"
            )
        x[row] = pixels
    return x


def named_clients(path: Path, names: Sequence[str]) -> pd.DataFrame:
    """Return the client of each image and, if the CSV has them, its group.

    Raises DataError if the CSV is absent or has other columns, names an image that is not there, or one is missing in it or has
    rows that differ.
    """
    import pandas as pd

    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise DataError(f"data.clients_file: {path} cannot be read: {own.reason(error)}") from error
    if not {"file", "client"} <= set(table):
        raise DataError(f"data.clients_file: {path} has the columns {', '.join(table)}; file and client are needed")
    table = table.apply(lambda column: column.str.strip()).drop_duplicates().set_index("file")
    if table.index.has_duplicates:
        twice = table.index[table.index.duplicated()][0]
        raise DataError(f"data.clients_file: {path.name} has two rows for {twice!r} that differ; leave one")
    if len(unknown := table.index.difference(names, sort=False)):
        raise DataError(f"data.clients_file: there is no image {unknown[0]!r}{own.nearest(unknown[0], names)}")
    clients = table.reindex(names, columns=[name for name in ("client", "group") if name in table], fill_value="")
    if len(missing := clients.index[clients["client"] == ""]):
        raise DataError(
            f"data.clients_file: {path.name} names no client for {len(missing)} of {len(names)} images, first {missing[0]}"
        )
    return clients.reset_index(drop=True)
