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


def test_signs_between_columns_and_in_numbers_are_noticed_and_the_source_reads_the_same_numbers(
    tmp_path,
):
    table = pa.table(columns()).to_pandas()
    table.to_csv(tmp_path / "point.csv", index=False, sep=";")
    table.to_csv(tmp_path / "comma.csv", index=False, sep=";", decimal=",")
    result, plain = look(tmp_path / "comma.csv"), look(tmp_path / "point.csv")
    assert (result.fields["delimiter"], result.fields["decimal"]) == ("semicolon", "comma")
    assert "decimal" not in plain.fields
    comma, point = (
        table_source.load(
            table_source.Config(path=name, **one.fields, duplicates="keep"), tmp_path
        ).train.x
        for name, one in (("comma.csv", result), ("point.csv", plain))
    )
    assert comma.tobytes() == point.tobytes()
    table.assign(note=["x" * 150_000] + ["short"] * (ROWS - 1)).to_csv(
        tmp_path / "long.csv", index=False
    )
    assert (
        look(tmp_path / "long.csv").fields["label"] == "outcome"
    )  # a cell longer than the csv module reads


def test_columns_that_are_no_features_are_left_out_with_the_reason(tmp_path):
    days = np.arange(ROWS).astype("datetime64[D]")
    result = look(
        written(tmp_path, ".parquet", day=days, empty=[None] * ROWS, lists=[["a"]] * ROWS)
    )
    assert set(result.fields["drop"]) == {"patient_id", "day", "empty", "lists"}
    many = {
        "note": [f"text {i}" for i in range(300)],
        "y": [0, 1] * 150,
        "x": [i % 7 + i / 1000 for i in range(300)],
    }
    parquet.write_table(pa.table(many), tmp_path / "many.parquet")
    assert "note: 300 different texts" in look(tmp_path / "many.parquet", "y").remarks["drop"]


def test_empty_cells_are_counted_and_their_spelling_is_said(tmp_path):
    rows = [
        f"{['N/A', '', i][i % 3]},{['None', 'beer'][i % 2]},{['?', i][i % 2]},{i % 2}"
        for i in range(24)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["a,drink,c,y", *rows]))
    result = look(tmp_path / "t.csv", "y")
    assert result.fields["missing"] == "impute"
    assert (
        "empty cells: a 16, c 12 ('N/A' and '?' taken for empty; to keep them: "
        in result.remarks["missing"]
    )
    for empty, warned in ((44, True), (43, False)):  # of 48
        result = look(
            written(tmp_path, age=[None] * empty + [20.5 + i for i in range(ROWS - empty)])
        )
        assert ("warning: column age is empty in 44 of 48 rows" in notes(result)) == warned


def test_words_taken_for_empty_are_named_and_can_be_kept(tmp_path):
    path = written(
        tmp_path, hospital=["NA", "EU", "None"] * 16, outcome=["null", "ill", "well"] * 16
    )
    with pytest.raises(DataError) as error:
        look(path, client="hospital")
    label, client = sorted(str(error.value).splitlines(), reverse=True)
    keep_null, keep_na = (
        "--nulls 'NA,N/A,#N/A,NaN,nan,NULL,?'",
        "--nulls 'N/A,#N/A,NaN,nan,null,NULL,?'",
    )
    assert (
        label.startswith("--label: column 'outcome' has 16 missing values")
        and "'null' taken" in label
    )
    assert (
        client.startswith("--client: column 'hospital' has 16 missing values")
        and "'NA' taken" in client
    )
    assert keep_null in label and keep_na in client
    result = look(path, client="hospital", nulls=())
    assert result.fields["nulls"] == [] and result.clients == ("EU", "NA", "None")
    assert "label outcome: 3 classes: ill 16, null 16, well 16" in result.notes
    dropped = notes(look(path, drop_unlabeled=True))
    assert (
        "warning: 16 rows of 48 (33 %) have no label and are left out ('null' taken for empty"
        in dropped
        and keep_null in dropped
    )
    kept = notes(look(written(tmp_path, hospital=["None", "EU", "n/a"] * 16), client="hospital"))
    assert "client hospital: 'None', in 16 rows, is a value" in kept and "'n/a', in 16 rows" in kept


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("word", ["n/a", "-", "unknown"])
def test_a_column_is_not_lost_to_one_bad_cell(tmp_path, suffix, word):
    """130 different numbers and a word are no 131 categories: the cell is named, and the word
    can be taken for missing.
    """
    rows = {
        "x": [*(f"{i + 0.5}" for i in range(130)), word],
        "y": ["a", "b", "b"] * 43 + ["a", "b"],
    }
    path = tmp_path / f"t{suffix}"
    table = pa.table(rows).to_pandas()
    table.to_csv(path, index=False) if suffix == ".csv" else table.to_parquet(path)
    with pytest.raises(
        DataError, match=f"column 'x' mixes numbers and texts: '0.5' in row 1, '{word}' in row 131"
    ) as error:
        look(path, "y")
    remedy = str(error.value).split("--nulls '")[1].split("'")[0].split(",")
    assert remedy[-1] == word
    result = look(path, "y", nulls=tuple(remedy))
    assert result.shape == (1,) and "empty cells: x 1" in result.remarks["missing"]
    assert look(path, "y", nulls=tuple(remedy)).fields.get("numbers", []) == (
        [] if suffix == ".csv" else ["x"]
    )


def test_texts_that_stand_for_numbers_dates_and_codes_are_said(tmp_path):
    many = [i * 37 % 48 for i in range(ROWS)]  # in no order
    result = look(
        written(
            tmp_path,
            rate=[f"{i}%" for i in many],
            income=[f"{1000 * i + 5:,}" for i in many],
            icd=[f"{i:04d}" for i in many],
            seen=[f"{i % 12 + 1:02d}/{i % 28 + 1:02d}/2020" for i in many],
            admitted=[20200101 + i % 28 for i in many],
            listed=[f"[{i}, 2]" for i in many],
        )
    )
    assert result.fields["numbers"] == ["rate", "income"] and result.fields["categories"] == ["icd"]
    assert set(result.fields["drop"]) == {"patient_id", "seen", "admitted", "listed"}
    assert result.remarks["numbers"] == "rate: '0%' is 0; income: '37,005' is 37005"
    for sign in ("numbers", "categories", "left out"):
        assert sign in notes(result)
    path = written(tmp_path, zip=[f"{i:05d}" for i in range(ROWS)])
    assert look(path, categories=["zip"]).fields["categories"] == ["zip"]
    assert look(path, numbers=["zip"]).fields["numbers"] == ["zip"]
    assert "zip" in look(path, drop=["zip"]).fields["drop"]
    with pytest.raises(DataError, match="--drop: .* no column 'zop'. Did you mean 'zip'"):
        look(path, drop=["zop"])


def test_groups_of_three_digits_are_thousands_and_no_fractions(tmp_path):
    """36,289 between semicolons: other numbers like 1,5 say that the comma is before a fraction,
    and 0,289 does, too.
    """
    for cells, fields in (
        (["36,289", "1,500"], ("point", ["x"])),
        (["36,289", "1,5"], ("comma", [])),
    ):
        rows = [f"{cells[i % 2]};{i % 5};{'ab'[i % 3 > 0]}" for i in range(60)]
        (tmp_path / "t.csv").write_text("\n".join(["x;z;y", *rows]))
        result = look(tmp_path / "t.csv", "y")
        assert (result.fields.get("decimal", "point"), result.fields.get("numbers", [])) == fields


def test_rows_of_a_subject_and_rows_without_a_label(tmp_path):
    result = look(
        written(tmp_path, patient_id=[f"p{i // 4}" for i in range(ROWS)]), subject="patient_id"
    )
    assert result.fields == {"label": "outcome", "subject": "patient_id"}
    assert result.test.tolist() == [16]  # 4 of 12 patients
    result = look(written(tmp_path, outcome=[None, "ill", "well"] * 16), drop_unlabeled=True)
    assert (result.fields["unlabeled"], (result.train + result.test).tolist()) == ("drop", [32])


def test_a_column_of_train_and_test_is_noticed(tmp_path):
    result = look(written(tmp_path, division=["train", "Train", "test"] * 16))
    assert (result.fields["part"], result.shape, result.test.tolist()) == ("division", (4,), [16])
    assert "part" not in look(written(tmp_path, division=["train", "later", "test"] * 16)).fields
    result = look(
        written(tmp_path, Split=["train", "val", "test"] * 16, also=["train", "train", "test"] * 16)
    )
    assert (result.fields["part"], result.train.tolist(), result.test.tolist()) == (
        "Split",
        [16],
        [16],
    )
    assert "16 rows of the validation part are not read" in result.notes
    assert "also" in result.fields["drop"] and "duplicates" not in result.fields
    result = look(written(tmp_path, is_test=[0, 0, 1] * 16, fold=[*range(6)] * 8))
    assert (result.fields["part"], result.test.tolist(), "fold" in result.fields["drop"]) == (
        "is_test",
        [16],
        True,
    )
    for options in ({"label": "split"}, {"client": "split"}, {"subject": "split"}):
        with pytest.raises(
            DataError, match=f"--{next(iter(options))}: column 'split' says in which part"
        ):
            look(written(tmp_path, split=["train", "test"] * 24), **options)
    warned = look(written(tmp_path, fold=[*range(6)] * 8, test=[0, 1] * 24), client="fold").notes
    assert [note.split()[2] for note in warned if note.startswith("warning")] == ["fold", "test"]
    assert look(written(tmp_path, hospital=[*"aabb"] * 12), client="hospital").one_class == ("b",)


@pytest.mark.parametrize(
    ("name", "values", "train", "test"),
    [
        ("part", ["train", "test", "server"], 16, 16),
        ("set", ["tr", "te"], 24, 24),
        ("cohort", ["derivation", "validation"], 24, 24),
        ("phase", ["train", "test", "hold-out"], 16, 16),
        ("usage", ["train", "test", "external"], 16, 16),
        ("Usage", ["Training", "PublicTest", "PrivateTest"], 16, 32),
    ],
)
def test_parts_in_any_spelling_divide_the_rows(tmp_path, name, values, train, test):
    given = {name: values * (ROWS // len(values))}
    clients = [*"abcd"] * (ROWS // 4) if "server" in values else None
    path = written(tmp_path, client=clients, hospital=None, **given)
    result = look(path, client="client" if clients else None)
    assert result.fields["part"] == name
    assert (int(result.train.sum()), int(result.test.sum())) == (train, test)
    assert result.of_server == (16 if clients else 0)
    counted = f"for testing: {values[1]!r} {ROWS // len(values)}"
    assert any(counted in note or "PublicTest" in note for note in result.notes)


def test_rows_of_the_server_leave_a_test_part_to_be_drawn(tmp_path):
    path = written(tmp_path, part=["Training", "Training", "Server"] * 16, hospital=[*"aab"] * 16)
    result = look(path, client="hospital")
    assert result.of_server == 16
    assert (int(result.train.sum()), int(result.test.sum())) == (22, 10)
    with pytest.raises(DataError, match="--client: 16 rows .* are the server's"):
        look(path)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("phase", ["train", "test", "later"]),
        ("cohort", ["development", "validation", "validation"]),
    ],
)
def test_a_part_that_is_not_clear_is_no_feature_and_can_be_named(tmp_path, name, values):
    path = written(tmp_path, **{name: values * 16})
    assert name in look(path).fields["drop"]
    assert f"--part {name}" in notes(look(path))
    with pytest.raises(DataError, match="data.part: column"):
        look(path, part=name)
    plain = look(written(tmp_path, phase=["one", "two", "three"] * 16))
    assert "phase" not in plain.fields["drop"]


def test_many_repetitions_are_a_warning_with_the_shares_of_the_classes(tmp_path):
    """Of 60 rows 21 are equal, of the class well, and so 20 repeat; 19 are of the class ill."""
    rows = ["0,well"] * 21 + [f"{i}.5,{'ill' if i < 19 else 'well'}" for i in range(39)]
    lines = [f"{i},{row}" for i, row in enumerate(rows)]
    (tmp_path / "t.csv").write_text("\n".join(["row_id,x,y", *lines]))
    (warned,) = [note for note in look(tmp_path / "t.csv", "y").notes if "repeated" in note]
    assert warned.startswith("warning: ")
    assert "20 of 60" in warned and "20 of them differ only in row_id" in warned
    assert "before: ill 31.7 %, well 68.3 %, after: ill 47.5 %, well 52.5 %" in warned
    assert "--duplicates keep" in warned
    kept = look(tmp_path / "t.csv", "y", duplicates="keep")
    assert kept.fields["duplicates"] == "keep"
    assert (int(kept.train.sum() + kept.test.sum()), kept.repeated) == (60, 0)


def test_equal_rows_of_several_clients_stay_and_are_no_reason_to_refuse(tmp_path):
    path = written(tmp_path, age=[i % 16 for i in range(ROWS)], patient_id=None)
    result = look(path, client="hospital")
    assert result.fields["duplicates"] == "drop"


def test_a_column_of_codes_is_a_category_and_a_slip_is_refused(tmp_path):
    result = look(written(tmp_path, stage=["1", "2", "3+"] * 16))
    assert result.fields["categories"] == ["stage"]
    assert "stage: 1, 2, 3+ are not all numbers" in result.remarks["categories"]
    with pytest.raises(
        DataError, match="column 'stage' mixes numbers and texts: '1' in row 1, '3\\+' in row 47"
    ):
        look(written(tmp_path, stage=["1", "2"] * 23 + ["3+", "1"]))


def test_lists_of_numbers_are_features_and_tokens_no_quantities(tmp_path):
    draw = np.random.default_rng(0)
    result = look(written(tmp_path, ".parquet", embedding=draw.normal(size=(ROWS, 5)).tolist()))
    assert (
        result.shape == (9,)
        and "standardize" not in result.fields
        and result.fields["drop"] == ["patient_id"]
    )
    result = look(
        written(tmp_path, ".parquet", input_ids=draw.integers(0, 30_000, (ROWS, 4)).tolist())
    )
    assert result.shape == (8,) and result.fields["standardize"] is False
    assert look(
        written(tmp_path, ".parquet", input_ids=[[1, 2]] * ROWS), drop=["input_ids"]
    ).shape == (4,)
    with pytest.raises(DataError, match="column 'ragged' holds lists of 2 and 1 numbers"):
        look(written(tmp_path, ".parquet", ragged=[[1.0, 2.0], [1.0]] * (ROWS // 2)))


def test_labels_and_clients_that_are_nearly_equal_are_named(tmp_path):
    result = look(
        written(
            tmp_path, hospital=["St. Mary", "st. mary ", "East"] * 16, outcome=["1", "01", "2"] * 16
        ),
        client="hospital",
    )
    assert [note for note in result.notes if note.startswith("warning")] == [
        "warning: nearly equal labels: '01' and '1'",
        "warning: nearly equal clients: 'St. Mary' and 'st. mary '",
    ]


def test_a_number_in_each_row_is_warned_of(tmp_path):
    once = (np.random.default_rng(0).permutation(900_000)[:ROWS] + 100_000).tolist()
    assert "warning: column serum has another whole number in each row" in notes(
        look(written(tmp_path, serum=once))
    )
    assert "patient_id" in look(written(tmp_path, patient_id=once)).fields["drop"]
    assert "warning" not in notes(look(written(tmp_path, serum=[i // 2 for i in once])))


@pytest.mark.parametrize("index", [False, True])
def test_columns_that_count_are_a_header(tmp_path, index):
    table = pa.table(
        {str(i): [(7 * row + i) % 11 / 4 for row in range(ROWS)] for i in range(4)}
    ).to_pandas()
    table["4"] = [row % 3 for row in range(ROWS)]
    table.to_csv(tmp_path / "t.csv", index=index)
    result = look(tmp_path / "t.csv", "4")
    assert result.shape == (4,) and result.fields.get("drop", []) == ([""] if index else [])


@pytest.mark.parametrize(
    ("changed", "options", "sentence"),
    [
        (
            {"who": [f"p{i}" for i in range(ROWS)]},
            {"client": "who"},
            "--client: each of the 48 clients has one example",
        ),
        ({}, {"client": "hospitals"}, r"--client: .* Did you mean 'hospital'\?"),
        (
            {},
            {"client": "hospital", "group": "x"},
            "--group: patients.csv has no column 'x'. patients.csv has the col",
        ),
        (
            {"outcome": [None, "ill", "well"] * 16},
            {},
            "--label: .* 16 missing values, .* row 1; .* --drop-unlabeled",
        ),
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
    with pytest.raises(
        DataError, match="iconv -f LATIN1 -t UTF-8 patients.csv > utf8-patients.csv"
    ):
        look(path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_two_bytes_a_letter_are_named_and_the_command_converts_them(tmp_path, encoding):
    path = written(tmp_path)
    path.write_bytes(path.read_text().encode(encoding))
    with pytest.raises(DataError, match="iconv -f UTF-") as error:
        look(path)
    named = str(error.value).split("iconv -f ")[1].split()[0]
    assert path.read_bytes().decode(named) == path.read_bytes().decode(encoding)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_arrays(tmp_path, suffix):
    pixels, path = (
        np.random.default_rng(0).integers(0, 255, (12, 1, 8, 8), np.uint8),
        tmp_path / f"some{suffix}",
    )
    arrays = {"images": pixels, "labels": np.arange(12) % 3, "who": np.arange(12) // 6}
    np.savez(path, **arrays) if suffix == ".npz" else save_file(arrays, path)
    result = look(path, None, client="who")
    assert result.fields == {"x": "images", "y": "labels", "client": "who"}
    assert (result.shape, result.clients) == ((1, 8, 8), ("0", "1"))
    assert "label: 3 classes: 0 4, 1 4, 2 4" in result.notes
    with pytest.raises(
        DataError, match=r"--label: some.* has no array 'z'. It has images, labels, who"
    ):
        look(path, "z")
    with pytest.raises(DataError, match="--subject: is not for arrays"):
        look(path, None, subject="who")
    np.savez(tmp_path / "a.npz", x=np.arange(80.0).reshape(40, 2), y=np.arange(40) % 2)
    assert look(tmp_path / "a.npz", None).fields == {"x": "x", "y": "y", "standardize": True}


@pytest.mark.parametrize(
    ("x", "fields"),
    [
        (np.linspace(0, 200, 40 * 64).reshape(40, 1, 8, 8), {"standardize": True}),
        (np.arange(40 * 64).reshape(40, 1, 8, 8).astype(np.uint16), {"standardize": True}),
        (np.linspace(0, 1, 40 * 64).reshape(40, 1, 8, 8), {}),
        (np.random.default_rng(0).integers(0, 255, (40, 8, 8), np.uint8), {}),
        (np.arange(40 * 64).reshape(40, 64) % 4999, {}),
        (np.arange(40 * 64).reshape(40, 64) % 4999 * 1.0, {"standardize": True}),
        (np.arange(40 * 64).reshape(40, 64) % 250, {"standardize": True}),
        (np.arange(40 * 8).reshape(40, 8) * [1, 1, 1, 1, 1, 1, 9, 99], {"standardize": True}),
    ],
    ids=[
        "pixels to 200",
        "16 bits",
        "to 1",
        "gray",
        "token ids",
        "floats",
        "small numbers",
        "quantities",
    ],
)
def test_large_numbers_are_standardized_and_token_ids_are_not(tmp_path, x, fields):
    np.savez(
        tmp_path / "a.npz",
        X_train=x[:30],
        X_test=x[30:],
        y_train=np.arange(30) % 2,
        y_test=np.arange(10) % 2,
    )
    result = look(tmp_path / "a.npz", None)
    assert result.fields == {"x": "X", "y": "y"} | fields
    assert ("seems to hold token ids" in notes(result)) == (x.ndim == 2 and not fields)


def images(
    folder: Path, places: list[str], size: tuple[int, int] = (8, 6), mode: str = "L"
) -> Path:
    """Four images in each of ``places``."""
    for i, place in enumerate(4 * places):
        (folder / place).mkdir(parents=True, exist_ok=True)
        Image.new(mode, size, i).save(folder / place / f"{i}.png")
    return folder


@pytest.mark.parametrize(
    ("places", "made", "options", "fields", "shape"),
    [
        (
            ["cat", "dog", ".ipynb_checkpoints", "cat/.ipynb_checkpoints"],
            {},
            {},
            {"color": "gray"},
            (1, 6, 8),
        ),
        (
            ["cat", "dog"],
            {"size": (300, 200), "mode": "RGB"},
            {},
            {"color": "rgb", "size": [32, 32]},
            (3, 32, 32),
        ),
        (["train/cat", "train/dog", "test/cat", "test/dog"], {}, {}, {"color": "gray"}, (1, 6, 8)),
        (
            ["anna/cat", "anna/dog", "ben/cat"],
            {},
            {"layout": "client/class"},
            {"color": "gray"},
            (1, 6, 8),
        ),
        (
            ["cat/anna", "dog/anna", "cat/ben"],
            {},
            {"layout": "class/client"},
            {"color": "gray"},
            (1, 6, 8),
        ),
    ],
    ids=["hidden folders", "large images", "train and test", "client/class", "class/client"],
)
def test_a_folder_of_images(tmp_path, places, made, options, fields, shape):
    result = profile(images(tmp_path / "pets", places, **made), **options)
    assert result.fields == {"layout": "class"} | options | fields
    assert result.shape == shape and result.clients == (("anna", "ben") if options else ())
    assert ": 2 classes: cat " in notes(result)
    assert ("images of 300x200 are resized" in notes(result)) == ("size" in fields)


@pytest.mark.parametrize(
    ("suffix", "source", "fields"),
    [
        (".csv", "table", {"client": "file"}),
        (".parquet", "table", {"client": "file"}),
        (".npy", "arrays", {"x": "x", "y": "y", "standardize": True}),
        (".png", "image_folder", {"layout": "class", "color": "gray"}),
    ],
)
def test_what_a_folder_holds_says_how_it_is_read(tmp_path, suffix, source, fields):
    """Even beside other files."""
    place = tmp_path / "all"
    place.mkdir()
    (place / "README.md").write_text("what it is")
    if suffix == ".png":
        images(place, ["cat", "dog"])
        (place / "table.csv").write_text("a,b\n1,2\n")
    elif suffix == ".npy":
        np.save(place / "x.npy", np.random.default_rng(0).normal(size=(40, 3)))
        np.save(place / "y.npy", np.arange(40) % 2)
    else:
        for who, first in (("a", 20.5), ("b", 70.25)):
            age = [first + i for i in range(ROWS)]
            written(tmp_path, suffix, patient_id=None, age=age).rename(place / f"{who}{suffix}")
    result = look(place, "outcome" if source == "table" else None)
    assert (result.source, {key: result.fields.get(key) for key in fields}) == (source, fields)
    assert result.clients == (("a", "b") if source == "table" else ())
    assert "1 .md in the folder itself" in notes(result) or source == "arrays"


def test_a_column_says_whose_rows_are_rather_than_the_file(tmp_path):
    (tmp_path / "all").mkdir()
    for who in ("a", "b"):
        written(tmp_path, patient_id=None).rename(tmp_path / f"all/{who}.csv")
    result = look(tmp_path / "all", client="hospital")
    assert (result.fields["client"], result.clients) == ("hospital", ("east", "north", "south"))
    assert "file" not in result.fields.get("drop", []) and result.shape == (3,)


def test_numbers_of_rows_that_begin_anew_in_each_file_are_left_out(tmp_path):
    for who, first in (("a", 20.5), ("b", 70.25)):
        (tmp_path / "all").mkdir(exist_ok=True)
        made = written(
            tmp_path, age=[first + i for i in range(ROWS)], outcome=["ill", "well", None] * 16
        )
        made.rename(tmp_path / f"all/{who}.csv")
    result = look(tmp_path / "all", drop_unlabeled=True)
    assert result.fields["drop"] == ["patient_id"]
    assert "it numbers the rows of each file" in result.remarks["drop"]


def test_an_array_of_train_and_test_is_noticed(tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 3))
    np.savez(
        tmp_path / "a.npz",
        x=x,
        y=np.arange(40) % 2,
        split=["Training"] * 30 + ["test"] * 10,
        o=[*"ab"] * 20,
    )
    result = look(tmp_path / "a.npz", None)
    assert (result.fields["part"], result.test.tolist()) == ("split", [10])
    assert "not read: 40 rows of o" in result.notes


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (
            ["data/x.npy", "README.md"],
            "all holds no .npy file; name the file or the folder of the arrays",
        ),
        (["a.npz", "b.npz"], "name the file or the folder of the arrays"),
        (
            ["1.gif", "2.gif"],
            "has no images in the layout CLASS/IMAGE .*; not read: 2 .gif in the folder itself",
        ),
    ],
)
def test_other_folders_are_refused_with_what_they_hold(tmp_path, names, sentence):
    for name in names:
        (tmp_path / "all" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "all" / name).write_text("")
    with pytest.raises(DataError, match=sentence):
        look(tmp_path / "all", None)


def test_one_array_alone_is_refused_with_the_way_out(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 2)))
    with pytest.raises(DataError, match="name the folder that holds x.npy and y.npy"):
        look(tmp_path / "x.npy", None)


def test_folders_that_hold_no_classes(tmp_path):
    (tmp_path / "none").mkdir()
    images(tmp_path / "one", ["cat"])
    images(tmp_path / "two", ["anna/cat", "ben/dog"])
    images(tmp_path / "deep", ["data/cat", "data/dog"])
    (images(tmp_path / "bad", ["dog"]) / "dog/1.png").write_text("no image")
    for name, options, sentence in (
        ("none", {}, "has no images in the layout CLASS/IMAGE"),
        ("one", {}, "has one value alone, cat"),
        ("one", {"label": "cat"}, "--label: is not for image folder"),
        ("two", {}, r"--layout: must be client/class or class/client, .* \(anna/"),
        ("deep", {}, "data.path: all images of deep are in its folder data; name that one"),
        ("bad", {}, "data.path: the image dog/1.png cannot be read"),
    ):
        with pytest.raises(DataError, match=sentence):
            profile(tmp_path / name, **options)


def test_a_column_of_persons_is_offered_with_the_rows_that_share_one(tmp_path):
    persons = [f"p{i // 2 if i < 20 else i}" for i in range(ROWS)]
    path = written(tmp_path, patient_id=persons)
    assert "20 of 48 rows share their patient_id with another row; --subject patient_id" in notes(
        look(path)
    )
    assert "share their" not in notes(look(path, subject="patient_id"))


def test_numbered_pieces_are_one_table(tmp_path):
    for i in range(3):
        (tmp_path / "data").mkdir(exist_ok=True)
        written(tmp_path, ".parquet", age=[20.5 + i * ROWS + j for j in range(ROWS)]).rename(
            tmp_path / "data" / f"part-{i}.parquet"
        )
    result = look(tmp_path / "data", client="hospital")
    assert result.notes[0].startswith("data: 144 rows")
    assert "client" not in look(tmp_path / "data").fields


def test_parts_of_arrays_are_called_by_their_own_names(tmp_path):
    draw = np.random.default_rng(0)
    parts = {"train": 30, "test": 12}
    images = {f"{part}_images": draw.random((n, 1, 8, 8)) * 200 for part, n in parts.items()}
    labels = {f"{part}_labels": np.arange(n) % 2 for part, n in parts.items()}
    np.savez(tmp_path / "m.npz", **images, **labels)
    said = notes(look(tmp_path / "m.npz", None))
    assert "42 examples of shape [1, 8, 8] in 'train_images' and 'test_images'" in said
    assert "to 200 are neither" in said
