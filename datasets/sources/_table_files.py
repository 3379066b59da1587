"""Which column of a table is what, and the reading of those in use.

CSV, Parquet, Arrow, and what Hugging Face's ``save_to_disk`` wrote.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from datasets.federation import DataError
from datasets.source_configs import OwnFilesConfig
from datasets.sources._own_files import PARTS, nearest, quoted, refuse, shortened

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t"}
DECIMALS = {"point": ".", "comma": ","}
NULLS = ("", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "?")  # not "None", which is an answer of its own
SUFFIXES = (".csv", ".tsv", ".parquet", ".arrow", ".feather")


def _listed(value: Any) -> Any:
    """A single name stands for a list of one; YAML gives a list for a tuple."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class TableConfig(OwnFilesConfig):
    """Which column is what."""

    label: str = Field("", description="required: the column with the class")
    client: str | None = Field(None, description="column that says whose example a row is, for the split natural")
    group: str | None = Field(None, description="column with the client's group, the same in all rows of a client")
    part: str | None = Field(None, description="column that says train or test; null: test_share is drawn")
    subject: str | None = Field(
        None,
        description="column with whom or what a row is about: rows of one are never divided between training and test part",
    )
    features: Names | None = Field(None, description="columns that the model sees; null: all others but those of drop")
    drop: Names = Field((), description="columns that are left out, such as a number or a name of the row")
    categories: Names = Field((), description="columns of numbers that are categories, such as codes")
    columns: Names | None = Field(None, description="names of all columns of a CSV that has no header line")
    delimiter: Literal["comma", "semicolon", "tab"] = Field("comma", description="what separates the columns of a .csv")
    decimal: Literal["point", "comma"] = Field("point", description="what a number in a .csv has before its fraction")
    # A model can be trained on labels alone; whoever expects one in every row wants to hear of those without.
    unlabeled: Literal["refuse", "drop"] = Field("refuse", description="rows without a label")
    # A silent fill would change what is measured.
    missing: Literal["refuse", "impute"] = Field(
        "refuse", description="missing features: refused, or median or most frequent value (see statistics)"
    )
    standardize: bool = Field(True, description="numbers less their mean, by their deviation (see statistics)")


def chosen(config: TableConfig, names: Sequence[str], file: str) -> list[str]:
    """Return the columns in use, in the order of the file.

    Raises:
        DataError: a column is named that the file does not have, or one has two roles, or no feature is left.
    """
    listed = {"features": config.features or (), "drop": config.drop, "categories": config.categories}
    named = roles(config)
    found = []
    if not config.label:
        found.append(f"data.label: is missing; it is the column with the class. {_offered(names, file)}")
    for key, wanted in [*((key, (one,)) for key, one in named.items() if one), *listed.items()]:
        for name in wanted:
            if name not in names:
                known = nearest(name, names) or f". {_offered(names, file)}"
                found.append(f"data.{key}: {file} has no column {quoted(name)}{known}")
    if config.group and not config.client:
        found.append("data.group: is the group of a client; name the column with the clients in data.client")
    taken = [one for one in named.values() if one]
    found += [
        f"data.features: {quoted(name)} is already the label, client, group, part or subject"
        for name in listed["features"]
        if name in taken
    ]
    if len(set(taken)) < len(taken):
        found.append("data.label: label, client, group, part and subject must be different columns")
    left = [name for name in names if name not in taken and name not in config.drop]
    features = [name for name in left if config.features is None or name in config.features]
    if not features and not found:
        found.append(f"data.features: no column of {file} is left as a feature. {_offered(names, file)}")
    refuse(found)
    return [name for name in names if name in features or name in taken]


def roles(config: TableConfig) -> dict[str, str | None]:
    """Return the columns that are no features, by role."""
    return {role: getattr(config, role) for role in ("label", "client", "group", "part", "subject")}


def _offered(names: Sequence[str], file: str) -> str:
    more = ", ..." if len(names) > 12 else ""
    return f"{file} has the columns {', '.join(map(shortened, names[:12]))}{more}"


@dataclass(frozen=True)
class TableFile:
    """A table on the disk.

    Attributes:
        path: the file or folder.
        delimiter: what separates the columns of a .csv.
        decimal: what a number in a .csv has before its fraction.
        header: names of all columns of a CSV without a header line; None: the first line has them.
        kind: the suffix that chooses the reader; empty: that of the path.
    """

    path: Path
    delimiter: str = "comma"
    decimal: str = "point"
    header: tuple[str, ...] | None = None
    kind: str = ""

    def names(self) -> list[str]:
        """Return the names of the columns. Raises DataError if the file cannot be read or a name occurs twice."""
        found = list(self._guarded(self._names))
        twice = sorted({name for name in found if found.count(name) > 1})
        if twice:
            raise DataError(f"data.path: {self.path} has two columns of the name {quoted(twice[0])}")
        return found

    def read(self, columns: Sequence[str], texts: Sequence[str] = ()) -> tuple[pa.Table, list[str] | None]:
        """Read columns.

        Args:
            columns: their names.
            texts: those of them that are read as text, whatever a CSV seems to hold.

        Returns:
            The table, and train or test for each row if the data set was saved in these two parts.

        Raises:
            DataError: the file is damaged.
        """
        tables = self._guarded(lambda: self._tables(list(columns), list(texts)))
        import pyarrow as pa

        parts = [part for part, table in tables for _ in range(len(table))] if len(tables) > 1 else None
        whole = pa.concat_tables([table for _, table in tables], promote_options="permissive")
        if not len(whole):
            raise DataError(f"data.path: {self.path} has no row")
        return whole, parts

    def spellings(self, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return how the missing values of ``columns`` are written, by column; empty cells and other formats: nothing."""
        if not columns or not self._is_csv:
            return {}
        table = self._guarded(lambda: self._csv(list(columns), list(columns), nulls=()))
        found = {name: set(table[name].unique().to_pylist()) for name in columns}
        return {name: tuple(word for word in NULLS if word and word in found[name]) for name in columns}

    def _guarded(self, read: Any) -> Any:
        """Return what ``read`` returns, with the errors of files, JSON and pyarrow as DataError."""
        try:
            return read()
        except DataError:
            raise
        except UnicodeDecodeError as error:
            raise self._not_utf8() from error
        except (OSError, ValueError, KeyError, TypeError, NotImplementedError, csv.Error) as error:
            text = " ".join(str(error).split())
            if "invalid UTF8" in text:
                raise self._not_utf8() from error
            raise DataError(f"data.path: {self.path} cannot be read: {text[:300]}") from error

    def _not_utf8(self) -> DataError:
        return DataError(
            f"data.path: {self.path} is in another encoding than UTF-8, such as Latin-1 (of Windows: CP1252); write it "
            f"anew: iconv -f LATIN1 -t UTF-8 {self.path.name} > utf8-{self.path.name}"
        )

    def _names(self) -> list[str]:
        import pyarrow.parquet as pq

        if self._is_csv:
            return list(self.header) if self.header else self._first_line()
        if self._suffix == ".parquet":
            return list(pq.read_schema(self.path).names)
        return list(self._arrow_tables()[0][1].column_names)

    @property
    def _is_csv(self) -> bool:
        return self.path.is_file() and self._suffix in (".csv", ".tsv")

    @property
    def _suffix(self) -> str:
        suffix = self.kind or self.path.suffix.lower()
        if self.path.is_file() and suffix not in SUFFIXES:
            raise DataError(
                f"data.path: {self.path} has a suffix that no reader is for; {', '.join(SUFFIXES)} are read"
            )
        return suffix

    @property
    def _separator(self) -> str:
        return "\t" if self._suffix == ".tsv" else DELIMITERS[self.delimiter]

    def _first_line(self) -> list[str]:
        with self.path.open(encoding="utf-8-sig", newline="") as lines:
            names = next(csv.reader(lines, delimiter=self._separator), [])
        others = [name for name, sign in DELIMITERS.items() if len(names) == 1 and sign in names[0]]
        if others and self._suffix == ".csv":
            raise DataError(
                f"data.delimiter: {self.path} has one column alone if {self.delimiter} separates them; write {others[0]}"
            )
        if not names:
            raise DataError(f"data.path: {self.path} is empty")
        return names

    def _tables(self, columns: list[str], texts: list[str]) -> list[tuple[str, pa.Table]]:
        """Return the parts of the table by name; one part of the name "" if it is not divided."""
        import pyarrow.parquet as pq

        if self._is_csv:
            return [("", self._csv(columns, texts))]
        if self._suffix == ".parquet":
            return [("", pq.read_table(self.path, columns=columns, memory_map=True))]
        return [(part, table.select(columns)) for part, table in self._arrow_tables()]

    def _csv(self, columns: list[str], texts: list[str], nulls: Sequence[str] = NULLS) -> pa.Table:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        table = arrow_csv.read_csv(
            self.path,
            read_options=arrow_csv.ReadOptions(column_names=list(self.header) if self.header else None),
            parse_options=arrow_csv.ParseOptions(delimiter=self._separator, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=columns,
                decimal_point=DECIMALS[self.decimal],
                column_types={name: pa.string() for name in texts},
                null_values=list(nulls),
                strings_can_be_null=True,
            ),
        )
        if any(pa.types.is_binary(column.type) for column in table.columns):  # texts that are no UTF-8
            raise self._not_utf8()
        return table

    def _arrow_tables(self) -> list[tuple[str, pa.Table]]:
        """Return the mapped tables of an Arrow file, or of a folder of ``save_to_disk``."""
        if self.path.is_file():
            return [("", _mapped(self.path))]
        saved = self.path / "dataset_dict.json"
        if saved.is_file():
            splits = json.loads(saved.read_text(encoding="utf-8"))["splits"]
            missing = [part for part in PARTS if part not in splits]
            if missing and len(splits) > 1:
                raise DataError(
                    f"data.path: {self.path} holds the data sets {', '.join(splits)}; train and test are read, or name "
                    f"the folder of one of them{nearest(missing[0], splits)}"
                )
            chosen = splits if missing else PARTS
            return [(part, _saved(self.path / part)) for part in chosen]
        return [("", _saved(self.path))]


def _saved(folder: Path) -> pa.Table:
    """Return a data set that ``save_to_disk`` wrote into ``folder``."""
    import pyarrow as pa

    state = folder / "state.json"
    if not state.is_file():
        raise DataError(f"data.path: {folder} is a folder without the state.json that save_to_disk writes")
    files = json.loads(state.read_text(encoding="utf-8"))["_data_files"]
    return pa.concat_tables([_mapped(folder / one["filename"]) for one in files])


def _mapped(path: Path) -> pa.Table:
    """Return the table of an Arrow file, whose columns are mapped and not held in memory."""
    import pyarrow as pa

    mapped = pa.memory_map(str(path))
    try:
        return pa.ipc.open_file(mapped).read_all()
    except pa.ArrowInvalid:  # save_to_disk writes the streaming format
        mapped.seek(0)
        return pa.ipc.open_stream(mapped).read_all()
