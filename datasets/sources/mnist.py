"""MNIST, 70 000 gray images of handwritten digits, 28x28 in 10 classes (LeCun et al. 1998).

Recipe of Jung et al. 2025: 200 clients get 250 training images each, 50 000 in all, and the other 10 000 are the
server's shadow set; half of the 10 000 test images measure accuracy, the other half are non-members. Pixels are divided
by 255 and not normalized further.

The four IDX files lie in ROOT/MNIST/raw as torchvision puts them, unpacked or as published (.gz).
"""

import gzip
from pathlib import Path

import numpy as np
from pydantic import Field

from datasets import files
from datasets.federation import Examples, Source
from datasets.source_configs import SharedTestConfig

LABEL = "MNIST"
# For each file: the MD5 of the unpacked file and of the published .gz file.
MD5 = {
    "train-images-idx3-ubyte": ("6bbc9ace898e44ae57da46a324031adb", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    "train-labels-idx1-ubyte": ("a25bea736e30d166cdddb491f175f624", "d53e105ee54ea40749a09fcbcd1e9432"),
    "t10k-images-idx3-ubyte": ("2646ac647ad5339dbf082846283269ea", "9fb629c4189551a2d022fa330f9573f3"),
    "t10k-labels-idx1-ubyte": ("27ae3e4e09519cfbb04c329615203637", "ec29112dd5afa0611ce80d1b7f02629c"),
}
REMEDY = "Put the four published IDX files there (packed or not), or run once where a network exists"


class Config(SharedTestConfig):
    """The defaults are the paper's; smaller values make smaller runs."""

    clients: int = Field(200, ge=1, description="number of clients")
    shadow_size: int = Field(10_000, ge=0, description="training examples that the server keeps as its shadow set")


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load MNIST, uint8 [n, 1, 28, 28], from ROOT/MNIST/raw; torchvision downloads it if it is absent.

    Raises:
        DataError: a file is absent and cannot be downloaded, or is not the published one.
    """
    folder = root / "MNIST" / "raw"
    missing = [name for name in MD5 if _find(folder, name) is None]
    if missing:
        files.fetch("MNIST", root, f"{', '.join(missing)} (or .gz) in {folder}", REMEDY, download)
    return Source("mnist", 10, _examples(folder, "train"), _examples(folder, "t10k"))


def parse_idx(content: bytes) -> np.ndarray:
    """Parse an IDX file of unsigned bytes into an array of the shape that the file states.

    Raises:
        ValueError: the file does not begin with the mark of an IDX file of unsigned bytes.

    >>> parse_idx(bytes([0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 3, 7, 8, 9])).tolist()
    [[7, 8, 9]]
    """
    if content[:3] != b"\0\0\x08" or len(content) < 4:
        raise ValueError("it does not begin with the mark of an IDX file of unsigned bytes")
    axes = content[3]
    shape = np.frombuffer(content, ">u4", axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)


def _examples(folder: Path, part: str) -> Examples:
    images, labels = _read(folder, f"{part}-images-idx3-ubyte"), _read(folder, f"{part}-labels-idx1-ubyte")
    return Examples(images[:, None], labels.astype(np.int64))


def _read(folder: Path, name: str) -> np.ndarray:
    path = _find(folder, name)
    if path is None:
        raise files.absence_error("MNIST", f"{name} (or .gz) in {folder}", REMEDY)
    unpacked, packed = MD5[name]
    if path.suffix == ".gz":
        return parse_idx(gzip.decompress(files.read(path, packed)))
    return parse_idx(files.read(path, unpacked))


def _find(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)
