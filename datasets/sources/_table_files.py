"""Reads columns of a table: CSV, Parquet, Arrow, and what Hugging Face's ``save_to_disk`` wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datasets.federation import DataError
from datasets.sources._cells import LEADING_ZERO
from datasets.sources._own_files import reason

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

TRUE = ("true", "True", "TRUE")
FALSE = ("false", "False", "FALSE")
DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t"}
DECIMALS = {"point": ".", "comma": ","}
NULLS = ("NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "?")  # not "None", an answer of its own
ENCODINGS = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
SUFFIXES = (".csv", ".tsv", ".parquet", ".arrow", ".feather")


@dataclass(frozen=True)
class TableFile:
    """A table on the disk.

    Attributes:
        path: the file or folder.
        delimiter: what separates the columns of a .csv, a key of `DELIMITERS`.
        decimal: what a number in a .csv has before its fraction, a key of `DECIMALS`.
        header: names of all columns of a CSV without a header line; None: the first line has them.
        nulls: the words of a CSV that stand for a missing value, beside an empty cell; other files
            have them only if these are others than `NULLS`.
    """

    path: Path
    delimiter: str = "comma"
    decimal: str = "point"
    header: tuple[str, ...] | None = None
    nulls: tuple[str, ...] = NULLS

    def kinds(self) -> dict[str, pa.DataType]:
        """Return the columns with their types; nothing of a text file, which has none."""
        import pyarrow.parquet as pq

        if self.is_csv:
            return {}
        with self._readable():
            parquet = self.path.suffix.lower() == ".parquet"
            schema = pq.read_schema(self.path) if parquet else _arrow(self.path).schema
        return dict(zip(schema.names, schema.types, strict=True))

    def names(self) -> list[str]:
        """Return the names of the columns.

        Raises DataError if the file cannot be read or a name occurs twice.
        """
        import pyarrow.parquet as pq
        from pyarrow import csv

        with self._readable():
            if self.is_csv:
                self._refuse_encoding()
                names = csv.open_csv(self.path, **self._csv_options()).schema.names
            elif self.path.suffix.lower() == ".parquet":
                names = pq.read_schema(self.path).names
            else:
                names = _arrow(self.path).column_names
        others = [name for name, sign in DELIMITERS.items() if len(names) == 1 and sign in names[0]]
        if others and self.path.suffix.lower() == ".csv":
            raise DataError(
                f"data.delimiter: {self.path} has one column alone if {self.delimiter} "
                f"separates them; write {others[0]}"
            )
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise DataError(f"data.path: {self.path} has two columns of the name {twice[0]!r}")
        return list(names)

    def read(
        self, columns: Sequence[str], texts: Sequence[str] = (), label: str = ""
    ) -> pd.DataFrame:
        """Read columns, those among ``texts`` as texts, whatever they seem to hold.

        The column ``label`` is one of texts, too, unless it holds quantities, and so is one of a
        CSV in which some numbers begin with 0. Lists of numbers of one length become a column for
        each number, with its place in brackets. Raises DataError if the file is damaged or has no
        row.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        with self._readable():
            if self.is_csv:
                table = self._csv(columns, [name for name in (*texts, label) if name in columns])
            elif self.path.suffix.lower() == ".parquet":
                table = pq.read_table(self.path, columns=list(columns), memory_map=True)
            else:
                table = _arrow(self.path).select(columns)
            if any(pa.types.is_binary(kind) for kind in table.schema.types) and self.is_csv:
                raise ValueError("invalid UTF8")  # as pyarrow says it of a column that must be text
            kinds = {
                field.name: field.type.value_type
                if pa.types.is_dictionary(field.type)
                else field.type
                for field in table.schema
            }
            kinds = {
                name: pa.float32() if kind == pa.float16() else kind for name, kind in kinds.items()
            }
            whole = label in kinds and (
                pa.types.is_integer(kinds[label]) or pa.types.is_decimal(kinds[label])
            )
            as_texts = (
                [*texts, label] if whole else texts
            )  # beside empty cells, integers would become floats
            kinds |= dict.fromkeys(as_texts, pa.string())
            frame = _spread(table.cast(pa.schema(kinds)), [*texts, label]).to_pandas()
        if not len(frame):
            raise DataError(f"data.path: {self.path} has no row")
        if not self.is_csv and self.nulls != NULLS:
            words = frame.select_dtypes(["object", "string"])
            frame[words.columns] = words.mask(words.isin(self.nulls))
        if label in frame and (self.is_csv or whole):
            frame[label] = _own_numbers(frame[label], self.decimal if self.is_csv else "point")
        return frame

    def spelled(self, columns: Sequence[str]) -> pd.DataFrame:
        """Return columns of a CSV as the file spells them; an empty cell is an empty text."""
        from pyarrow import csv

        return csv.read_csv(self.path, **self._csv_options(columns, columns, nulls=())).to_pandas()

    def _csv(self, columns: Sequence[str], texts: Sequence[str]) -> pa.Table:
        """Read columns of a CSV, as texts also those whose numbers have a 0 in front, such as
        0071 and 0x1F.
        """
        import pyarrow.compute as pc
        from pyarrow import csv

        table = csv.read_csv(self.path, **self._csv_options(columns, texts, ("", *self.nulls)))
        numbers = [field.name for field in table.schema if _is_number(field.type)]
        codes = set[str]()
        if not numbers:
            return table
        for batch in csv.open_csv(
            self.path, **self._csv_options(numbers, numbers, ("", *self.nulls))
        ):
            codes |= {
                name
                for name in set(numbers) - codes
                if pc.any(pc.match_substring_regex(batch[name], f"^{LEADING_ZERO}")).as_py()
            }
        if not codes:
            return table
        return csv.read_csv(
            self.path, **self._csv_options(columns, [*texts, *codes], ("", *self.nulls))
        )

    def _refuse_encoding(self) -> None:
        """Raise DataError for a text file of two or four bytes a letter."""
        with self.path.open("rb") as stream:
            start = stream.read(1000)
        found = [name for mark, name in ENCODINGS.items() if start.startswith(mark)]
        if start.count(0) > len(start) // 4:
            found.append("UTF-16LE" if start[1::2].count(0) > start[::2].count(0) else "UTF-16BE")
        if found:
            raise DataError(
                f"data.path: {self.path} is in {found[0]} and not in UTF-8; write it anew: "
                f"iconv -f {found[0]} -t UTF-8 {self.path.name} > utf8-{self.path.name}"
            )

    @property
    def is_csv(self) -> bool:
        """Whether it is a text file. Raises DataError for a file that no reader is for."""
        suffix = self.path.suffix.lower()
        if self.path.is_file() and suffix not in SUFFIXES:
            raise DataError(
                f"data.path: {self.path} has a suffix that no reader is for; "
                f"{', '.join(SUFFIXES)} are read"
            )
        return self.path.is_file() and suffix in (".csv", ".tsv")

    def _csv_options(
        self, columns: Sequence[str] = (), texts: Sequence[str] = (), nulls: Sequence[str] = ()
    ) -> dict[str, Any]:
        import pyarrow as pa
        from pyarrow import csv

        separator = "\t" if self.path.suffix.lower() == ".tsv" else DELIMITERS[self.delimiter]
        return {
            "read_options": csv.ReadOptions(column_names=self.header),
            "parse_options": csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            "convert_options": csv.ConvertOptions(
                include_columns=list(columns),
                decimal_point=DECIMALS[self.decimal],
                column_types=dict.fromkeys(texts, pa.string()),
                null_values=list(nulls),
                strings_can_be_null=True,
                true_values=list(
                    TRUE
                ),  # without 1 and 0: one word must not change what numbers mean
                false_values=list(FALSE),
            ),
        }

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Raise the errors of files, JSON and pyarrow as DataError."""
        try:
            yield
        except DataError:
            raise
        except (OSError, ValueError, KeyError, TypeError, NotImplementedError) as error:
            if isinstance(error, UnicodeDecodeError) or "invalid UTF8" in str(error):
                raise DataError(
                    f"data.path: {self.path} is in another encoding than UTF-8, such as "
                    "Latin-1 (of Windows: CP1252); write it anew: iconv -f LATIN1 -t UTF-8 "
                    f"{self.path.name} > utf8-{self.path.name}"
                ) from error
            raise DataError(f"data.path: {self.path} cannot be read: {reason(error)}") from error


def _own_numbers(texts: pd.Series[Any], decimal: str) -> pd.Series[Any]:
    """Return texts as numbers if they are quantities; without ".0" if all are whole as Python
    spells floats.
    """
    import pandas as pd

    present = texts.dropna().str.replace(DECIMALS[decimal], ".")
    numbers = pd.to_numeric(present, errors="coerce").astype(float)
    if present.empty or numbers.isna().any():
        return texts
    if (numbers % 1 != 0).any():
        return numbers.reindex(texts.index)
    own = (numbers.map(float.__repr__) == present).all()  # as of whole numbers beside empty cells
    return numbers.map("{:.0f}".format).reindex(texts.index) if own else texts


def _spread(table: pa.Table, others: Sequence[str]) -> pa.Table:
    """Return the table with a column for each place of its lists of numbers, except in the
    columns ``others``.

    Raises DataError if the lists of a column differ in length.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = dict[str, Any]()
    for name in table.column_names:
        columns[name] = table[name]
        if name in others or not _lists_numbers(table[name].type):
            continue
        column = columns.pop(name).combine_chunks()
        values = column.drop_null()
        while _is_list(values.type):
            lengths = pc.list_value_length(values).unique().to_pylist()
            if len(lengths) != 1 or not lengths[0]:
                found = " and ".join(map(str, lengths[:2]))
                raise DataError(
                    f"data.path: column {name!r} holds lists of {found} numbers; give all of "
                    "them the same length, or leave the column out with data.drop"
                )
            values = values.flatten()
        numbers = values.to_numpy(zero_copy_only=False).reshape(len(column) - column.null_count, -1)
        if column.null_count:
            present = column.is_valid().to_numpy(zero_copy_only=False)
            every = np.full((len(column), numbers.shape[1]), np.nan)
            every[present] = numbers
            numbers = every
        columns |= {f"{name}[{place}]": numbers[:, place] for place in range(numbers.shape[1])}
    return pa.table(columns)


def _is_list(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _lists_numbers(kind: pa.DataType) -> bool:
    if not _is_list(kind):
        return False
    while _is_list(kind):
        kind = kind.value_type
    return _is_number(kind)


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _arrow(path: Path) -> pa.Table:
    """Return the mapped table of an Arrow file, or of a folder of ``save_to_disk`` that is not
    divided into parts.
    """
    import pyarrow as pa

    if path.is_file():
        file = pa.memory_map(str(path))
        try:
            return pa.ipc.open_file(file).read_all()
        except pa.ArrowInvalid:  # save_to_disk writes the streaming format
            file.seek(0)
            return pa.ipc.open_stream(file).read_all()
    files = json.loads((path / "state.json").read_text(encoding="utf-8"))["_data_files"]
    return pa.concat_tables([_arrow(path / file["filename"]) for file in files])
