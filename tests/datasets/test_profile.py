"""What `fedpriv new` finds in files of every kind, and what it refuses, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import feather, parquet
from safetensors.numpy import save_file

from datasets.federation import DataError
from datasets.profile import Profile, profile
from datasets.sources import table as table_source

ROWS = 48


def columns(**changed: Any) -> dict[str, Any]:
    """A table with a column of every kind; ``changed`` replaces some, None leaves one out."""
    every: dict[str, Any] = {
        "patient_id": [1000 + i for i in range(ROWS)],
        "age": [20.5 + i for i in range(ROWS)],
        "sex": ["f", "m"] * (ROWS // 2),
        "smoker": [True, False, False] * (ROWS // 3),
        "hospital": ["north", "south", "east"] * (ROWS // 3),
        "outcome": ["ill", "well", "well", "well"] * (ROWS // 4),
    } | changed
    return {name: values for name, values in every.items() if values is not None}


def written(folder: Path, suffix: str = ".csv", **changed: Any) -> Path:
    table, path = pa.table(columns(**changed)), folder / f"patients{suffix}"
    if suffix == ".csv":
        table.to_pandas().to_csv(path, index=False)
    elif suffix == ".tsv":
        table.to_pandas().to_csv(path, index=False, sep="\t")
    elif suffix == ".parquet":
        parquet.write_table(table, path)
    else:
        feather.write_feather(table, str(path))
    return path


def look(path: Path, label: str | None = "outcome", **options: Any) -> Profile:
    return profile(path, label=label, **options)


def notes(result: Profile) -> str:
    return "\n".join(result.notes)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".feather"])
def test_a_table_in_any_format(tmp_path, suffix):
    result = look(written(tmp_path, suffix), client="hospital")
    assert result.fields == {"label": "outcome", "client": "hospital", "drop": ["patient_id"]} | (
        {"delimiter": "tab"} if suffix == ".tsv" else {}
    )
    assert (result.shape, result.clients) == ((3,), ("east", "north", "south"))
    assert (result.train + result.test).tolist() == [16] * 3
    assert result.notes[:3] == [
        f"patients{suffix}: 48 rows, 6 columns, 3 of them features",
        "label outcome: 2 classes: ill 12, well 36",
        "client hospital: 3 clients: east 16, north 16, south 16",
    ]


def test_signs_between_columns_and_in_numbers_are_noticed_and_the_source_reads_the_same_numbers(tmp_path):
    table = pa.table(columns()).to_pandas()
    table.to_csv(tmp_path / "point.csv", index=False, sep=";")
    table.to_csv(tmp_path / "comma.csv", index=False, sep=";", decimal=",")
    result, plain = look(tmp_path / "comma.csv"), look(tmp_path / "point.csv")
    assert (result.fields["delimiter"], result.fields["decimal"]) == ("semicolon", "comma")
    assert "decimal" not in plain.fields
    comma, point = (
        table_source.load(table_source.Config(path=name, **one.fields, duplicates="keep"), tmp_path).train.x
        for name, one in (("comma.csv", result), ("point.csv", plain))
    )
    assert comma.tobytes() == point.tobytes()
    table.assign(note=["x" * 150_000] + ["short"] * (ROWS - 1)).to_csv(tmp_path / "long.csv", index=False)
    assert look(tmp_path / "long.csv").fields["label"] == "outcome"  # a cell longer than the csv module reads


def test_columns_that_are_no_features_are_left_out_with_the_reason(tmp_path):
    days = np.arange(ROWS).astype("datetime64[D]")
    result = look(written(tmp_path, ".parquet", day=days, empty=[None] * ROWS, lists=[[1]] * ROWS))
    assert set(result.fields["drop"]) == {"patient_id", "day", "empty", "lists"}
    many = {"note": [f"text {i}" for i in range(300)], "y": [0, 1] * 150, "x": [i % 7 + i / 1000 for i in range(300)]}
    parquet.write_table(pa.table(many), tmp_path / "many.parquet")
    assert look(tmp_path / "many.parquet", "y").remarks["drop"] == "note: 300 different texts"


def test_empty_cells_are_counted_and_their_spelling_is_said(tmp_path):
    rows = [f"{['N/A', '', i][i % 3]},{['None', 'beer'][i % 2]},{['?', i][i % 2]},{i % 2}" for i in range(24)]
    (tmp_path / "t.csv").write_text("\n".join(["a,drink,c,y", *rows]))
    result = look(tmp_path / "t.csv", "y")
    assert result.fields["missing"] == "impute"
    assert "empty cells: a 16, c 12 ('N/A' and '?' taken for empty)" in result.remarks["missing"]
    for empty, warned in ((44, True), (43, False)):  # of 48
        result = look(written(tmp_path, age=[None] * empty + [20.5 + i for i in range(ROWS - empty)]))
        assert ("warning: column age is empty in 44 of 48 rows" in notes(result)) == warned


def test_rows_of_a_subject_and_rows_without_a_label(tmp_path):
    result = look(written(tmp_path, patient_id=[f"p{i // 4}" for i in range(ROWS)]), subject="patient_id")
    assert result.fields == {"label": "outcome", "subject": "patient_id"}
    assert result.test.tolist() == [16]  # 4 of 12 patients
    result = look(written(tmp_path, outcome=[None, "ill", "well"] * 16), drop_unlabeled=True)
    assert (result.fields["unlabeled"], (result.train + result.test).tolist()) == ("drop", [32])


def test_a_column_of_train_and_test_is_noticed(tmp_path):
    result = look(written(tmp_path, division=["train", "Train", "test"] * 16))
    assert (result.fields["part"], result.shape, result.test.tolist()) == ("division", (4,), [16])
    assert "part" not in look(written(tmp_path, division=["train", "later", "test"] * 16)).fields
    assert look(written(tmp_path, hospital=[*"aabb"] * 12), client="hospital").one_class == ("b",)


def test_a_column_of_codes_is_a_category_and_a_slip_is_refused(tmp_path):
    result = look(written(tmp_path, stage=["1", "2", "3+"] * 16))
    assert result.fields["categories"] == ["stage"]
    assert "stage: 1, 2, 3+ are not all numbers" in result.remarks["categories"]
    with pytest.raises(DataError, match="column 'stage' mixes numbers and texts: '1' in row 1, '3\\+' in row 47"):
        look(written(tmp_path, stage=["1", "2"] * 23 + ["3+", "1"]))


@pytest.mark.parametrize(
    ("changed", "options", "sentence"),
    [
        ({}, {"client": "hospitals"}, r"--client: .* Did you mean 'hospital'\?"),
        ({}, {"client": "hospital", "group": "x"}, "--group: patients.csv has no column 'x'. patients.csv has the col"),
        ({"outcome": [None, "ill", "well"] * 16}, {}, "--label: .* 16 missing values, .* row 1; .* --drop-unlabeled"),
        ({}, {"layout": "class"}, "--layout: is not for table"),
    ],
)
def test_what_a_table_is_refused_for(tmp_path, changed, options, sentence):
    with pytest.raises(DataError, match=sentence):
        look(written(tmp_path, **changed), **options)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.csv", b"1.5,2,0\n2.5,3,1\n", "has no header line: its first line holds 1.5, 2, 0"),
        ("a.csv", b"", "Empty CSV file"),
        ("a.csv", b"x,y\n", "has no row"),
        ("a.npz", b"nonsense", "cannot be read"),
        ("a.xlsx", b"nonsense", "unknown kind of file; known are .csv"),
        ("patient.csv", None, r"data.path: there is no .* Did you mean 'patients\.csv'\?"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, sentence):
    written(tmp_path)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=sentence):
        look(tmp_path / name, "y")


@pytest.mark.parametrize("words", [("age", "âge"), ("north", "nörd")], ids=["header", "cells"])
def test_another_encoding_is_named_and_how_to_leave_it(tmp_path, words):
    path = written(tmp_path)
    path.write_bytes(path.read_text().replace(*words).encode("latin-1"))
    with pytest.raises(DataError, match="iconv -f LATIN1 -t UTF-8 patients.csv > utf8-patients.csv"):
        look(path)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_arrays(tmp_path, suffix):
    pixels, path = np.random.default_rng(0).integers(0, 255, (12, 1, 8, 8), np.uint8), tmp_path / f"some{suffix}"
    arrays = {"images": pixels, "labels": np.arange(12) % 3, "who": np.arange(12) // 6}
    np.savez(path, **arrays) if suffix == ".npz" else save_file(arrays, path)
    result = look(path, None, client="who")
    assert result.fields == {"x": "images", "y": "labels", "client": "who"}
    assert (result.shape, result.clients) == ((1, 8, 8), ("0", "1"))
    assert "label: 3 classes: 0 4, 1 4, 2 4" in result.notes
    with pytest.raises(DataError, match=r"--label: some.* has no array 'z'. It has images, labels, who"):
        look(path, "z")
    with pytest.raises(DataError, match="--subject: is not for arrays"):
        look(path, None, subject="who")
    np.savez(tmp_path / "a.npz", x=np.arange(80.0).reshape(40, 2), y=np.arange(40) % 2)
    assert look(tmp_path / "a.npz", None).fields == {"x": "x", "y": "y", "standardize": True}


def images(folder: Path, places: list[str], size: tuple[int, int] = (8, 6), mode: str = "L") -> Path:
    """Four images in each of ``places``."""
    for i, place in enumerate(4 * places):
        (folder / place).mkdir(parents=True, exist_ok=True)
        Image.new(mode, size, i).save(folder / place / f"{i}.png")
    return folder


@pytest.mark.parametrize(
    ("places", "made", "options", "fields", "shape"),
    [
        (["cat", "dog", ".ipynb_checkpoints", "cat/.ipynb_checkpoints"], {}, {}, {"color": "gray"}, (1, 6, 8)),
        (["cat", "dog"], {"size": (300, 200), "mode": "RGB"}, {}, {"color": "rgb", "size": [32, 32]}, (3, 32, 32)),
        (["train/cat", "train/dog", "test/cat", "test/dog"], {}, {}, {"color": "gray"}, (1, 6, 8)),
        (["anna/cat", "anna/dog", "ben/cat"], {}, {"layout": "client/class"}, {"color": "gray"}, (1, 6, 8)),
        (["cat/anna", "dog/anna", "cat/ben"], {}, {"layout": "class/client"}, {"color": "gray"}, (1, 6, 8)),
    ],
    ids=["hidden folders", "large images", "train and test", "client/class", "class/client"],
)
def test_a_folder_of_images(tmp_path, places, made, options, fields, shape):
    result = profile(images(tmp_path / "pets", places, **made), **options)
    assert result.fields == {"layout": "class"} | options | fields
    assert result.shape == shape and result.clients == (("anna", "ben") if options else ())
    assert ": 2 classes: cat " in notes(result)
    assert ("images of 300x200 are resized" in notes(result)) == ("size" in fields)


def test_folders_that_hold_no_classes(tmp_path):
    (tmp_path / "none").mkdir()
    images(tmp_path / "one", ["cat"])
    images(tmp_path / "two", ["anna/cat", "anna/dog"])
    (images(tmp_path / "bad", ["dog"]) / "dog/1.png").write_text("no image")
    for name, options, sentence in (
        ("none", {}, "has no images in the layout CLASS/IMAGE"),
        ("one", {}, "has one value alone, cat"),
        ("one", {"label": "cat"}, "--label: is not for image folder"),
        ("two", {}, r"--layout: must be client/class or class/client, .* \(anna/"),
        ("bad", {}, "data.path: the image dog/1.png cannot be read"),
    ):
        with pytest.raises(DataError, match=sentence):
            profile(tmp_path / name, **options)
