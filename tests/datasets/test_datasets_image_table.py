"""Encoded images in a column of a table, as Hugging Face has them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from datasets.federation import DataError, Source
from datasets.profile import profile
from datasets.sources import image_table

PIXELS = np.random.default_rng(0).integers(0, 255, (60, 8, 6, 3), np.uint8)
KINDS = {"struct": pa.struct([("bytes", pa.binary()), ("path", pa.string())]), "bytes": pa.binary()}


def encoded(pixels: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "png")
    return stream.getvalue()


def content(kind: str = "struct", rows: slice = slice(None), **columns: list[Any]) -> pa.Table:
    cells: list[Any] = [encoded(pixels) for pixels in PIXELS]
    if kind == "struct":
        cells = [{"bytes": cell, "path": f"{i}.png"} for i, cell in enumerate(cells)]
    table = pa.table(
        {
            "id": range(60),
            "image": pa.array(cells, KINDS[kind]),
            "label": [i % 2 for i in range(60)],
        }
    )
    for name, values in columns.items():
        table = table.append_column(name, [values])
    return table[rows]


def save(folder: Path, table: pa.Table) -> None:
    folder.mkdir(parents=True)
    with (
        pa.OSFile(str(folder / "a.arrow"), "wb") as file,
        pa.ipc.new_stream(file, table.schema) as stream,
    ):
        stream.write_table(table)
    (folder / "state.json").write_text('{"_data_files": [{"filename": "a.arrow"}]}')


def read(place: Path, **fields: Any) -> Source:
    config = {"path": "data", "label": "label", "standardize": False} | fields
    return image_table.load(image_table.Config(**config), place)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["save_to_disk", "parquet"])
def test_images_are_those_that_were_encoded(tmp_path, kind, form):
    parts = {"train": slice(0, 30), "validation": slice(30, 35), "test": slice(35, 60)}
    for part, rows in parts.items():
        if form == "parquet":
            (tmp_path / "data").mkdir(exist_ok=True)
            pq.write_table(
                content(kind, rows), tmp_path / "data" / f"{part}-00000-of-00001.parquet"
            )
        else:
            save(tmp_path / "data" / part, content(kind, rows))
            (tmp_path / "data/dataset_dict.json").write_text(json.dumps({"splits": list(parts)}))
    source = read(tmp_path)
    np.testing.assert_array_equal(source.train.x, PIXELS[:30].transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(source.test.x, PIXELS[35:].transpose(0, 3, 1, 2))
    assert source.test.y.tolist() == [i % 2 for i in range(35, 60)]
    assert source.remarks == ("not read: 5 rows of validation", "not read: the columns id")
    found = profile(tmp_path / "data", label="label")
    assert (found.source, found.fields) == (
        "image_table",
        {"image": "image", "label": "label", "color": "rgb"},
    )
    assert found.shape == (3, 8, 6) and (found.train.tolist(), found.test.tolist()) == ([30], [25])


def test_images_have_clients_colors_and_sizes(tmp_path):
    save(tmp_path / "data", content(writer=[f"w{i // 20}" for i in range(60)]))
    source = read(tmp_path, client="writer", color="gray", size=4, standardize=True)
    assert (source.train.x.shape[1:], source.subject_names) == ((1, 4, 4), ("w0", "w1", "w2"))
    assert source.fit is not None and source.fitted(np.arange(9)).mean is not None
    by_patient = read(tmp_path, subject="writer")
    assert len(by_patient.test) == 20


@pytest.mark.parametrize(
    ("change", "fields", "said"),
    [
        ({}, {"label": ""}, "data.label: is missing"),
        ({}, {"image": "img"}, "data.image: data has no column 'img'"),
        ({}, {"image": "id"}, "data.image: column 'id' holds no encoded image in row 1"),
        ({}, {"group": "id"}, "data.group: is the group of a client"),
        (
            {"who": [*"abc", None] * 15},
            {"label": "who"},
            "data.label: column 'who' has no value in 15 of 60 rows, first row 4",
        ),
        (
            {"other": [{"bytes": None, "path": "a.png"}] * 60},
            {"image": "other"},
            "(it names the file 'a.png')",
        ),
        ({"other": [b"no image"] * 60}, {"image": "other"}, "the image row 1 cannot be read"),
        (
            {"other": [encoded(PIXELS[0])] * 60},
            {"image": "other"},
            "58 of 60 examples repeat earlier ones (first: row 3 eq",
        ),
    ],
)
def test_what_is_unfit_is_refused(tmp_path, change, fields, said):
    save(tmp_path / "data", content(**change))
    with pytest.raises(DataError) as error:
        read(tmp_path, **fields)
    assert said in str(error.value)


def test_a_test_part_of_copies_is_refused_as_such(tmp_path):
    for part in ("train", "test"):
        save(tmp_path / "data" / part, content())
    (tmp_path / "data/dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    with pytest.raises(DataError, match="all .* test examples are copies of training"):
        read(tmp_path, duplicates="drop")
