"""Makes features, labels, clients and parts of the columns of a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from datasets.federation import DataError, Floats, Ints, Source
from datasets.sources import _own_files as own
from datasets.sources._own_files import Mask
from datasets.sources._table_files import TableConfig, roles

if TYPE_CHECKING:
    import pyarrow as pa

MOST_LEVELS = 100  # of a column of texts; one with more is rather a name than a category
LARGEST = float(np.finfo(np.float32).max)
NUMBER, FLAG, TEXT = "number", "flag", "text"


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns in use, each as one Arrow array.

    Attributes:
        arrays: the columns by name; missing values are nulls, never NaN.
        kinds: for each feature, in their order, "number", "flag" or "text".
        parts: [n] train or test, where the data were saved in two parts; None: they were not.
    """

    arrays: dict[str, Any]
    kinds: dict[str, str]
    parts: list[str] | None

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))


def to_source(name: str, config: TableConfig, table: pa.Table, parts: list[str] | None = None) -> Source:
    """Make a source of a table.

    Args:
        name: what the data set is called in messages.
        config: which column is what; those named must be there.
        table: the columns in use.
        parts: [n] train or test, where the data were saved in two parts.

    Raises:
        DataError: a column is unfit; the message names it and its first row that is, counted from 1 without the header.
    """
    columns = distinct(config, labeled(config, checked(config, table, parts)))
    y, classes = own.labels(plain(columns.arrays[config.label]), f"column {own.quoted(config.label)}", "data.label")
    of, said = None, columns.parts
    if config.client:
        groups = _texts(columns.arrays[config.group]) if config.group else None
        of = own.whose(_texts(columns.arrays[config.client]), groups, f"column {own.quoted(str(config.group))}")
    if config.part:
        said = _texts(columns.arrays[config.part])
    where = f"column {own.quoted(config.part)}" if config.part else name
    about = own.whose(_texts(columns.arrays[config.subject]), None, "") if config.subject else None
    test = own.test_rows(config, y, of, said, where, about)
    _refuse_empty(columns, ~test)
    if config.standardize or any(kind == TEXT or columns.arrays[one].null_count for one, kind in columns.kinds.items()):
        own.refuse_lonely(config)
    source = own.build(name, encode(config, columns, ~test), y, classes, test, of)
    if config.statistics == "all_clients":
        return source

    def of_server(shadow: Ints) -> Source:
        known = np.zeros(len(y), np.bool_)
        known[np.flatnonzero(~test)[shadow]] = True
        return own.build(name, encode(config, columns, known), y, classes, test, of)

    return replace(source, fit=of_server)


def checked(config: TableConfig, table: pa.Table, parts: list[str] | None) -> Columns:
    """Return the columns, each of a kind that can be used, without infinite and (unless imputed) missing values.

    Raises:
        DataError: with everything that is wrong, one column in a line.
    """
    role_of = {column: role for role, column in roles(config).items() if column}
    arrays: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    found: list[str] = []
    for name in table.column_names:
        role = role_of.get(name, "")
        try:
            array, kind = simple(name, table[name])
            if not role:
                array, kind = _feature(config, name, array, kind)
            may_miss = config.missing == "impute" if not role else role == "label" and config.unlabeled == "drop"
            _complete(name, array, may_miss, at_label=role == "label")
        except DataError as error:
            found.append(str(error))
            continue
        arrays[name] = array
        if not role:
            kinds[name] = kind
    own.refuse(found)
    return Columns(arrays, kinds, parts)


def simple(name: str, column: pa.ChunkedArray) -> tuple[Any, str]:
    """Return a column as one array of numbers, truth values or texts, NaN as null, and which of the three it is.

    Raises:
        DataError: it holds none of them, or no value, or an infinite number.
    """
    import pyarrow as pa
    from pyarrow import compute as pc

    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    kind = array.type
    if array.null_count == len(array):
        raise _unfit(name, "has no value at all; leave it out with data.drop")
    if pa.types.is_boolean(kind):
        return array, FLAG
    if pa.types.is_integer(kind):
        return array, NUMBER
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        array = array.cast(pa.float64())
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, pa.float64()), array)
        infinite = pc.fill_null(pc.is_inf(array), False)
        if pc.any(infinite).as_py():
            raise _unfit(name, f"is infinite in row {_first(infinite)}")
        return array, NUMBER
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return array.cast(pa.string()), TEXT
    if pa.types.is_temporal(kind):
        raise _unfit(
            name, f"holds times ({kind}); make numbers of them (days since a date), or leave it out: data.drop"
        )
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise _unfit(name, "holds bytes or text in another encoding than UTF-8; convert it, or leave it out: data.drop")
    raise _unfit(name, f"holds {kind}, neither numbers nor texts nor true/false; leave it out with data.drop")


def _feature(config: TableConfig, name: str, array: Any, kind: str) -> tuple[Any, str]:
    """Return a feature and its kind; columns of ``config.categories`` become texts. Refuses what is no feature."""
    import pyarrow as pa
    from pyarrow import compute as pc

    if name in config.categories:
        array, kind = array.cast(pa.string()), TEXT
    elif kind == TEXT:
        _refuse_mixture(name, array)
    levels = pc.count_distinct(array).as_py()
    if kind == TEXT and levels > MOST_LEVELS:
        raise _unfit(
            name,
            f"has {levels} different texts (at most {MOST_LEVELS} are taken for categories); leave it out: data.drop",
        )
    if kind == NUMBER and pa.types.is_integer(array.type) and levels == len(array) > 20 and not array.null_count:
        values = array.to_numpy(zero_copy_only=False)
        if int(values.max()) - int(values.min()) == len(array) - 1:
            raise _unfit(name, "numbers the rows, so it tells members by itself; leave it out with data.drop")
    return array, kind


def _refuse_mixture(name: str, array: Any) -> None:
    """Raise DataError for a column in which some texts are numbers and others are not."""
    numbers = numbers_among_texts(array)
    if not numbers:
        return
    cells = array.to_pylist()
    kinds = [None if one is None else one in numbers for one in cells]
    first = next(row for row, kind in enumerate(kinds) if kind is not None)
    other = next(row for row, kind in enumerate(kinds) if kind is not None and kind != kinds[first])
    count = sum(kind is kinds[other] for kind in kinds)
    raise _unfit(
        name,
        f"mixes numbers and texts: {cells[first]!r} in row {first + 1}, {cells[other]!r} in row {other + 1} "
        f"({count} like it); correct it, list it in data.categories, or leave it out with data.drop",
    )


def numbers_among_texts(array: Any) -> set[str]:
    """Return the distinct texts that are numbers where others are not; empty if all of them are, or none."""
    values = [one for one in array.unique().to_pylist() if one is not None]
    numbers = {one for one in values if _is_number(one)}
    return numbers if len(numbers) < len(values) else set()


def _complete(name: str, array: Any, may_miss: bool, at_label: bool = False) -> None:
    if array.null_count and not may_miss:
        from pyarrow import compute as pc

        row = f"row {_first(pc.is_null(array))}"
        what = (
            f"{array.null_count} missing values, first in {row}"
            if array.null_count > 1
            else f"a missing value in {row}"
        )
        remedy = "write missing: impute, correct it, or leave the column out (data.drop)"
        if at_label:
            remedy = "write unlabeled: drop to leave out the rows without a label, or correct it"
        raise _unfit(name, f"has {what}; {remedy}")


def labeled(config: TableConfig, columns: Columns) -> Columns:
    """Return the columns without the rows that have no label, which `checked` lets pass if they are to be dropped."""
    valid = columns.arrays[config.label].is_valid().to_numpy(zero_copy_only=False)
    return columns if valid.all() else _taken(columns, valid)


def distinct(config: TableConfig, columns: Columns) -> Columns:
    """Return the columns without rows that repeat an earlier one in all features and the label.

    Raises:
        DataError: there are such rows, and duplicates are refused.
    """
    if config.duplicates == "keep":
        return columns
    kept, pair = firsts({name: columns.arrays[name] for name in (*columns.kinds, config.label)})
    if pair is None:
        return columns
    if config.duplicates == "refuse":
        raise own.duplicates_error(int((~kept).sum()), len(columns), f"row {pair[0]}", f"row {pair[1]}")
    return _taken(columns, kept)


def _taken(columns: Columns, kept: Mask) -> Columns:
    import pyarrow as pa

    rows = np.flatnonzero(kept)
    parts = None if columns.parts is None else [columns.parts[row] for row in rows]
    return Columns({name: array.take(pa.array(rows)) for name, array in columns.arrays.items()}, columns.kinds, parts)


def firsts(arrays: dict[str, Any]) -> tuple[Mask, tuple[int, int] | None]:
    """Return which rows repeat no earlier one in ``arrays``, [n], and the first two equal rows, counted from 1.

    Args:
        arrays: columns by name, each one Arrow array; missing values are nulls, never NaN, and equal one another.
    """
    import pyarrow as pa

    count = len(next(iter(arrays.values())))
    numbered = pa.table({**arrays, "\0row": np.arange(count)})
    grouped = numbered.group_by(list(arrays), use_threads=False).aggregate([("\0row", "min")])
    kept = np.zeros(count, np.bool_)
    kept[grouped["\0row_min"].to_numpy()] = True
    if kept.all():
        return kept, None
    other = int(np.flatnonzero(~kept)[0])
    return kept, (_first_equal(arrays, other), other + 1)


def _first_equal(arrays: dict[str, Any], row: int) -> int:
    """Return the first row, counted from 1, that equals ``row`` (from 0) in all ``arrays``."""
    from pyarrow import compute as pc

    equal = np.array(True)
    for array in arrays.values():
        same = pc.equal(array, array[row]) if array[row].is_valid else pc.is_null(array)
        equal = equal & pc.fill_null(same, False).to_numpy(zero_copy_only=False)
    return int(np.flatnonzero(equal)[0]) + 1


def _refuse_empty(columns: Columns, train: Mask) -> None:
    """Raise DataError for columns that have no value in the training part ``train`` [n]."""
    present = {name: columns.arrays[name].is_valid().to_numpy(zero_copy_only=False) for name in columns.kinds}
    empty = [name for name, valid in present.items() if not (train & valid).any()]
    own.refuse(f"{_unfit(name, 'has no value in the training part; leave it out with data.drop')}" for name in empty)


def encode(config: TableConfig, columns: Columns, known: Mask) -> Floats:
    """Return the features as numbers, float32 [n, features].

    Args:
        config: the component's fields.
        columns: the columns.
        known: [n] the examples whose statistics and values are used. A column of numbers in which they do not differ is
            zero, and a text that they do not have is zero in all columns of its feature.

    Raises:
        DataError: a value is beyond float32, or no feature is left.
    """
    encoded: list[Floats] = []
    for name, kind in columns.kinds.items():
        array = columns.arrays[name]
        if kind == TEXT:
            encoded += _one_hot(np.array(array.to_pylist(), object), known)
        else:
            encoded.append(_numbers(config, name, array, kind, known))
    if not encoded:
        raise DataError("data.shadow_size: no feature has a value among the server's examples; raise it")
    return np.stack(encoded, axis=1)


def _one_hot(values: NDArray[Any], known: Mask) -> list[Floats]:
    levels, counts = np.unique(values[known & (values != None)].astype(str), return_counts=True)  # noqa: E711 - elementwise
    if not len(levels):
        return []
    values[values == None] = levels[counts.argmax()]  # noqa: E711
    return [(values == level).astype(np.float32) for level in own.ordered(levels.tolist())]


def _numbers(config: TableConfig, name: str, array: Any, kind: str, known: Mask) -> Floats:
    import pyarrow as pa

    present = array.is_valid().to_numpy(zero_copy_only=False)
    values = array.cast(pa.float64(), safe=False) if kind == NUMBER else array.cast(pa.int8()).cast(pa.float64())
    column = values.fill_null(0.0).to_numpy(zero_copy_only=False).copy()
    there = column[known & present]
    if not len(there):
        return np.zeros(len(column), np.float32)
    column[~present] = np.median(there) if kind == NUMBER else float(there.mean() > 0.5)
    if config.standardize and kind == NUMBER:
        there = column[known]
        low, high = there.min(), there.max()
        if low == high:
            return np.zeros(len(column), np.float32)
        scale = max(abs(low), abs(high))  # so that squares of large numbers stay finite
        mean, deviation = (there / scale).mean(), (there / scale).std()
        column = np.clip((column / scale - mean) / deviation, -LARGEST, LARGEST)  # others' numbers may be of any size
    with np.errstate(over="ignore"):
        narrow = column.astype(np.float32)
    if not np.isfinite(narrow).all():
        row = int(np.flatnonzero(~np.isfinite(narrow))[0])
        raise _unfit(name, f"has a number beyond 3.4e38 in row {row + 1}")
    return narrow


def _texts(array: Any) -> list[str]:
    import pyarrow as pa

    found: list[str] = array.cast(pa.string()).to_pylist()
    return found


def plain(array: Any) -> NDArray[Any]:
    """Return labels as an array of numbers, or of objects where they are texts."""
    import pyarrow as pa

    if pa.types.is_string(array.type):
        return np.array(array.to_pylist(), object)
    whole: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return whole


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _first(mask: Any) -> int:
    """Return the first row, counted from 1, in which an Arrow array of truth values is true."""
    return int(mask.index(True).as_py()) + 1


def _unfit(name: str, what: str) -> DataError:
    return DataError(f"data.path: column {own.quoted(name)} {what}")
