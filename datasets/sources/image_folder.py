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

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from datasets.components import inherited
from datasets.federation import DataError, Source
from datasets.source_configs import OwnFilesConfig, StatisticsConfig
from datasets.sources import _own_files as own

if TYPE_CHECKING:
    from PIL.Image import Image

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
    statistics: Literal["server", "all_clients"] = inherited(StatisticsConfig, "statistics", standardize=True)


@dataclass(frozen=True)
class Found:
    """An image file: its path, and the part, class and client that its folders name (empty: they name none)."""

    path: Path
    part: str
    label: str
    client: str


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load the images, uint8 [n, channels, height, width]; classes are numbered in the order of their names.

    Raises:
        DataError: the folder is absent or of another layout, or an image cannot be read or has another size.
    """
    folder = own.place(config, root)
    images = listed(config, folder)
    names = [str(one.path.relative_to(folder)) for one in images]
    clients, groups = [one.client for one in images], None
    if config.clients_file:
        if config.layout != "class":
            raise DataError("data.clients_file: the layout names clients already; write layout: class, or leave it out")
        clients, groups = _named_clients(folder / config.clients_file, names)
    y, classes = own.labels(np.array([one.label for one in images], object), f"the layout of {folder}", "data.path")
    x = decode(config, [one.path for one in images], names)
    kept = np.flatnonzero(own.distinct_rows(config, x, y, names))
    if len(kept) < len(x):
        x, y, images = x[kept], y[kept], [images[row] for row in kept]
        clients = [clients[row] for row in kept]
        groups = [groups[row] for row in kept] if groups else None
    of = own.whose(clients, groups, f"{config.clients_file}") if all(clients) else None
    said = [one.part for one in images] if images[0].part else None
    test = own.test_rows(config, y, of, said, str(folder), None)
    if config.standardize:
        own.refuse_lonely(config)
    return own.build(folder.name, x, y, classes, test, of, config.statistics if config.standardize else "none")


def listed(config: Config, folder: Path) -> list[Found]:
    """Return the images in ``folder``, in the order of their names. Raises DataError if it has another layout."""
    if not folder.is_dir():
        raise DataError(f"data.path: {folder} is no folder; an image folder has a sub-folder for each class")
    parts = {one.name for one in folders(folder)}
    if "train" in parts and parts != set(own.PARTS):
        others = ", ".join(sorted(parts - {"train"})) or "no other"
        raise DataError(
            f"data.path: {folder} has the folders train and {others}; train and test are read, and no others beside them"
        )
    words = config.layout.split("/")
    images = []
    for part in own.PARTS if "train" in parts else ("",):
        places: list[tuple[Path, tuple[str, ...]]] = [(folder / part, ())]
        for _ in words:  # `rglob` alone would not enter folders that are links
            places = [(inner, (*names, inner.name)) for outer, names in places for inner in folders(outer)]
        for place, names in places:
            named = dict(zip(words, names, strict=True))
            for file in sorted(one for one in place.rglob("*") if one.suffix.lower() in SUFFIXES):
                if file.is_file() and not any(name.startswith(".") for name in file.relative_to(place).parts):
                    images.append(Found(file, part, named["class"], named.get("client", "")))
    if not images:
        wanted = "/".join(f"{word.upper()}" for word in config.layout.split("/"))
        raise DataError(
            f"data.path: {folder} has no images in the layout {wanted}/IMAGE ({', '.join(SUFFIXES)}); see data.layout"
        )
    return images


def folders(folder: Path) -> list[Path]:
    """Return the folders in ``folder`` that are not hidden, in the order of their names."""
    return sorted(one for one in folder.iterdir() if one.is_dir() and not one.name.startswith("."))


def decode(config: Config, paths: Sequence[Path], names: Sequence[str]) -> NDArray[np.uint8]:
    """Return the pixels of images, uint8 [n, channels, height, width].

    Args:
        config: the component's fields.
        paths: the files.
        names: what they are called in messages.

    Raises:
        DataError: a file is no image, has more than 8 bits in a pixel, or another size than the first.
    """
    first = _pixels(config, paths[0], names[0])
    x = np.empty((len(paths), *first.shape), np.uint8)
    for row, (path, name) in enumerate(zip(paths, names, strict=True)):
        pixels = _pixels(config, path, name)
        if pixels.shape != first.shape:
            sizes = [f"{name} ({one.shape[1]} x {one.shape[2]})" for name, one in ((names[0], first), (name, pixels))]
            raise DataError(
                f"data.size: the images have several heights and widths: {sizes[0]}, {sizes[1]}; write size: [height, "
                "width] to resize them"
            )
        x[row] = pixels
    return x


def _pixels(config: Config, path: Path, name: str) -> NDArray[np.uint8]:
    from PIL import Image

    try:
        with Image.open(path) as image:
            if image.mode.startswith(("I", "F")):
                raise ValueError(f"it has more than 8 bits in a pixel (mode {image.mode}); convert it to 8 bits")
            return _array(config, image)
    except Exception as error:  # PIL has many kinds of errors for damaged images, SyntaxError among them
        raise DataError(f"data.path: the image {name} cannot be read: {' '.join(str(error).split())}") from error


def _array(config: Config, image: Image) -> NDArray[np.uint8]:
    from PIL import Image

    converted = image.convert(MODES[config.color])
    if config.size:
        height, width = config.size
        converted = converted.resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(converted, np.uint8)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def _named_clients(path: Path, names: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Return the client of each image and, if the CSV has them, its group.

    Raises:
        DataError: the CSV is absent or has other columns, names an image that is not there, or one is missing in it.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.DictReader(lines)
            rows = [{key: (value or "").strip() for key, value in row.items() if key} for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        named = own.shortened(str(path), own.MOST_OF_PATH)
        raise DataError(f"data.clients_file: {named} cannot be read: {own.reason(error)}") from error
    columns = reader.fieldnames or ()
    if not {"file", "client"} <= set(columns):
        raise DataError(f"data.clients_file: {path} has the columns {', '.join(columns)}; file and client are needed")
    by_file = {row["file"]: row for row in rows}
    there = set(names)
    unknown = [name for name in by_file if name not in there]
    if unknown:
        raise DataError(f"data.clients_file: there is no image {unknown[0]!r}{own.nearest(unknown[0], names)}")
    missing = [name for name in names if not by_file.get(name, {}).get("client")]
    if missing:
        raise DataError(
            f"data.clients_file: {path.name} names no client for {len(missing)} of {len(names)} images, first {missing[0]}"
        )
    groups = [by_file[name].get("group", "") for name in names] if "group" in columns else None
    return [by_file[name]["client"] for name in names], groups
