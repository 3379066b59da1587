"""What a column of a table is if no feature: a number of the row, a person, a part of the data."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from datasets.sources import _cells
from datasets.sources._folders import part_of
from datasets.sources._own_files import FLAGS, flag_of, part_or_server

if TYPE_CHECKING:
    import pandas as pd

FEWEST_ROWS = 20  # of a column that can number the rows
MOST_CODES = 20  # different texts of a column of codes, or among numbers
WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\dA-Z_]+|\d+")
ROW_NUMBERS = (  # last words of names of columns that number the rows
    "id",
    "index",
    "idx",
    "key",
    "number",
    "num",
    "no",
    "nr",
    "uuid",
    "guid",
    "row",
    "serial",
    "seq",
    "",
)
PERSONS = (
    "patient",
    "subject",
    "person",
    "customer",
    "client",
    "user",
    "participant",
    "member",
    "passenger",
    "student",
    "employee",
    "mrn",
    "ssn",
    "subj",
    "pat",
    "cust",
)
THINGS = ("account", "case", "record", "visit", "encounter", "admission", "sample", "study", "row")
PART_COLUMN = re.compile(  # names of columns that may say in which part a row is
    "(data)?(set|part|usage|use|phase|cohort|role|purpose|sample|stage|group|type)s?"
)
NAMES_PERSONS = "it names whom a row is about"
FOLD = re.compile(
    r"((cv|k|outer|inner)?folds?|(train|data|cv)?(test|val)?splits?|partitions?|subsets?)"
    r"(id|no|nr|number|index)?"
)


def words(name: str) -> list[str]:
    """Return the words of a column's name in lower case.

    >>> words("CustomerID"), words("patient_no"), words("Unnamed: 0"), words("userid")
    (['customer', 'id'], ['patient', 'no'], ['unnamed', '0'], ['user', 'id'])
    """
    named = "|".join((*PERSONS, *THINGS))
    parted = re.sub(rf"(?i)\b({named})(id|no|nr|number|num|key|index)\b", r"\1 \2", name)
    return [word.lower() for word in WORDS.findall(parted.replace("_", " "))]


def row_name(column: pd.Series[Any]) -> str:
    """Return why a column names the row or whom it is about; empty if it does not.

    It does where its values are different in each row, and are texts, or whole numbers from one to
    another, or rise from row to row, or have such a name; or where its name is a person's.
    """
    name = words(str(column.name))
    last = name[-1] if name else str(column.name).strip()
    whole = column.dtype.kind in "iuf" and bool((column.dropna() % 1 == 0).all())
    if column.dtype.kind == "b" or not (whole or column.dtype.kind not in "iuf"):
        return ""
    present = column.dropna()
    if len(present) > FEWEST_ROWS and present.is_unique:
        if not whole:
            texts = f"{len(present)} different texts, another one in each row"
            return "" if _cells.number_like(column).any() else texts
        named = last.isdecimal() or re.fullmatch("[a-z]id", last)
        if named or last in (*ROW_NUMBERS, *PERSONS, *THINGS) or numbers_rows(column):
            return "it numbers the rows"
        return (
            "it rises from row to row, as row numbers do" if column.is_monotonic_increasing else ""
        )
    levels = column.nunique()
    person = not {*name}.isdisjoint(PERSONS)
    if person and (
        (levels > 2 and last in ROW_NUMBERS) or (levels > MOST_CODES and len(name) == 1)
    ):
        return NAMES_PERSONS
    return ""


def numbers_rows(column: pd.Series[Any]) -> bool:
    """Return whether whole numbers are those from one to another, each of them once."""
    whole = _differs(column) and bool((column % 1 == 0).all())
    return whole and int(column.max()) - int(column.min()) == len(column) - 1


def _differs(column: pd.Series[Any]) -> bool:
    """Whether a column of many rows has another number in each."""
    many = len(column) > FEWEST_ROWS and column.dtype.kind in "iuf"
    return many and bool(column.is_unique) and bool(column.notna().all())


def unlike_numbers(column: pd.Series[Any]) -> bool:
    """Return whether each row has another whole number of equally many digits, as numbers of
    persons are.
    """
    if not _differs(column) or (column % 1 != 0).any() or column.min() < 1000:
        return False
    return len(f"{column.min():.0f}") == len(f"{column.max():.0f}")


def parts(column: pd.Series[Any]) -> set[str]:
    """Return the parts of the data, such as train and test, that the values of a column name; or
    none.
    """
    named = _named(column)
    return named if "" not in named else set()


def _named(column: pd.Series[Any]) -> set[str]:
    """The parts that the values of a column name, with an empty text for values that name none."""
    kind = _cells.kind_of(column)
    flag = flag_of(str(column.name))
    if not kind or (kind != _cells.TEXT and not flag):
        return set()
    levels = {str(value).strip() for value in column.dropna().unique()[: MOST_CODES + 1]}
    if flag and len(levels) == 2 and all(level.lower() in FLAGS for level in levels):
        return {"train", "test"}
    return {part_or_server(level) for level in levels}


def odd_parts(column: pd.Series[Any]) -> list[str]:
    """Return the texts of a column that name no part, where others are train and another part,
    or any part if the column is called like one of parts; or none.
    """
    named = _named(column)
    several = "train" in named and len(named) > 2
    called = PART_COLUMN.fullmatch("".join(words(str(column.name)))) and len(named) > 1
    if "" not in named or not (several or called):
        return []
    return sorted({text for text in map(str, column.dropna()) if not part_or_server(text)})


def is_fold(column: pd.Series[Any]) -> bool:
    """Return whether a column of few values has a name that says in which fold or part a row is."""
    name = "".join(words(str(column.name)))
    named = FOLD.fullmatch(name) or flag_of(str(column.name))
    return bool(named and _cells.kind_of(column)) and column.nunique() <= MOST_CODES


def part_warning(column: pd.Series[Any], role: str) -> str:
    """Return a warning if a column with a ``role``, or a feature, says in which part a row is;
    or "".
    """
    name = str(column.name)
    says = "says"
    if len(parts(column)) < 2 and not is_fold(column):
        says = "may say"
        by_name = part_of(name) and _cells.kind_of(column) and column.nunique() <= MOST_CODES
        if not by_name and len(_named(column)) < 3:
            return ""
    use = f"the {role}" if role else "a feature"
    return (
        f"warning: column {name} {says} in which part of the data a row is, and is {use}; "
        "data.part divides the rows by such a column, data.drop leaves it out"
    )
