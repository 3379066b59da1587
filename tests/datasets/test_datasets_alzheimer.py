"""Alzheimer MRI from small parquet files made here: read, absent, damaged, and fetched from a publisher that is played."""

import io
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from datasets.federation import DataError, Source
from datasets.sources import alzheimer

LABELS = [0, 1, 2, 3, 2, 2]


def encoded(pixels: np.ndarray, kind: str = "PNG") -> dict:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return {"bytes": buffer.getvalue(), "path": None}


def slices(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 128, 128), dtype=np.uint8)


def write(folder: Path, part: str, images: list, labels: list, suffix: str = "", **columns) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "alzheimer_mri" / "data" / f"{part}-00000-of-00001{suffix}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns or {"image": images, "label": labels}), path)
    return path


def written(root: Path, count: int = 6) -> np.ndarray:
    """Both files in place; the training images."""
    x = slices(count)
    write(root, "train", [encoded(image) for image in x], LABELS[:count])
    write(root, "test", [encoded(image) for image in slices(2, seed=1)], [0, 3])
    return x


def load(root: Path, **fields) -> Source:
    return alzheimer.load(alzheimer.Config(**fields), root, download=False)


def test_images_and_labels_are_read_exactly(tmp_path):
    x = written(tmp_path)
    source = load(tmp_path)
    assert (source.train.x.shape, source.train.x.dtype) == ((6, 1, 128, 128), np.uint8)
    np.testing.assert_array_equal(source.train.x[:, 0], x)
    assert source.train.y.tolist() == LABELS and source.test.y.tolist() == [0, 3]
    assert source.train.y.dtype == np.int64 and source.classes == 4 and source.mean is None


def test_the_publishers_names_with_a_hash_are_found_too(tmp_path):
    for part in "train", "test":
        write(tmp_path, part, [encoded(slices(1)[0])], [3], suffix="-c08a401c53fe5312")
    assert load(tmp_path).train.y.tolist() == [3]


# Absent


def test_what_is_absent_is_said_with_its_place_and_how_to_get_it(tmp_path):
    sought = rf"looked for train-00000-of-00001\.parquet and test-.* in {tmp_path}/alzheimer_mri/data\. "
    with pytest.raises(DataError, match=sought + r"Downloading is off\. Put the two parquet files"):
        load(tmp_path)
    written(tmp_path)
    (tmp_path / "alzheimer_mri" / "data" / "test-00000-of-00001.parquet").unlink()
    with pytest.raises(DataError, match=r"looked for test-00000-of-00001\.parquet in"):
        load(tmp_path)


@pytest.fixture
def hub(monkeypatch):
    """huggingface_hub as it would answer: ``.calls`` keeps what it was asked for, ``.answer`` is called with the folder."""
    played = types.SimpleNamespace(calls=[], answer=lambda folder: None)

    def snapshot_download(repository, **asked):
        played.calls.append((repository, asked))
        played.answer(asked["local_dir"])

    module = types.SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return played


def test_it_is_fetched_at_the_revision_asked_for_unless_it_is_there_or_downloading_is_off(tmp_path, hub):
    with pytest.raises(DataError, match="Downloading is off"):
        load(tmp_path)
    assert hub.calls == []
    hub.answer = lambda folder: written(folder.parent)
    for _ in range(2):
        assert alzheimer.load(alzheimer.Config(revision="0" * 40), tmp_path).train.y.tolist() == LABELS
    ((repository, asked),) = hub.calls
    assert (repository, asked["repo_type"], asked["revision"]) == ("Falah/Alzheimer_MRI", "dataset", "0" * 40)
    assert asked["local_dir"] == tmp_path / "alzheimer_mri"


def test_a_failed_download_is_said(tmp_path, hub, monkeypatch):
    def silent(folder):
        raise ConnectionError("Name or service\nnot known")

    hub.answer = silent
    with pytest.raises(DataError, match=r"Downloading it failed \(Name or service not known\)\. Put the two"):
        alzheimer.load(alzheimer.Config(), tmp_path)
    hub.answer = lambda folder: None  # it says nothing and brings nothing
    with pytest.raises(DataError, match=r"train-00000-of-00001\.parquet cannot be read: No such file"):
        alzheimer.load(alzheimer.Config(), tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(DataError, match=r"Downloading it failed .*pip install huggingface_hub"):
        alzheimer.load(alzheimer.Config(), tmp_path)


# Damaged


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"bytes": b"\x89PNG\r\n\x1a\n broken", "path": None}, "the image in row 2 cannot be read"),
        ({"bytes": None, "path": "a.jpg"}, "the image in row 2 cannot be read"),
        (encoded(slices(1)[0][:, :127]), r"row 2 cannot be read \(it has 127x128 pixels instead of 128x128\)"),
        ({"bytes": encoded(slices(1)[0], "JPEG")["bytes"][:3000], "path": None}, "row 2 cannot be read .*truncated"),
    ],
)
def test_an_image_that_cannot_be_used_is_named_with_file_and_row(tmp_path, bad, why):
    x = written(tmp_path)
    path = write(tmp_path, "train", [encoded(x[0]), encoded(x[1]), bad, encoded(x[3])], [0, 1, 2, 3])
    with pytest.raises(DataError, match=rf"{path} is damaged: .*{why}"):
        load(tmp_path)


@pytest.mark.parametrize("label", [4, 0.5, None])
def test_a_label_that_is_no_class_is_named_with_file_and_row(tmp_path, label):
    x = written(tmp_path)
    path = write(tmp_path, "test", [encoded(x[0]), encoded(x[1])], [1, label])
    with pytest.raises(
        DataError, match=rf"{path} is damaged: the label in row 1 is .*; it must be an integer in 0\.\.3"
    ):
        load(tmp_path)


def test_a_file_that_is_no_parquet_or_has_other_columns_is_named(tmp_path):
    written(tmp_path)
    path = write(tmp_path, "train", [encoded(slices(1)[0])], [0])
    for content in b"PAR1 and no more", b"", path.read_bytes()[:-40]:
        path.chmod(0o644)
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"{path} is damaged"):
            load(tmp_path)
    write(tmp_path, "train", [], [], picture=[1], label=[0])
    with pytest.raises(DataError, match="is damaged: .*image"):
        load(tmp_path)
