"""Tables of several files: one for each client, one for each part, and what ``save_to_disk``
left of several parts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datasets.federation import DataError, Source
from datasets.sources import table
from datasets.sources._folders import part_of, parts

HEAD = "age,sex,outcome"


def rows(count: int, first: int = 0) -> list[str]:
    return [
        f"{20 + 2 * i},{'fm'[i % 2]},{'ill' if i % 3 else 'well'}"
        for i in range(first, first + count)
    ]


def write(path: Path, lines: list[str], head: str = HEAD) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([head, *lines]) + "\n")


def arrow(folder: Path, columns: dict[str, list[Any]]) -> None:
    """One data set as ``save_to_disk`` writes it."""
    content = pa.table(columns)
    folder.mkdir(parents=True)
    with (
        pa.OSFile(str(folder / "a.arrow"), "wb") as file,
        pa.ipc.new_stream(file, content.schema) as stream,
    ):
        stream.write_table(content)
    (folder / "state.json").write_text('{"_data_files": [{"filename": "a.arrow"}]}')


def read(place: Path, **fields: Any) -> Source:
    plain: dict[str, Any] = {
        "path": "all",
        "label": "outcome",
        "duplicates": "keep",
        "statistics": "all_clients",
    }
    return table.load(table.Config(**plain | fields), place)


def refused(place: Path, **fields: Any) -> str:
    with pytest.raises(DataError) as error:
        read(place, **fields)
    return str(error.value)


def ages(source: Source) -> tuple[list[float], list[float]]:
    return source.train.x[:, 0].tolist(), source.test.x[:, 0].tolist()


PLAIN: dict[str, Any] = {"standardize": False, "features": ("age",), "statistics": "server"}


@pytest.mark.parametrize("kind", ["csv", "parquet", "both"])
def test_each_file_of_a_folder_is_a_client_if_asked(tmp_path, kind):
    from pyarrow import csv

    for who, first in (("north", 0), ("south", 30)):
        write(tmp_path / f"all/{who}.csv", rows(30, first))
        if kind == "parquet" or (kind == "both" and who == "north"):
            pq.write_table(
                csv.read_csv(tmp_path / f"all/{who}.csv"), tmp_path / f"all/{who}.parquet"
            )
            (tmp_path / f"all/{who}.csv").unlink()
    source = read(tmp_path, client="file", **PLAIN)
    assert source.subject_names == ("north", "south") and source.subjects is not None
    train, test = ages(source)
    assert [int(age >= 80) for age in train + test] == source.subjects.tolist()
    assert sorted(train + test) == list(range(20, 140, 2))
    pooled = read(tmp_path, **PLAIN)
    assert (pooled.subjects, len(pooled)) == (None, 60)


def test_the_name_of_the_file_is_no_feature(tmp_path):
    for who in ("north", "south"):
        write(tmp_path / f"all/{who}.csv", rows(30))
    assert read(tmp_path).columns == ("age", "sex", "sex")


@pytest.mark.parametrize(
    ("training", "testing"),
    [
        ("train", "test"),
        ("Training", "TESTING"),
        ("a_train", "a_test"),
        ("train set", "test-set"),
        ("train", "val"),
    ],
)
def test_files_that_are_called_like_parts_are_the_parts(tmp_path, training, testing):
    write(tmp_path / f"all/{training}.csv", rows(20))
    write(tmp_path / f"all/{testing}.csv", rows(10, 20))
    assert ages(read(tmp_path, **PLAIN)) == (
        [20.0 + 2 * i for i in range(20)],
        [60.0 + 2 * i for i in range(10)],
    )
    assert "has no column 'file'" in refused(tmp_path, client="file", **PLAIN)


def test_pieces_of_one_table_are_joined(tmp_path):
    """As on Hugging Face's hub: two pieces of the training part, one of the test part, and of
    another that is not read.
    """
    for name, count in (
        ("train-00000-of-00002", 10),
        ("train-00001-of-00002", 5),
        ("test-00000-of-00001", 6),
    ):
        write(tmp_path / f"all/{name}.csv", rows(count))
    write(tmp_path / "all/validation-00000-of-00001.csv", rows(4))
    write(tmp_path / "all/README.md", [])
    write(tmp_path / "all/raw/first.csv", rows(3))
    source = read(tmp_path)
    assert (len(source.train), len(source.test)) == (15, 6)
    assert source.remarks == (
        "not read: 4 rows of validation, 1 .md in the folder itself, 1 .csv in raw",
    )


@pytest.mark.parametrize(
    ("places", "clients", "parts"),
    [
        (["data/north", "data/south"], ("north", "south"), None),
        (["north/1", "south/1"], ("north", "south"), None),
        (["train/1", "test/1"], None, (20, 10)),
        (["data/train-0-of-1", "data/test-0-of-1"], None, (20, 10)),
    ],
)
def test_tables_of_sub_folders_are_read_where_there_are_none_above(
    tmp_path, places, clients, parts
):
    for place, count, first in zip(places, (20, 10), (0, 20), strict=True):
        write(tmp_path / f"all/{place}.csv", rows(count, first))
    source = read(tmp_path, client="file" if clients else None)
    assert (source.subject_names or None, (len(source.train), len(source.test))) == (
        clients,
        parts or (21, 9),
    )


@pytest.mark.parametrize(
    ("files", "fields", "said"),
    [
        (
            {"train": rows(9), "north": rows(9)},
            {},
            "has the table 'train', which is the name of a part",
        ),
        ({"validation": rows(9), "test": rows(9)}, {}, "which is the name of a part"),
        (
            {"notes.txt": []},
            {},
            "all holds no table (.csv, .tsv, .parquet, .arrow, .feather); not read: 1 .txt in the",
        ),
        (
            {"a": rows(3), "b": ["3,m,"]},
            {},
            "column 'outcome' has a missing value in row 1 of b.csv",
        ),
        (
            {"a": rows(3), "b": [*rows(3), "old,f,ill"]},
            {},
            "mixes numbers and texts: '20' in row 1 of a.csv, 'old' in row 4",
        ),
        ({"a": rows(3), "b": []}, {}, "all/b.csv has no row"),
    ],
)
def test_unfit_folders_of_tables_are_refused(tmp_path, files, fields, said):
    for name, lines in files.items():
        write(tmp_path / "all" / (name if "." in name else f"{name}.csv"), lines)
    assert said in refused(tmp_path, **fields)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("a", "b"), "b has the column 'chol' and a has not"),
        (("train", "test"), "test has the column 'chol' and train has not"),
    ],
)
def test_files_of_other_columns_are_refused(tmp_path, names, said):
    write(tmp_path / f"all/{names[0]}.csv", rows(3))
    write(tmp_path / f"all/{names[1]}.csv", [f"{row},1" for row in rows(3)], f"{HEAD},chol")
    assert said in refused(tmp_path)


def test_a_column_called_file_is_refused_beside_several_files(tmp_path):
    for who in "ab":
        write(tmp_path / f"all/{who}.csv", [f"{row},1" for row in rows(3)], f"{HEAD},file")
    assert "has a column 'file', which is what its files are called" in refused(tmp_path)


def test_a_label_that_is_a_number_in_one_file_alone_is_a_text_in_all(tmp_path):
    write(tmp_path / "all/a.csv", [f"{i},f,{i % 2}" for i in range(10)])
    write(tmp_path / "all/b.csv", [f"{i},f,unknown" for i in range(10, 20)])
    assert read(tmp_path).class_names == ("0", "1", "unknown")


def test_data_sets_that_are_no_parts_are_not_read_but_counted(tmp_path):
    for name, count in (("train", 12), ("dev", 5), ("test", 7), ("unsupervised", 3)):
        arrow(
            tmp_path / "all" / name,
            {"age": list(range(count)), "outcome": [i % 2 for i in range(count)]},
        )
    saved = tmp_path / "all/dataset_dict.json"
    saved.write_text(json.dumps({"splits": ["train", "dev", "test", "unsupervised"]}))
    source = read(tmp_path)
    assert (len(source.train), len(source.test)) == (12, 7)
    assert source.remarks == ("not read: 5 rows of dev, 3 rows of unsupervised",)
    saved.write_text(json.dumps({"splits": ["train", "dev"]}))
    source = read(tmp_path)
    assert (len(source.train), len(source.test)) == (12, 5)
    assert source.remarks == ("train is the training part, dev is the test part",)
    saved.write_text(json.dumps({"splits": ["train", "unsupervised"]}))
    assert "holds the data sets train, unsupervised; train and test are read" in refused(tmp_path)
    saved.write_text("{}")
    assert "dataset_dict.json cannot be read" in refused(tmp_path)


def test_a_test_part_without_labels_is_named(tmp_path):
    for name, label in (("train", [0, 1] * 6), ("test", [-1] * 7)):
        arrow(tmp_path / "all" / name, {"age": list(range(len(label))), "outcome": label})
    (tmp_path / "all/dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    said = refused(tmp_path)
    assert (
        "the class '-1' has 7 examples (first: row 1 of test)" in said
        and "the test part is unlabeled" in said
    )


@pytest.mark.parametrize("word", ["train", "test", "validation"])
def test_a_part_is_known_by_its_word_and_no_other_word_is_one(word):
    spellings = [
        word,
        word.upper(),
        f"{word}_set",
        f"{word} data",
        f"1_{word}",
        f"{word}2017",
        f"{word}-images",
    ]
    assert {part_of(name) for name in spellings} == {word}
    assert not any(
        map(
            part_of,
            ("", "1", "latest", "contest", "trains", "cat", "restrain", "devices", "testament"),
        )
    )
    assert parts([word]) == {} and np.all([len(parts([word, "train", "test"])) == 2])


def test_labels_and_codes_are_spelled_alike_in_all_files(tmp_path):
    """Whole numbers beside an empty cell are floats in one file, and a leading zero in one file
    makes texts of all.
    """
    first = [
        f"{i * 7 % 30}.5,{'0071' if i == 4 else 5},{('1.0', '2.0', '')[i % 3]}" for i in range(30)
    ]
    other = [f"{i * 7 % 30}.25,{4 + i % 2},{1 + i % 2}" for i in range(30)]
    write(tmp_path / "all/a.csv", first, "age,code,outcome")
    write(tmp_path / "all/b.csv", other, "age,code,outcome")
    source = read(tmp_path, unlabeled="drop", categories="code", client="file")
    assert source.class_names == ("1", "2") and source.remarks == ()
    assert source.columns == ("age", "code", "code", "code") and len(source) == 50
    assert "holds numbers that begin with 0, as codes do: '0071' in row 5 of a.csv" in refused(
        tmp_path, unlabeled="drop"
    )
    write(tmp_path / "all/b.csv", [row.replace(",1", ",NA") for row in other], "age,code,outcome")
    said = refused(tmp_path, categories="code")
    assert (
        "column 'outcome' has 25 missing values, the first in row 3 of a.csv ('NA' taken for empty"
        in said
    )


def test_lists_of_numbers_have_one_length_in_all_files(tmp_path):
    (tmp_path / "all").mkdir()
    for name, length in {"a": 2, "b": 3}.items():
        content = pa.table(
            {"v": [[float(i)] * length for i in range(20)], "outcome": ["x", "y"] * 10}
        )
        pq.write_table(content, tmp_path / f"all/{name}.parquet")
    assert "column 'v' holds lists of several lengths" in refused(tmp_path)
