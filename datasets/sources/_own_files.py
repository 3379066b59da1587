"""What the sources of a user's own files have in common: the path, labels, clients, the test
part, duplicates.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import re
import unicodedata
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from datasets import stratified, transforms
from datasets.federation import DataError, Examples, Ints, Source, excerpt
from datasets.roles import NOBODY
from datasets.source_configs import FEWEST_OF_SERVER, OwnFilesConfig, StatisticsConfig
from datasets.sources._folders import PARTS, part_of

if TYPE_CHECKING:
    import pandas as pd

Mask = NDArray[np.bool_]
MOST_CLASSES = 1000
SERVER = "server"  # the part whose rows are the server's own
OF_SERVER = "\0server"  # stands for their client, and is the name of none
OF_EXAMPLES = {"subjects", "persons", "file_rows"}  # what `Division.owners` says of each example
FLAGS = dict.fromkeys(("1", "1.0", "true", "t", "yes", "y"), True)
FLAGS |= dict.fromkeys(("0", "0.0", "false", "f", "no", "n"), False)
PARTS_OF_COLUMNS = {  # further words that say in a column in which part a row is
    "tr": "train",
    "derivation": "train",
    "te": "test",
    "ts": "test",
    "va": "validation",
    "holdout": "validation",
    "heldout": "validation",
    "external": "validation",
}
GROUP = re.compile(r"[\w][\w .-]{0,40}")  # group names become part of the names of metrics


def refuse(problems: Iterable[str]) -> None:
    """Raise a DataError that lists all ``problems``, one sentence in a line; do nothing if there
    is none.
    """
    lines = list(dict.fromkeys(problems))
    if lines:
        raise DataError("\n".join(lines))


def place(config: OwnFilesConfig, root: Path) -> Path:
    """Return the file or folder that ``config`` names.

    Raises DataError if none is named or there is none.
    """
    if not config.path:
        raise DataError(
            "data.path: is missing; it is the file or folder, relative to the folder of the "
            "sweep file"
        )
    try:
        path = root / Path(config.path).expanduser()
        neighbors = [file.name for file in path.parent.glob("*")]
        if path.exists():
            return path
    except (OSError, RuntimeError, ValueError) as error:
        raise DataError(f"data.path: {config.path!r} cannot be read: {reason(error)}") from error
    raise DataError(f"data.path: there is no {path}{nearest(path.name, sorted(neighbors))}")


def called(row: int | str) -> str:
    """Return what an example is called in a message: its name, or the number of its row, which
    counts from 1.
    """
    return row if isinstance(row, str) else f"row {row + 1}"


def reason(error: Exception) -> str:
    """Return why a file cannot be read, in one line and without its name."""
    return " ".join(str(getattr(error, "strerror", None) or error).split())


def nearest(name: str, names: Iterable[str]) -> str:
    """Return ". Did you mean ...?" for the nearest of ``names``; empty if none is near.

    >>> nearest("outcom", ["age", "outcome"])
    ". Did you mean 'outcome'?"
    """
    by_case = {candidate.lower(): candidate for candidate in names}
    near = difflib.get_close_matches(name.lower(), by_case, 1, 0.6)
    return f". Did you mean {by_case[near[0]]!r}?" if near else ""


def ordered(values: Iterable[str]) -> tuple[str, ...]:
    """Return distinct texts in order, whole numbers by their value: 2 before 10.

    >>> ordered(["10", "2", "10"]), ordered(["b", "a1"])
    (('2', '10'), ('a1', 'b'))
    """
    distinct = set(values)
    whole = all(re.fullmatch(r"\s*[+-]?\d{1,300}\s*", text) for text in distinct)
    return tuple(sorted(distinct, key=lambda text: (int(text), text) if whole else (0, text)))


def numbered(values: Iterable[str]) -> tuple[Ints, tuple[str, ...]]:
    """Return the distinct ``values`` in order, behind the index of each value [n] into them."""
    names = ordered(values := list(values))
    index = {name: i for i, name in enumerate(names)}
    return np.array([index[value] for value in values], np.int64), names


@dataclass(frozen=True, eq=False)
class Division:
    """The classes, the owners and the test part of examples.

    Attributes:
        y: [n] classes from 0.
        class_names: the classes, in the order of their numbers.
        owners: the client, the groups, the person and the row of each example, as `Source` has
            them; what is missing is unknown.
        test: [n] which examples are the test part.
        server: [n] which examples of the training part are the server's own; None: nobody says.
        remarks: sentences about them, as `Source` has them.
    """

    y: Ints
    class_names: tuple[str, ...]
    owners: Mapping[str, Any]
    test: Mask
    server: Mask | None = None
    remarks: tuple[str, ...] = ()

    def where(self, chosen: Mask | slice) -> Division:
        """Return the division of the ``chosen`` [n] examples."""
        owners = dict(self.owners)
        for key in OF_EXAMPLES & owners.keys():
            owners[key] = owners[key][chosen]
        server = None if self.server is None else self.server[chosen]
        return replace(self, y=self.y[chosen], owners=owners, test=self.test[chosen], server=server)


def divide(
    config: OwnFilesConfig,
    rows: pd.DataFrame,
    file: str,
    where: Mapping[str, str],
    key: str,
    most: int | None = None,
) -> Division:
    """Number classes and clients, and divide the examples into training and test part.

    Args:
        config: the component's fields.
        rows: [n] what is said of each example: ``label`` (numbers, truth values or texts) and, as
            texts, of ``client``, ``group``, ``part`` (train or test) and ``subject`` (whom it is
            about) those that are known. The index is the number of the row in the file, from 0, or
            the name of the example.
        file: what the data set is called.
        where: by these names, where they stand, such as "column 'outcome'".
        key: the dotted key that chose the label.
        most: the most classes; None: as many as `labels` takes for classes.

    Raises:
        DataError: labels, groups or parts are unfit; or a class has no training example, or a
            subject is divided or alone.
    """
    y, class_names = labels(
        rows["label"].to_numpy(), rows.index.to_numpy(), where["label"], key, most
    )
    server = server_rows(rows)
    owner = _owners_beside(rows, server, where)
    about, subjects = numbered(rows["subject"]) if "subject" in rows else (None, ())
    said = where.get("part", file)
    if "part" in rows:
        test = _named_tests(rows, said)
        if server is not None and not test.any():
            of_clients = rows[~server].drop(columns="part")
            test[~server] = divide(config, of_clients, file, where, key).test
        _refuse_divided(test, about, subjects, said)
    elif about is None:
        test = stratified.part(config.test_share, y, owner.get("subjects"))
    else:
        test = _of_subjects(config, y, about, owner.get("subjects"), file)
    if owner and "part" not in rows and not test.any():
        field = "data.client" if "client" in where else key
        raise DataError(
            f"{field}: each of the {len(owner['subject_names'])} clients has one example, and "
            "needs two at least; name what several examples share, or no client"
        )
    training = ~test if server is None else ~test & ~server
    for part, chosen in zip(PARTS, (training, test), strict=True):
        if not chosen.any():
            raise DataError(f"data.part: {said} has no {part} example")
    _refuse_untrained(rows, y, class_names, test)
    remarks = _near_equal_names(class_names, owner)
    owner["file_rows"] = _file_rows(rows)
    if about is not None:
        owner["persons"] = about
    return Division(y, class_names, owner, test, server, remarks)


def _named_tests(rows: pd.DataFrame, said: str) -> Mask:
    """Return which examples [n] are said to be for testing; ``said`` is where."""
    words = rows["part"].map(part_or_server)
    wrong = rows["part"][~words.isin((*PARTS, SERVER))]
    if len(wrong):
        raise DataError(
            f"data.part: {said} has {wrong.iloc[0]!r} in {called(wrong.index[0])}; "
            "train, test and server are allowed"
        )
    return (words == "test").to_numpy(np.bool_, copy=True)


def _refuse_divided(test: Mask, about: Ints | None, subjects: Sequence[str], said: str) -> None:
    """Raise DataError if a subject has examples in both parts."""
    if about is None:
        return
    both = np.intersect1d(about[test], about[~test])
    if len(both):
        raise DataError(
            f"data.part: {said} has the rows of {subjects[both[0]]!r} (of data.subject) "
            "in both parts, train and test"
        )


def _file_rows(rows: pd.DataFrame) -> Ints:
    """Return the number of each example [n] in the file, from 1; of named ones, such as images,
    their place in the order in which they are read.
    """
    numbers = rows.index.to_numpy()
    if not np.issubdtype(numbers.dtype, np.integer):
        numbers = np.arange(len(rows))
    return numbers.astype(np.int64) + 1


def _of_subjects(
    config: OwnFilesConfig, y: Ints, about: Ints, clients: Ints | None, file: str
) -> Mask:
    """Draw a share of the subjects, stratified by their commonest class and first client."""
    _, first = np.unique(about, return_index=True)
    if len(first) < 2:
        raise DataError(
            f"data.subject: {file} has one subject alone; two are needed at least, one for "
            "each part"
        )
    of_first = None if clients is None else clients[first]
    counted = np.ones(len(y), np.bool_) if of_first is None else clients == of_first[about]
    counts = np.zeros((len(first), int(y.max()) + 1), np.int64)
    np.add.at(counts, (about[counted], y[counted]), 1)
    return stratified.part(config.test_share, counts.argmax(axis=1), of_first)[about]


def _near_equal_names(class_names: Sequence[str], owner: Mapping[str, Any]) -> tuple[str, ...]:
    """Name labels, clients and groups that are `near_equal`, a sentence for each kind."""
    clients = owner.get("subject_names", ())
    groups = owner.get("group_names", ())
    pairs = {
        "labels": near_equal(class_names),
        "clients": near_equal(clients),
        "groups": near_equal(groups),
    }
    return tuple(
        f"warning: nearly equal {what}: {excerpt(alike)}" for what, alike in pairs.items() if alike
    )


def parts(column: pd.Series[str]) -> pd.Series[str]:
    """Return train, test or validation for each row [n] of a column; of two parts, the second is
    test.

    A column such as is_test says yes or no. Raises DataError for other texts.
    """
    words = column.str.strip().str.lower()
    named = words.map(part_or_server)
    flag = flag_of(str(column.name)) or part_of(str(column.name))
    if flag and words.isin(FLAGS).all():
        other = "test" if flag == "train" else "train"
        named = words.map(FLAGS).map({True: flag, False: other})
    wrong = column[named == ""]
    if len(wrong):
        where = f"column {column.name!r} has {wrong.iloc[0]!r} in row {wrong.index[0] + 1}"
        raise DataError(
            f"data.part: {where}; train, test and server are allowed, and validation, which is "
            "left out"
        )
    return named if (named == "test").any() else named.replace("validation", "test")


def flag_of(name: str) -> str:
    """Return train, test or validation for the name of a column that says yes or no to it; or "".

    >>> [flag_of(name) for name in ("is_test", "isTrain", "test_mask", "test", "forest")]
    ['test', 'train', 'test', '', '']
    """
    flag = re.fullmatch(
        r"(?:is|in|for)[-_ ]*(?P<of>.+)|(?P<part>.+?)[-_ ]*(?:flag|mask|indicator|set)",
        name.lower(),
    )
    return part_of(flag["of"] or flag["part"]) if flag else ""


def near_equal(names: Iterable[str]) -> list[str]:
    """Return the pairs among ``names`` that may mean the same: but for case, space, period,
    form, zeros.

    >>> near_equal(["St. Mary", "st. mary ", "01", "1", "1.0", "<=50K", "<=50K.", "A1", "A 1"])
    ["'St. Mary' and 'st. mary '", "'01' and '1'", "'1' and '1.0'", "'<=50K' and '<=50K.'"]
    """
    alike = dict[str | Decimal, list[str]]()
    for name in names:
        signs = unicodedata.normalize("NFKC", name).casefold()
        visible = "".join(sign for sign in signs if unicodedata.category(sign) != "Cf")
        text = " ".join(visible.split()).removesuffix(".").rstrip()
        number = re.fullmatch(r"[+-]?\d+(\.\d*)?(e[+-]?\d{1,3})?", text)
        alike.setdefault(Decimal(text) if number else text, []).append(name)
    pairs = [pair for several in alike.values() for pair in itertools.pairwise(several)]
    seen = [len({unicodedata.normalize("NFKC", name) for name in pair}) == 2 for pair in pairs]
    return [
        " and ".join(map(repr if differ else ascii, pair))
        for pair, differ in zip(pairs, seen, strict=True)
    ]


def _refuse_untrained(rows: pd.DataFrame, y: Ints, class_names: Sequence[str], test: Mask) -> None:
    """Raise DataError if a class has no training example."""
    without = np.setdiff1d(y, y[~test])
    if len(without):
        of_it = y == without[0]
        remedy = "leave the class out, or get more of it"
        if "part" in rows and not np.isin(y[test], y[~test]).any():
            remedy = (
                "so the test part is unlabeled, or has other classes; use the training part "
                "alone: name its file or folder in data.path, such as DATA/train"
            )
        raise DataError(
            f"data.path: the class {class_names[without[0]]!r} has {of_it.sum()} examples "
            f"(first: {called(rows.index[int(of_it.argmax())])}), none of them in the "
            f"training part; {remedy}"
        )


def _owners_beside(
    rows: pd.DataFrame, server: Mask | None, where: Mapping[str, str]
) -> dict[str, Any]:
    """Return the owners of the ``rows`` [n], of which those of the ``server`` [n] are nobody's;
    empty if none is named.
    """
    if "client" not in rows:
        return {}
    named = rows if server is None else rows[~server]
    owner = owners(named["client"], named.get("group"), where.get("group", ""))
    if server is None:
        return owner
    subjects = np.full(len(rows), NOBODY)
    subjects[~server] = owner["subjects"]
    return owner | {"subjects": subjects}


def part_or_server(text: str) -> str:
    """Return train, test, validation or server for a text; or "".

    >>> [part_or_server(text) for text in ("Server", "hold-out", "derivation cohort", "TE", "a")]
    ['server', 'validation', 'train', 'test', '']
    """
    letters = re.sub(r"[\W_]", "", text.lower())
    if letters == SERVER:
        return SERVER
    word = re.sub("(set|cohort|group)$", "", letters)
    return PARTS_OF_COLUMNS.get(word) or part_of(text)


def server_rows(rows: pd.DataFrame) -> Mask | None:
    """Return which of the ``rows`` [n] have the part `SERVER`; None if none has."""
    if "part" not in rows:
        return None
    server: Mask = (rows["part"].astype(str).map(part_or_server) == SERVER).to_numpy(np.bool_)
    return server if server.any() else None


def labels(
    values: NDArray[Any], rows: NDArray[Any], where: str, key: str, most: int | None = None
) -> tuple[Ints, tuple[str, ...]]:
    """Return the class of each example [n], from 0 in the order of the values, and the names of
    the classes.

    Args:
        values: [n] whole numbers, floats, truth values or texts (an array of objects), none of them
            missing.
        rows: [n] their rows in the file, from 0, or the names of the examples.
        where: where they stand, such as "column 'outcome'".
        key: the dotted key that chose them.
        most: the most classes; None: a tenth of the values or 20, and at most `MOST_CLASSES`.

    Raises:
        DataError: the values are continuous, all the same, or more than are taken for classes.

    >>> labels(np.array(["yes", "no", "yes"], object), np.arange(3), "column 'a'", "data.label")
    (array([1, 0, 1]), ('no', 'yes'))
    """
    if values.dtype == object:
        y, names = numbered(values)
    else:
        unequal = values != np.rint(values)
        if unequal.any():
            row = int(unequal.argmax())
            raise DataError(
                f"{key}: {where} is continuous: {called(rows[row])} has {values[row]:g}. "
                "Labels are classes, whole numbers or texts: cut it into ranges first"
            )
        distinct, y = np.unique(values, return_inverse=True)
        names = tuple(
            f"{value:.15g}" if isinstance(value, float) else str(value)
            for value in distinct.tolist()
        )
    most = most or min(MOST_CLASSES, max(20, len(values) // 10))
    if len(names) == 1:
        raise DataError(
            f"{key}: {where} has one value alone, {names[0]}; there must be two classes or more"
        )
    if len(names) > most:
        raise DataError(
            f"{key}: {where} has {len(names)} distinct values in {len(values)} rows (at most "
            f"{most} are taken for classes); choose another, or cut it into ranges first"
        )
    return y.astype(np.int64), names


def owners(
    clients: Iterable[str], groups: Iterable[str] | None = None, where: str = ""
) -> dict[str, Any]:
    """Return the client and the groups of each example, as `Source` has them.

    ``clients`` [n] and ``groups`` [n] name those of each example (None: there are no groups), and
    ``where`` says where the groups stand, such as "column 'country'". Raises DataError if a client
    has examples of two groups, or a group's name cannot be part of a metric's name.
    """
    subjects, names = numbered(clients)
    if groups is None:
        return {"subjects": subjects, "subject_names": names}
    of_row, group_names = numbered(groups)
    unfit = [name for name in group_names if not GROUP.fullmatch(name)]
    if unfit:
        raise DataError(
            f"data.group: {where} has {unfit[0]!r}; a group's name has up to 41 letters, "
            "digits, spaces, '_', '-', '.'"
        )
    of_client = np.zeros(len(names), np.int64)
    of_client[subjects] = of_row
    wrong = subjects[of_client[subjects] != of_row]
    if len(wrong):
        several = [
            repr(group_names[group]) for group in np.unique(of_row[subjects == wrong[0]])[:3]
        ]
        raise DataError(
            f"data.group: {where} must be the same in all examples of a client; those of "
            f"{names[wrong[0]]!r} have {' and '.join(several)}"
        )
    return {
        "subjects": subjects,
        "subject_names": names,
        "subject_groups": of_client,
        "group_names": group_names,
    }


def distinct(
    config: OwnFilesConfig,
    keys: Sequence[Hashable],
    division: Division,
    names: Sequence[str] | None = None,
) -> Mask | slice:
    """Return which examples [n] remain: all, or (``drop``) those that repeat no earlier one, by
    their ``keys`` [n].

    Each client drops its own repetitions: which examples it trains on must not depend on another
    client. An example of the test part goes, too, if any client trains on a copy of it, unless it
    is its client's only one. ``names`` [n] are what the examples are called in a message; None: by
    their row. Raises DataError if two are equal, and duplicates are refused.
    """
    earlier = first_equal(keys)
    repeated: Mask = earlier < np.arange(len(earlier))
    if config.duplicates == "refuse" and repeated.any():
        row = int(repeated.argmax())
        original, copy = (
            names[place] if names else f"row {place + 1}" for place in (earlier[row], row)
        )
        raise DataError(
            f"data.duplicates: {repeated.sum()} of {len(repeated)} examples repeat earlier "
            f"ones (first: {copy} equals {original}). A copy of a member among the "
            "non-members spoils membership inference: write duplicates: drop to leave the "
            "repetitions out, or keep"
        )
    if config.duplicates != "drop" or not repeated.any():
        return slice(None)
    clients = division.owners.get("subjects", np.zeros(len(keys), np.int64))
    own_keys = list(zip(clients.tolist(), division.test.tolist(), keys, strict=True))
    kept = first_equal(own_keys) == np.arange(len(keys))
    trained_on = {key for key, held_out in zip(keys, division.test, strict=True) if not held_out}
    fresh = kept & ~(division.test & np.array([key in trained_on for key in keys], np.bool_))
    for client in np.setdiff1d(clients[division.test & kept], clients[division.test & fresh]):
        only = int(np.flatnonzero((clients == client) & division.test & kept)[0])
        fresh[only] = "subjects" in division.owners
    if not (fresh & division.test).any():
        raise DataError(
            f"data.part: all {division.test.sum()} test examples are copies of training examples, "
            "and data.duplicates drop leaves none; write duplicates: keep (fedpriv new: "
            "--duplicates keep), and attacks find less than there is, or get other examples to "
            "test on"
        )
    return fresh


def of_arrays(
    config: OwnFilesConfig,
    name: str,
    x: NDArray[Any],
    rows: pd.DataFrame,
    where: Mapping[str, str],
    key: str,
    names: Sequence[str] | None = None,
    most: int | None = None,
) -> Source:
    """Return the source of examples ``x`` [n, ...] without repetitions; the other arguments are
    those of `divide`.

    ``names`` [n] are what the examples are called in a message; None: by their row.
    """
    division = divide(config, rows, name, where, key, most)
    remaining = distinct(config, list(keys(x, rows["label"])), division, names)
    return build(name, x[remaining], division.where(remaining), config)


def first_equal(keys: Iterable[Hashable]) -> Ints:
    """Return the first of the examples [n] that each is equal to, by their ``keys`` [n]."""
    first: dict[Hashable, int] = {}
    return np.array([first.setdefault(key, row) for row, key in enumerate(keys)], np.int64)


def keys(x: NDArray[Any], labels: Iterable[Hashable]) -> Iterator[Hashable]:
    """Yield what is equal for equal examples [n, ...] of one label, and short."""
    for row, label in enumerate(labels):
        alike = np.ascontiguousarray(x[row] + 0)  # -0.0 is 0.0
        yield hashlib.blake2b(alike.data, digest_size=16).digest(), label


def build(
    name: str, x: NDArray[Any], division: Division, config: StatisticsConfig | None = None
) -> Source:
    """Return the source, called ``name`` in messages, of examples in one array, uint8 or float32
    [n, ...].

    The mean of each channel (axis 1) is subtracted, and the result is divided by its deviation (a
    channel that is constant in the examples that give them is zero in all), as ``config`` says;
    None: they are left as they are. Raises DataError for unfit constants.
    """
    statistics = None if config is None else config.prepared_by
    if statistics == "each_client":
        x = standardized_by_client(x, division)
    test = division.test
    owners = dict(division.owners)
    train = Examples(x[~test], division.y[~test])
    held_out = Examples(x[test], division.y[test])
    for key in OF_EXAMPLES & owners.keys():
        owners[key] = np.concatenate([owners[key][~test], owners[key][test]])
    if division.server is not None:
        owners["server"] = np.flatnonzero(division.server[~test])
    classes = division.class_names
    source = Source(
        name, len(classes), train, held_out, class_names=classes, remarks=division.remarks, **owners
    )

    def standardized(rows: Ints | slice) -> Source:
        mean, std = channel_statistics(train.x[rows])
        return replace(source, mean=mean, std=std)

    if statistics == "server":
        return replace(source, fit=standardized)
    if statistics == "all_clients":
        return standardized(slice(None))
    if statistics == "constants" and config is not None:
        mean, std = constant_statistics(config, x.shape[1])
        return replace(source, mean=mean, std=std)
    return source


def standardized_by_client(x: NDArray[Any], division: Division) -> NDArray[np.float32]:
    """Return examples [n, ...] less the mean of their client's training part, by its deviation,
    for each channel.

    Raises DataError if nobody says whose an example is.
    """
    owner = owners_for_statistics(division)
    prepared = transforms.scale(x).astype(np.float32)
    for client in np.unique(owner):
        rows = owner == client
        reference = rows & ~division.test
        if reference.any():
            mean, std = channel_statistics(x[reference])
            prepared[rows] = transforms.normalize(prepared[rows], mean, std)
    return prepared


def owners_for_statistics(division: Division) -> Ints:
    """Return the client of each example [n]. Raises DataError if the data do not say it."""
    if "subjects" not in division.owners:
        raise DataError(
            "data.statistics: each_client needs data that say whose each example is; name "
            "data.client"
        )
    subjects: Ints = division.owners["subjects"]
    return subjects


def constant_statistics(
    config: StatisticsConfig, channels: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and deviation of each channel as ``config`` gives them.

    Raises DataError if it does not.
    """
    given = config.constants
    means = given.get("mean", [])
    deviations = given.get("deviation", [])
    numbers = [value for value in (*means, *deviations) if isinstance(value, int | float)]
    usable = len(means) == len(deviations) == channels and len(numbers) == 2 * channels
    if (
        not usable
        or set(given) != {"mean", "deviation"}
        or not np.all(np.asarray(numbers[channels:], np.float32) > 0)
    ):
        raise DataError(
            f"data.constants: must be a mean and a deviation above 0 for each of {channels} "
            f"channels, such as {{mean: {[0.5] * min(channels, 3)}, deviation: "
            f"{[0.25] * min(channels, 3)}}}; got {given}"
        )
    return tuple(numbers[:channels]), tuple(numbers[channels:])


def refuse_lonely(config: StatisticsConfig) -> None:
    """Raise DataError where statistics are asked of a server that has no examples."""
    if config.prepared_by == "server" and config.shadow_size < FEWEST_OF_SERVER:
        raise DataError(
            "data.statistics: means, deviations, medians and categories are those of the "
            f"server's own examples, and data.shadow_size leaves it {config.shadow_size} (at "
            f"least {FEWEST_OF_SERVER}); raise that, or write each_client, constants, or "
            "all_clients, which voids every epsilon"
        )


def channel_statistics(x: NDArray[Any]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of each channel [n, channels, ...], pixels (uint8)
    scaled to [0, 1].

    Computed in float64, a thousand examples at a time. The deviation of a constant channel is given
    as infinite, by which all others' values become zero, too.
    """
    channels = x.shape[1]
    scale = 255.0 if x.dtype == np.uint8 else 1.0
    sums = np.zeros(channels)
    squares = np.zeros(channels)
    count = 0
    center = (
        x[0].astype(np.float64).reshape(channels, -1).mean(axis=1) / scale
    )  # against cancellation
    for start in range(0, len(x), 1000):
        block = (
            x[start : start + 1000].reshape(len(x[start : start + 1000]), channels, -1) / scale
            - center[:, None]
        )
        sums = sums + block.sum(axis=(0, 2))
        squares = squares + np.square(block).sum(axis=(0, 2))
        count += block.shape[0] * block.shape[2]
    mean = sums / count
    deviation = np.sqrt(np.maximum(squares / count - np.square(mean), 0))
    constant = deviation <= 1e-12 * np.maximum(np.abs(center), 1e-12)
    return tuple((mean + center).tolist()), tuple(np.where(constant, np.inf, deviation).tolist())
