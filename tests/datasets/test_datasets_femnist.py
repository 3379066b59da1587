"""FEMNIST from small files made here: LEAF and parquet, duplicates, absent and damaged."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datasets.federation import DataError
from datasets.sources import femnist
from tests.datasets.test_datasets_alzheimer import encoded
from tests.support.federations import rows


def characters(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Black on white images, uint8 [n, 784], all different, and labels over all classes."""
    x = np.full((count, 28, 28), 255, np.uint8)
    x[:, 8:20, 8:20] = np.random.default_rng(seed).integers(0, 256, (count, 12, 12), np.uint8)
    return x.reshape(count, 784), np.arange(count) % 62


def leaf_json(x: np.ndarray, y: np.ndarray, users: int = 2) -> str:
    """The images as LEAF writes them: pixels/255 in a list for each image, by user."""
    parts = {f"f{i:04d}": (x[i::users] / 255, y[i::users]) for i in range(users)}
    data = {
        user: {"x": own.tolist(), "y": labels.tolist()} for user, (own, labels) in parts.items()
    }
    return json.dumps(
        {
            "users": list(parts),
            "num_samples": [len(x) for x, _ in parts.values()],
            "user_data": data,
        }
    )


def write_leaf(place, train, test=None) -> None:
    for part, content in (("train", train), ("test", test)):
        if content is not None:
            (place / part).mkdir(parents=True)
            (place / part / "all_data_0.json").write_text(leaf_json(*content))


def write_parquet(path, images: np.ndarray, labels, column="label") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = [encoded(image) for image in images.reshape(-1, 28, 28)]
    pq.write_table(
        pa.table({"image": stored, column: labels, "writer_id": ["w"] * len(labels)}), path
    )


def load_femnist(root, **fields):
    return femnist.load(femnist.Config(**fields), root, download=False)


@pytest.mark.parametrize("place", femnist.PLACES)
def test_leaf_files_are_read_exactly(tmp_path, place):
    (x, y), (test_x, test_y) = characters(9), characters(5, seed=1)
    write_leaf(tmp_path / place, (x, y), (test_x, test_y))
    source = load_femnist(tmp_path)
    assert (
        source.train.x.shape == (9, 1, 28, 28)
        and source.train.x.dtype == np.uint8
        and source.classes == 62
    )
    np.testing.assert_array_equal(source.train.x.reshape(9, 784), np.concatenate([x[::2], x[1::2]]))
    assert source.train.y.tolist() == [0, 2, 4, 6, 8, 1, 3, 5, 7]
    assert rows(source.test.x) == rows(test_x) and source.fill == 1.0
    more, labels = characters(3, seed=3)
    (tmp_path / place / "train" / "all_data_1.json").write_text(leaf_json(more, labels, users=1))
    np.testing.assert_array_equal(load_femnist(tmp_path).train.x[9:].reshape(3, 784), more)


def test_an_image_is_kept_once_and_rather_for_training(tmp_path):
    (x, y), (test_x, test_y) = characters(6), characters(4, seed=1)
    twice = np.concatenate([x, x[:2]]), np.concatenate([y, y[:2]])
    leaked = (
        np.concatenate([test_x, x[3:4], test_x[:1]]),
        np.concatenate([test_y, y[3:4], test_y[:1]]),
    )
    write_leaf(tmp_path / "femnist", twice, leaked)
    source = load_femnist(tmp_path)
    assert (len(source.train), len(source.test)) == (6, 4)
    assert rows(source.train.x) == rows(x) and rows(source.test.x) == rows(test_x)


def test_inverting_gives_white_on_black(tmp_path):
    write_leaf(tmp_path / "femnist", characters(4), characters(2, seed=1))
    kept, inverted = load_femnist(tmp_path), load_femnist(tmp_path, invert=True)
    np.testing.assert_array_equal(kept.train.x, 255 - inverted.train.x)
    np.testing.assert_array_equal(kept.test.x, 255 - inverted.test.x)
    assert inverted.fill == 0.0


@pytest.mark.parametrize("column", ["label", "character"])
def test_parquet_files_are_read(tmp_path, column):
    (x, y), (test_x, test_y) = characters(6), characters(3, seed=1)
    for name, images, labels in (
        ("train-00000-of-00001", x, y),
        ("test-00000-of-00001", test_x, test_y),
    ):
        write_parquet(tmp_path / "femnist" / "data" / f"{name}.parquet", images, labels, column)
    source = load_femnist(tmp_path)
    np.testing.assert_array_equal(source.train.x.reshape(6, 784), x)
    np.testing.assert_array_equal(source.test.x.reshape(3, 784), test_x)
    assert source.train.y.tolist() == y.tolist()


def test_without_test_files_a_stratified_tenth_is_held_out(tmp_path):
    x, _ = characters(80)
    write_parquet(tmp_path / "femnist" / "train.parquet", x, np.arange(80) % 2)
    source = load_femnist(tmp_path)
    assert np.bincount(source.test.y).tolist() == [4, 4] and len(source.train) == 72
    assert rows(source.train.x) | rows(source.test.x) == rows(x)


def test_absent_femnist_names_places_and_how_to_make_it(tmp_path):
    with pytest.raises(
        DataError, match=r"train/\*\.json and train\*\.parquet in .*preprocess\.sh"
    ) as refused:
        femnist.load(femnist.Config(), tmp_path)
    assert all(str(tmp_path / place) in str(refused.value) for place in femnist.PLACES)


def user(**changes) -> dict:
    x, y = characters(2)
    return {"x": (x / 255).tolist(), "y": y.tolist()} | changes


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "JSONDecodeError"),
        ({"users": ["a"], "user_data": {}}, "KeyError: 'a'"),
        (
            {"users": ["a"], "user_data": {"a": user(x=[[0.5] * 783] * 2)}},
            "784 pixels in 0..1 for each label",
        ),
        (
            {"users": ["a"], "user_data": {"a": user(x=[[float("nan")] * 784] * 2)}},
            "784 pixels in 0..1 for each label",
        ),
        ({"users": ["a"], "user_data": {"a": user(y=[0])}}, "784 pixels in 0..1 for each label"),
        ({"users": ["a"], "user_data": {"a": user(y=[0, 62])}}, "integers in 0..61"),
        ({"users": ["a"], "user_data": {"a": user(y=[0, 1.5])}}, "integers in 0..61"),
    ],
)
def test_a_damaged_file_of_leaf_is_named(tmp_path, content, why):
    path = tmp_path / "femnist" / "train" / "all_data_0.json"
    path.parent.mkdir(parents=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(DataError, match=rf"{path} is damaged: .*{why}"):
        load_femnist(tmp_path)


def test_white_on_black_is_not_femnist(tmp_path):
    x, y = characters(4)
    write_leaf(tmp_path / "femnist", (255 - x, y))
    with pytest.raises(DataError, match="light on a dark background"):
        load_femnist(tmp_path)
