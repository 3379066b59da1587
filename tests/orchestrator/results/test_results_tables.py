"""Tables: the same rows give the same bytes, and parts give the table that all rows together
would have given.
"""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.results.paths import TrialFolder
from orchestrator.results.tables import as_table, read_table, table_bytes, write_table
from orchestrator.trial.saved import Saved

ROWS = [
    {"round": 0, "accuracy": 0.25, "group": "majority", "member": True, "purity": None},
    {
        "round": 1,
        "loss": 1,
        "accuracy": float("nan"),
        "group": "minority",
        "member": False,
        "purity": None,
    },
    {"round": 2, "loss": 0.5, "accuracy": None, "group": None, "member": None, "purity": None},
]


def written(path: Path, rows) -> bytes:
    write_table(path, rows)
    return path.read_bytes()


def test_rows_get_our_types_and_null_is_what_is_missing(tmp_path):
    write_table(tmp_path / "t.parquet", ROWS)
    table = read_table(tmp_path / "t.parquet")
    assert table.column_names == ["round", "accuracy", "group", "member", "purity", "loss"]
    assert [str(kind) for kind in table.schema.types] == [
        "int64",
        "double",
        "string",
        "bool",
        "double",
        "double",
    ]
    columns = {name: table[name].to_pylist() for name in ("accuracy", "loss", "purity")}
    assert columns == {
        "accuracy": [0.25, None, None],
        "loss": [None, 1.0, 0.5],
        "purity": [None] * 3,
    }
    frame = pd.read_parquet(tmp_path / "t.parquet")
    assert math.isnan(frame["purity"][0]) and frame["round"].dtype == "int64"


@pytest.mark.parametrize("kind", [np.float16, np.float64, np.int8, np.uint8, np.int64])
def test_floats_are_double_and_integers_int64(kind):
    double = issubclass(kind, np.floating)
    values, wide = ([0.5, np.nan], pa.float64()) if double else ([1, 2], pa.int64())
    array = np.array(values, kind)
    for column in (array, list(array), pa.array(array)):
        assert as_table({"a": column}) == pa.table(
            {"a": pa.array([0.5, None] if double else values, wide)}
        )


def test_the_three_ways_to_give_rows_are_one(tmp_path):
    rows = [{"client": i, "loss": i / 3, "group": "ab"[i % 2]} for i in range(10)]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    arrays = {name: np.array(values) for name, values in columns.items()}
    arrays["group"] = np.array(columns["group"], dtype=object)
    batch = pa.table(columns).to_batches()[0]
    parts = pa.Table.from_batches([batch.slice(0, 4), batch.slice(4)])
    encoded = pa.table({**columns, "group": pa.array(columns["group"]).dictionary_encode()})
    expected = written(tmp_path / "t", rows)
    for given_as in (iter(rows), columns, arrays, pa.table(columns), parts, encoded):
        assert written(tmp_path / "t", given_as) == expected


MIXED = [[{"a": 1}, {"a": "one"}], [{"a": 0.5}, {"a": "one"}], {"a": [1], "b": [1, 2]}]
OTHER = [[{"a": value}] for value in ([1], {"a": 1}, b"bytes", object(), 1j, np.zeros(2))]


@pytest.mark.parametrize("rows", [*MIXED, *OTHER])
def test_other_values_mixtures_and_lengths_are_refused(rows):
    with pytest.raises((TypeError, ValueError)):
        as_table(rows)


def test_nothing_but_the_rows_is_in_the_file_in_one_group_however_many(tmp_path):
    rows = pa.table({"a": np.arange(1_200_000)}).replace_schema_metadata({"pandas": "{}"})
    write_table(tmp_path / "t", rows)
    file = pq.ParquetFile(tmp_path / "t")
    assert file.metadata.metadata is None and file.metadata.num_row_groups == 1


numbers = st.one_of(
    st.none(),
    st.integers(-(2**53), 2**53),
    st.floats(allow_infinity=True, allow_nan=True),
    st.floats(width=32).map(np.float32),
    st.integers(-100, 100).map(np.int32),
)
texts = st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=5))
cells = {
    "a": numbers,
    "b": numbers,
    "c": texts,
    "d": st.none(),
    "e": st.one_of(st.none(), st.booleans()),
}
tables = st.lists(st.fixed_dictionaries({}, optional=cells), max_size=20)


@settings(deadline=None, max_examples=150)
@given(rows=tables, cuts=st.lists(st.integers(0, 20), max_size=6))
def test_parts_give_the_bytes_of_all_rows_together(tmp_path_factory, rows, cuts):
    folder = tmp_path_factory.mktemp("parts")
    ends = [*sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    saved, start = Saved.of(TrialFolder(folder / "t"), {}), 0
    for end in ends:
        saved.append(0, "rounds", rows[start:end])
        start = end
    if any(rows):
        assert table_bytes(saved.rows(0, "rounds")) == written(folder / "whole", rows)
    else:
        assert not len(saved.rows(0, "rounds"))


@settings(deadline=None)
@given(rows=tables)
def test_a_table_is_what_it_was_made_of(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("table") / "t"
    first = written(path, rows)
    table = read_table(path)
    for row, kept in zip(filter(None, rows), table.to_pylist(), strict=True):
        for name, value in kept.items():
            expected = row.get(name)
            missing = expected is None or (not isinstance(expected, str) and math.isnan(expected))
            assert value is None if missing else value == expected
    assert written(path, table) == first
