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
    held: dict[str, Any] = {
        "patient_id": [1000 + i for i in range(ROWS)],
        "age": [20.5 + i for i in range(ROWS)],
        "sex": ["f", "m"] * (ROWS // 2),
        "smoker": [True, False, False] * (ROWS // 3),
        "hospital": ["north", "south", "east"] * (ROWS // 3),
        "outcome": ["ill", "well", "well", "well"] * (ROWS // 4),
    } | changed
    return {name: values for name, values in held.items() if values is not None}


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


def seen(path: Path, label: str | None = "outcome", **options: Any) -> Profile:
    return profile(path, label=label, **options)


def told(found: Profile) -> str:
    return "\n".join(found.notes)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".feather"])
def test_a_table_in_any_format(tmp_path, suffix):
    found = seen(written(tmp_path, suffix), client="hospital")
    assert found.fields == {"label": "outcome", "client": "hospital", "drop": ["patient_id"]} | (
        {"delimiter": "tab"} if suffix == ".tsv" else {}
    )
    assert (found.shape, found.total, found.clients) == ((3,), ROWS, ("east", "north", "south"))
    assert (found.train + found.test).tolist() == [16] * 3
    assert found.notes[:3] == [
        f"patients{suffix}: 48 rows, 6 columns, 3 of them features",
        "label outcome: 2 classes: ill 12, well 36",
        "client hospital: 3 clients: east 16, north 16, south 16",
    ]


def test_a_data_set_saved_by_hugging_face(tmp_path):
    (tmp_path / "saved").mkdir()
    table = pa.table(columns())
    with pa.OSFile(str(tmp_path / "saved/data.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    (tmp_path / "saved/state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')
    assert "2 classes: ill 12, well 36" in told(seen(tmp_path / "saved"))


def test_signs_between_columns_and_in_numbers_are_noticed_and_the_source_reads_the_same_numbers(tmp_path):
    table = pa.table(columns()).to_pandas()
    table.to_csv(tmp_path / "point.csv", index=False, sep=";")
    table.to_csv(tmp_path / "comma.csv", index=False, sep=";", decimal=",")
    found, plain = seen(tmp_path / "comma.csv"), seen(tmp_path / "point.csv")
    assert (found.fields["delimiter"], found.fields["decimal"]) == ("semicolon", "comma")
    assert "decimal" not in plain.fields
    comma, point = (
        table_source.load(table_source.Config(path=name, **one.fields, duplicates="keep"), tmp_path).train.x
        for name, one in (("comma.csv", found), ("point.csv", plain))
    )
    assert comma.tobytes() == point.tobytes()


def test_columns_that_are_no_features_are_left_out_with_the_reason(tmp_path):
    days = np.arange(ROWS).astype("datetime64[D]")
    found = seen(written(tmp_path, ".parquet", day=days, empty=[None] * ROWS, lists=[[1]] * ROWS))
    assert set(found.fields["drop"]) == {"patient_id", "day", "empty", "lists"}
    many = {"note": [f"text {i}" for i in range(300)], "y": [0, 1] * 150, "x": [i % 7 + i / 1000 for i in range(300)]}
    parquet.write_table(pa.table(many), tmp_path / "many.parquet")
    assert seen(tmp_path / "many.parquet", "y").remarks["drop"] == "note: 300 different texts"


def test_empty_cells_are_counted_and_their_spelling_is_said(tmp_path):
    rows = [f"{['N/A', '', i][i % 3]},{['None', 'beer'][i % 2]},{['?', i][i % 2]},{i % 2}" for i in range(24)]
    (tmp_path / "t.csv").write_text("\n".join(["a,drink,c,y", *rows]))
    found = seen(tmp_path / "t.csv", "y")
    assert found.fields["missing"] == "impute"
    assert "empty cells: a 16, c 12 ('N/A' and '?' taken for empty)" in found.remarks["missing"]
    for empty, warned in ((44, True), (43, False)):  # of 48
        found = seen(written(tmp_path, age=[None] * empty + [20.5 + i for i in range(ROWS - empty)]))
        assert ("warning: column age is empty in 44 of 48 rows" in told(found)) == warned


def test_repeated_rows_with_missing_values_are_dropped(tmp_path):
    rows = {"a": [0.5, np.nan, 1.5, np.nan] * 15, "b": [float(i % 30) for i in range(60)], "y": [0, 1] * 30}
    parquet.write_table(pa.table(rows), tmp_path / "t.parquet")
    found = seen(tmp_path / "t.parquet", "y")
    assert found.fields["duplicates"] == "drop"
    assert found.remarks["duplicates"].startswith("15 of 60 equal an earlier one")
    assert (found.train + found.test).tolist() == [45]


def test_a_column_of_train_and_test_is_noticed(tmp_path):
    found = seen(written(tmp_path, division=["train", "Train", "test"] * 16))
    assert (found.fields["part"], found.shape, found.test.tolist()) == ("division", (4,), [16])
    assert "part" not in seen(written(tmp_path, division=["train", "later", "test"] * 16)).fields


@pytest.mark.parametrize(("hospitals", "alone"), [("abbb", "ab"), ("abbc", "abc"), ("aabb", "b")])
def test_clients_of_one_class(tmp_path, hospitals, alone):
    assert seen(written(tmp_path, hospital=[*hospitals] * 12), client="hospital").one_class == tuple(alone)


def test_a_column_of_codes_is_a_category_and_a_slip_is_refused(tmp_path):
    found = seen(written(tmp_path, stage=["1", "2", "3+"] * 16))
    assert found.fields["categories"] == ["stage"]
    assert "stage: 1, 2, 3+ are not all numbers" in found.remarks["categories"]
    with pytest.raises(DataError, match="column 'stage' mixes numbers and texts: '1' in row 1, '3\\+' in row 47"):
        seen(written(tmp_path, stage=["1", "2"] * 23 + ["3+", "1"]))


def test_rows_of_a_subject(tmp_path):
    path = written(tmp_path, patient_id=[f"p{i // 4}" for i in range(ROWS)])
    found = seen(path, subject="patient_id")
    assert found.fields == {"label": "outcome", "subject": "patient_id"}
    assert found.test.tolist() == [16]  # 4 of 12 patients


def test_rows_without_a_label_are_left_out_if_asked(tmp_path):
    path = written(tmp_path, outcome=[None, "ill", "well"] * 16)
    found = seen(path, drop_unlabeled=True)
    assert (found.fields["unlabeled"], found.total) == ("drop", 32)


@pytest.mark.parametrize(
    ("changed", "options", "sentence"),
    [
        ({}, {"label": "outcom"}, r"--label: patients.csv has no column 'outcom'. Did you mean 'outcome'\?"),
        ({}, {"label": None}, "--label: is missing; it is the column with the class. patients.csv has the columns"),
        ({}, {"client": "hospitals"}, r"--client: .* Did you mean 'hospital'\?"),
        ({}, {"client": "hospital", "group": "x"}, "--group: patients.csv has no column 'x'. patients.csv has the col"),
        ({}, {"subject": "patient"}, r"--subject: patients.csv has no column 'patient'. Did you mean 'patient_id'\?"),
        ({}, {"label": "age"}, "--label: column 'age' is continuous: row 1 has 20.5"),
        ({}, {"label": "patient_id"}, "--label: column 'patient_id' has 48 distinct values"),
        ({"outcome": ["ill"] * ROWS}, {}, "--label: column 'outcome' has one value alone, ill"),
        ({"outcome": [None, "ill", "well"] * 16}, {}, "--label: .* 16 missing values, .* row 1; .* --drop-unlabeled"),
        ({"hospital": [None, "a", "b"] * 16}, {"client": "hospital"}, "--client: column 'hospital' has 16 missing"),
        ({}, {"client": "outcome"}, "must be different columns"),
        ({}, {"layout": "class"}, "--layout: is not for table"),
    ],
)
def test_what_a_table_is_refused_for(tmp_path, changed, options, sentence):
    with pytest.raises(DataError, match=sentence):
        seen(written(tmp_path, **changed), **options)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.csv", b"1.5,2,0\n2.5,3,1\n", "has no header line: its first line holds 1.5, 2, 0"),
        ("a.csv", b"", "Empty CSV file"),
        ("a.csv", b"x,y\n1,0\n2\n", "cannot be read: CSV parse error"),
        ("a.csv", b"x,y\n", "has no row"),
        ("a.parquet", b"nonsense", "cannot be read"),
        ("a.npz", b"nonsense", "cannot be read"),
        ("a.safetensors", b"nonsense", "cannot be read"),
        ("a.xlsx", b"nonsense", "unknown kind of file; known are .csv"),
        ("b.csv", None, r"does not exist; in that folder: patients\.csv"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, sentence):
    written(tmp_path)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=sentence):
        seen(tmp_path / name, "y")


@pytest.mark.parametrize("where", ["header", "cells"])
def test_another_encoding_is_named_and_how_to_leave_it(tmp_path, where):
    text = written(tmp_path).read_text()
    old, new = ("age", "âge") if where == "header" else ("north", "nörd")
    (tmp_path / "patients.csv").write_bytes(text.replace(old, new).encode("latin-1"))
    for client in (None, "hospital"):
        with pytest.raises(DataError, match="iconv -f LATIN1 -t UTF-8 patients.csv > utf8-patients.csv"):
            seen(tmp_path / "patients.csv", client=client)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_arrays(tmp_path, suffix):
    draw, path = np.random.default_rng(0), tmp_path / f"some{suffix}"
    held = {
        "images": draw.integers(0, 255, (12, 1, 8, 8), np.uint8),
        "labels": np.arange(12) % 3,
        "who": np.arange(12) // 6,
    }
    np.savez(path, **held) if suffix == ".npz" else save_file(held, path)
    found = seen(path, None, client="who")
    assert found.fields == {"x": "images", "y": "labels", "client": "who"}
    assert (found.shape, found.clients) == ((1, 8, 8), ("0", "1"))
    assert "label: 3 classes: 0 4, 1 4, 2 4" in found.notes
    with pytest.raises(DataError, match=r"--label: some.* has no array 'z'. It has images, labels, who"):
        seen(path, "z")
    with pytest.raises(DataError, match="--subject: is not for arrays"):
        seen(path, None, subject="who")


def test_arrays_that_do_not_belong_together(tmp_path):
    np.savez(tmp_path / "a.npz", z=np.zeros((5, 2)), y=np.zeros(5, int))
    with pytest.raises(DataError, match=r"data.x: a.npz has no array 'x'"):
        seen(tmp_path / "a.npz", None)
    np.savez(tmp_path / "a.npz", x=np.arange(80.0).reshape(40, 2), y=np.linspace(0, 1, 40))
    with pytest.raises(DataError, match="--label: array 'y' is continuous"):
        seen(tmp_path / "a.npz", None)
    np.savez(tmp_path / "a.npz", x=np.arange(80.0).reshape(40, 2), y=np.arange(40) % 2)
    assert seen(tmp_path / "a.npz", None).fields == {"x": "x", "y": "y", "standardize": True}


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
    found = profile(images(tmp_path / "pets", places, **made), **options)
    assert found.fields == {"layout": "class"} | options | fields
    assert found.shape == shape and found.clients == (("anna", "ben") if options else ())
    assert ": 2 classes: cat " in told(found)
    assert ("images of 300x200 are resized" in told(found)) == ("size" in fields)


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
        ("bad", {}, "no image that can be read"),
    ):
        with pytest.raises(DataError, match=sentence):
            profile(tmp_path / name, **options)
