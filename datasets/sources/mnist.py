"""MNIST, 70 000 gray images of handwritten digits, 28x28 in 10 classes (LeCun et al. 1998).

Recipe of Jung et al. 2025: 200 clients get 250 training images each, 50 000 in all, and the other
10 000 are the server's shadow set; half of the 10 000 test images measure accuracy, the other half
are non-members. Pixels are divided by 255 and not normalized further.

The four IDX files lie in ROOT/MNIST/raw as torchvision puts them, unpacked or as published (.gz).
"""

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from datasets import files
from datasets.federation import Examples, Source
from datasets.source_configs import SharedTestConfig

LABEL = "MNIST"
# For each file: the MD5 of the unpacked file and of the published .gz file.
MD5 = {
    "train-images-idx3-ubyte": (
        "6bbc9ace898e44ae57da46a324031adb",
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    ),
    "train-labels-idx1-ubyte": (
        "a25bea736e30d166cdddb491f175f624",
        "d53e105ee54ea40749a09fcbcd1e9432",
    ),
    "t10k-images-idx3-ubyte": (
        "2646ac647ad5339dbf082846283269ea",
        "9fb629c4189551a2d022fa330f9573f3",
    ),
    "t10k-labels-idx1-ubyte": (
        "27ae3e4e09519cfbb04c329615203637",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
}
REMEDY = (
    "Put the four published IDX files there (packed or not), or run once where a network exists"
)


class Config(SharedTestConfig):
    """The defaults are the paper's; smaller values make smaller runs."""

    clients: int = Field(200, ge=1, description="number of clients")
    shadow_size: int = Field(
        10_000, ge=0, description="training examples that the server keeps as its shadow set"
    )


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load MNIST, uint8 [n, 1, 28, 28], from ROOT/MNIST/raw; torchvision downloads it if it is
    absent.

    Raises DataError if a file is absent and cannot be downloaded, or is not the published one.
    """
    folder = root / "MNIST" / "raw"
    missing = [
        name
        for name in MD5
        if not any((folder / f"{name}{suffix}").is_file() for suffix in ("", ".gz"))
    ]
    if missing:
        sought = f"{', '.join(missing)} (or .gz) in {folder}"
        files.download("MNIST", lambda: files.torchvision("MNIST", root), sought, REMEDY, download)
    x, y, test_x, test_y = (_read(folder / name, *sums) for name, sums in MD5.items())
    parts = ((x, y), (test_x, test_y))
    train, test = (Examples(images[:, None], labels.astype(np.int64)) for images, labels in parts)
    return Source("mnist", 10, train, test)


def _read(path: Path, unpacked: str, packed: str) -> NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes, unpacked or as published: four bytes of which the last
    counts axes, then sizes.
    """
    if path.is_file():
        content = files.read(path, unpacked)
    else:
        content = gzip.decompress(files.read(path.with_name(f"{path.name}.gz"), packed))
    axes = content[3]
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(
        np.frombuffer(content, ">u4", axes, offset=4)
    )
