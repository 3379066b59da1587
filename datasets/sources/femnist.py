"""FEMNIST, some 805 000 gray images of handwritten characters, 28x28 in 62 classes, by 3 550
writers (LEAF, 2018).

Recipe of Jung et al. 2025: the images of all writers are pooled and assigned to clients evenly at
random, so writers play no part. 200 clients share 600 000 training images and 100 000 are the
server's shadow set (a part of the data set needs smaller numbers: --set base.data.shadow_size=...);
half of the test images measure accuracy, half are non-members. LEAF paints black (0) on white (1),
which is checked; the corners that a rotation uncovers become white, too. Some images occur more
than once in LEAF's files. They are kept once: otherwise one image could serve two purposes.

Two kinds of files are read, in the first folder that has any (`PLACES`, under the data root):

* LEAF JSON: train/*.json and test/*.json, each {"users": [...], "user_data": {user: {"x": [[784
  values in 0..1], ...], "y": [labels]}}}, as LEAF's preprocess.sh writes them.
* parquet: train*.parquet and test*.parquet with the columns ``image`` and ``label`` (or
  ``character``, integers 0..61). An image is the struct {bytes, path} of a Hugging Face data set,
  holding a 28x28 PNG or the like.

Without test files, a fixed stratified tenth of the training images is the test set.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
from pydantic import Field

from datasets import files, stratified
from datasets.federation import DataError, Examples, Source, joined
from datasets.source_configs import SharedTestConfig

LABEL = "FEMNIST"
CLASSES = 62
SIDE = 28
PLACES = ("FEMNIST_LEAF/data", "FEMNIST_LEAF", "femnist/data", "femnist", "leaf/data/femnist/data")
REMEDY = (
    "It is not downloaded for you: make it with LEAF (github.com/TalwalkarLab/leaf, in "
    "data/femnist: ./preprocess.sh -s niid --sf 1.0 -k 0 -t sample) and put its folders train "
    "and test there, or put there train*.parquet and test*.parquet with the columns image and "
    "label"
)


class Config(SharedTestConfig):
    """The defaults are the paper's, for the whole data set; smaller values make smaller runs."""

    clients: int = Field(200, ge=1, description="number of clients")
    shadow_size: int = Field(
        100_000, ge=0, description="training examples that the server keeps as its shadow set"
    )
    # MNIST is white on black, but the paper does not mention that it inverts FEMNIST.
    invert: bool = Field(False, description="turn black on white into white on black, as in MNIST")


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load FEMNIST, uint8 [n, 1, 28, 28], from the first of `PLACES` that has files; it is never
    downloaded.

    Raises DataError if there are no files, or the content of a file is wrong.
    """
    import pandas as pd

    places = [root / place for place in PLACES]
    place = next((place for place in places if _files(place, "train")), None)
    if place is None:
        sought = f"train/*.json and train*.parquet in {', '.join(map(str, places))}"
        raise files.absence_error("FEMNIST", sought, REMEDY)
    train = _pool(_files(place, "train"))
    test = _pool(_files(place, "test"))
    digests = [
        hashlib.blake2b(image.data, digest_size=16).digest()
        for part in (train, test)
        for image in part.x
    ]
    first = ~pd.Series(digests).duplicated().to_numpy()
    train, test = train[first[: len(train)]], test[first[len(train) :]]
    if not len(test):
        train, test = stratified.split(train.x, train.y, 10)
    rim = np.concatenate([train.x[..., [0, -1], :].ravel(), train.x[..., [0, -1]].ravel()])
    if np.mean(rim > 127) < 0.5:
        raise DataError(
            f"{place}: the images are light on a dark background, while FEMNIST's are black "
            "(0) on white (1). Invert them when the files are made; data.invert turns them "
            "back for training"
        )
    if config.invert:
        train = Examples(255 - train.x, train.y)
        test = Examples(255 - test.x, test.y)
    return Source("femnist", CLASSES, train, test, fill=0.0 if config.invert else 1.0)


def _files(place: Path, part: str) -> list[Path]:
    return sorted((place / part).glob("*.json")) or sorted(place.glob(f"{part}*.parquet"))


def _pool(paths: list[Path]) -> Examples:
    """Return the images of all files and writers, uint8 [n, 1, 28, 28]; raise DataError for a
    damaged file.
    """
    none = Examples(np.empty((0, 1, SIDE, SIDE), np.uint8), np.empty(0, np.int64))
    parts = [
        leaf(path)
        if path.suffix == ".json"
        else files.encoded_images(path, SIDE, CLASSES, ("label", "character"))
        for path in paths
    ]
    return joined([none, *parts])


def leaf(path: Path) -> Examples:
    """Read a JSON file of LEAF: the images of all its users, uint8 [n, 1, 28, 28]. Raises
    DataError if it is damaged.
    """
    x = [np.empty((0, SIDE * SIDE), np.uint8)]
    y = [np.empty(0, np.int64)]
    content = files.read(path)
    try:
        data = json.loads(content)
        for user in data["users"]:
            examples = data["user_data"][user]
            pixels = np.asarray(examples["x"], np.float64)
            labels = np.asarray(examples["y"])
            if (
                pixels.shape != (len(labels), SIDE * SIDE)
                or not ((pixels >= 0) & (pixels <= 1)).all()
            ):
                raise ValueError(
                    f"user {user} must have {SIDE * SIDE} pixels in 0..1 for each label"
                )
            if not np.isin(labels, range(CLASSES)).all():
                raise ValueError(f"the labels of user {user} must be integers in 0..{CLASSES - 1}")
            x.append(
                np.rint(pixels * 255).astype(np.uint8)
            )  # exact: LEAF made its pixels from bytes
            y.append(labels.astype(np.int64))
    except (ValueError, KeyError, TypeError) as error:
        raise files.damage_error(path, f"{type(error).__name__}: {error}") from error
    return Examples(np.concatenate(x).reshape(-1, 1, SIDE, SIDE), np.concatenate(y))
