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


def pixels(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def small_mnist(tmp_path, monkeypatch):
    """Twelve training and five test images in ROOT/MNIST/raw, unpacked, with their own checksums."""
    arrays = {}
    for part, count in (("train", 12), ("t10k", 5)):
        arrays[f"{part}-images-idx3-ubyte"] = pixels(count, 28, 28)
        arrays[f"{part}-labels-idx1-ubyte"] = np.arange(count, dtype=np.uint8) % 10
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    sums = {}
    for name, array in arrays.items():
        packed = gzip.compress(idx(array), mtime=0)
        (folder / name).write_bytes(idx(array))
        sums[name] = (md5(idx(array)), md5(packed))
    monkeypatch.setattr(mnist, "MD5", sums)
    return tmp_path, folder, arrays


def check_small_mnist(root, arrays):
    source = mnist.load(mnist.Config(), root, download=False)
    np.testing.assert_array_equal(source.train.x[:, 0], arrays["train-images-idx3-ubyte"])
    np.testing.assert_array_equal(source.test.y, arrays["t10k-labels-idx1-ubyte"])
    assert source.train.x.shape == (12, 1, 28, 28) and source.train.x.dtype == np.uint8
    assert source.test.y.dtype == np.int64 and source.mean is None and source.fill == 0.0


def test_mnist_is_read_unpacked_or_packed(small_mnist):
    root, folder, arrays = small_mnist
    check_small_mnist(root, arrays)
    for name, array in arrays.items():
        (folder / name).unlink()
        (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array), mtime=0))
    check_small_mnist(root, arrays)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_damaged_file_of_mnist_is_named(small_mnist, suffix):
    root, folder, _ = small_mnist
    (folder / "t10k-labels-idx1-ubyte").unlink()
    (folder / f"t10k-labels-idx1-ubyte{suffix}").write_bytes(b"cut short")
    with pytest.raises(DataError, match=rf"{folder}/t10k-labels-idx1-ubyte{suffix} is damaged: the MD5 of its 9 bytes"):
        mnist.load(mnist.Config(), root, download=False)


def test_a_missing_file_of_mnist_is_named(small_mnist):
    root, folder, _ = small_mnist
    (folder / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError) as refused:
        mnist.load(mnist.Config(), root, download=False)
    assert f"looked for t10k-labels-idx1-ubyte (or .gz) in {folder}. Downloading is off. Put the" in str(refused.value)


def test_what_is_no_idx_file_is_refused():
    with pytest.raises(ValueError, match="mark of an IDX file"):
        mnist.parse_idx(b"PK\x03\x04")
