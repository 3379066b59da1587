"""Alzheimer MRI from small parquet files made here: read, absent, damaged, and fetched from a
publisher that is played.
"""

import io
import sys
import types
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from datasets.federation import DataError, Source
from datasets.sources import alzheimer

LABELS = [0, 1, 2, 3, 2, 2]
SLICES = np.random.default_rng(0).integers(0, 256, (8, 128, 128), dtype=np.uint8)


def encoded(pixels: np.ndarray, kind: str = "PNG") -> dict:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return {"bytes": buffer.getvalue(), "path": None}


def write(root: Path, part: str, images: list, labels: list, suffix: str = "") -> Path:
    path = root / "alzheimer_mri" / "data" / f"{part}-00000-of-00001{suffix}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"image": images, "label": labels}), path)
    return path


def written(root: Path, suffix: str = "") -> Path:
    """Both files in place; returns that of the test part."""
    write(root, "train", [encoded(image) for image in SLICES[:6]], LABELS, suffix)
    return write(root, "test", [encoded(image) for image in SLICES[6:]], [0, 3], suffix)


def load(root: Path, download: bool = False, **fields) -> Source:
    return alzheimer.load(alzheimer.Config(**fields), root, download)


@pytest.mark.parametrize("suffix", ["", "-c08a401c53fe5312"])
def test_images_and_labels_are_read_exactly(tmp_path, suffix):
    written(tmp_path, suffix)
    source = load(tmp_path)
    assert (source.train.x.shape, source.train.x.dtype) == ((6, 1, 128, 128), np.uint8)
    np.testing.assert_array_equal(source.train.x[:, 0], SLICES[:6])
    assert source.train.y.tolist() == LABELS and source.test.y.tolist() == [0, 3]
    assert source.train.y.dtype == np.int64 and source.classes == 4 and source.mean is None


def test_what_is_absent_is_said_with_its_place_and_how_to_get_it(tmp_path):
    sought = (
        rf"looked for train-00000-of-00001\.parquet and test-.* in {tmp_path}/alzheimer_mri/data\. "
    )
    with pytest.raises(DataError, match=sought + r"Downloading is off\. Put the two parquet files"):
        load(tmp_path)
    written(tmp_path).unlink()
    with pytest.raises(DataError, match=r"looked for test-00000-of-00001\.parquet in"):
        load(tmp_path)


@pytest.fixture
def hub(monkeypatch):
    """huggingface_hub as it would answer: ``.calls`` keeps what it was asked for, ``.answer`` is
    called with the folder.
    """
    played = types.SimpleNamespace(calls=[], answer=lambda folder: None)

    def snapshot_download(repository, **asked):
        played.calls.append((repository, asked))
        played.answer(asked["local_dir"])

    monkeypatch.setitem(
        sys.modules, "huggingface_hub", types.SimpleNamespace(snapshot_download=snapshot_download)
    )
    return played


def test_it_is_fetched_once_at_the_revision_asked_for(tmp_path, hub):
    hub.answer = lambda folder: written(folder.parent)
    for _ in range(2):
        assert load(tmp_path, download=True, revision="0" * 40).train.y.tolist() == LABELS
    ((repository, asked),) = hub.calls
    assert (repository, asked["repo_type"], asked["revision"]) == (
        "Falah/Alzheimer_MRI",
        "dataset",
        "0" * 40,
    )
    assert asked["local_dir"] == tmp_path / "alzheimer_mri"


def test_a_failed_download_is_said(tmp_path, hub, monkeypatch):
    with pytest.raises(
        DataError, match=r"train-00000-of-00001\.parquet cannot be read: No such file"
    ):
        load(tmp_path, download=True)  # the hub says nothing and brings nothing
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(DataError, match=r"Downloading it failed .*pip install huggingface_hub"):
        load(tmp_path, download=True)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"bytes": b"\x89PNG\r\n\x1a\n broken", "path": None}, "the image in row 2 cannot be read"),
        ({"bytes": None, "path": "a.jpg"}, "the image in row 2 cannot be read"),
        (
            encoded(SLICES[0][:, :127]),
            r"row 2 cannot be read \(it has 127x128 pixels instead of 128x128\)",
        ),
        (
            {"bytes": encoded(SLICES[0], "JPEG")["bytes"][:3000], "path": None},
            "row 2 cannot be read .*truncated",
        ),
    ],
)
def test_an_image_that_cannot_be_used_is_named_with_file_and_row(tmp_path, bad, why):
    written(tmp_path)
    path = write(
        tmp_path,
        "train",
        [encoded(SLICES[0]), encoded(SLICES[1]), bad, encoded(SLICES[3])],
        [0, 1, 2, 3],
    )
    with pytest.raises(DataError, match=rf"{path} is damaged: .*{why}"):
        load(tmp_path)


@pytest.mark.parametrize("label", [4, 0.5, None])
def test_a_label_that_is_no_class_is_named_with_file_and_row(tmp_path, label):
    written(tmp_path)
    path = write(tmp_path, "test", [encoded(SLICES[0]), encoded(SLICES[1])], [1, label])
    with pytest.raises(
        DataError,
        match=rf"{path} is damaged: the label in row 1 is .*; it must be an integer in 0\.\.3",
    ):
        load(tmp_path)


def test_a_file_that_is_no_parquet_or_has_other_columns_is_named(tmp_path):
    path = written(tmp_path)
    for content in b"PAR1 and no more", b"", path.read_bytes()[:-40]:
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"{path} is damaged"):
            load(tmp_path)
    pq.write_table(pa.table({"picture": [1], "label": [0]}), path)
    with pytest.raises(
        DataError, match="is damaged: it has the columns picture, label and not image and label"
    ):
        load(tmp_path)
