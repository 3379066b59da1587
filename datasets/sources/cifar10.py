"""CIFAR-10, 60 000 color images of 32x32 in 10 classes (Krizhevsky 2009), in its python or its
binary version.

Recipe of Jung et al. 2025: 100 clients share the 50 000 training images, 500 each, and the 10 000
shadow images can only be the test set. This leaves no test images to measure accuracy on, so each
client holds out 10 % of its images: of 50, 25 measure accuracy and 25 are non-members (an odd one
goes to accuracy), and the client trains on 450.

The files lie in ROOT/cifar-10-batches-bin (data_batch_1.bin, ...) or, as torchvision puts them, in
ROOT/cifar-10-batches-py (data_batch_1, ...). The latter are pickles: each is opened only if its MD5
is the published one.
"""

import math
import pickle
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from datasets import files
from datasets.federation import Examples, Source, joined
from datasets.source_configs import HeldOutConfig

LABEL = "CIFAR-10"
# The published MD5 of each file. The last file is the test set.
BINARY = {
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
}
PYTHON = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
SHAPE = (3, 32, 32)
# The usual channel statistics of the training images. They are applied after the brightness
# transform.
MEAN = (0.4914, 0.4822, 0.4465)
STD = (0.2470, 0.2435, 0.2616)
NORMALISATIONS = {"channel": (MEAN, STD), "half": ((0.5,) * 3, (0.5,) * 3)}
REMEDY = (
    "Unpack the published binary or python archive of CIFAR-10 there, or run once where a "
    "network exists"
)


class Config(HeldOutConfig):
    """The defaults are the paper's; smaller values make smaller runs."""

    clients: int = Field(100, ge=1, description="number of clients")
    shadow_size: int | None = Field(
        None,
        ge=0,
        description=(
            "test images that are the shadow set; null: all of them (split dirichlet: none)"
        ),
    )
    # The code released by Zhao et al. 2025 uses 0.5 and 0.5 for their small network, like Hu et al.
    # before them.
    normalization: Literal["channel", "half"] = Field(
        "channel",
        description="mean and std of each channel: those of the training images, or 0.5 and 0.5",
    )


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load CIFAR-10, uint8 [n, 3, 32, 32]; torchvision downloads it if neither version is
    complete under ``root``.

    Raises DataError if the data set is absent and cannot be downloaded, or a file is not the
    published one.
    """
    binary = root / "cifar-10-batches-bin"
    python = root / "cifar-10-batches-py"
    versions = ((binary, BINARY, parse_binary), (python, PYTHON, parse_python))
    missing = [
        [folder / name for name in sums if not (folder / name).is_file()]
        for folder, sums, _ in versions
    ]
    if all(missing):
        sought = " and for ".join(str(paths[0]) for paths in missing)
        files.download(
            "CIFAR-10", lambda: files.torchvision("CIFAR10", root), sought, REMEDY, download
        )
    folder, sums, parse = versions[bool(missing[0])]
    *train, test = (parse(files.read(folder / name, md5)) for name, md5 in sums.items())
    mean, std = NORMALISATIONS[config.normalization]
    return Source("cifar10", 10, joined(train), test, mean=mean, std=std)


def parse_binary(content: bytes) -> Examples:
    """Parse a file of the binary version: per image, a label and then 1 024 red, green and blue
    pixels.
    """
    rows = np.frombuffer(content, np.uint8).reshape(-1, 1 + math.prod(SHAPE))
    return Examples(rows[:, 1:].reshape(-1, *SHAPE), rows[:, 0].astype(np.int64))


def parse_python(content: bytes) -> Examples:
    """Parse a file of the python version, a pickle, which can run code unless its MD5 is the
    published one.
    """
    batch = pickle.loads(content, encoding="bytes")  # noqa: S301 - only ever the published bytes
    return Examples(batch[b"data"].reshape(-1, *SHAPE), np.array(batch[b"labels"], np.int64))
