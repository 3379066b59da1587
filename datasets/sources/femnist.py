"""FEMNIST, some 805 000 gray images of handwritten characters, 28x28 in 62 classes, by 3 550 writers (LEAF, 2018).

Recipe of Jung et al. 2025: the images of all writers are pooled and assigned to clients evenly at random, so writers
play no part. 200 clients share 600 000 training images and 100 000 are the server's shadow set (a part of the data set
needs smaller numbers: --set base.data.shadow_size=...); half of the test images measure accuracy, half are non-members.
LEAF paints black (0) on white (1), which is checked; the corners that a rotation uncovers become white, too. Some
images occur more than once in LEAF's files. They are kept once: otherwise one image could serve two purposes.

Two kinds of files are read, in the first folder that has any (`PLACES`, under the data root):

* LEAF JSON: train/*.json and test/*.json, each {"users": [...], "user_data": {user: {"x": [[784 values in 0..1], ...],
  "y": [labels]}}}, as LEAF's preprocess.sh writes them.
* parquet: train*.parquet and test*.parquet with the columns ``image`` and ``label`` (or ``character``, integers 0..61).
  An image is the struct {bytes, path} of a Hugging Face data set, holding a 28x28 PNG or the like, or a list of 784
  values (row by row): integers in 0..255 or floats in 0..1.

Without test files, a fixed stratified tenth of the training images is the test set.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from datasets import files, stratified
from datasets.federation import DataError, Examples, Source
from datasets.source_configs import SharedTestConfig

LABEL = "FEMNIST"
CLASSES, SIDE = 62, 28
PLACES = ("FEMNIST_LEAF/data", "FEMNIST_LEAF", "femnist/data", "femnist", "leaf/data/femnist/data")
REMEDY = (
    "It is not downloaded for you: make it with LEAF (github.com/TalwalkarLab/leaf, in data/femnist: "
    "./preprocess.sh -s niid --sf 1.0 -k 0 -t sample) and put its folders train and test there, or put there "
    "train*.parquet and test*.parquet with the columns image and label"
)


class Config(SharedTestConfig):
    """The defaults are the paper's, for the whole data set; smaller values make smaller runs."""

    clients: int = Field(200, ge=1, description="number of clients")
    shadow_size: int = Field(100_000, ge=0, description="training examples that the server keeps as its shadow set")
    # MNIST is white on black, but the paper does not mention that it inverts FEMNIST.
    invert: bool = Field(False, description="turn black on white into white on black, as in MNIST")


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load FEMNIST, uint8 [n, 1, 28, 28], from the first of `PLACES` that has files; it is never downloaded.

    Raises:
        DataError: there are no files, or the content of a file is wrong.
    """
    import pandas as pd

    places = [root / place for place in PLACES]
    place = next((place for place in places if _files(place, "train")), None)
    if place is None:
        sought = f"train/*.json and train*.parquet in {', '.join(map(str, places))}"
        raise files.absence_error("FEMNIST", sought, REMEDY)
    train, test = _pool(_files(place, "train")), _pool(_files(place, "test"))
    digests = [hashlib.blake2b(image.data, digest_size=16).digest() for part in (train, test) for image in part.x]
    first = ~pd.Series(digests).duplicated().to_numpy()
    train, test = train[first[: len(train)]], test[first[len(train) :]]
    if not len(test):
        train, test = stratified.split(train.x, train.y, 10)
    _check_background(train, place)
    if config.invert:
        train, test = Examples(255 - train.x, train.y), Examples(255 - test.x, test.y)
    return Source("femnist", CLASSES, train, test, fill=0.0 if config.invert else 1.0)


def _files(place: Path, part: str) -> list[Path]:
    return sorted((place / part).glob("*.json")) or sorted(place.glob(f"{part}*.parquet"))


def _pool(paths: list[Path]) -> Examples:
    """Return the images of all files and writers, uint8 [n, 1, 28, 28]; raise DataError for a damaged file."""
    x, y = [np.empty((0, SIDE * SIDE), np.uint8)], [np.empty(0, np.int64)]
    for path in paths:
        content = files.read(path)
        read = leaf if path.suffix == ".json" else parquet
        try:
            for images, labels in read(content):
                x.append(_gray_levels(images))
                y.append(_labels(labels, len(images)))
        # PIL reports some damaged images as SyntaxError.
        except (ValueError, KeyError, TypeError, AttributeError, OSError, SyntaxError) as error:
            raise files.damage_error(path, f"{type(error).__name__}: {error}") from error
    return Examples(np.concatenate(x).reshape(-1, 1, SIDE, SIDE), np.concatenate(y))


def leaf(content: bytes) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Read a JSON file of LEAF.

    Yields:
        For each user, in the file's order: pixels in 0..1 [n, 784] and labels [n].
    """
    data = json.loads(content)
    for user in data["users"]:
        own = data["user_data"][user]
        yield np.asarray(own["x"], np.float64), np.asarray(own["y"])


def parquet(content: bytes) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Read a parquet file with the columns that the module's docstring names.

    Yields:
        For each batch of rows: pixels [n, 784], in 0..255 (integers) or 0..1 (floats), and labels [n].

    Raises:
        ValueError: a column is missing, or an image has the wrong size.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.ParquetFile(pa.BufferReader(content))
    names = set(table.schema_arrow.names)
    label = "label" if "label" in names else "character"
    if not {"image", label} <= names:
        raise ValueError(f"it has the columns {', '.join(sorted(names))} and not image and label (or character)")
    for batch in table.iter_batches(columns=["image", label]):
        images = batch.column("image")
        if pa.types.is_struct(images.type):
            pixels = np.stack(
                [files.gray_levels(encoded, SIDE).ravel() for encoded in images.field("bytes").to_pylist()]
            )
        else:
            pixels = images.flatten().to_numpy(zero_copy_only=False).reshape(len(images), -1)
        yield pixels, batch.column(label).to_numpy(zero_copy_only=False)


def _gray_levels(images: NDArray[Any]) -> NDArray[np.uint8]:
    """Convert pixels to 0..255. Floats in 0..1 are scaled, which is exact for LEAF: it made its pixels from bytes."""
    if images.ndim != 2 or images.shape[1] != SIDE * SIDE:
        raise ValueError(f"images must be lists of {SIDE * SIDE} pixels; got the shape {images.shape}")
    levels = images * 255 if np.issubdtype(images.dtype, np.floating) else images
    if not (np.isfinite(levels).all() and levels.min(initial=0) >= 0 and levels.max(initial=0) <= 255):
        raise ValueError("pixels must be floats in 0..1 or integers in 0..255")
    return np.rint(levels).astype(np.uint8)


def _labels(labels: NDArray[Any], count: int) -> NDArray[np.int64]:
    if labels.shape != (count,):
        raise ValueError(f"{count} images have labels of shape {labels.shape}")
    if count and not (np.issubdtype(labels.dtype, np.integer) and labels.min() >= 0 and labels.max() < CLASSES):
        raise ValueError(f"labels must be integers in 0..{CLASSES - 1}")
    return labels.astype(np.int64)


def _check_background(train: Examples, place: Path) -> None:
    """Raise DataError unless most pixels at the edges of the images are bright."""
    rim = np.concatenate([train.x[..., [0, -1], :].ravel(), train.x[..., [0, -1]].ravel()])
    if np.mean(rim > 127) < 0.5:
        raise DataError(
            f"{place}: the images are light on a dark background, while FEMNIST's are black (0) on white (1). "
            "Invert them when the files are made; data.invert turns them back for training"
        )
