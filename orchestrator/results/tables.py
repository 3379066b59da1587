"""The Parquet tables of a results folder: the same rows give the same bytes, however they were
collected.

A table is given as rows (mappings of column to value), as columns (arrays or lists), or as an Arrow
table. In the file

* columns come in the order in which the rows first name them, and all rows are in one row group;
* integers are int64, other numbers float64, and Booleans and texts are allowed; other types are
  refused;
* a missing value is null, whether it was absent, None or NaN, so that no reader can mistake it for
  a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from orchestrator.results.writing import read_plain, write_atomically

Rows: TypeAlias = "pa.Table | Mapping[str, Any] | Iterable[Mapping[str, Any]]"


def as_table(rows: Rows) -> pa.Table:
    """Convert ``rows`` to an Arrow table with the types named above.

    A column without any value has the type null, and an empty row is dropped.

    Raises:
        TypeError: a value is not a number, Boolean or text.
        ValueError: a column mixes them, or the columns have different lengths.
    """
    if isinstance(rows, pa.Table):
        return pa.table(
            {name: _array(name, rows[name].combine_chunks()) for name in rows.column_names}
        )
    if not isinstance(rows, Mapping):
        rows = [row for row in rows if row]
        rows = {
            name: [row.get(name) for row in rows]
            for name in dict.fromkeys(chain.from_iterable(rows))
        }
    return pa.table({name: _array(name, _arrow(values)) for name, values in rows.items()})


def _arrow(values: Sequence[Any] | np.ndarray | pa.Array) -> pa.Array:
    """A column as Arrow has it; NaN alone is a number, too."""
    if isinstance(values, pa.Array | pa.ChunkedArray) or (
        isinstance(values, np.ndarray) and values.dtype != object
    ):
        return pa.array(values)
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    if any(isinstance(value, float) for value in plain):
        plain = [None if value is None else float(value) for value in plain]
        return pa.array(plain, pa.float64(), from_pandas=True)
    return pa.array(plain)


def _array(name: str, array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """``array`` in one of our types, with NaN as null."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        array = array.cast(kind.value_type)
        kind = kind.value_type
    if pa.types.is_integer(kind):
        return array.cast(pa.int64())
    if pa.types.is_floating(kind):
        wide = array.cast(pa.float64())
        return pc.if_else(pc.is_nan(wide), pa.scalar(None, pa.float64()), wide)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return array.cast(pa.string())
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return array
    raise TypeError(f"column {name!r}: values of type {kind} are not numbers, Booleans or text")


def join_tables(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate tables made by `as_table`; the result is the same as `as_table` of all their
    rows together.
    """
    return (
        pa.concat_tables(tables, promote_options="permissive").combine_chunks()
        if tables
        else pa.table({})
    )


def table_bytes(rows: Rows) -> bytes:
    """``rows`` as the content of a Parquet file.

    Raises TypeError and ValueError like `as_table`.
    """
    table = as_table(rows)
    # Other readers do not know the type of a column without values, so it becomes float, like our
    # metrics.
    kinds = [
        (field.name, pa.float64() if pa.types.is_null(field.type) else field.type)
        for field in table.schema
    ]
    # One chunk per column, because the file's pages follow the chunks; no Arrow schema, because it
    # adds nothing here.
    table = table.cast(pa.schema(kinds)).combine_chunks()
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(table, row_group_size=max(len(table), 1))
    return sink.getvalue().to_pybytes()


def write_table(path: Path, rows: Rows) -> None:
    """Write ``rows`` to a Parquet file atomically. Raises like `table_bytes`, and WriteError."""
    write_atomically(path, table_bytes(rows))


def read_table(file: Path | bytes) -> pa.Table:
    """Read a Parquet file, or its content.

    Raises OSError if there is none, or pyarrow's ArrowInvalid if it is none.
    """
    return pq.read_table(pa.BufferReader(read_plain(file) if isinstance(file, Path) else file))
