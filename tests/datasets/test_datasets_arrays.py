"""Arrays of a user's own in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from datasets.federation import DataError, Preparation, Source
from datasets.sources import arrays

X = np.arange(24, dtype=np.float32).reshape(6, 2, 2)
Y = np.array([0, 1, 0, 1, 1, 0])
PART = np.array([0, 0, 0, 0, 1, 1])
WHO = np.array([7, 8, 7, 8, 7, 8])


def read(
    folder: Path, name: str = "a.npz", change: dict[str, Any] | None = None, **fields: Any
) -> Source:
    content = {"x": X, "y": Y, "part": PART, "who": WHO} | (change or {})
    if name.endswith(".npz"):
        (np.savez_compressed if name.startswith("small") else np.savez)(folder / name, **content)
    else:
        save_file(content, folder / name)
    return arrays.load(
        arrays.Config(path=name, **{"part": "part", "client": "who"} | fields), folder
    )


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
    np.testing.assert_allclose(source.std, [X[:4, 0].std(), np.inf])
    images = np.arange(24, dtype=np.uint8).reshape(6, 1, 2, 2)
    source = read(tmp_path, change={"x": images}, **pooled)
    np.testing.assert_allclose(
        [source.mean, source.std], [[images[:4].mean() / 255], [images[:4].std() / 255]]
    )


def test_a_channel_that_is_constant_for_the_server_is_zero_for_everybody(tmp_path: Path) -> None:
    """As in a table, whatever the others have there."""
    x = np.array([[1, 7], [2, 7], [3, 7], [4, 2e6], [5, -1], [6, 0]], np.float32)
    source = read(tmp_path, change={"x": x}, standardize=True, shadow_size=3).fitted(
        np.array([0, 1, 2])
    )
    ready = Preparation(mean=source.mean, std=source.std)(
        np.concatenate([source.train.x, source.test.x]), np.ones(6)
    )
    np.testing.assert_allclose(ready[:, 0], (np.arange(6) - 1) / np.std([0, 1, 2]), rtol=1e-6)
    assert not ready[:, 1].any()


def test_texts_may_say_label_client_and_part(tmp_path: Path) -> None:
    change = {
        "y": np.array(["n", "y"] * 3),
        "who": np.array(["a", "b"] * 3),
        "part": np.repeat(["Train", "test"], [4, 2]),
    }
    source = read(tmp_path, change=change)
    assert (
        source.subject_names == ("a", "b")
        and source.train.y.tolist() == [0, 1, 0, 1]
        and len(source.test) == 2
    )


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.uint16, np.int16])
@pytest.mark.parametrize("standardize", [False, True])
def test_pixels_of_another_type_are_those_of_uint8(tmp_path, kind, standardize):
    images = np.random.default_rng(0).integers(0, 256, (6, 3, 2, 2)).astype(np.uint8)
    source = read(tmp_path, change={"x": images.astype(kind)}, standardize=standardize)
    assert source.train.x.dtype == np.uint8
    np.testing.assert_array_equal(source.train.x, images[:4])


@pytest.mark.parametrize(
    "images", [np.linspace(-1, 1, 24), np.arange(24) % 17, np.linspace(0, 1, 24)]
)
def test_images_of_small_numbers_are_taken_as_they_are(tmp_path, images):
    source = read(tmp_path, change={"x": images.reshape(6, 1, 2, 2)}, duplicates="keep")
    np.testing.assert_array_equal(source.train.x, images.reshape(6, 1, 2, 2)[:4].astype(np.float32))


def test_gray_images_get_a_channel_and_the_last_axis_may_be_the_channels(tmp_path):
    gray = np.arange(6 * 64).reshape(6, 8, 8).astype(np.uint8)
    assert (read(tmp_path, change={"x": gray}).train.x == gray[:4, None]).all()
    colors = np.stack([gray, gray + 1, gray + 2], axis=3)
    assert (
        read(tmp_path, change={"x": colors}).train.x
        == np.stack([gray, gray + 1, gray + 2], axis=1)[:4]
    ).all()


NAMES = [
    ("train_{}", "test_{}"),
    ("{}_train", "{}_test"),
    ("{}Train", "{}Test"),
    ("training-{}", "val-{}"),
]


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("place", ["a.npz", "folder"])
def test_arrays_of_two_parts_are_joined(tmp_path, names, place):
    """As MedMNIST and Keras have them: labels in one column, and a validation part that is not
    read.
    """
    arrays_of = {"x": X, "labels": Y[:, None]}
    content = {
        name.format(key): array[:4] for key, array in arrays_of.items() for name in names[:1]
    }
    content |= {names[1].format(key): array[4:] for key, array in arrays_of.items()}
    if "val" not in names[1]:
        content["val_x"] = X[:3]
    if place == "folder":
        (tmp_path / place).mkdir()
        for name, array in content.items():
            np.save(tmp_path / place / name, array)
    else:
        np.savez(tmp_path / place, **content)
    source = arrays.load(arrays.Config(path=place, y="labels"), tmp_path)
    np.testing.assert_array_equal(source.train.x, X[:4])
    np.testing.assert_array_equal(source.test.x, X[4:])
    assert (source.train.y.tolist(), source.test.y.tolist()) == ([0, 1, 0, 1], [1, 0])
    assert source.remarks == (
        f"{names[0].format('x')} is the training part, {names[1].format('x')} is the test part",
        "array 'labels' is [6, 1], of which labels[:, 0] is read",
        *(["not read: 3 rows of val_x"] if "val_x" in content else []),
    )


@pytest.mark.parametrize(
    ("content", "fields", "said"),
    [
        ({"train_x": X, "test_x": X, "y": Y}, {}, "data.y: a.npz has no array 'y' of each part"),
        (
            {"train_x": X, "test_x": X, "train_y": Y, "test_y": Y[1:]},
            {},
            "'y' has 6 and 5 entries, and 'x' has 6 and 6",
        ),
        (
            {"train_x": X, "test_x": X[..., :1], "train_y": Y, "test_y": Y},
            {},
            "both must be of one type and shape",
        ),
        (
            {"train_x": X, "test_x": X > 1, "train_y": Y, "test_y": Y},
            {},
            "are float32 [6, 2, 2] and bool [6, 2, 2]",
        ),
        (
            {"train_x": X, "test_x": X, "train_y": Y, "test_y": Y},
            {"part": "y"},
            "test_x are the parts already",
        ),
        ({"train_x": X, "extra_x": X, "y": Y}, {}, "data.x: a.npz has no array 'x'"),
    ],
)
def test_unfit_arrays_of_two_parts_are_refused(tmp_path, content, fields, said):
    np.savez(tmp_path / "a.npz", **content)
    with pytest.raises(DataError) as error:
        arrays.load(arrays.Config(path="a.npz", **fields), tmp_path)
    assert said in str(error.value)


def test_what_is_not_read_of_a_file_is_counted(tmp_path):
    source = read(tmp_path, change={"where": np.arange(9), "objects": np.array([object()])})
    assert source.remarks == ("not read: 9 rows of where, 1 row of objects",)


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
        (
            {"y": np.eye(2)[Y]},
            {},
            "whole numbers or texts [n] are needed; of one-hot labels take the argmax",
        ),
        ({"y": Y + 0.5}, {}, "data.y: array 'y' is continuous: row 1 has 0.5"),
        ({"y": np.where(Y, np.nan, 0)}, {}, "data.y: array 'y' has nan in row 2"),
        (changed((2, 0, 1), np.nan), {}, "data.x: array 'x' has nan in row 3 (at [0, 1])"),
        (
            {"y": np.repeat(Y[:, None], 2, axis=1) + 1},
            {},
            "'y' is int64 [6, 2]; whole numbers or texts [n] are needed",
        ),
        (
            {"x": 200.5 * np.ones((6, 3, 2, 2))},
            {},
            "data.x: array 'x' has numbers from 200.5 to 200.5, on which training",
        ),
        ({"x": -21 * np.ones((6, 1, 2, 2))}, {}, "write standardize: true"),
        ({"x": 128 * np.ones((6, 64))}, {}, "save pixels from 0 to 255 as uint8"),
        ({"x": 128 * np.ones((6, 8, 8))}, {}, "write standardize: true"),
        (
            {"x": X[[0, 1, 0, 3, 4, 5]]},
            {},
            "data.duplicates: 1 of 6 examples repeat earlier ones (first: row 3 equ",
        ),
        (
            {"y": np.array([1j] * 6)},
            {},
            "data.y: array 'y' is complex128 [6]; whole numbers or texts [n] are needed",
        ),
        ({"y": np.where(Y, np.inf, 0)}, {}, "data.y: array 'y' has inf in row 2"),
        (
            {"who": np.where(Y, np.nan, 0)},
            {},
            "data.client: array 'who' has nan in row 2; name the client of each",
        ),
    ],
)
def test_what_is_unfit_is_refused(
    tmp_path: Path, change: dict[str, Any], fields: dict[str, Any], said: str
) -> None:
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
    assert (
        len(source.test) == 2
        and source.subjects is not None
        and source.subjects.tolist() == [0, 1, 1, 0, 1]
    )
