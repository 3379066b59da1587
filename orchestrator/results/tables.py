"""The Parquet tables of a results folder: the same rows give the same bytes, however they were collected.

A table is given as rows (mappings of column to value), as columns (arrays or lists), or as an Arrow table. In the file

* columns come in the order in which the rows first name them, and all rows are in one row group;
* integers are int64, other numbers float64, and Booleans and texts are allowed; other types are refused;
* a missing value is null, whether it was absent, None or NaN, so that no reader can mistake it for a number.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from orchestrator.results.writing import open_plain, write_atomically

Rows: TypeAlias = "pa.Table | Mapping[str, Any] | Iterable[Mapping[str, Any]]"

CELL = 100  # bytes that a cell takes as a value of Python, roughly
# The types of a column of numbers; a column with values of several of these types gets the last of them.
CONVERT: dict[pa.DataType, Callable[[Any], Any]] = {pa.bool_(): bool, pa.int64(): int, pa.float64(): float}
NUMBERS = tuple(CONVERT)


def as_table(rows: Rows) -> pa.Table:
    """Convert ``rows`` to an Arrow table with the types named above.

    A column without any value has the type null, and an empty row is dropped.

    Raises:
        TypeError: a value is not a number, Boolean or text, or a column mixes text and numbers.
        ValueError: the columns have different lengths.
    """
    if isinstance(rows, pa.Table):
        columns = {name: _array(name, rows[name].combine_chunks()) for name in rows.column_names}
    elif isinstance(rows, Mapping):
        columns = {name: _column(name, values) for name, values in rows.items()}
    else:
        rows = [row for row in rows if row]
        names = dict.fromkeys(chain.from_iterable(rows))
        columns = {name: _column(name, [row.get(name) for row in rows]) for name in names}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns of different lengths: {lengths}")
    return pa.table(columns)


def _column(name: str, values: Sequence[Any] | np.ndarray | pa.Array) -> pa.Array:
    if isinstance(values, np.ndarray) and values.dtype != object:
        return _array(name, pa.array(values))
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return _array(name, values)
    kind = _widest(name, {_kind(name, each) for each in set(map(type, values))})
    convert = CONVERT.get(kind, str)
    return pa.array([None if value is None else convert(value) for value in values], type=kind, from_pandas=True)


def _kind(column: str, of: type) -> pa.DataType:
    if of is type(None):
        return pa.null()
    for kept, types in zip(NUMBERS, ((bool, np.bool_), (int, np.integer), (float, np.floating)), strict=True):
        if issubclass(of, types):
            return kept
    if issubclass(of, str):
        return pa.string()
    raise TypeError(f"column {column!r}: a value of type {of.__name__} is not a number, Boolean or text")


def _widest(column: str, kinds: set[pa.DataType]) -> pa.DataType:
    """The type that can hold values of all ``kinds``; null if there are none."""
    kinds = kinds - {pa.null()}
    if kinds <= set(NUMBERS):
        return max(kinds, key=NUMBERS.index, default=pa.null())
    if len(kinds) > 1:
        raise TypeError(f"column {column!r}: text mixed with numbers")
    return next(iter(kinds))


def _array(name: str, array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """``array`` in one of our types, with NaN as null."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        array, kind = array.cast(kind.value_type), kind.value_type
    if pa.types.is_integer(kind):
        return array.cast(pa.int64())
    if pa.types.is_floating(kind):
        wide = array.cast(pa.float64())
        return pc.if_else(pc.is_nan(wide), pa.scalar(None, pa.float64()), wide)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return array.cast(pa.string())
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return array
    raise TypeError(f"column {name!r}: values of type {kind} are not numbers, Booleans or text")


def join_tables(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate tables made by `as_table`; the result is the same as `as_table` of all their rows together."""
    kinds: dict[str, set[pa.DataType]] = {}
    for schema in dict.fromkeys(table.schema for table in tables):
        for column in schema:
            kinds.setdefault(column.name, set()).add(column.type)
    schema = pa.schema([(name, _widest(name, types)) for name, types in kinds.items()])
    if not tables:
        return schema.empty_table()

    def conform(table: pa.Table, wanted: pa.Field) -> Any:
        there = table.schema.get_field_index(wanted.name) >= 0
        return table[wanted.name].cast(wanted.type) if there else pa.nulls(len(table), wanted.type)

    same = [
        table
        if table.schema.equals(schema)
        else pa.Table.from_arrays([conform(table, wanted) for wanted in schema], schema=schema)
        for table in tables
    ]
    return pa.concat_tables(same).combine_chunks()


def table_bytes(rows: Rows) -> bytes:
    """``rows`` as the content of a Parquet file. Raises TypeError and ValueError like `as_table`."""
    table = as_table(rows)
    # Other readers do not know the type of a column without values, so it becomes float, like our metrics.
    kinds = [(field.name, pa.float64() if pa.types.is_null(field.type) else field.type) for field in table.schema]
    # One chunk per column, because the file's pages follow the chunks; no Arrow schema, because it adds nothing here.
    table = table.cast(pa.schema(kinds)).combine_chunks()
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(table, row_group_size=max(len(table), 1))
    return sink.getvalue().to_pybytes()


def write_table(path: Path, rows: Rows) -> None:
    """Write ``rows`` to a Parquet file atomically. Raises like `table_bytes`, and WriteError."""
    write_atomically(path, table_bytes(rows))


def too_large(path: Path) -> str:
    """Why a Parquet file cannot be read here, after its path; empty where it fits, or where it cannot be read anyway.

    Equal values take no room in a file, so a few megabytes can state billions of rows.
    """
    try:
        with open_plain(path) as file:
            stated = pq.read_metadata(file)
    except (OSError, pa.ArrowException):
        return ""
    if stated.num_rows * stated.num_columns * CELL <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
        return ""
    return f"states {stated.num_rows} rows of {stated.num_columns} columns, more than the memory of this machine holds"


def read_table(path: Path) -> pa.Table:
    """Read a Parquet file. Raises FileNotFoundError, or pyarrow's ArrowInvalid if it is none or does not fit in memory."""
    if problem := too_large(path):
        raise pa.ArrowInvalid(f"{path} {problem}")
    return pq.read_table(pa.BufferReader(path.read_bytes()))
