"""MNIST from small files made here, unpacked and packed, absent and damaged."""

import gzip
import hashlib
import struct

import numpy as np
import pytest

from datasets.federation import DataError
from datasets.sources import mnist


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def idx(array: np.ndarray) -> bytes:
    return (
        bytes([0, 0, 8, array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.tobytes()
    )


@pytest.fixture
def small_mnist(tmp_path, monkeypatch):
    """Twelve training and five test images in ROOT/MNIST/raw, unpacked, with their own
    checksums.
    """
    arrays = {}
    for part, count in (("train", 12), ("t10k", 5)):
        arrays[f"{part}-images-idx3-ubyte"] = np.random.default_rng(count).integers(
            0, 256, (count, 28, 28), np.uint8
        )
        arrays[f"{part}-labels-idx1-ubyte"] = np.arange(count, dtype=np.uint8) % 10
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    sums = {}
    for name, array in arrays.items():
        (folder / name).write_bytes(idx(array))
        sums[name] = (md5(idx(array)), md5(gzip.compress(idx(array), mtime=0)))
    monkeypatch.setattr(mnist, "MD5", sums)
    return tmp_path, folder, arrays


def test_mnist_is_read_unpacked_or_packed(small_mnist):
    root, folder, arrays = small_mnist
    for packed in (False, True):
        for name, array in arrays.items() if packed else ():
            (folder / name).unlink()
            (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array), mtime=0))
        source = mnist.load(mnist.Config(), root, download=False)
        np.testing.assert_array_equal(source.train.x[:, 0], arrays["train-images-idx3-ubyte"])
        np.testing.assert_array_equal(source.test.y, arrays["t10k-labels-idx1-ubyte"])
        assert source.train.x.shape == (12, 1, 28, 28) and source.train.x.dtype == np.uint8
        assert source.test.y.dtype == np.int64 and source.mean is None and source.fill == 0.0


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_damaged_or_missing_file_of_mnist_is_named(small_mnist, suffix):
    root, folder, _ = small_mnist
    (folder / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(
        DataError, match=rf"looked for t10k-labels-idx1-ubyte \(or .gz\) in {folder}\."
    ):
        mnist.load(mnist.Config(), root, download=False)
    (folder / f"t10k-labels-idx1-ubyte{suffix}").write_bytes(b"cut short")
    with pytest.raises(DataError, match=rf"{folder}/t10k-labels-idx1-ubyte{suffix} is damaged"):
        mnist.load(mnist.Config(), root, download=False)
