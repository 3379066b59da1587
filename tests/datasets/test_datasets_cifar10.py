"""CIFAR-10 from small files made here, in both versions, absent and damaged."""

import hashlib
import pickle
import struct

import numpy as np
import pytest

from datasets.federation import DataError, Preparation
from datasets.sources import cifar10


def python2_pickle(data: np.ndarray, labels: list[int]) -> bytes:
    """What Python 2 wrote for {"data": uint8 [n, 3072], "labels": [...]}: strings are bytes,
    opcode by opcode.
    """

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    rows, columns = (b"J" + struct.pack("<i", size) for size in data.shape)
    raw = data.tobytes()
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85"
        + text(b"b")
        + b"\x87R(K\x01"
        + rows
        + columns
        + b"\x86cnumpy\ndtype\n"
        + text(b"u1")
        + b"K\x00K\x01\x87R(K\x03"
        + text(b"|")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T"
        + struct.pack("<i", len(raw))
        + raw
        + b"tb"
    )
    numbers = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(" + text(b"labels") + numbers + text(b"data") + array + b"u."


def small_cifar(root, monkeypatch, layout: str) -> tuple[np.ndarray, np.ndarray]:
    """Four images in each file of one version, with their own checksums.

    Returns all images and labels in order.
    """
    x, y = np.random.default_rng(0).integers(0, 256, (24, 3, 32, 32), np.uint8), np.arange(24) % 10
    binary = layout == "BINARY"
    folder = root / ("cifar-10-batches-bin" if binary else "cifar-10-batches-py")
    folder.mkdir()
    sums = {}
    for i, name in enumerate(getattr(cifar10, layout)):
        images, labels = x[4 * i : 4 * i + 4].reshape(4, 3072), y[4 * i : 4 * i + 4]
        rows = np.hstack([labels[:, None].astype(np.uint8), images])
        content = rows.tobytes() if binary else python2_pickle(images, labels.tolist())
        (folder / name).write_bytes(content)
        sums[name] = hashlib.md5(content, usedforsecurity=False).hexdigest()
    monkeypatch.setattr(cifar10, layout, sums)
    return x, y


@pytest.mark.parametrize("layout", ["BINARY", "PYTHON"])
def test_both_versions_of_cifar_are_read(tmp_path, monkeypatch, layout):
    x, y = small_cifar(tmp_path, monkeypatch, layout)
    source = cifar10.load(cifar10.Config(), tmp_path, download=False)
    np.testing.assert_array_equal(np.concatenate([source.train.x, source.test.x]), x)
    np.testing.assert_array_equal(np.concatenate([source.train.y, source.test.y]), y)
    assert (
        len(source.test) == 4
        and source.train.x.dtype == np.uint8
        and source.train.y.dtype == np.int64
    )
    assert source.mean == (0.4914, 0.4822, 0.4465) and source.std == (0.2470, 0.2435, 0.2616)


def test_half_maps_black_to_minus_one_and_white_to_one(tmp_path, monkeypatch):
    small_cifar(tmp_path, monkeypatch, "BINARY")
    source = cifar10.load(cifar10.Config(normalization="half"), tmp_path, download=False)
    ends = np.repeat(np.array([0, 255], np.uint8), 3).reshape(2, 3, 1, 1)
    ready = Preparation("none", source.fill, source.mean, source.std)(ends, np.zeros(2))
    assert ready.ravel().tolist() == [-1.0] * 3 + [1.0] * 3


def test_absent_cifar_names_both_places(tmp_path, monkeypatch):
    with pytest.raises(
        DataError,
        match=r"cifar-10-batches-bin/data_batch_1\.bin and for .*cifar-10-batches-py/data_batch_1",
    ):
        cifar10.load(cifar10.Config(), tmp_path, download=False)


def test_an_incomplete_binary_version_gives_way_to_the_python_one(tmp_path, monkeypatch):
    small_cifar(tmp_path, monkeypatch, "BINARY")
    x, _ = small_cifar(tmp_path, monkeypatch, "PYTHON")
    (tmp_path / "cifar-10-batches-bin" / "test_batch.bin").unlink()
    np.testing.assert_array_equal(
        cifar10.load(cifar10.Config(), tmp_path, download=False).test.x, x[20:]
    )


class Bomb:
    """A pickle of this runs a command when it is opened."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_a_pickle_with_another_checksum_is_never_opened(tmp_path, monkeypatch):
    small_cifar(tmp_path, monkeypatch, "PYTHON")
    batch = tmp_path / "cifar-10-batches-py" / "data_batch_3"
    batch.write_bytes(pickle.dumps(Bomb(tmp_path / "exploded")))
    with pytest.raises(DataError, match=f"{batch} is damaged"):
        cifar10.load(cifar10.Config(), tmp_path, download=False)
    assert not (tmp_path / "exploded").exists()
