"""Tables of a user's own: what is read, how it is encoded, and what is refused with its column
and row.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datasets.federation import DataError, Source
from datasets.sources import table
from datasets.sources._table_files import NULLS
from tests.support.pages import page

# Training rows 1 to 4, test rows 5 and 6.
SMALL = """id,age,sex,smokes,who,part,sick
p1,10,m,true,b,train,yes
p2,20,f,false,a,train,no
p3,30,m,true,b,train,yes
p4,40,m,false,a,train,no
p5,50,x,true,b,test,yes
p6,25,f,true,a,test,no
"""
FIELDS: dict[str, Any] = {"label": "sick", "part": "part", "drop": ("id",), "client": "who"}


def written(folder: Path, text: str, name: str = "t.csv") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return name


def read(folder: Path, text: str = SMALL, name: str = "t.csv", **fields: Any) -> Source:
    return table.load(table.Config(path=written(folder, text, name), **FIELDS | fields), folder)


def refused(folder: Path, text: str = SMALL, **fields: Any) -> str:
    with pytest.raises(DataError) as error:
        read(folder, text, **fields)
    return str(error.value)


def test_numbers_are_standardized_and_texts_are_encoded_by_the_training_part(
    tmp_path: Path,
) -> None:
    source = read(tmp_path)
    # age less 25, by the deviation of 10, 20, 30, 40; sex f and m (x is of the test part alone);
    # smokes
    ages = (np.array([10, 20, 30, 40, 50, 25]) - 25) / np.sqrt(125)
    np.testing.assert_allclose(
        np.concatenate([source.train.x, source.test.x])[:, 0], ages, rtol=1e-6
    )
    assert source.train.x[:, 1:].tolist() == [[0, 1, 1], [1, 0, 0], [0, 1, 1], [0, 1, 0]]
    assert source.test.x[:, 1:].tolist() == [[0, 0, 1], [1, 0, 1]]
    assert source.train.y.tolist() == [1, 0, 1, 0] and source.test.y.tolist() == [1, 0]
    assert source.train.x.dtype == np.float32 and source.train.y.dtype == np.int64
    assert source.subject_names == ("a", "b")
    assert source.subjects is not None and source.subjects.tolist() == [1, 0, 1, 0, 1, 0]
    assert (source.name, source.classes) == ("t.csv", 2)
    assert source.columns == ("age", "sex", "sex", "smokes") and source.persons is None


def test_a_constant_column_becomes_zero(tmp_path: Path) -> None:
    text = SMALL.replace("20,f", "10,f").replace("30,m", "10,m").replace("40,m", "10,m")
    source = read(tmp_path, text.replace("p3,10,m,true", "p3,10,m,false"))
    assert not source.train.x[:, 0].any() and not source.test.x[:, 0].any()


def test_missing_values_are_imputed_from_the_training_part_if_asked_and_other_numbers_stay_if_asked(
    tmp_path: Path,
) -> None:
    text = SMALL.replace("p4,40,m", "p4,,m").replace("p2,20,f", "p2,20,?")
    assert "column 'age' has a missing value in row 4" in refused(tmp_path, text)
    assert "column 'sex' has a missing value in row 2" in refused(tmp_path, text)
    source = read(tmp_path, text, missing="impute", standardize=False)
    assert source.train.x[:, 0].tolist() == [10, 20, 30, 20]
    assert source.train.x[1, 1:].tolist() == [
        1,
        0,
    ]  # m, the most frequent of the training part, which has no f


def test_none_is_a_category_and_no_missing_value(tmp_path: Path) -> None:
    text = SMALL.replace(",f,", ",None,")
    assert read(tmp_path, text).train.x[:, 1:3].tolist() == [
        [0, 1],
        [1, 0],
        [0, 1],
        [0, 1],
    ]  # None and m


@pytest.mark.parametrize("word", NULLS)
def test_every_spelling_of_a_missing_value_is_in_the_documentation(
    tmp_path: Path, word: str
) -> None:
    assert "column 'sex' has a missing value in row 2" in refused(
        tmp_path, SMALL.replace("p2,20,f", f"p2,20,{word}")
    )
    for text in (table.__doc__ or "", page("docs/own_data.md")):
        said = text.split("Missing values (in a CSV: ")[1].split(")")[0]
        assert (word or "empty") in re.split(r",\s+|\s+or\s+", said.replace("`", ""))


def saved(folder: Path, content: pa.Table) -> None:
    """A data set as Hugging Face's ``save_to_disk`` leaves it, in two files of the streaming
    format.
    """
    folder.mkdir(parents=True)
    names = [f"data-{i:05d}-of-00002.arrow" for i in range(2)]
    for name, part in zip(names, (content.slice(0, 2), content.slice(2)), strict=True):
        with (
            pa.OSFile(str(folder / name), "wb") as file,
            pa.ipc.new_stream(file, content.schema) as stream,
        ):
            stream.write_table(part)
    (folder / "state.json").write_text(
        json.dumps({"_data_files": [{"filename": name} for name in names]})
    )
    (folder / "dataset_info.json").write_text("{}")


def same(first: Source, second: Source) -> bool:
    parts = [
        (one.train.x, one.train.y, one.test.x, one.test.y, one.subjects) for one in (first, second)
    ]
    return all(np.array_equal(a, b) for a, b in zip(*parts, strict=True))


def test_every_kind_of_file_gives_the_same_source(tmp_path: Path) -> None:
    from pyarrow import csv

    expected = read(tmp_path)
    content = csv.read_csv(tmp_path / "t.csv")
    content = content.set_column(2, "sex", content["sex"].dictionary_encode())
    content = content.set_column(1, "age", content["age"].cast(pa.float32()).cast(pa.float16()))
    pq.write_table(content, tmp_path / "t.parquet")
    saved(tmp_path / "hub", content)
    with (
        pa.OSFile(str(tmp_path / "t.arrow"), "wb") as file,
        pa.ipc.new_file(file, content.schema) as writer,
    ):
        writer.write_table(content)
    for path in ("t.parquet", "hub", "t.arrow"):
        assert same(table.load(table.Config(path=path, **FIELDS), tmp_path), expected), path
    for part, rows in (("train", slice(0, 4)), ("test", slice(4, 6))):
        saved(tmp_path / "both" / part, content.drop_columns(["part"])[rows])
    (tmp_path / "both" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    assert same(
        table.load(table.Config(path="both", **FIELDS | {"part": None}), tmp_path), expected
    )
    assert same(read(tmp_path, SMALL.replace(",", ";"), delimiter="semicolon"), expected)
    assert same(read(tmp_path, SMALL.replace(",", "\t"), name="t.tsv"), expected)
    head, body = SMALL.split("\n", 1)
    assert same(read(tmp_path, body, columns=tuple(head.split(","))), expected)


def test_the_order_of_the_rows_changes_the_order_of_the_examples_alone(tmp_path: Path) -> None:
    head, *rows = SMALL.splitlines()
    plain, turned = read(tmp_path), read(tmp_path, "\n".join([head, *rows[::-1]]) + "\n")
    np.testing.assert_allclose(turned.train.x[::-1], plain.train.x, rtol=1e-6)
    assert turned.train.y[::-1].tolist() == plain.train.y.tolist()


def test_the_drawn_test_part_has_its_share_of_every_client_and_class_and_is_always_the_same(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{rng.normal()},{'abc'[i % 3]},{i % 2}" for i in range(300)]
    text = "\n".join(["v,who,sick", *rows]) + "\n"
    fields = {"part": None, "drop": (), "test_share": 0.2}
    source = read(tmp_path, text, **fields)
    assert source.subjects is not None
    assert np.bincount(source.subjects[240:]).tolist() == [20, 20, 20]
    for client in range(3):
        assert np.bincount(source.test.y[source.subjects[240:] == client]).tolist() == [10, 10]
    assert same(source, read(tmp_path, text, **fields))


@pytest.mark.parametrize("client", ["who", None])
def test_all_rows_of_a_subject_are_in_one_part(tmp_path: Path, client: str | None) -> None:
    visits = [
        f"{i + 0.5},p{i // 3},{'ab'[i // 3 % 2]},{(i // 3 + (i % 9 == 0)) % 2}" for i in range(180)
    ]
    text, fields = (
        "\n".join(["n,patient,who,sick", *visits]),
        {"part": None, "client": client, "features": ("n",)},
    )
    fields |= {"drop": (), "standardize": False, "test_share": 0.2, "subject": "patient"}
    source = read(tmp_path, text, **fields)
    train, test = ({int(n) // 3 for n in part.x[:, 0]} for part in (source.train, source.test))
    assert not train & test and len(train | test) == 60 and len(test) == 12
    assert source.train.x.shape[1] == 1  # the subject is no feature
    patients = np.concatenate([source.train.x, source.test.x])[:, 0].astype(int) // 3
    assert (
        source.persons is not None
        and len({*zip(source.persons.tolist(), patients.tolist(), strict=True)}) == 60
    )
    if client:
        assert source.subjects is not None and np.bincount(
            source.subjects[len(source.train) :]
        ).tolist() == [18, 18]
    assert same(source, read(tmp_path, text, **fields))


def test_a_single_subject_cannot_be_divided(tmp_path: Path) -> None:
    text = "\n".join(["v,who,sick", *(f"{i},x,{i % 2}" for i in range(9))])
    said = refused(tmp_path, text, subject="who", client=None, drop=(), part=None)
    assert (
        "data.subject: t.csv has one subject alone; two are needed at least, one for each part"
        in said
    )


SAME = ("", "")


@pytest.mark.parametrize(
    ("change", "fields", "said"),
    [
        (
            SAME,
            {"label": ""},
            "data.label: is missing; it is the column with the class. t.csv has the columns id",
        ),
        (
            SAME,
            {"label": "who"},
            "label, client, group, part and subject must be different columns",
        ),
        (
            SAME,
            {"features": ("age", "sick")},
            "data.features: 'sick' is already the label, client, group, part or subj",
        ),
        (SAME, {"client": None, "group": "who"}, "data.group: is the group of a client"),
        (
            SAME,
            {"label": "age", "part": None, "test_share": 0.5},
            "none of them in the training part",
        ),
        (SAME, {"shadow_size": 1}, "data.statistics: "),
        (
            ("p6,", "p1,"),
            {"subject": "id", "drop": ()},
            "data.part: column 'part' has the rows of 'p1' (of data.subj",
        ),
        (
            ("p3,30,", "p3,1e300,"),
            {"standardize": False},
            "column 'age' has a number beyond 3.4e38 in row 3",
        ),
        (
            ("p3,30,", "p3,10,"),
            {},
            "1 of 6 examples repeat earlier ones (first: row 3 equals row 1)",
        ),
        (
            ("b,test", "b,later"),
            {},
            "data.part: column 'part' has 'later' in row 5; train, test and server are allowed",
        ),
        ((",test,", ",train,"), {}, "data.part: column 'part' has no test example"),
        (("who", "age"), {"client": None}, "has two columns of the name 'age'"),
        ((",", ";"), {}, "data.delimiter: "),
    ],
)
def test_what_is_unfit_is_refused(
    tmp_path: Path, change: tuple[str, str], fields: dict[str, Any], said: str
) -> None:
    assert said in refused(tmp_path, SMALL.replace(*change), **fields)


def test_everything_wrong_with_the_columns_is_said_at_once(tmp_path: Path) -> None:
    text = SMALL.replace("p3,30,", "p3,inf,").replace("p2,20,f", "p2,20,")
    assert [line.split("'")[1] for line in refused(tmp_path, text).splitlines()] == ["age", "sex"]


def test_duplicates_are_dropped_or_kept_if_asked(tmp_path: Path) -> None:
    text = SMALL.replace("p3,30,m", "p3,10,m")
    assert len(read(tmp_path, text, duplicates="keep")) == 6
    dropped = read(tmp_path, text, duplicates="drop")
    assert len(dropped) == 5
    np.testing.assert_allclose(
        dropped.train.x[:, 0], (np.array([10, 20, 40]) - 70 / 3) / np.std([10, 20, 40]), rtol=1e-6
    )
    assert dropped.subjects is not None and dropped.subjects.tolist() == [1, 0, 0, 1, 0]


def test_examples_keep_the_row_of_the_file_that_they_come_from(tmp_path: Path) -> None:
    """Rows count from 1 without the header, whatever is left out and whichever part is drawn."""
    lines = [
        f"{row * 7 % 41},{'ab'[row % 2]},{'train' if row % 5 else 'test'}" for row in range(1, 41)
    ]
    lines[2] = "21,b,validation"
    lines[7] = lines[5]
    text = "\n".join(["value,label,part", *lines])
    loaded = read(
        tmp_path, text, label="label", client=None, drop=(), duplicates="drop", standardize=False
    )
    values = np.concatenate([loaded.train.x, loaded.test.x])[:, 0]
    assert loaded.file_rows is not None and np.array_equal(loaded.file_rows * 7 % 41, values)
    assert len(values) == 38 and {3, 8}.isdisjoint(loaded.file_rows.tolist())


def test_columns_of_codes_are_categories_if_listed(tmp_path: Path) -> None:
    source = read(tmp_path, SMALL.replace("p3,30,", "p3,old,"), categories="age", features=("age",))
    assert source.train.x.tolist() == np.eye(4)[[0, 1, 3, 2]].tolist()  # 10, 20, 40, old
    renamed = SMALL.replace("id,age,sex,smokes", "id,label,client,group", 1)  # the names of roles
    assert same(read(tmp_path, renamed), read(tmp_path))


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("{i}", "column 'n' numbers the rows"),
        ("name {i}", "column 'n' has 140 different texts"),
        ("2024-01-{day:02d}", "column 'n' holds date values"),
        ("", "column 'n' has no value at all"),
    ],
)
def test_names_and_numbers_of_rows_and_times_are_no_features(
    tmp_path: Path, cell: str, said: str
) -> None:
    rows = [f"{cell.format(i=i, day=i % 28 + 1)},{i % 7},{i % 2},{3 * i}" for i in range(140)]
    fields = {"part": None, "drop": ("many",), "client": None}
    assert said in refused(tmp_path, "\n".join(["n,v,sick,many", *rows]), **fields)
    fields |= {"label": "many", "features": ("v",)}
    assert "140 distinct values in 140 rows" in refused(
        tmp_path, "\n".join(["n,v,sick,many", *rows]), **fields
    )


def test_a_group_is_that_of_its_client(tmp_path: Path) -> None:
    text = (
        SMALL.replace("sick\n", "sick,land\n")
        .replace("yes\n", "yes,south\n")
        .replace("no\n", "no,north\n")
    )
    source = read(tmp_path, text, group="land")
    assert source.group_names == ("north", "south")
    assert source.subject_groups is not None and source.subject_groups.tolist() == [0, 1]
    text = text.replace("train,no,north", "train,no,south", 1)
    assert "those of 'a' have 'north' and 'south'" in refused(tmp_path, text, group="land")


def test_files_that_are_not_there_or_of_no_known_kind_are_refused(tmp_path: Path) -> None:
    written(tmp_path, SMALL)
    for path in ("", "tt.csv", "a" * 1000):
        with pytest.raises(DataError, match=r"data\.path: "):
            table.load(table.Config(path=path, **FIELDS), tmp_path)
    for name, text in (
        ("t.xlsx", "x"),
        ("t.parquet", "no parquet"),
        ("t.arrow", "no arrow"),
        ("empty.csv", ""),
    ):
        with pytest.raises(DataError, match="data.path"):
            table.load(table.Config(path=written(tmp_path, text, name), **FIELDS), tmp_path)


def test_rows_without_a_label_are_left_out_if_asked(tmp_path: Path) -> None:
    text = SMALL.replace("p3,30,m,true,b,train,yes", "p3,30,m,true,b,train,")
    assert same(
        read(tmp_path, text, unlabeled="drop"),
        read(tmp_path, SMALL.replace("p3,30,m,true,b,train,yes\n", "")),
    )
    numbers = text.replace(",yes", ",2021001").replace(
        ",no", ",0"
    )  # floats, where some are missing
    assert read(tmp_path, numbers, unlabeled="drop").class_names == ("0", "2021001")


def test_the_servers_examples_alone_prepare_the_others(tmp_path: Path) -> None:
    """Its ages are 10 and 20, its words f and m; the median of 10 and 20 stands for a gap, and x
    is no word that it has.
    """
    text = SMALL.replace("p4,40", "p4,").replace("p3,30,m", "p3,30,x")
    source = read(tmp_path, text, missing="impute", shadow_size=2).fitted(np.array([1, 0]))
    assert source.train.x[:, 0].tolist() == [-1, 1, 3, 0]
    assert source.train.x[:, 1:3].tolist() == [[0, 1], [1, 0], [0, 0], [0, 1]]
    wild = text.replace("p3,30,x", "p3,1e300,new").replace("p4,,m", "p4,-1,q")
    other = read(tmp_path, wild, missing="impute", shadow_size=2).fitted(np.array([1, 0]))
    np.testing.assert_array_equal(other.train.x[:2], source.train.x[:2])
    assert np.isfinite(other.train.x).all()


def test_the_server_needs_examples_for_statistics_and_a_split_must_use_them(tmp_path: Path) -> None:
    assert read(tmp_path, shadow_size=0, statistics="all_clients").fit is None
    plain = read(tmp_path, shadow_size=0, standardize=False, features=("age", "smokes"))
    assert plain.fit is None and plain.train.x.any(axis=1).all(), (
        "numbers as they are need no statistics"
    )
    with pytest.raises(TypeError, match="fitted"):
        read(tmp_path).examples(np.array([0]))


def labeled(folder: Path, labels: list[str], **fields: Any) -> tuple[str, ...]:
    """The classes of a CSV with these labels, ten rows each."""
    rows = [f"{i * 7 % 101}.5,{label}" for i, label in enumerate(labels * 10)]
    return read(
        folder, "\n".join(["v,sick", *rows]), part=None, client=None, drop=(), **fields
    ).class_names


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["01", "1", "10", "2"], ("01", "1", "2", "10")),
        (["1E2", "100"], ("100", "1E2")),
        (["0x10", "16"], ("0x10", "16")),
        (["1.0", "1"], ("1", "1.0")),
        (["-1", "+1"], ("-1", "+1")),
        (["true", "True"], ("True", "true")),
        (["9007199254740993", "9007199254740992", ""], ("9007199254740992", "9007199254740993")),
        (
            ["18446744073709551617", "18446744073709551616"],
            ("18446744073709551616", "18446744073709551617"),
        ),
        (["2", "10", "1", ""], ("1", "2", "10")),
        (
            ["2.0", "10.0", "1.0", ""],
            ("1", "2", "10"),
        ),  # as pandas writes whole numbers beside empty cells
        (["2020-01-02", "2021-01-02"], ("2020-01-02", "2021-01-02")),
    ],
)
def test_labels_are_texts_first(
    tmp_path: Path, labels: list[str], classes: tuple[str, ...]
) -> None:
    assert labeled(tmp_path, labels, unlabeled="drop") == classes


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.decimal128(20)])
def test_large_whole_labels_of_a_parquet_file_stay_different(
    tmp_path: Path, kind: pa.DataType
) -> None:
    labels = pa.array([2**60, 2**60 + 1, None, 2**60 + 2] * 10, pa.int64()).cast(kind)
    pq.write_table(
        pa.table({"v": [i * 7 % 101 / 2 for i in range(40)], "sick": labels}),
        tmp_path / "t.parquet",
    )
    config = table.Config(path="t.parquet", label="sick", unlabeled="drop")
    assert table.load(config, tmp_path).class_names == tuple(str(2**60 + i) for i in range(3))


@pytest.mark.parametrize("labels", [["1.5", "2", "2.25"], ["1,5", "2", "2,25"]])
def test_quantities_are_no_labels_however_they_are_spelled(
    tmp_path: Path, labels: list[str]
) -> None:
    comma = {"decimal": "comma", "delimiter": "semicolon"} if "," in labels[0] else {}
    text = "\n".join(
        [
            "v;sick" if comma else "v,sick",
            *(f"{i};{x}" if comma else f"{i},{x}" for i, x in enumerate(labels)),
        ]
    )
    assert "column 'sick' is continuous: row 1 has 1.5" in refused(
        tmp_path, text, part=None, client=None, drop=(), **comma
    )


def test_words_that_stand_for_a_missing_value_can_be_chosen(tmp_path: Path) -> None:
    text = SMALL.replace("p4,40,m", "p4,-,NA")
    said = refused(tmp_path, text)
    assert (
        "column 'age' mixes numbers and texts: '-' in row 4" not in said
        and "'10' in row 1, '-' in row 4" in said
    )
    assert "column 'sex' has a missing value in row 4 ('NA' taken for empty" in said
    words = re.findall(r"data\.nulls '([^']*)'", said)
    assert {tuple(set(one.split(",")) ^ set(NULLS)) for one in words} == {("-",), ("NA",)}
    source = read(tmp_path, text, nulls="-", missing="impute", standardize=False)
    assert (
        source.train.x[:, 0].tolist() == [10, 20, 30, 20] and source.train.x.shape[1] == 5
    )  # with f, m and NA
    assert labeled(tmp_path, ["NA", "K", ""], nulls=(), unlabeled="drop") == ("K", "NA")


def test_new_fields_change_no_other_id() -> None:
    plain, chosen = table.Config(label="y"), table.Config(label="y", numbers="x", nulls=())
    assert not {"numbers", "nulls"} & plain.dump_read().keys()
    assert (chosen.dump_read()["numbers"], chosen.dump_read()["nulls"]) == (["x"], [])


@pytest.mark.parametrize(
    ("cells", "numbers", "said"),
    [
        (
            ["6%", "7.5%", "50%", "8%", "9%", "1%"],
            [6, 7.5, 50, 8],
            "holds numbers with signs or units: '6%' in row 1",
        ),
        (
            ["$1,200", "$5", "$6", "$7", "$8", "$9"],
            [1200, 5, 6, 7],
            "holds numbers with signs or units: '$1,200' in row 1",
        ),
        (
            ["0071", "4010", "5", "1", "2", "3"],
            [71, 4010, 5, 1],
            "begin with 0, as codes do: '0071' in row 1",
        ),
        (["7", "0x10", "5", "1", "2", "3"], None, "begin with 0, as codes do: '0x10' in row 2"),
        (["20200131", "20200201"] * 3, [20200131, 20200201] * 2, "holds dates such as 20200131"),
        (["01/31/2020", "02/01/2020"] * 3, None, "holds dates: '01/31/2020' in row 1"),
    ],
)
def test_numbers_that_may_be_something_else_are_listed_or_refused(
    tmp_path: Path, cells: list[str], numbers: list[float] | None, said: str
) -> None:
    head, *rows = SMALL.splitlines()
    text = "\n".join(
        [f"{head},n", *(f'{row},"{cell}"' for row, cell in zip(rows, cells, strict=True))]
    )
    assert said in refused(
        tmp_path, text
    ) and "list it in data.numbers or data.categories" in refused(tmp_path, text)
    if numbers:
        source = read(
            tmp_path, text, numbers="n", features=("n",), standardize=False, duplicates="keep"
        )
        assert source.train.x[:, 0].tolist() == np.array(numbers, np.float32).tolist()
    codes = read(tmp_path, text, categories="n", features=("n",), duplicates="keep").train.x
    assert codes.shape[1] == len(set(cells[:4])) and (codes.sum(axis=1) == 1).all()


def test_a_listed_number_with_another_sign_is_named(tmp_path: Path) -> None:
    text = SMALL.replace(",10,m", ",10%,m").replace(",20,f", ",20%,f").replace("age", "rate")
    assert (
        "column 'rate' has more than numbers of one sign: '10%' in row 1, '30' in row 3"
        in refused(tmp_path, text, numbers="rate")
    )


def test_floats_that_number_the_rows_are_refused(tmp_path: Path) -> None:
    rows = [f"{i}.0,{i * 7 % 101}.5,{'ab'[i % 2]}" for i in range(30)]
    text = "\n".join(["n,v,sick", *rows])
    assert "column 'n' numbers the rows" in refused(tmp_path, text, part=None, client=None, drop=())


def test_lists_of_one_length_are_as_many_numbers(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    rows = {"v": list(numbers), "sick": ["a", "b"] * 3, "part": ["train"] * 4 + ["test"] * 2}
    for kind in (
        pa.list_(pa.float32()),
        pa.list_(pa.float64(), 4),
        pa.large_list(pa.float32()),
        pa.list_(pa.list_(pa.float32())),
    ):
        values = (
            [[row[:2], row[2:]] for row in numbers] if "list<item: list" in str(kind) else rows["v"]
        )
        pq.write_table(pa.table(rows | {"v": pa.array(values, kind)}), tmp_path / "t.parquet")
        config = table.Config(path="t.parquet", label="sick", part="part", standardize=False)
        source = table.load(config, tmp_path)
        np.testing.assert_array_equal(np.concatenate([source.train.x, source.test.x]), numbers)
        assert source.columns == ("v[0]", "v[1]", "v[2]", "v[3]")
    missing = pa.array([None, *numbers[1:].tolist()])
    pq.write_table(pa.table(rows | {"v": missing}), tmp_path / "t.parquet")
    imputed = table.load(
        config.model_copy(update={"missing": "impute", "statistics": "all_clients"}), tmp_path
    )
    np.testing.assert_allclose(imputed.train.x[0], np.median(numbers[1:4], axis=0))


def test_rows_of_the_validation_part_are_left_out_and_counted(tmp_path: Path) -> None:
    source = read(tmp_path, SMALL.replace("train,yes", "Val,yes", 1))
    assert same(source, read(tmp_path, SMALL.replace("p1,10,m,true,b,train,yes\n", "")))
    assert source.remarks == ("1 rows of the validation part are not read",)
    flags = SMALL.replace(",train,", ",0,").replace(",test,", ",1,").replace("part", "is_test")
    assert same(read(tmp_path, flags, part="is_test"), read(tmp_path))
    flags = SMALL.replace(",train,", ",True,").replace(",test,", ",False,").replace("part", "train")
    assert same(read(tmp_path, flags, part="train"), read(tmp_path))
    assert same(read(tmp_path, SMALL.replace(",test,", ",validation,")), read(tmp_path))


def test_values_that_the_server_does_not_know_are_counted(tmp_path: Path) -> None:
    """Of sex it knows f and m, and of n the 1 alone; x is in one row, and 2 in another."""
    text = "\n".join(
        f"{line},{('n', 1, 1, 1, 2, 1, 1)[row]}" for row, line in enumerate(SMALL.splitlines())
    )
    source = read(tmp_path, text, shadow_size=2)
    assert source.remarks == ()
    (said,) = source.fitted(np.array([1, 0])).remarks
    assert (
        said.startswith("2 rare values are unknown to the server's statistics")
        and "in 2 of 6 rows (sex 1, n 1)" in said
    )
    assert source.fitted(np.array([0, 1, 2, 3])).remarks[0].startswith("1 rare values")


def test_nearly_equal_names_are_remarked(tmp_path: Path) -> None:
    text = SMALL.replace(",a,", ",St. Mary,").replace("p5,50,x,true,b", "p5,50,x,true,ST. MARY.")
    assert read(tmp_path, text).remarks == (
        "warning: nearly equal clients: 'ST. MARY.' and 'St. Mary'",
    )


@pytest.mark.parametrize(
    ("name", "cells", "role", "said"),
    [
        (
            "split",
            ["train", "val", "test"],
            "",
            "column split says in which part of the data a row is, and is a feature",
        ),
        (
            "is_test",
            ["0", "1"],
            "",
            "column is_test says in which part of the data a row is, and is a feature",
        ),
        (
            "fold",
            ["0", "1", "2"],
            "client",
            "column fold says in which part of the data a row is, and is the client",
        ),
        (
            "test",
            ["0", "1"],
            "",
            "column test may say in which part of the data a row is, and is a feature",
        ),
        (
            "x",
            ["train", "test", "later"],
            "",
            "column x may say in which part of the data a row is, and is a feature",
        ),
        ("x", ["train", "car", "bus"], "", ""),
        ("state", ["0", "1"], "", ""),
    ],
)
def test_a_part_is_no_feature_or_client_in_silence(
    tmp_path: Path, name: str, cells: list[str], role: str, said: str
) -> None:
    rows = [f"{i * 7 % 60}.5,{cells[i % len(cells)]},{'ab'[i // 3 % 2]}" for i in range(60)]
    fields = {"part": None, "drop": (), "client": name if role == "client" else None}
    remarks = read(tmp_path, "\n".join([f"v,{name},sick", *rows]), **fields).remarks
    assert [remark.split(";")[0] for remark in remarks] == ([f"warning: {said}"] if said else [])


def test_codes_among_constants_need_quotes() -> None:
    fields = {"statistics": "constants", "constants": {"icd": [1.0, 2.0, 10.0]}}
    config = table.Config(label="y", categories=["icd"], **fields)
    (sentence,) = table._unfit_constants(config, {"icd": table.TEXT})
    assert "without quotes" in sentence and '["01", "10"]' in sentence
    config = table.Config(label="y", statistics="constants", constants={"icd": ["01", "10"]})
    assert table._unfit_constants(config, {"icd": table.TEXT}) == []
