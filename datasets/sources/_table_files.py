"""Reads columns of a table: CSV, Parquet, Arrow, and what Hugging Face's ``save_to_disk`` wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datasets.federation import DataError
from datasets.sources._own_files import PARTS, nearest, reason

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t"}
DECIMALS = {"point": ".", "comma": ","}
NULLS = ("", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "?")  # not "None", which is an answer of its own
SUFFIXES = (".csv", ".tsv", ".parquet", ".arrow", ".feather")


@dataclass(frozen=True)
class TableFile:
    """A table on the disk.

    Attributes:
        path: the file or folder.
        delimiter: what separates the columns of a .csv, a key of `DELIMITERS`.
        decimal: what a number in a .csv has before its fraction, a key of `DECIMALS`.
        header: names of all columns of a CSV without a header line; None: the first line has them.
    """

    path: Path
    delimiter: str = "comma"
    decimal: str = "point"
    header: tuple[str, ...] | None = None

    def names(self) -> list[str]:
        """Return the names of the columns. Raises DataError if the file cannot be read or a name occurs twice."""
        import pyarrow.parquet as pq
        from pyarrow import csv

        with self._readable():
            if self.is_csv:
                names = csv.open_csv(self.path, **self._csv_options()).schema.names
            elif self.path.suffix.lower() == ".parquet":
                names = pq.read_schema(self.path).names
            else:
                names = next(iter(_arrow(self.path).values())).column_names
        others = [name for name, sign in DELIMITERS.items() if len(names) == 1 and sign in names[0]]
        if others and self.path.suffix.lower() == ".csv":
            raise DataError(
                f"data.delimiter: {self.path} has one column alone if {self.delimiter} separates them; write {others[0]}"
            )
        if twice := [name for name in names if names.count(name) > 1]:
            raise DataError(f"data.path: {self.path} has two columns of the name {twice[0]!r}")
        return list(names)

    def read(
        self, columns: Sequence[str], texts: Sequence[str] = (), nulls: Sequence[str] = NULLS
    ) -> tuple[pd.DataFrame, list[str] | None]:
        """Read columns, those among ``texts`` as texts, whatever they seem to hold.

        ``nulls`` are the words that stand for a missing value in a CSV. Returns the columns, and train or test for each row
        if the data set was saved in these two parts. Raises DataError if the file is damaged or has no row.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq
        from pyarrow import csv

        with self._readable():
            if self.is_csv:
                tables = {"": csv.read_csv(self.path, **self._csv_options(columns, texts, nulls))}
            elif self.path.suffix.lower() == ".parquet":
                tables = {"": pq.read_table(self.path, columns=list(columns), memory_map=True)}
            else:
                tables = {part: table.select(columns) for part, table in _arrow(self.path).items()}
            table = pa.concat_tables(tables.values(), promote_options="permissive")
            if any(pa.types.is_binary(kind) for kind in table.schema.types) and self.is_csv:
                raise ValueError("invalid UTF8")  # as pyarrow says it of a column that must be text
            kinds = {
                field.name: field.type.value_type if pa.types.is_dictionary(field.type) else field.type
                for field in table.schema
            }
            kinds = {name: pa.float32() if kind == pa.float16() else kind for name, kind in kinds.items()}
            kinds |= dict.fromkeys(texts, pa.string())
            frame = table.cast(pa.schema(kinds)).to_pandas()
        if not len(frame):
            raise DataError(f"data.path: {self.path} has no row")
        return frame, [part for part, table in tables.items() for _ in range(len(table))] if len(tables) > 1 else None

    @property
    def is_csv(self) -> bool:
        """Whether it is a text file. Raises DataError for a file that no reader is for."""
        suffix = self.path.suffix.lower()
        if self.path.is_file() and suffix not in SUFFIXES:
            raise DataError(
                f"data.path: {self.path} has a suffix that no reader is for; {', '.join(SUFFIXES)} are read"
            )
        return self.path.is_file() and suffix in (".csv", ".tsv")

    def _csv_options(
        self, columns: Sequence[str] = (), texts: Sequence[str] = (), nulls: Sequence[str] = NULLS
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
                    f"data.path: {self.path} is in another encoding than UTF-8, such as Latin-1 (of Windows: CP1252); write "
                    f"it anew: iconv -f LATIN1 -t UTF-8 {self.path.name} > utf8-{self.path.name}"
                ) from error
            raise DataError(f"data.path: {self.path} cannot be read: {reason(error)}") from error


def _arrow(path: Path) -> dict[str, pa.Table]:
    """Return the mapped tables of an Arrow file, or of a folder of ``save_to_disk``, by part; "" if it is not divided."""
    import pyarrow as pa

    if path.is_file():
        file = pa.memory_map(str(path))
        try:
            return {"": pa.ipc.open_file(file).read_all()}
        except pa.ArrowInvalid:  # save_to_disk writes the streaming format
            file.seek(0)
            return {"": pa.ipc.open_stream(file).read_all()}
    if (saved := path / "dataset_dict.json").is_file():
        splits = json.loads(saved.read_text(encoding="utf-8"))["splits"]
        missing = [part for part in PARTS if part not in splits]
        if missing and len(splits) > 1:
            raise DataError(
                f"data.path: {path} holds the data sets {', '.join(splits)}; train and test are read, or name the folder of "
                f"one of them{nearest(missing[0], splits)}"
            )
        return {part: _arrow(path / part)[""] for part in (splits if missing else PARTS)}
    files = json.loads((path / "state.json").read_text(encoding="utf-8"))["_data_files"]
    return {"": pa.concat_tables([_arrow(path / file["filename"])[""] for file in files])}
