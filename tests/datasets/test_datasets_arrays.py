"""Arrays of a user's own in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from datasets.federation import DataError, Source
from datasets.sources import arrays

X = np.arange(24, dtype=np.float32).reshape(6, 2, 2)
Y = np.array([0, 1, 0, 1, 1, 0])
PART = np.array([0, 0, 0, 0, 1, 1])
WHO = np.array([7, 8, 7, 8, 7, 8])


def read(folder: Path, name: str = "a.npz", change: dict[str, Any] | None = None, **fields: Any) -> Source:
    content = {"x": X, "y": Y, "part": PART, "who": WHO} | (change or {})
    if name.endswith(".npz"):
        (np.savez_compressed if name.startswith("small") else np.savez)(folder / name, **content)
    else:
        save_file(content, folder / name)
    return arrays.load(arrays.Config(path=name, **{"part": "part", "client": "who"} | fields), folder)


def test_every_kind_of_file_gives_the_same_source(tmp_path: Path) -> None:
    for name in ("a.npz", "small.npz", "a.safetensors"):
        source = read(tmp_path, name)
        np.testing.assert_array_equal(source.train.x, X[:4])
        np.testing.assert_array_equal(source.test.x, X[4:])
        assert source.train.y.tolist() == [0, 1, 0, 1] and source.train.y.dtype == np.int64
        assert source.subject_names == ("7", "8")
        assert source.subjects is not None and source.subjects.tolist() == [0, 1, 0, 1, 0, 1]


def test_pixels_stay_bytes_and_other_numbers_become_float32(tmp_path: Path) -> None:
    images = np.arange(24, dtype=np.uint8).reshape(6, 1, 2, 2)
    assert read(tmp_path, change={"x": images}).train.x.dtype == np.uint8
    for kind in (np.float64, np.int32, np.bool_, ">f4"):
        source = read(tmp_path, change={"x": X.astype(kind)}, duplicates="keep")
        assert source.train.x.dtype == np.dtype("=f4")
        np.testing.assert_array_equal(source.train.x, X[:4].astype(kind).astype(np.float32))


def test_channels_are_standardized_by_the_training_part_if_asked(tmp_path: Path) -> None:
    pooled: dict[str, Any] = {"standardize": True, "statistics": "all_clients"}
    assert read(tmp_path, standardize=True, shadow_size=2).fit is not None
    source = read(tmp_path, change={"x": np.stack([X[:, 0], np.full((6, 2), 5)], axis=1)}, **pooled)
    np.testing.assert_allclose(source.mean, [X[:4, 0].mean(), 5])
    np.testing.assert_allclose(source.std, [X[:4, 0].std(), 1])  # a constant channel is only moved
    images = np.arange(24, dtype=np.uint8).reshape(6, 1, 2, 2)
    source = read(tmp_path, change={"x": images}, **pooled)
    np.testing.assert_allclose([source.mean, source.std], [[images[:4].mean() / 255], [images[:4].std() / 255]])


def test_texts_may_say_label_client_and_part(tmp_path: Path) -> None:
    change = {
        "y": np.array(["n", "y"] * 3),
        "who": np.array(["a", "b"] * 3),
        "part": np.repeat(["Train", "test"], [4, 2]),
    }
    source = read(tmp_path, change=change)
    assert source.subject_names == ("a", "b") and source.train.y.tolist() == [0, 1, 0, 1] and len(source.test) == 2


def changed(place: tuple[int, ...], value: float) -> dict[str, Any]:
    x = X.copy()
    x[place] = value
    return {"x": x}


@pytest.mark.parametrize(
    ("change", "fields", "said"),
    [
        ({}, {"x": "images"}, "data.x: a.npz has no array 'images'. It has part, who, x, y"),
        ({}, {"client": None, "group": "who"}, "data.group: is the group of a client"),
        ({"y": Y[:5]}, {}, "data.y: array 'y' has 5 entries, and 'x' has 6 examples"),
        ({"y": np.eye(2)[Y]}, {}, "whole numbers or texts [n] are needed; of one-hot labels take the argmax"),
        ({"y": Y + 0.5}, {}, "data.y: array 'y' is continuous: row 1 has 0.5"),
        ({"y": np.where(Y, np.nan, 0)}, {}, "data.y: array 'y' has nan in row 2"),
        (changed((2, 0, 1), np.nan), {}, "data.x: array 'x' has nan in row 3 (at [0, 1])"),
        ({"x": np.zeros((6, 8, 8, 3), np.uint8)}, {}, "move the last axis: x.transpose(0, 3, 1, 2)"),
        ({"x": np.zeros((6, 8, 8), np.uint8)}, {}, "gray images are [n, 1, height, width]"),
        ({"x": X[[0, 1, 0, 3, 4, 5]]}, {}, "data.duplicates: 1 of 6 examples repeat earlier ones (first: row 3 equ"),
        ({"y": np.array([1j] * 6)}, {}, "data.y: array 'y' is complex128 [6]; whole numbers or texts [n] are needed"),
        ({"y": np.where(Y, np.inf, 0)}, {}, "data.y: array 'y' has inf in row 2"),
        ({"who": np.where(Y, np.nan, 0)}, {}, "data.client: array 'who' has nan in row 2; name the client of each"),
    ],
)  # fmt: skip
def test_what_is_unfit_is_refused(tmp_path: Path, change: dict[str, Any], fields: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError) as error:
        read(tmp_path, change=change, **fields)
    assert said in str(error.value)


@pytest.mark.parametrize("name", ["a.npz", "a.safetensors", "a.npy"])
def test_files_that_are_damaged_or_of_no_known_kind_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x08\0\0\0\0\0\0\0damaged!")
    with pytest.raises(DataError, match=r"^data\.path: "):
        arrays.load(arrays.Config(path=name), tmp_path)


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: Object arrays cannot be loaded"):
        read(tmp_path, change={"y": np.array([object()] * 6)})


def test_equal_examples_are_left_out_if_asked(tmp_path: Path) -> None:
    source = read(tmp_path, change={"x": X[[0, 1, 0, 3, 4, 5]]}, duplicates="drop")
    np.testing.assert_array_equal(source.train.x, X[[0, 1, 3]])
    assert len(source.test) == 2 and source.subjects is not None and source.subjects.tolist() == [0, 1, 1, 0, 1]
