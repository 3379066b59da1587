"""A look at a table that somebody wants to use: which column is what, what is missing, what repeats.

Nothing is converted; the source `table` reads the file for a run. Columns that it would refuse and that are clearly no
features are left out with the reason; what may be a mistake in the file stays in, to be refused by name.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from datasets.federation import DataError
from datasets.sources import _own_files as own
from datasets.sources._columns import MOST_LEVELS, checked, firsts, numbers_among_texts, simple
from datasets.sources._table_config import TableConfig
from datasets.sources._table_files import DELIMITERS, NULLS, TableFile

if TYPE_CHECKING:
    import pyarrow as pa

MOST_CODES, FEWEST_OF_A_CODE = 20, 5  # different texts of a column of codes, and the rows that each has at least
LOOKED_AT = 200  # lines of a text file that say how its numbers are written
ROW_NUMBERS = (
    "id",
    "index",
    "key",
    "number",
    "no",
    "nr",
    "",
)  # last words of the names of columns that number the rows


@dataclass(frozen=True)
class TableLook:
    """What was found in a table.

    Attributes:
        rows: number of rows.
        columns: number of columns.
        features: names of those that a model can see.
        counts: rows by class, in the order of the labels.
        clients: rows by client, in the order of their names; empty without a client column.
        missing: empty cells by column, features only.
        spelled: how these cells are written, by column, where they are not just empty.
        repeats: number of rows that repeat the features and the label of an earlier one.
        repeated: the first two such rows, counted from 1 without the header; None if there are none.
        left_out: columns that are no features, each with the reason.
        codes: features whose texts are partly numbers, so that they are categories, with these texts.
        delimiter: of a .csv, its name in the source `table`.
        decimal: of a .csv, whether its numbers have a point or a comma.
        part: the column whose values are train and test; empty if there is none.
        unlabeled: the rows without a label, which were left out.
    """

    rows: int
    columns: int
    features: tuple[str, ...]
    counts: dict[str, int]
    clients: dict[str, int]
    missing: dict[str, int]
    spelled: dict[str, tuple[str, ...]]
    repeats: int
    repeated: tuple[int, int] | None
    left_out: dict[str, str]
    codes: dict[str, tuple[str, ...]]
    delimiter: str = "comma"
    decimal: str = "point"
    part: str = ""
    unlabeled: int = 0


def look_at_table(
    path: Path,
    label: str | None,
    client: str | None,
    group: str | None,
    subject: str | None = None,
    drop_unlabeled: bool = False,
) -> TableLook:
    """Look at a table.

    Args:
        path: a .csv, .tsv, .parquet, .arrow or .feather file, or a folder that Hugging Face's ``save_to_disk`` wrote.
        label: the column with the class.
        client: the column that says whose row it is; None if there is none.
        group: the column with the client's group; None if there is none.
        subject: the column with whom a row is about; None if there is none.
        drop_unlabeled: leave out the rows without a label, which are refused otherwise.

    Raises:
        DataError: the file cannot be read, a column is absent or unfit, or the label column holds no classes: all that is
            wrong, a line each. A sentence about an option begins with its name.
    """
    from pyarrow import compute as pc

    delimiter = _delimiter(path)
    decimal = _decimal(path, delimiter)
    file = TableFile(path, delimiter, decimal)
    names = file.names()
    wanted = {"--label": label, "--client": client, "--group": group, "--subject": subject}
    wrong = []
    if not label:
        wrong.append(f"--label: is missing; it is the column with the class. {path.name} has {_listed(names)}")
    for option, column in wanted.items():
        if column and column not in names:
            near = own.nearest(column, names) or f"; it has {_listed(names)}"
            wrong.append(f"{option}: {path.name} has no column {column!r}{near}")
    roles = [column for column in wanted.values() if column]
    if len(set(roles)) < len(roles):
        wrong.append(f"--label: label, client, group and subject must be different columns, got {', '.join(roles)}")
    table = file.read(names, texts=[column for column in roles if column != label and column in names])[0]
    unlabeled = _empty(table.column(label)) if label in names else 0
    if drop_unlabeled and unlabeled:
        table = table.filter(pc.invert(pc.is_null(table.column(label), nan_is_null=True)))
    counts = _tried(wrong, lambda: _classes(table, str(label)), label in names)
    clients = _tried(wrong, lambda: _clients(table, str(client)), client in names)
    part = next((name for name in names if name not in roles and _is_part(table, name)), "")
    roles += [part] if part else []
    left_out = {name: why for name in names if name not in roles and (why := _no_feature(table, name))}
    features = tuple(name for name in names if name not in roles and name not in left_out)
    if not features:
        reasons = "; ".join(f"{name}: {why}" for name, why in left_out.items())
        wrong.append(f"{path} has no column that could be a feature{': ' if reasons else ''}{reasons}")
    codes = _codes(_arrays(table, features), features)
    if wrong:  # otherwise the source itself says what is unfit
        config = TableConfig(label=str(label), categories=tuple(codes), missing="impute")
        _tried(wrong, lambda: {"": len(checked(config, table.select(features), None))}, bool(features))
    own.refuse(wrong)
    arrays = _arrays(table, [*features, str(label)])
    kept, repeated = firsts(arrays)
    missing = {name: empty for name in features if (empty := _empty(table.column(name)))}
    return TableLook(
        rows=table.num_rows,
        columns=len(names),
        features=features,
        counts=counts,
        clients=clients,
        missing=missing,
        spelled=file.spellings(list(missing)),
        repeats=int((~kept).sum()),
        repeated=repeated,
        left_out=left_out,
        codes=codes,
        delimiter=delimiter,
        decimal=decimal,
        part=part,
        unlabeled=unlabeled,
    )


def _tried(wrong: list[str], look: Callable[[], dict[str, int]], possible: bool) -> dict[str, int]:
    """What ``look`` returns, if it is ``possible``; what it refuses is added to ``wrong``."""
    try:
        return look() if possible else {}
    except DataError as error:
        wrong += str(error).split("\n")
        return {}


def _delimiter(path: Path) -> str:
    """The name of the sign that a .csv has most of in its first line. Raises DataError where that line is no header."""
    if not path.is_file() or path.suffix.lower() not in (".csv", ".tsv"):
        return "comma"
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        first = lines.readline().strip("\r\n")
    found = "tab" if path.suffix.lower() == ".tsv" else max(DELIMITERS, key=lambda name: first.count(DELIMITERS[name]))
    cells = [cell.strip().strip('"') for cell in first.split(DELIMITERS[found])]
    if len(cells) > 1 and all(_is_number(cell) for cell in cells):
        raise DataError(
            f"{path} has no header line: its first line holds {', '.join(cells[:3])}, ...; put a line with the columns' "
            "names on top, or name them in data.columns of a sweep file of your own"
        )
    return "comma" if path.suffix.lower() == ".tsv" else found


def _decimal(path: Path, delimiter: str) -> str:
    """Whether the first lines of a .csv, whose columns no comma separates, hold numbers such as 1,5 and none such as 1.5."""
    if not path.is_file() or path.suffix.lower() not in (".csv", ".tsv"):
        return "point"
    sign = "\t" if path.suffix.lower() == ".tsv" else DELIMITERS[delimiter]
    if sign == ",":
        return "point"
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as lines:
        cells = [cell.strip() for row in islice(csv.reader(lines, delimiter=sign), LOOKED_AT) for cell in row]
    found = {mark: any(re.fullmatch(rf"[+-]?\d+{re.escape(mark)}\d+", cell) for cell in cells) for mark in ",."}
    return "comma" if found[","] and not found["."] else "point"


def _is_number(cell: str) -> bool:
    """Whether a cell of a text file holds a number or nothing."""
    try:
        float(cell)
    except ValueError:
        return cell in NULLS
    return True


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return f"the columns {', '.join(names[:20])}{more}"


def _empty(column: Any) -> int:
    """The number of cells without a value; NaN is none."""
    from pyarrow import compute as pc

    return int(pc.sum(pc.is_null(column, nan_is_null=True)).as_py())


def _classes(table: pa.Table, label: str) -> dict[str, int]:
    """The rows by class. Raises DataError where the column cannot be the label of a classification."""
    import pyarrow as pa
    from pyarrow import compute as pc

    column, said = table.column(label), f"column {label!r}"
    if empty := _empty(column):
        row = pc.is_null(column, nan_is_null=True).index(True).as_py() + 1
        raise DataError(
            f"--label: {said} is empty in {empty} rows, the first of them row {row}; "
            "add --drop-unlabeled to leave them out, or give them a label"
        )
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_temporal(kind) or pa.types.is_nested(kind) or pa.types.is_binary(kind):
        raise DataError(f"--label: {said} holds {kind}; a label is a text, a whole number or true/false")
    cells = column.to_pylist()
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    values = np.array(cells, object) if text else np.array(cells)
    y, _ = own.labels(values, said, "--label")
    names: dict[int, str] = {}
    for place, value in zip(y.tolist(), cells, strict=True):
        names.setdefault(place, str(value))
    return {names[place]: count for place, count in sorted(Counter(y.tolist()).items())}


def _no_feature(table: pa.Table, name: str) -> str:
    """Why the column can be no feature of a model; empty if it can, or if it may be a mistake in the file."""
    import pyarrow as pa

    column, kind = table.column(name), table.schema.field(name).type
    if _empty(column) == len(column):
        return "empty"
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_temporal(kind):
        return "dates and times are no features; numbers made of them are"
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return f"of type {kind}"
    if pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return ""
    different = len(column.unique())
    if pa.types.is_integer(kind) and different == len(column) > 20:
        last = name.lower().replace("-", "_").replace(" ", "_").rsplit("_", 1)[-1]
        values = column.to_numpy()
        numbers = int(values.max()) - int(values.min()) == len(column) - 1
        return "it numbers the rows" if numbers or last in ROW_NUMBERS or last.isdecimal() else ""
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return f"{different} different texts" if texts and different > MOST_LEVELS else ""


def _is_part(table: pa.Table, name: str) -> bool:
    """Whether the values of the column are train and test."""
    import pyarrow as pa

    kind = table.schema.field(name).type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return False
    values = table.column(name).unique()
    return len(values) == 2 and {str(value).strip().lower() for value in values.to_pylist()} == set(own.PARTS)


def _arrays(table: pa.Table, columns: Iterable[str]) -> dict[str, Any]:
    """The columns as the source compares them, NaN as null; without those that it refuses."""
    found = {}
    for name in columns:
        with suppress(DataError):
            found[name] = simple(name, table.column(name))[0]
    return found


def _codes(arrays: dict[str, Any], features: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The features of texts some of which are numbers, each met often enough to be no slip, with these texts in order."""
    import pyarrow as pa

    found = {}
    for name in features:
        array = arrays.get(name)
        if array is None or not pa.types.is_string(array.type) or not numbers_among_texts(array):
            continue
        counts = Counter(cell for cell in array.to_pylist() if cell is not None)
        if len(counts) <= MOST_CODES and min(counts.values()) >= max(FEWEST_OF_A_CODE, len(array) // 100):
            found[name] = own.ordered(counts)
    return found


def _clients(table: pa.Table, client: str) -> dict[str, int]:
    """The rows by client, in the order of their names."""
    column = table.column(client)
    if empty := _empty(column):
        raise DataError(
            f"--client: column {client!r} is empty in {empty} rows; name the client in each, or remove them"
        )
    count = Counter(map(str, column.to_pylist()))
    return {who: count[who] for who in own.ordered(count)}
