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
from datasets.sources._columns import MOST_LEVELS, checked, firsts, numbers_among_texts, plain, simple
from datasets.sources._table_files import DELIMITERS, NULLS, TableConfig, TableFile

if TYPE_CHECKING:
    import pyarrow as pa

MOST_CODES, FEWEST_OF_A_CODE = 20, 5  # different texts of a column of codes, and the rows that each has at least
LOOKED_AT = 200  # lines of a text file that say how its numbers are written
NEARLY_EMPTY = 0.9  # share of empty cells from which a column is warned of
COPIES = "a copy of a member among the non-members spoils membership inference"
ROW_NUMBERS = ("id", "index", "key", "number", "no", "nr", "")  # last words of names of columns that number the rows


@dataclass(frozen=True)
class Chosen:
    """What the columns are for.

    Attributes:
        features: those that a model sees.
        part: the one whose values are train and test; empty if there is none.
        left_out: those that are no features, each with the reason.
        codes: features whose texts are partly numbers, so that they are categories, with these texts.
    """

    features: list[str]
    part: str
    left_out: dict[str, str]
    codes: dict[str, tuple[str, ...]]


def look_at_table(
    path: Path,
    label: str | None,
    client: str | None,
    group: str | None,
    subject: str | None = None,
    drop_unlabeled: bool = False,
) -> dict[str, Any]:
    """Look at a table.

    Args:
        path: a .csv, .tsv, .parquet, .arrow or .feather file, or a folder that Hugging Face's ``save_to_disk`` wrote.
        label: the column with the class.
        client: the column that says whose row it is; None if there is none.
        group: the column with the client's group; None if there is none.
        subject: the column with whom a row is about; None if there is none.
        drop_unlabeled: leave out the rows without a label, which are refused otherwise.

    Returns:
        The attributes of a `datasets.look.Look`, by name.

    Raises:
        DataError: the file cannot be read, a column is absent or unfit, or the label column holds no classes: all that is
            wrong, a line each. A sentence about an option begins with its name.
    """
    from pyarrow import compute as pc

    delimiter, decimal = _signs(path)
    file = TableFile(path, delimiter, decimal)
    names = file.names()
    wanted = {"label": label, "client": client, "group": group, "subject": subject}
    wrong = []
    if not label:
        wrong.append(f"--label: is missing; it is the column with the class. {path.name} has {_listed(names)}")
    for option, column in wanted.items():
        if column and column not in names:
            near = own.nearest(column, names) or f"; it has {_listed(names)}"
            wrong.append(f"--{option}: {path.name} has no column {column!r}{near}")
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
    features = [name for name in names if name not in roles and name not in left_out]
    if not features:
        reasons = "; ".join(f"{name}: {why}" for name, why in left_out.items())
        wrong.append(f"{path} has no column that could be a feature{': ' if reasons else ''}{reasons}")
    codes = _codes(_arrays(table, features), features)
    if wrong:  # otherwise the source itself says what is unfit
        config = TableConfig(label=str(label), categories=tuple(codes), missing="impute")
        _tried(wrong, lambda: {"": len(checked(config, table.select(features), None))}, bool(features))
    own.refuse(wrong)
    chosen = Chosen(features, part, left_out, codes)
    fields, remarks, found = _told(file, table, wanted, chosen, unlabeled, counts, clients)
    return {
        "fields": fields,
        "remarks": remarks,
        "shape": (len(features),),
        "counts": counts,
        "clients": clients,
        "found": tuple(found),
    }


def _told(
    file: TableFile,
    table: pa.Table,
    wanted: dict[str, str | None],
    chosen: Chosen,
    unlabeled: int,
    counts: dict[str, int],
    clients: dict[str, int],
) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """The fields of the source, the reasons of their values, and sentences for the person who asked."""
    fields: dict[str, Any] = {name: column for name, column in wanted.items() if column}
    remarks: dict[str, str] = {}
    found = [
        f"{file.path.name}: {table.num_rows} rows, {table.num_columns} columns, {len(chosen.features)} of them features"
    ]
    found.append(f"label {wanted['label']}: {counted(counts, 'class', 'classes')}")

    def note(field: str, value: Any, why: str, sentence: str = "") -> None:
        """Note a field of the sweep and why it has its value, which ``sentence`` and the reason tell."""
        fields[field], remarks[field] = value, why
        found.append(f"{sentence}{why}")

    if unlabeled:
        note("unlabeled", "drop", f"{unlabeled} rows have no label and are left out")
    if clients:
        grouped = f", in groups by {wanted['group']}" if wanted["group"] else ""
        found.append(f"client {wanted['client']}: {counted(clients, 'client', 'clients')}{grouped}")
    if subject := wanted["subject"]:
        note(
            "subject",
            subject,
            "all rows of one are in the training part, or all in the test part",
            f"subject {subject}: ",
        )
    if chosen.part:
        fields["part"] = chosen.part
        found.append(f"part {chosen.part}: says which rows are for testing")
    if file.delimiter != "comma":
        fields["delimiter"] = file.delimiter
    if file.decimal != "point":
        fields["decimal"] = file.decimal
        found.append("numbers have a comma before their fraction, as in 1,5")
    if left_out := chosen.left_out:
        note("drop", list(left_out), "; ".join(f"{name}: {why}" for name, why in left_out.items()), "left out: ")
    if codes := chosen.codes:
        why = "; ".join(f"{name}: {', '.join(texts)} are not all numbers" for name, texts in codes.items())
        note("categories", list(codes), why, "taken for categories: ")
    if missing := {name: empty for name in chosen.features if (empty := _empty(table.column(name)))}:
        why = f"{_missing(missing, file)}; filled with the median or commonest value of the server's examples"
        fields["missing"], remarks["missing"] = "impute", why
        found.append(f"missing values are imputed ({why})")
    found += [
        f"warning: column {name} is empty in {count} of {table.num_rows} rows, so that nearly all of it is made up; "
        "consider data.drop"
        for name, count in missing.items()
        if count >= NEARLY_EMPTY * table.num_rows
    ]
    kept, repeated = firsts(_arrays(table, [*chosen.features, str(wanted["label"])]))
    if repeated:
        which = f"{(~kept).sum()} rows repeat an earlier one (rows {repeated[0]} and {repeated[1]} first)"
        note("duplicates", "drop", f"{which}: {COPIES}", "repeated rows are dropped: ")
    return fields, remarks, found


def counted(counts: dict[str, int], one: str, several: str) -> str:
    """A count in words: "2 classes: benign 357, malignant 212".

    >>> counted({"a": 3, "b": 1}, "class", "classes")
    '2 classes: a 3, b 1'
    """
    shown = ", ".join(f"{name} {count}" for name, count in list(counts.items())[:10])
    more = f" and {len(counts) - 10} more" if len(counts) > 10 else ""
    return f"{len(counts)} {one if len(counts) == 1 else several}: {shown}{more}"


def _missing(missing: dict[str, int], file: TableFile) -> str:
    """The empty cells in words, with what stands in them where they are not just empty."""
    spelled, cells = file.spellings(list(missing)), []
    for name, count in list(missing.items())[:5]:
        words = " or ".join(map(repr, spelled.get(name, ())))
        cells.append(f"{name} {count}" + (f" ({words} is taken for empty)" if words else ""))
    more = f" and {len(missing) - 5} more columns" if len(missing) > 5 else ""
    return f"empty cells: {', '.join(cells)}{more}"


def _tried(wrong: list[str], look: Callable[[], dict[str, int]], possible: bool) -> dict[str, int]:
    """What ``look`` returns, if it is ``possible``; what it refuses is added to ``wrong``."""
    try:
        return look() if possible else {}
    except DataError as error:
        wrong += str(error).split("\n")
        return {}


def _signs(path: Path) -> tuple[str, str]:
    """The names of the sign that a .csv has most of in its first line, and of the one before its numbers' fractions.

    The latter is a comma where the first lines hold numbers such as 1,5 and none such as 1.5, and no comma separates
    columns. Raises DataError where the first line is no header.
    """
    suffix = path.suffix.lower()
    if not path.is_file() or suffix not in (".csv", ".tsv"):
        return "comma", "point"
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
        lines = list(islice(stream, LOOKED_AT)) or [""]
    counts = {name: lines[0].count(sign) for name, sign in DELIMITERS.items()}
    found = "tab" if suffix == ".tsv" else max(counts, key=lambda name: counts[name])
    rows = csv.reader(lines, delimiter=DELIMITERS[found])
    header = [cell.strip() for cell in next(rows, [])]
    if len(header) > 1 and all(_is_number(cell) for cell in header):
        raise DataError(
            f"{path} has no header line: its first line holds {', '.join(header[:3])}, ...; put a line with the columns' "
            "names on top, or name them in data.columns of a sweep file of your own"
        )
    if found == "comma":
        return "comma", "point"
    cells = [cell.strip() for row in rows for cell in row]
    comma, point = (any(re.fullmatch(rf"[+-]?\d+{mark}\d+", cell) for cell in cells) for mark in (",", r"\."))
    return "comma" if suffix == ".tsv" else found, "comma" if comma and not point else "point"


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
    from pyarrow import compute as pc

    column, said = table.column(label), f"column {label!r}"
    if empty := _empty(column):
        row = pc.is_null(column, nan_is_null=True).index(True).as_py() + 1
        raise DataError(
            f"--label: {said} is empty in {empty} rows, the first of them row {row}; "
            "add --drop-unlabeled to leave them out, or give them a label"
        )
    try:
        values = plain(simple(label, column)[0])
    except DataError as error:
        kind = f"{said} holds {column.type}"
        raise DataError(f"--label: {kind}; a label is a text, a whole number or true/false") from error
    y, _ = own.labels(values, said, "--label")
    _, first, counts = np.unique(y, return_index=True, return_counts=True)
    cells = column.take(first).to_pylist()
    return {str(cell): int(count) for cell, count in zip(cells, counts, strict=True)}


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
