"""A table of your own, one example in a row: CSV, Parquet, or Arrow as Hugging Face's ``save_to_disk`` leaves it.

    data:
      name: table
      path: patients.csv        relative to the folder of the sweep file
      label: outcome            texts, whole numbers or true/false: few distinct values
      client: hospital          optional: whose row it is, for the split natural
      group: country            optional: the group of the client
      part: split               optional: train, test or server (whose rows are no client's); otherwise test_share is
                                drawn, stratified by client and label
      subject: patient          optional: whom a row is about; test_share is then a share of the subjects

The suffix chooses the reader: .csv, .tsv, .parquet, .arrow, .feather, or a folder that ``save_to_disk`` wrote (of a
``DatasetDict``, the data sets ``train`` and ``test`` are read). All other columns are features:

* numbers are standardized by mean and standard deviation (a constant column becomes zero);
* true/false becomes 1/0;
* texts, and the columns listed in ``categories``, become one column for each value, in alphabetical order (a value that
  only other rows have is zero in all of them);
* dates, lists and anything else are refused, as are infinite numbers, and texts among numbers.

Missing values (in a CSV: empty, NA, N/A, #N/A, NaN, nan, null, NULL or ?) are refused, or imputed by median or most
frequent value. "None" is a text like any other.

Means, deviations, medians and values are those of the server's shadow set. ``statistics`` chooses others: the training
part of each client for its own rows (``each_client``), numbers in the sweep file (``constants``), or the training part of
all clients (``all_clients``), with which no epsilon holds. The texts of a column are listed in ``constants`` in the first
two cases.

Of a file, only the columns in use are read. The features are held in memory once, as float32, beside the columns that
they are made of, until the examples are partitioned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from datasets.federation import DataError, Floats, Ints, Source
from datasets.source_configs import OwnFilesConfig
from datasets.sources import _own_files as own
from datasets.sources._own_files import Mask, nearest
from datasets.sources._table_files import TableFile

if TYPE_CHECKING:
    import pandas as pd

Doubles = NDArray[np.float64]
LABEL = "own table"
BESIDE_SWEEP = True
ROLES = ("label", "client", "group", "part", "subject")
MOST_LEVELS = 100  # of a column of texts; one with more is rather a name than a category
LARGEST = float(np.finfo(np.float32).max)
NUMBER, FLAG, TEXT = "number", "flag", "text"
KINDS = {  # by what pandas infers
    "integer": NUMBER,
    "floating": NUMBER,
    "mixed-integer-float": NUMBER,
    "decimal": NUMBER,
    "boolean": FLAG,
    "string": TEXT,
}


def _listed(value: Any) -> Any:
    """A single name stands for a list of one; YAML gives a list for a tuple."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class Config(OwnFilesConfig):
    """Which column is what."""

    label: str = Field("", description="required: the column with the class")
    client: str | None = Field(None, description="column that says whose example a row is, for the split natural")
    group: str | None = Field(None, description="column with the client's group, the same in all rows of a client")
    part: str | None = Field(None, description="column that says train, test or server; null: test_share is drawn")
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


def load(config: Config, root: Path, download: bool = True) -> Source:
    """Load the table, float32 [n, features].

    Raises DataError if the file is absent or cannot be read, or a column is unfit; the message names it and any row at fault.
    """
    path = own.place(config, root)
    if config.decimal == config.delimiter == "comma":
        raise DataError("data.decimal: the comma separates the columns; write delimiter: semicolon or tab, too")
    file = TableFile(path, config.delimiter, config.decimal, config.columns)
    names, role_of = file.names(), roles(config)
    features = [name for name in names if name not in (*role_of, *config.drop) and name in (config.features or names)]
    problems = misnamed(config, names, features, path.name)
    columns = [name for name in names if name in role_of or name in features]
    if not columns:
        own.refuse(problems)
    texts = [name for name in columns if name in config.categories or role_of.get(name, "label") != "label"]
    return to_source(path.name, config, *file.read(columns, texts), problems)


def roles(config: Config) -> dict[str, str]:
    """Return what the columns are that are no features, by their names."""
    return {column: role for role in ROLES if (column := getattr(config, role))}


def misnamed(config: Config, names: Sequence[str], features: Sequence[str], file: str) -> list[str]:
    """Return what is wrong with the names of columns: unknown ones, two roles of one column, no feature that is left."""
    more = ", ..." if len(names) > 12 else ""
    offered = f"{file} has the columns {', '.join(names[:12])}{more}"
    role_of, with_column = roles(config), [role for role in ROLES if getattr(config, role)]
    fields: dict[str, tuple[str, ...]] = {role: (getattr(config, role),) for role in with_column}
    fields |= {"features": config.features or (), "drop": config.drop, "categories": config.categories}
    problems = [] if config.label else [f"data.label: is missing; it is the column with the class. {offered}"]
    problems += [
        f"data.{field}: {file} has no column {name!r}{nearest(name, names) or f'. {offered}'}"
        for field, columns in fields.items()
        for name in columns
        if name not in names
    ]
    if config.group and not config.client:
        problems.append("data.group: is the group of a client; name the column with the clients in data.client")
    both = [name for name in config.features or () if name in role_of]
    problems += [f"data.features: {name!r} is already the label, client, group, part or subject" for name in both]
    if len(role_of) < len(with_column):
        problems.append("data.label: label, client, group, part and subject must be different columns")
    return problems or ([] if features else [f"data.features: no column of {file} is left as a feature. {offered}"])


def to_source(
    name: str, config: Config, frame: pd.DataFrame, parts: list[str] | None = None, problems: Iterable[str] = ()
) -> Source:
    """Make a source, called ``name`` in messages, of the columns in use, ``frame``; those that ``config`` names must be there.

    ``parts`` [n] are train or test, where the data were saved in two parts, and ``problems`` are what is wrong with them
    already. Raises DataError with everything that is wrong, one column in a line; rows are counted from 1 without the header.
    """
    problems, role_of = [*problems], roles(config)
    frame = _of_nobody(config, frame)
    kinds: dict[str, str] = {}
    for column in map(str, frame):
        role = role_of.get(column, "")
        try:
            frame[column], kind = typed(config, frame[column], role)
        except DataError as error:
            problems.append(str(error))
        else:
            kinds |= {} if role else {column: kind}
    own.refuse(problems)
    frame = frame.assign(**{"\0part": parts}) if parts else frame
    frame = frame[frame[config.label].notna()]
    groups = frame.groupby([*kinds, config.label], dropna=False, sort=False).ngroup()
    clients = frame[config.client].tolist() if config.client else None
    different = own.distinct(config, groups.tolist(), [f"row {row + 1}" for row in frame.index], clients)
    frame = frame[different]
    rows = frame[list(role_of)].rename(columns=role_of)  # a feature may have the name of a role
    if parts and not config.part:
        rows["part"] = frame["\0part"]
    where = {role: f"column {column!r}" for column, role in role_of.items()}
    division = own.divide(config, rows, name, where, "data.label")
    remaining = own.unseen(config, groups[different].tolist(), division.test)
    division = division.where(remaining)
    features = frame[list(kinds)][remaining]
    train = ~division.test
    own.refuse(
        f"data.path: column {column!r} has no value in the training part; leave it out with data.drop"
        for column in features.columns[features[train].isna().all()]
    )
    needed = config.standardize or TEXT in kinds.values() or features.isna().any(axis=None)  # statistics
    if needed:
        own.refuse_lonely(config)
        own.refuse(_unfit_constants(config, kinds))

    def prepared(references: Sequence[Reference]) -> Source:
        """Return the source as the statistics of ``references`` prepare it."""
        x, columns = encode(config, features, kinds, references)
        return replace(own.build(name, x, division), columns=columns)

    def by_shadow(shadow: Ints | slice) -> Source:
        """Return the source as the training examples with the numbers ``shadow`` prepare it."""
        reference = np.zeros(len(train), np.bool_)
        reference[np.flatnonzero(train)[shadow]] = True
        return prepared([Reference(np.ones(len(train), np.bool_), reference)])

    if needed and config.statistics == "each_client":
        owner = own.owners_for_statistics(division)
        return prepared([Reference(owner == client, (owner == client) & train) for client in np.unique(owner)])
    source = by_shadow(slice(None))
    return replace(source, fit=by_shadow) if needed and config.statistics == "server" else source


def _of_nobody(config: Config, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table, in which the client of the server's own rows need not be given."""
    if config.client is None or config.client not in frame or config.part not in frame:
        return frame
    server = own.server_rows(frame[[config.part]].set_axis(["part"], axis=1))
    if server is None:
        return frame
    return frame.assign(**{config.client: frame[config.client].mask(server, own.SERVER)})


def _unfit_constants(config: Config, kinds: dict[str, str]) -> list[str]:
    """Return which columns lack constants that the features need, or have others than they need."""
    if config.statistics not in ("constants", "each_client"):
        return []
    problems = [
        f"data.constants: there is no feature {name!r}{nearest(name, kinds)}"
        for name in set(config.constants) - set(kinds)
    ]
    for name, kind in kinds.items():
        given = config.constants.get(name)
        texts = given is not None and len(given) > 0 and all(isinstance(value, str) for value in given)
        numbers = given is not None and len(given) == 2 and all(isinstance(value, int | float) for value in given)
        if kind == TEXT and not texts:
            why = "how many inputs there are must not depend on a client"
            problems.append(f"data.constants: lists no texts of column {name!r} ({why}); write {name}: [one, another]")
        if kind == NUMBER and config.statistics == "constants" and not (numbers and float(given[1]) > 0):  # type: ignore[index]
            problems.append(
                f"data.constants: has no mean and deviation (above 0) of column {name!r}; write {name}: [50.0, 10.0]"
            )
    return problems


def typed(config: Config, column: pd.Series[Any], role: str = "") -> tuple[pd.Series[Any], str]:
    """Return a column as numbers, truth values or texts, and which of the three it is.

    ``role`` is what the column is if it is no feature. Raises DataError if it holds something else or nothing; or it has
    infinite or (unless they may be missing) missing values; or it is a feature, but mixes texts and numbers (outside
    ``categories``), has more than `MOST_LEVELS` texts, or numbers the rows.
    """
    import pandas as pd

    def unfit(what: str) -> DataError:
        return DataError(f"data.{role or 'path'}: column {name!r} {what}")

    name, inferred = str(column.name), pd.api.types.infer_dtype(column, skipna=True)
    missing = column.isna()
    if missing.all():
        raise unfit("has no value at all; leave it out with data.drop")
    if inferred not in KINDS:
        raise unfit(
            f"holds {inferred} values, neither numbers nor texts nor true/false; make numbers or UTF-8 texts of them, or "
            "leave it out with data.drop",
        )
    kind = KINDS[inferred]
    column = column if kind == TEXT else pd.to_numeric(column)
    if kind == NUMBER and (infinite := np.isinf(column)).any():
        raise unfit(f"is infinite in row {infinite.idxmax() + 1}")
    may_miss = config.unlabeled == "drop" if role == "label" else config.missing == "impute" and not role
    if missing.any() and not may_miss:
        first = f"in row {missing.idxmax() + 1}"
        what = f"{missing.sum()} missing values, the first {first}" if missing.sum() > 1 else f"a missing value {first}"
        remedies = {
            "": "write missing: impute, correct it, or leave the column out (data.drop)",
            "label": "write unlabeled: drop (fedpriv new: --drop-unlabeled) to leave out such rows, or correct it",
        }
        raise unfit(f"has {what}; {remedies.get(role, 'correct it')}")
    if role:
        return column, kind
    levels, count = column.nunique(), len(column)
    if kind == TEXT and name not in config.categories and (numbers := number_texts(column)).any():
        texts = ~numbers & ~missing
        row, other = sorted((numbers.idxmax(), texts.idxmax()))
        like = int((numbers if numbers[other] else texts).sum())
        raise unfit(
            f"mixes numbers and texts: {column[row]!r} in row {row + 1}, {column[other]!r} in row {other + 1} ({like} like "
            "it); correct it, list it in data.categories, or leave it out with data.drop",
        )
    if kind == TEXT and levels > MOST_LEVELS:
        raise unfit(
            f"has {levels} different texts (at most {MOST_LEVELS} are taken for categories); leave it out: data.drop",
        )
    if column.dtype.kind in "iu" and levels == count > 20 and int(column.max()) - int(column.min()) == count - 1:
        raise unfit("numbers the rows, so it tells members by itself; leave it out with data.drop")
    return column, kind


def number_texts(column: pd.Series[Any]) -> pd.Series[bool]:
    """Return which texts are numbers, [n], if others are not; else none."""
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce").notna()
    return numbers & bool((~numbers & column.notna()).any())


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

    ``kinds`` has the kind of each column, and ``references`` say by whose statistics and values each example is prepared. A
    column of numbers in which these have none or (where it is standardized) do not differ is zero, and a text that they do not
    have is zero in all columns of its feature. Raises DataError if a value is beyond float32, or no feature is left.
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
        raise DataError("data.shadow_size: no feature has a value among the server's examples; raise it")
    return np.stack(encoded, axis=1), tuple(columns)


def _texts(config: Config, column: pd.Series[Any], references: Sequence[Reference]) -> list[Floats]:
    """Return a column [n] of zeros and ones for each text: those of ``data.constants``, or of the reference."""
    filled = column.copy()
    texts = tuple(map(str, config.constants.get(str(column.name), ())))
    for reference in references:
        values = column[reference.sample].dropna()
        texts = texts or own.ordered(values)
        if len(values):
            filled[reference.rows] = filled[reference.rows].fillna(values.mode()[0])
    return [(filled == text).fillna(False).to_numpy(np.float32) for text in texts]


def _numbers(config: Config, column: pd.Series[Any], kind: str, references: Sequence[Reference]) -> Floats:
    """Return a column [n] of numbers, gaps filled in and, where the fields ask for it, standardized."""
    values = column.to_numpy(np.float64, copy=True)
    if kind == NUMBER and config.statistics == "constants" and config.constants:
        mean, deviation = map(float, config.constants[str(column.name)])
        values = np.where(np.isnan(values), mean, values)
        values = _in_range((values - mean) / deviation) if config.standardize else values
    else:
        for reference in references:
            values[reference.rows] = _by_sample(config, values[reference.rows], kind, reference.sample[reference.rows])
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    if not np.isfinite(narrow).all():
        row = column.index[~np.isfinite(narrow)][0] + 1
        raise DataError(f"data.path: column {column.name!r} has a number beyond 3.4e38 in row {row}")
    return narrow


def _by_sample(config: Config, values: Doubles, kind: str, sample: Mask) -> Doubles:
    """Return numbers [n], gaps filled in and, where the fields ask for it, standardized by those of the ``sample`` [n]."""
    present = ~np.isnan(values)
    known = values[sample & present]
    if not len(known):
        return np.zeros(len(values))
    values = np.where(present, values, np.median(known) if kind == NUMBER else float(known.mean() > 0.5))
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
