"""A table of your own, one example in a row: CSV, Parquet, or Arrow as Hugging Face's
``save_to_disk`` leaves it.

    data:
      name: table
      path: patients.csv        relative to the folder of the sweep file
      label: outcome            texts, whole numbers or true/false: few distinct values
      client: hospital          optional: whose row it is, for the split natural
      group: country            optional: the group of the client
      part: split               optional: train, test or server (whose rows are no client's), or
                                yes and no of a column such as is_test; validation is set aside.
                                Without it test_share is drawn, stratified by client and label
      subject: patient          optional: whom a row is about; test_share is then of the subjects

The suffix chooses the reader: .csv, .tsv, .parquet, .arrow, .feather, or a folder that
``save_to_disk`` wrote (of a ``DatasetDict``, the data sets ``train`` and ``test`` are read). All
other columns are features:

* numbers are standardized by mean and standard deviation (a constant column becomes zero);
* true/false becomes 1/0;
* texts, and the columns listed in ``categories``, become one column for each value, in alphabetical
  order (a value that only other rows have is zero in all of them);
* lists of numbers (embeddings) of one length are that many numbers;
* numbers with signs (12 %, $5, 36,289) or with a 0 in front (0071) and whole numbers like 20200131
  are refused unless ``numbers`` or ``categories`` lists their column;
* dates and anything else are refused, as are infinite numbers, and texts among numbers.

Labels are texts: 01 and 1 are two classes. Missing values (in a CSV: empty, NA, N/A, #N/A, NaN,
nan, null, NULL or ?) are refused, or imputed by median or most frequent value. "None" is a text
like any other. ``nulls`` lists other words, beside an empty cell, that stand for a missing value:
with [], NA is a text, too.

Means, deviations, medians and values are those of the server's shadow set. ``statistics`` chooses
others: the training part of each client for its own rows (``each_client``), numbers in the sweep
file (``constants``), or the training part of all clients (``all_clients``), with which no epsilon
holds. The texts of a column are listed in ``constants`` in the first two cases.

Of a file, only the columns in use are read. The features are held in memory once, as float32,
beside the columns that they are made of, until the examples are partitioned.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from datasets.federation import DataError, Floats, Ints, Source, excerpt
from datasets.source_configs import OwnFilesConfig
from datasets.sources import _cells, _column_roles
from datasets.sources import _own_files as own
from datasets.sources._cells import KINDS, NUMBER, TEXT
from datasets.sources._own_files import Mask, nearest
from datasets.sources._table_files import FALSE, NULLS, TRUE, TableFile
from datasets.sources._table_folder import tables_at

if TYPE_CHECKING:
    import pandas as pd

Doubles = NDArray[np.float64]
LABEL = "own table"
BESIDE_SWEEP = True
ROLES = ("label", "client", "group", "part", "subject")
MOST_LEVELS = 100  # of a column of texts; one with more is rather a name than a category
MOST_ODD = 5  # different words among numbers that are offered as missing values
LATER = ("numbers", "nulls")  # fields that are part of a trial's id only where they are set
LARGEST = float(np.finfo(np.float32).max)
UNCLEAR = "list it in data.numbers or data.categories, or leave it out with data.drop"


def _listed(value: Any) -> Any:
    """A single name stands for a list of one; YAML gives a list for a tuple."""
    return (
        (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value
    )


def _words(value: Any) -> Any:
    """A text holds words with commas between them."""
    return tuple(filter(None, value.split(","))) if isinstance(value, str) else _listed(value)


Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]


class Config(OwnFilesConfig):
    """Which column is what."""

    label: str = Field("", description="required: the column with the class")
    client: str | None = Field(
        None, description="column that says whose example a row is, for the split natural"
    )
    group: str | None = Field(
        None, description="column with the client's group, the same in all rows of a client"
    )
    part: str | None = Field(
        None,
        description=(
            "column that says train, test or server; rows for validation are left out; null: "
            "test_share is drawn"
        ),
    )
    subject: str | None = Field(
        None,
        description=(
            "column with whom or what a row is about: rows of one are never divided between "
            "training and test part"
        ),
    )
    features: Names | None = Field(
        None, description="columns that the model sees; null: all others but those of drop"
    )
    drop: Names = Field(
        (), description="columns that are left out, such as a number or a name of the row"
    )
    categories: Names = Field(
        (), description="columns of numbers that are categories, such as codes"
    )
    numbers: Names = Field(
        (), description="columns that are quantities, also as 12 %, $5, 36,289, 0071 or 20200131"
    )
    columns: Names | None = Field(
        None, description="names of all columns of a CSV that has no header line"
    )
    delimiter: Literal["comma", "semicolon", "tab"] = Field(
        "comma", description="what separates the columns of a .csv"
    )
    decimal: Literal["point", "comma"] = Field(
        "point", description="what a number in a .csv has before its fraction"
    )
    # A model can be trained on labels alone; whoever expects one in every row wants to hear of
    # those without.
    unlabeled: Literal["refuse", "drop"] = Field("refuse", description="rows without a label")
    # A silent fill would change what is measured.
    missing: Literal["refuse", "impute"] = Field(
        "refuse",
        description="missing features: refused, or median or most frequent value (see statistics)",
    )
    nulls: Words = Field(
        NULLS, description="words that stand for a missing value, beside an empty cell"
    )
    standardize: bool = Field(
        True, description="numbers less their mean, by their deviation (see statistics)"
    )

    def dump_read(self) -> dict[str, Any]:
        """Return the fields that are read; later ones only where they are set, as they change no
        other id.
        """
        unset = {
            name for name in LATER if getattr(self, name) == type(self).model_fields[name].default
        }
        return {name: value for name, value in super().dump_read().items() if name not in unset}


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load the table, float32 [n, features].

    Raises DataError if the file is absent or cannot be read, or a column is unfit; the message
    names it and any row at fault.
    """
    path = own.place(config, root)
    if config.decimal == config.delimiter == "comma":
        raise DataError(
            "data.decimal: the comma separates the columns; write delimiter: semicolon or tab, too"
        )
    file = tables_at(
        TableFile(path, config.delimiter, config.decimal, config.columns, config.nulls)
    )
    names = file.names()
    role_of = roles(config)
    features = [
        name
        for name in names
        if name not in (*role_of, *config.drop) and name in (config.features or names)
    ]
    names += file.more
    problems = misnamed(config, names, features, path.name)
    columns = [name for name in names if name in role_of or name in features]
    if not columns:
        own.refuse(problems)
    texts = [
        name
        for name in columns
        if name in config.categories or role_of.get(name, "label") != "label"
    ]

    def spelled(name: str) -> pd.Series[str]:
        return file.spelled([name])[name]

    frame, parts = file.read(columns, texts, label=config.label)
    try:
        source = to_source(
            path.name, config, frame, parts, problems, spelled if file.is_csv else None
        )
    except DataError as error:
        raise DataError(file.placed(str(error))) from error
    return replace(source, remarks=(*file.remarks(), *source.remarks))


def roles(config: Config) -> dict[str, str]:
    """Return what the columns are that are no features, by their names."""
    return {column: role for role in ROLES if (column := getattr(config, role))}


def misnamed(config: Config, names: Sequence[str], features: Sequence[str], file: str) -> list[str]:
    """Return what is wrong with the names of columns: unknown ones, two roles of one column, no
    feature that is left.
    """
    more = ", ..." if len(names) > 12 else ""
    offered = f"{file} has the columns {', '.join(names[:12])}{more}"
    role_of = roles(config)
    with_column = [role for role in ROLES if getattr(config, role)]
    fields: dict[str, tuple[str, ...]] = {role: (getattr(config, role),) for role in with_column}
    fields |= {"features": config.features or (), "drop": config.drop}
    fields |= {"categories": config.categories, "numbers": config.numbers}
    problems = (
        []
        if config.label
        else [f"data.label: is missing; it is the column with the class. {offered}"]
    )
    problems += [
        f"data.{field}: {file} has no column {name!r}{nearest(name, names) or f'. {offered}'}"
        for field, columns in fields.items()
        for name in columns
        if name not in names
    ]
    if config.group and not config.client:
        problems.append(
            "data.group: is the group of a client; name the column with the clients in data.client"
        )
    both = [name for name in config.features or () if name in role_of]
    problems += [
        f"data.features: {name!r} is already the label, client, group, part or subject"
        for name in both
    ]
    problems += [
        f"data.numbers: {name!r} is in data.categories, too"
        for name in config.numbers
        if name in config.categories
    ]
    if len(role_of) < len(with_column):
        problems.append(
            "data.label: label, client, group, part and subject must be different columns"
        )
    return problems or (
        [] if features else [f"data.features: no column of {file} is left as a feature. {offered}"]
    )


def to_source(
    name: str,
    config: Config,
    frame: pd.DataFrame,
    parts: list[str] | None = None,
    problems: Iterable[str] = (),
    spelled: Callable[[str], pd.Series[str]] | None = None,
) -> Source:
    """Make a source, called ``name`` in messages, of the columns in use, ``frame``; those that
    ``config`` names must be there.

    ``parts`` [n] are train or test, where the data were saved in two parts, and ``problems`` are
    what is wrong with them already; ``spelled`` returns a column [n] as the file spells it, for a
    message. Raises DataError with everything that is wrong, one column in a line; rows are counted
    from 1 without the header.
    """
    role_of = roles(config)
    every = frame.index
    frame = _of_nobody(config, frame)
    frame, kinds = _in_use(config, frame, [*problems], spelled)
    frame, remarks = _without_validation(config, frame)
    groups = frame.groupby([*kinds, config.label], dropna=False, sort=False).ngroup().tolist()
    rows = frame[list(role_of)].rename(columns=role_of)  # a feature may have the name of a role
    if parts and not config.part:
        rows["part"] = np.array(parts, object)[every.isin(rows.index)]
    where = {role: f"column {column!r}" for column, role in role_of.items()}
    division = own.divide(config, rows, name, where, "data.label")
    remaining = own.distinct(config, groups, division, [f"row {row + 1}" for row in frame.index])
    division = replace(division.where(remaining), remarks=(*division.remarks, *remarks))
    features = frame[list(kinds)][remaining]
    empty = features.columns[features[~division.test].isna().all()]
    own.refuse(
        f"data.path: column {column!r} has no value in the training part; leave it out with "
        "data.drop"
        for column in empty
    )
    return _prepared(name, config, features, kinds, division)


def _prepared(
    name: str, config: Config, features: pd.DataFrame, kinds: dict[str, str], division: own.Division
) -> Source:
    """Make the source of its features, prepared with the statistics that ``config`` asks for."""
    needed = (
        config.standardize or TEXT in kinds.values() or features.isna().any(axis=None)
    )  # statistics
    if needed:
        own.refuse_lonely(config)
        own.refuse(_unfit_constants(config, kinds))

    train = ~division.test

    def prepared(references: Sequence[Reference]) -> Source:
        """Return the source as the statistics of ``references`` prepare it."""
        x, columns = encode(config, features, kinds, references)
        return replace(own.build(name, x, division), columns=columns)

    def by_shadow(shadow: Ints | slice) -> Source:
        """Return the source as the training examples with the numbers ``shadow`` prepare it."""
        reference = np.zeros(len(train), np.bool_)
        reference[np.flatnonzero(train)[shadow]] = True
        source = prepared([Reference(np.ones(len(train), np.bool_), reference)])
        return replace(source, remarks=tuple(unknown(config, features, kinds, reference)))

    if needed and config.statistics == "constants":
        return prepared([])
    if needed and config.statistics == "each_client":
        owner = own.owners_for_statistics(division)
        return prepared(
            [Reference(owner == client, (owner == client) & train) for client in np.unique(owner)]
        )
    source = by_shadow(slice(None))
    if needed and config.statistics == "server":
        return replace(source, fit=by_shadow, remarks=division.remarks)
    return replace(source, remarks=(*division.remarks, *source.remarks))


def _of_nobody(config: Config, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table, in which client, group and subject of the server's own rows need not be
    given.
    """
    if config.part not in frame:
        return frame
    server = own.server_rows(frame[[config.part]].set_axis(["part"], axis=1))
    owners = [
        name
        for name in (config.client, config.group, config.subject)
        if name is not None and name in frame
    ]
    if server is None or not owners:
        return frame
    return frame.assign(**{name: frame[name].mask(server, own.OF_SERVER) for name in owners})


def _unfit_constants(config: Config, kinds: dict[str, str]) -> list[str]:
    """Return which columns lack constants that the features need, or have others than they need."""
    if config.statistics not in ("constants", "each_client"):
        return []
    problems = [
        f"data.constants: there is no feature {name!r}{nearest(name, kinds)}"
        for name in set(config.constants) - set(kinds)
    ]
    for name, kind in kinds.items():
        given = config.constants.get(name, [])
        texts = len(set(given)) == len(given) > 0 and all(isinstance(value, str) for value in given)
        numbers = len(given) == 2 and all(isinstance(value, int | float) for value in given)
        if kind == TEXT and not texts:
            why = "how many inputs there are must not depend on a client"
            example = '["a", "b"]'
            if any(not isinstance(value, str) for value in given):
                why = "01 and 10 without quotes are numbers"
                example = '["01", "10"]'
            problems.append(
                f"data.constants: lists no different texts of column {name!r} ({why}); "
                f"write {name}: {example}"
            )
        elif (
            kind == NUMBER
            and config.statistics == "constants"
            and not (numbers and float(given[1]) > 0)
        ):
            problems.append(
                f"data.constants: has no mean and deviation (above 0) of column {name!r}; "
                f"write {name}: [50.0, 10.0]"
            )
        elif given and kind != TEXT and (kind != NUMBER or config.statistics == "each_client"):
            problems.append(
                f"data.constants: are not read of column {name!r}; leave it out of them"
            )
    return problems


def _without_validation(config: Config, frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows for training and testing, and what is to be said of the others and of
    parts.
    """
    role_of = roles(config)
    remarks = list[str]()
    if config.part:
        validation = frame[config.part] == "validation"
        frame = frame[~validation]
        if validation.any():
            remarks.append(f"{validation.sum()} rows of the validation part are not read")
    for column in frame:
        if column != config.part:
            remarks.append(_column_roles.part_warning(frame[column], role_of.get(column, "")))
    return frame, [remark for remark in remarks if remark]


def _in_use(
    config: Config,
    frame: pd.DataFrame,
    problems: list[str],
    spelled: Callable[[str], pd.Series[str]] | None,
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the rows that have a label, their columns as they are used, and the kinds of the
    features.

    Raises DataError with what is wrong with the columns, behind the ``problems``.
    """
    role_of = roles(config)
    kinds = dict[str, str]()
    if config.unlabeled == "drop" and config.label in frame and frame[config.label].notna().any():
        frame = frame[frame[config.label].notna()].copy()
    for column in map(str, frame):
        role = role_of.get(column, "")
        try:
            frame[column], kind = typed(config, frame[column], role, spelled)
            if role == "part":
                frame[column] = own.parts(frame[column])
        except DataError as error:
            problems.append(str(error))
        else:
            kinds |= {} if role else {column: kind}
    own.refuse(problems)
    return frame, kinds


def typed(
    config: Config,
    column: pd.Series[Any],
    role: str = "",
    spelled: Callable[[str], pd.Series[str]] | None = None,
) -> tuple[pd.Series[Any], str]:
    """Return a column as numbers, truth values or texts, and which of the three it is.

    ``role`` is what the column is if it is no feature, and ``spelled`` returns it as the file
    spells it. Raises DataError if it holds something else or nothing; or it has infinite or (unless
    they may be missing) missing values; or it is a feature and `unclear`.
    """
    import pandas as pd

    def unfit(what: str) -> DataError:
        return DataError(f"data.{role or 'path'}: column {name!r} {what}")

    name = str(column.name)
    if (
        not role
        and name in config.numbers
        and pd.api.types.infer_dtype(column, skipna=True) == "string"
    ):
        texts = column
        column = _cells.numbers(column, config.decimal == "comma")
        wrong = column.isna() & texts.notna()
        if wrong.any():
            raise unfit(f"has more than numbers of one sign: {_odd(config, texts, wrong)}")
    inferred = pd.api.types.infer_dtype(column, skipna=True)
    missing = column.isna()
    if missing.all():
        raise unfit("has no value at all; leave it out with data.drop")
    if inferred not in KINDS:
        raise unfit(
            f"holds {inferred} values, neither numbers nor texts nor true/false; make numbers "
            "or UTF-8 texts of them, or leave it out with data.drop",
        )
    kind = KINDS[inferred]
    column = column if kind == TEXT else pd.to_numeric(column)
    if kind == NUMBER and (infinite := np.isinf(column)).any():
        raise unfit(f"is infinite in row {infinite.idxmax() + 1}")
    may_miss = (
        config.unlabeled == "drop" if role == "label" else config.missing == "impute" and not role
    )
    if missing.any() and not may_miss:
        words = (
            spelled(name)[missing.index[missing]].value_counts().index.tolist() if spelled else []
        )
        raise unfit(_missing(config, missing, role, [word for word in words if word]))
    if not role and (what := unclear(config, column, kind)):
        raise unfit(what)
    return column, kind


def _missing(config: Config, missing: pd.Series[bool], role: str, words: list[str]) -> str:
    """What is wrong with a column with ``missing`` [n] values, of which ``words`` were taken for
    empty.
    """
    first = f"in row {missing.idxmax() + 1}"
    what = (
        f"{missing.sum()} missing values, the first {first}"
        if missing.sum() > 1
        else f"a missing value {first}"
    )
    taken = taken_for_empty(words, config.nulls)
    remedies = {
        "": "write missing: impute, correct it, or leave the column out (data.drop)",
        "label": (
            "write unlabeled: drop (fedpriv new: --drop-unlabeled) to leave out such rows, or "
            "correct it"
        ),
    }
    other = "or correct it" if taken else "correct it"
    return f"has {what}{taken}; {remedies.get(role, other)}"


def taken_for_empty(words: Sequence[str], nulls: Sequence[str]) -> str:
    """Return that ``words``, of the ``nulls``, were taken for empty cells and how to keep them;
    or "".
    """
    if not words:
        return ""
    keep = nulls_remedy([word for word in nulls if word not in words])
    return (
        f" ({' and '.join(map(repr, words))} taken for empty; to keep "
        f"{'it' if len(words) == 1 else 'them'}: {keep}, for all columns)"
    )


def nulls_remedy(words: Sequence[str]) -> str:
    """Return how ``words`` become those that stand for a missing value."""
    return f"data.nulls {shlex.quote(','.join(words))}"


def _odd(config: Config, texts: pd.Series[Any], odd: pd.Series[bool]) -> str:
    """Name the first of the ``odd`` [n] texts of a column and of the others, and what to do."""
    first = odd.idxmax()
    other = (~odd & texts.notna()).idxmax()  # the first row, if there is none
    named = ", ".join(f"{texts[row]!r} in row {row + 1}" for row in sorted((first, other)))
    words = texts[odd].unique().tolist()
    remedy = (
        f"take {' and '.join(map(repr, words))} for missing: "
        f"{nulls_remedy([*config.nulls, *words])}, "
    )
    remedy = remedy if len(words) <= MOST_ODD and "," not in "".join(words) else ""
    return (
        f"{named} ({int(odd.sum())} like {texts[first]!r}); correct it, {remedy}list it in "
        "data.categories, or leave it out with data.drop"
    )


def unclear(config: Config, column: pd.Series[Any], kind: str) -> str:
    """Return why it is not clear what a feature stands for, as the predicate of a sentence; else
    "".

    It is listed in neither ``numbers`` nor ``categories``, and numbers the rows; or it mixes texts
    and numbers; or its values are dates, numbers with signs, or codes that look like numbers; or it
    has more than `MOST_LEVELS` texts.
    """
    if column.name in (*config.numbers, *config.categories):
        return ""
    if kind != TEXT:
        if _column_roles.numbers_rows(column):
            return "numbers the rows, so it tells members by itself; leave it out with data.drop"
        if kind == NUMBER and _cells.is_compact_dates(column):
            return f"holds dates such as {column[column.first_valid_index()]:.0f}; {UNCLEAR}"
        return ""
    flags = column.isin((*TRUE, *FALSE))
    if flags.any() and not flags[column.notna()].all():
        return f"mixes true/false and other texts: {_odd(config, column, ~flags & column.notna())}"
    meaning = _cells.meaning(column)
    levels = column.nunique()
    alike = number_texts(column)
    if meaning == _cells.SIGNS:
        alike = _cells.numbers(column, config.decimal == "comma").notna()
    others = ~alike & column.notna()
    if meaning in ("", _cells.SIGNS) and alike.any() and others.any():
        what = "numbers of several kinds" if meaning else "numbers and texts"
        return (
            f"mixes {what}: {_odd(config, column, alike if alike.sum() < others.sum() else others)}"
        )
    if meaning and (meaning != _cells.PLAIN or levels > MOST_LEVELS):
        row = _cells.example(column, meaning)
        return f"holds {meaning}: {column[row]!r} in row {row + 1}; {UNCLEAR}"
    if levels > MOST_LEVELS:
        return (
            f"has {levels} different texts (at most {MOST_LEVELS} are taken for categories); "
            "leave it out: data.drop"
        )
    return ""


def number_texts(column: pd.Series[Any]) -> pd.Series[bool]:
    """Return which texts are numbers, [n], if others are not; else none."""
    numbers = _cells.number_like(column)
    return numbers & bool((~numbers & column.notna()).any())


def unknown(
    config: Config, features: pd.DataFrame, kinds: dict[str, str], reference: Mask
) -> list[str]:
    """Return how many values are unknown to the statistics of ``reference`` [n], as a sentence
    or none.

    Such a text is zero in all columns of its feature, and so is a number if these examples have but
    one.
    """
    rows = np.zeros(len(features), np.bool_)
    counts = dict[str, int]()
    for name, kind in kinds.items():
        known = features[name][reference].dropna()
        constant = (
            kind == NUMBER and config.standardize and (known.empty or known.min() == known.max())
        )
        if kind == TEXT or constant:
            other = features[name].notna() & ~features[name].isin(known.unique())
            if other.any():
                counts[name] = features[name][other].nunique()
                rows |= other.to_numpy()
    if not counts:
        return []
    of_columns = excerpt([f"{name} {count}" for name, count in counts.items()])
    return [
        f"{sum(counts.values())} rare values are unknown to the server's statistics and "
        f"become zero, in {rows.sum()} of {len(rows)} rows ({of_columns}); a larger "
        "data.shadow_size knows more of them"
    ]


@dataclass(frozen=True)
class Reference:
    """Examples that are prepared by the statistics of some of them.

    Attributes:
        rows: [n] which examples are prepared.
        sample: [n] which of them give the statistics.
    """

    rows: Mask
    sample: Mask


def encode(
    config: Config, features: pd.DataFrame, kinds: dict[str, str], references: Sequence[Reference]
) -> tuple[Floats, tuple[str, ...]]:
    """Return the features as numbers, float32 [n, features], and the column that each comes from.

    ``kinds`` has the kind of each column, and ``references`` say by whose statistics and values
    each example is prepared. A column of numbers in which these have none or (where it is
    standardized) do not differ is zero, and a text that they do not have is zero in all columns of
    its feature. Raises DataError if a value is beyond float32, or no feature is left.
    """
    encoded = list[Floats]()
    columns = list[str]()
    for name, kind in kinds.items():
        column = features[name]
        if kind == TEXT:
            encoded += _texts(config, column, references)
        else:
            encoded.append(_numbers(config, column, kind, references))
        columns += [name] * (len(encoded) - len(columns))
    if not encoded:
        raise DataError(
            "data.shadow_size: no feature has a value among the server's examples; raise it"
        )
    return np.stack(encoded, axis=1), tuple(columns)


def _texts(config: Config, column: pd.Series[Any], references: Sequence[Reference]) -> list[Floats]:
    """Return a column [n] of zeros and ones for each text: those of ``data.constants``, or of
    the reference.

    Without any ``references``, a missing text is zero in all of them.
    """
    filled = column.copy()
    texts = tuple(map(str, config.constants.get(str(column.name), ())))
    for reference in references:
        values = column[reference.sample].dropna()
        texts = texts or own.ordered(values)
        if len(values):
            filled[reference.rows] = filled[reference.rows].fillna(values.mode()[0])
    return [(filled == text).fillna(False).to_numpy(np.float32) for text in texts]


def _numbers(
    config: Config, column: pd.Series[Any], kind: str, references: Sequence[Reference]
) -> Floats:
    """Return a column [n] of numbers, gaps filled in and, where the fields ask for it,
    standardized.
    """
    values = column.to_numpy(np.float64, copy=True)
    for reference in references:
        values[reference.rows] = _by_sample(
            config, values[reference.rows], kind, reference.sample[reference.rows]
        )
    if not references:
        values = _by_constants(config, values, config.constants.get(str(column.name), (0.0, 1.0)))
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    if not np.isfinite(narrow).all():
        row = column.index[~np.isfinite(narrow)][0] + 1
        raise DataError(
            f"data.path: column {column.name!r} has a number beyond 3.4e38 in row {row}"
        )
    return narrow


def _by_constants(config: Config, values: Doubles, constants: Sequence[Any]) -> Doubles:
    """Return numbers [n], gaps filled in with the mean of the ``constants``, and standardized if
    the fields ask for it.
    """
    mean, deviation = map(float, constants)
    values = np.where(np.isnan(values), mean, values)
    return _in_range((values - mean) / deviation) if config.standardize else values


def _by_sample(config: Config, values: Doubles, kind: str, sample: Mask) -> Doubles:
    """Return numbers [n], gaps filled in and, where the fields ask for it, standardized by those
    of the ``sample`` [n].
    """
    present = ~np.isnan(values)
    known = values[sample & present]
    if not len(known):
        return np.zeros(len(values))
    values = np.where(
        present, values, np.median(known) if kind == NUMBER else float(known.mean() > 0.5)
    )
    if not config.standardize or kind != NUMBER:
        return values
    known = values[sample]
    low = known.min()
    high = known.max()
    if low == high:
        return np.zeros(len(values))
    scale = max(abs(low), abs(high))  # so that squares of large numbers stay finite
    mean = (known / scale).mean()
    deviation = (known / scale).std()
    return _in_range((values / scale - mean) / deviation)


def _in_range(values: Doubles) -> Doubles:
    """Return numbers that float32 holds: another client's may be of any size."""
    return np.clip(values, -LARGEST, LARGEST)
