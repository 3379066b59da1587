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
from datasets.look import Look, divided, look
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


def seen(path: Path, label: str | None = "outcome", client: str | None = None, group: str | None = None) -> Look:
    return look(path, label, client, group, None)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".feather"])
def test_a_table_in_any_format(tmp_path, suffix):
    found = seen(written(tmp_path, suffix), client="hospital")
    assert found.counts == {"ill": 12, "well": 36}
    assert found.clients == {"east": 16, "north": 16, "south": 16}
    assert found.fields == {"label": "outcome", "client": "hospital", "drop": ["patient_id"]}
    assert found.shape == (3,)
    assert found.found[0] == f"patients{suffix}: 48 rows, 6 columns, 3 of them features"


def test_a_data_set_saved_by_hugging_face(tmp_path):
    folder = tmp_path / "saved"
    folder.mkdir()
    table = pa.table(columns())
    with (
        pa.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema) as out,
    ):
        out.write_table(table)
    (folder / "state.json").write_text('{"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}')
    assert seen(folder).counts == {"ill": 12, "well": 36}


def test_a_semicolon_is_noticed(tmp_path):
    path = tmp_path / "patients.csv"
    pa.table(columns()).to_pandas().to_csv(path, index=False, sep=";")
    assert seen(path).fields["delimiter"] == "semicolon"


def test_a_comma_in_numbers_is_noticed_and_the_source_reads_the_same_numbers(tmp_path):
    table = pa.table(columns()).to_pandas()
    table.to_csv(tmp_path / "point.csv", index=False)
    table.to_csv(tmp_path / "comma.csv", index=False, sep=";", decimal=",")
    found = seen(tmp_path / "comma.csv")
    assert (found.fields["delimiter"], found.fields["decimal"]) == ("semicolon", "comma")
    assert "numbers have a comma before their fraction, as in 1,5" in found.found
    assert "decimal" not in seen(tmp_path / "point.csv").fields
    given = {"label": "outcome", "drop": ["patient_id"], "duplicates": "keep", "shadow_size": 2}
    point = table_source.load(table_source.Config(path="point.csv", **given), tmp_path)
    comma = {"delimiter": "semicolon", "decimal": "comma"}
    own = table_source.load(table_source.Config(path="comma.csv", **given, **comma), tmp_path)
    assert point.train.x.tobytes() == own.train.x.tobytes()
    with pytest.raises(DataError, match=r"data\.decimal: the comma separates the columns"):
        table_source.load(table_source.Config(path="point.csv", **given, decimal="comma"), tmp_path)


def test_columns_that_are_no_features_are_left_out_with_the_reason(tmp_path):
    days = np.arange(ROWS).astype("datetime64[D]")
    notes = {"note": [f"text {i}" for i in range(300)]}
    found = seen(written(tmp_path, ".parquet", day=days, empty=[None] * ROWS))
    assert set(found.fields["drop"]) == {"patient_id", "day", "empty"}
    many = tmp_path / "many.parquet"
    parquet.write_table(pa.table(notes | {"y": [0, 1] * 150, "x": [i % 7 for i in range(300)]}), many)
    assert seen(many, "y").remarks["drop"] == "note: 300 different texts"


def test_missing_values_are_counted_and_named(tmp_path):
    age = [None if i in (3, 9) else 20.5 + i for i in range(ROWS)]
    found = seen(written(tmp_path, age=age))
    assert found.fields["missing"] == "impute"
    assert "age 2" in found.remarks["missing"]


def test_repeated_rows_are_named(tmp_path):
    held = {name: [*values, values[4]] for name, values in columns(patient_id=None).items()}
    path = tmp_path / "patients.parquet"
    parquet.write_table(pa.table(held), path)
    found = seen(path)
    assert found.fields["duplicates"] == "drop"
    assert "1 rows repeat an earlier one (rows 5 and 49 first)" in found.remarks["duplicates"]
    assert divided(found, path).division.examples == ROWS


def test_a_column_of_train_and_test_is_noticed(tmp_path):
    found = seen(written(tmp_path, division=["Train", "train", "test"] * 16))
    assert "part" not in found.fields  # three values
    assert found.shape == (5,)
    found = seen(written(tmp_path, division=["train", "train", "test"] * 16))
    assert found.fields["part"] == "division"
    assert found.shape == (4,)


def test_clients_of_one_class(tmp_path):
    def alone(hospitals: list[str]) -> tuple[str, ...]:
        path = written(tmp_path, hospital=hospitals * 12)
        return divided(seen(path, client="hospital"), path).division.one_class

    assert alone(["a", "b", "b", "b"]) == ("a", "b")
    assert alone(["a", "b", "b", "c"]) == ("a", "b", "c")
    assert alone(["a", "a", "b", "b"]) == ("b",)


def test_repeated_rows_with_missing_values_are_found_as_the_source_finds_them(tmp_path):
    rows = {"a": [0.5, np.nan, 1.5, np.nan] * 15, "b": [*range(30), *range(30)], "y": [0, 1] * 30}
    rows["b"][31] = 1  # row 32 repeats row 2, which lacks a value
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table(rows | {"b": [float(one) for one in rows["b"]]}), path)
    found = seen(path, label="y")
    assert found.remarks["duplicates"].startswith("15 rows repeat an earlier one (rows 2 and 32 first)")
    assert divided(found, path).division.examples == 45


def test_a_column_of_codes_is_a_category_and_a_slip_is_none(tmp_path):
    found = seen(written(tmp_path, stage=["1", "2", "3+"] * 16))
    assert found.fields["categories"] == ["stage"]
    assert "stage: 1, 2, 3+ are not all numbers" in found.remarks["categories"]
    assert "categories" not in seen(written(tmp_path, stage=["1", "2"] * 23 + ["3+", "1"])).fields


def test_the_spelling_of_what_was_taken_for_empty_is_said(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"{['N/A', '', 1][i % 3]},{['None', 'beer'][i % 2]},{['?', 2][i % 2]},{i % 2}" for i in range(24)]
    path.write_text("\n".join(["a,drink,c,y", *rows]))
    said = seen(path, label="y").remarks["missing"]
    assert "empty cells: a 16 ('N/A' is taken for empty), c 12 ('?' is taken for empty)" in said
    assert "drink" not in said


def test_rows_of_a_subject(tmp_path):
    path = written(tmp_path, patient_id=[f"p{i // 4}" for i in range(ROWS)])
    found = look(path, "outcome", None, None, None, "patient_id")
    assert found.fields == {"label": "outcome", "subject": "patient_id"}
    assert divided(found, path).division.test == {"": 16}  # 4 of 12 patients
    with pytest.raises(DataError, match=r"--subject: patients.csv has no column 'patient'. Did you mean 'patient_id'"):
        look(path, "outcome", None, None, None, "patient")
    with pytest.raises(DataError, match="--subject: belongs to tables"):
        look(images(tmp_path / "pets", ["cat", "dog"]), None, None, None, None, "patient")


def test_hidden_folders_hold_no_images(tmp_path):
    folder = images(tmp_path / "pets", ["cat", "dog", ".ipynb_checkpoints", "cat/.ipynb_checkpoints"])
    found = look(folder, None, None, None, None)
    assert (found.counts, found.clients) == ({"cat": 1, "dog": 1}, {})


@pytest.mark.parametrize(
    ("changed", "options", "sentence"),
    [
        ({}, {"label": "outcom"}, r"--label: patients.csv has no column 'outcom'. Did you mean 'outcome'\?"),
        ({}, {"label": None}, "--label: is missing; it is the column with the class. patients.csv has the columns"),
        ({}, {"client": "hospitals"}, r"--client: .* Did you mean 'hospital'\?"),
        (
            {},
            {"client": "hospital", "group": "country"},
            "--group: patients.csv has no column 'country'; it has the columns patient_id",
        ),
        ({}, {"label": "age"}, "--label: column 'age' is continuous: row 1 has 20.5"),
        ({}, {"label": "patient_id"}, "--label: column 'patient_id' has 48 distinct values"),
        ({"outcome": ["ill"] * ROWS}, {}, "--label: column 'outcome' has one value alone, ill"),
        (
            {"outcome": [None, "ill", "well"] * 16},
            {},
            "--label: column 'outcome' is empty in 16 rows, .* row 1; add --drop-unlabeled",
        ),
        (
            {"hospital": [None, "a", "b"] * 16},
            {"client": "hospital"},
            "--client: column 'hospital' is empty in 16 rows",
        ),
        ({}, {"client": "outcome"}, "must be different columns"),
    ],
)
def test_what_a_table_is_refused_for(tmp_path, changed, options, sentence):
    with pytest.raises(DataError, match=sentence):
        seen(written(tmp_path, **changed), **options)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.csv", b"1.5,2,0\n2.5,3,1\n", "has no header line: its first line holds 1.5, 2, 0"),
        ("a.csv", b"", "is empty"),
        ("a.csv", b"x,y\n1,0\n2\n", "cannot be read: CSV parse error"),
        ("a.csv", b"x,y\n", "has no row"),
        ("a.parquet", b"nonsense", "cannot be read"),
        ("a.npz", b"nonsense", "cannot be read"),
        ("a.safetensors", b"nonsense", "cannot be read"),
        ("a.xlsx", b"nonsense", "unknown kind of file; known are .csv"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, sentence):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=sentence):
        seen(tmp_path / name, label="y")


def test_a_file_that_is_not_there_names_its_neighbors(tmp_path):
    written(tmp_path)
    with pytest.raises(DataError, match=r"does not exist; in that folder: patients\.csv"):
        seen(tmp_path / "patient.csv")


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_arrays(tmp_path, suffix):
    arrays = {
        "images": np.zeros((12, 1, 8, 8), np.uint8),
        "labels": np.arange(12) % 3,
        "who": np.array([0] * 6 + [1] * 6),
    }
    path = tmp_path / f"some{suffix}"
    if suffix == ".npz":
        np.savez(path, **arrays)
    else:
        save_file(arrays, path)
    found = look(path, None, "who", None, None)
    assert found.fields == {"x": "images", "y": "labels", "client": "who"}
    assert (found.shape, found.counts) == ((1, 8, 8), {"0": 4, "1": 4, "2": 4})
    assert found.clients == {"0": 6, "1": 6}
    with pytest.raises(DataError, match=r"--label: some.* has no array 'z'; its arrays: .*images \[12, 1, 8, 8\]"):
        look(path, "z", None, None, None)


def test_arrays_that_do_not_belong_together(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((5, 2)), y=np.zeros(4, int))
    with pytest.raises(DataError, match=r"x must be \[n, ...\] and y \[n\]"):
        look(tmp_path / "a.npz", None, None, None, None)
    np.savez(tmp_path / "a.npz", x=np.zeros((5, 2)), y=np.linspace(0, 1, 5))
    with pytest.raises(DataError, match="--label: array 'y' holds numbers with fractions"):
        look(tmp_path / "a.npz", None, None, None, None)
    np.savez(tmp_path / "a.npz", z=np.zeros((5, 2)), y=np.zeros(5, int))
    with pytest.raises(DataError, match="has none of the arrays x, X, data"):
        look(tmp_path / "a.npz", None, None, None, None)


def images(folder: Path, places: list[str], size: tuple[int, int] = (8, 6), mode: str = "L") -> Path:
    for i, place in enumerate(places):
        (folder / place).mkdir(parents=True, exist_ok=True)
        Image.new(mode, size, i % 200).save(folder / place / f"{i}.png")
    return folder


def test_a_folder_of_images(tmp_path):
    found = look(images(tmp_path / "pets", ["cat", "dog", "dog"]), None, None, None, None)
    assert found.counts == {"cat": 1, "dog": 2}
    assert found.fields == {"layout": "class", "color": "gray"}
    assert found.shape == (1, 6, 8)


def test_large_images_are_resized_which_is_said(tmp_path):
    found = look(images(tmp_path / "pets", ["cat", "dog"], (300, 200), "RGB"), None, None, None, None)
    assert found.fields == {"layout": "class", "color": "rgb", "size": [32, 32]}
    assert found.shape == (3, 32, 32)
    assert "images of 300x200 are resized" in found.remarks["size"]


def test_images_by_client_need_a_layout(tmp_path):
    folder = images(tmp_path / "pets", ["anna/cat", "anna/dog", "ben/cat", "ben/dog"])
    with pytest.raises(DataError, match=r"--layout: must be client/class or class/client, .* \(anna/cat\)"):
        look(folder, None, None, None, None)
    found = look(folder, None, None, None, "client/class")
    assert (list(found.counts), list(found.clients)) == (["cat", "dog"], ["anna", "ben"])
    found = look(folder, None, None, None, "class/client")
    assert (list(found.counts), list(found.clients)) == (["anna", "ben"], ["cat", "dog"])


def test_images_in_train_and_test(tmp_path):
    folder = images(tmp_path / "pets", ["train/cat", "train/dog", "test/cat", "test/dog"])
    assert look(folder, None, None, None, None).counts == {"cat": 2, "dog": 2}


def test_folders_that_hold_no_classes(tmp_path):
    images(tmp_path / "one", ["cat", "cat"])
    (tmp_path / "none").mkdir()
    (tmp_path / "bad" / "cat").mkdir(parents=True)
    images(tmp_path / "bad", ["dog"])
    (tmp_path / "bad" / "cat" / "1.png").write_text("no image")
    for name, sentence in {
        "one": "has one class, 'cat'",
        "none": "holds no images in",
        "bad": "no image that can",
    }.items():
        with pytest.raises(DataError, match=sentence):
            look(tmp_path / name, None, None, None, None)
    with pytest.raises(DataError, match="--label, --client and --group: name columns"):
        look(tmp_path / "one", "cat", None, None, None)


def test_a_column_that_is_nearly_empty_is_warned_of(tmp_path):
    for empty, warned in ((44, True), (43, False)):  # of 48
        found = seen(written(tmp_path, age=[None] * empty + [20.5 + i for i in range(ROWS - empty)]))
        assert any(line.startswith("warning: column age") for line in found.found) == warned


@pytest.mark.parametrize("where", ["header", "cells"])
def test_another_encoding_is_named_and_how_to_leave_it(tmp_path, where):
    text = written(tmp_path).read_text()
    old, new = ("age", "âge") if where == "header" else ("north", "nörd")
    (tmp_path / "patients.csv").write_bytes(text.replace(old, new).encode("latin-1"))
    for client in (None, "hospital"):
        with pytest.raises(DataError, match="iconv -f LATIN1 -t UTF-8 patients.csv > utf8-patients.csv"):
            seen(tmp_path / "patients.csv", client=client)
