"""What the sources of a user's own files have in common: the path, labels, clients, the test part, duplicates."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets import stratified
from datasets.federation import DataError, Examples, Ints, Source
from datasets.source_configs import OwnFilesConfig, StatisticsConfig

Mask = NDArray[np.bool_]
MOST_CLASSES = 1000
FEWEST_OF_SERVER = 2  # examples without which there is no deviation
MOST_OF_NAME, MOST_OF_PATH = 60, 300  # letters of a name and of a path that messages repeat
PARTS = ("train", "test")
GROUP = re.compile(r"[\w][\w .-]{0,40}")  # group names become part of the names of metrics


@dataclass(frozen=True, eq=False)
class Whose:
    """Whose each example is.

    Attributes:
        subjects: [n] index into ``names``.
        names: the clients in the data, in order.
        groups: [clients] index into ``group_names``; None: there are no groups.
        group_names: the groups, in order.
    """

    subjects: Ints
    names: tuple[str, ...]
    groups: Ints | None = None
    group_names: tuple[str, ...] = ()


def refuse(found: Iterable[str]) -> None:
    """Raise a DataError that lists all ``found``, one sentence in a line; do nothing if there is none."""
    if lines := list(dict.fromkeys(found)):
        raise DataError("\n".join(lines))


def place(config: OwnFilesConfig, root: Path) -> Path:
    """Return the file or folder that ``config`` names. Raises DataError if none is named or there is none."""
    if not config.path:
        raise DataError("data.path: is missing; it is the file or folder, relative to the folder of the sweep file")
    try:
        path = root / Path(config.path).expanduser()
        if path.exists():
            return path
        beside = sorted(one.name for one in path.parent.iterdir()) if path.parent.is_dir() else []
    except (OSError, RuntimeError, ValueError) as error:
        raise DataError(f"data.path: {quoted(config.path)} cannot be read: {reason(error)}") from error
    raise DataError(f"data.path: there is no {shortened(str(path), MOST_OF_PATH)}{nearest(path.name, beside)}")


def quoted(name: str) -> str:
    """Return a name in quotation marks, shortened if it is long."""
    return repr(shortened(name))


def shortened(text: str, most: int = MOST_OF_NAME) -> str:
    """Return at most the first ``most`` letters of ``text``, with dots where some are left out.

    >>> shortened("outcome"), shortened("outcome", 6)
    ('outcome', 'out...')
    """
    return text if len(text) <= most else text[: most - 3] + "..."


def reason(error: Exception) -> str:
    """Return why a file cannot be read, without its name, which may be long."""
    return getattr(error, "strerror", None) or shortened(str(error), MOST_OF_PATH)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ". Did you mean ...?" for the nearest known name; empty if none is near.

    >>> nearest("outcom", ["age", "outcome"])
    ". Did you mean 'outcome'?"
    """
    by_case = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name.lower(), by_case, 1, 0.6)
    return f". Did you mean {by_case[found[0]]!r}?" if found else ""


def ordered(values: Iterable[str]) -> tuple[str, ...]:
    """Return distinct texts in order, numbers by their value: 2 before 10.

    >>> ordered(["10", "2", "10"]), ordered(["b", "a1"])
    (('2', '10'), ('a1', 'b'))
    """
    distinct = set(values)
    whole = all(re.fullmatch(r"-?\d{1,18}", one) for one in distinct)
    return tuple(sorted(distinct, key=lambda one: (int(one), one) if whole else (0, one)))


def numbered(values: Sequence[str], names: Sequence[str]) -> Ints:
    """Return the index into ``names`` of each of ``values``."""
    index = {name: i for i, name in enumerate(names)}
    return np.array([index[one] for one in values], np.int64)


def labels(values: NDArray[Any], where: str, key: str) -> tuple[Ints, int]:
    """Number the classes in the order of their values.

    Args:
        values: [n] whole numbers, floats, truth values or texts (an array of objects), none of them missing.
        where: where they stand, such as "column 'outcome'".
        key: the dotted key that chose them.

    Returns:
        The class of each example [n], from 0, and the number of classes.

    Raises:
        DataError: the values are continuous, or all the same.

    >>> labels(np.array(["yes", "no", "yes"], object), "column 'a'", "data.label")[0].tolist()
    [1, 0, 1]
    """
    texts = values.dtype == object
    if not texts and not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise DataError(f"{key}: {where} has {values[row]} in row {row + 1}; labels must be whole numbers or texts")
    if values.dtype.kind == "f" and (wrong := np.flatnonzero(values != np.rint(values))).size:
        row = int(wrong[0])
        raise DataError(
            f"{key}: {where} is continuous: row {row + 1} has {values[row]:g}. Labels are classes, whole numbers or texts: "
            "cut it into ranges first"
        )
    distinct, y = np.unique(values.astype(str) if texts else values, return_inverse=True)
    names = ordered(distinct.tolist()) if texts else distinct.tolist()
    if texts:
        y = numbered(distinct.tolist(), names)[y]
    most = min(MOST_CLASSES, max(20, len(values) // 10))
    if len(names) == 1:
        raise DataError(f"{key}: {where} has one value alone, {names[0]}; there must be two classes or more")
    if len(names) > most:
        raise DataError(
            f"{key}: {where} has {len(names)} distinct values in {len(values)} rows (at most {most} are taken for "
            "classes); choose another, or cut it into ranges first"
        )
    return y.astype(np.int64), len(names)


def whose(clients: Sequence[str], groups: Sequence[str] | None, where: str) -> Whose:
    """Return whose each example is.

    Args:
        clients: [n] the client of each example.
        groups: [n] the group of each example; None: there are none.
        where: where the groups stand, such as "column 'country'".

    Raises:
        DataError: a client has examples of two groups, or a group's name cannot be part of a metric's name.
    """
    names = ordered(clients)
    subjects = numbered(clients, names)
    if groups is None:
        return Whose(subjects, names)
    group_names = ordered(groups)
    unfit = [one for one in group_names if not GROUP.fullmatch(one)]
    if unfit:
        raise DataError(
            f"data.group: {where} has {unfit[0]!r}; a group's name has up to 41 letters, digits, spaces, '_', '-', '.'"
        )
    of_row = numbered(groups, group_names)
    of_client = np.zeros(len(names), np.int64)
    of_client[subjects] = of_row
    wrong = np.flatnonzero(of_client[subjects] != of_row)
    if wrong.size:
        client = int(subjects[wrong[0]])
        both = ordered({groups[int(row)] for row in np.flatnonzero(subjects == client)})
        raise DataError(
            f"data.group: {where} must be the same in all examples of a client; those of {names[client]!r} have "
            f"{' and '.join(map(repr, both[:3]))}"
        )
    return Whose(subjects, names, of_client, group_names)


def test_rows(
    config: OwnFilesConfig,
    y: Ints,
    of: Whose | None,
    parts: Sequence[str] | None,
    where: str,
    about: Whose | None,
) -> Mask:
    """Return which examples are the test part, [n].

    Args:
        config: the component's fields.
        y: [n] labels.
        of: whose each example is; None: unknown.
        parts: [n] train or test, as the file says it; None: ``config.test_share`` is drawn, always the same.
        where: where the parts stand, such as "column 'split'".
        about: whom each example is about: all examples of one are in one part; None: each example is on its own.

    Raises:
        DataError: ``parts`` divides a subject, or has another word, or no example of one of them; or a class has no
            training example.
    """
    if parts is None:
        owner = None if of is None else of.subjects
        test = (
            stratified.part(config.test_share, y, owner) if about is None else _subjects(config, y, owner, about, where)
        )
    else:
        words = np.array([one.strip().lower() for one in parts], object)
        wrong = np.flatnonzero((words != "train") & (words != "test"))
        if wrong.size:
            raise DataError(
                f"data.part: {where} has {parts[int(wrong[0])]!r} in row {wrong[0] + 1}; train and test are allowed"
            )
        test = (words == "test").astype(np.bool_)
        if about is not None:
            _refuse_divided(test, about, where)
    for part, rows in zip(PARTS, (~test, test), strict=True):
        if not rows.any():
            raise DataError(f"data.part: {where} has no {part} example")
    without = np.setdiff1d(y, y[~test])
    if without.size:
        row = int(np.flatnonzero(y == without[0])[0])
        raise DataError(
            f"data.path: the class of row {row + 1} has {(y == without[0]).sum()} examples, none of them in the training "
            "part; leave the class out, or get more of it"
        )
    return test


def _subjects(config: OwnFilesConfig, y: Ints, owner: Ints | None, about: Whose, where: str) -> Mask:
    """Draw subjects, by their commonest class and the client of their first example, and return their examples, [n]."""
    if len(about.names) < 2:
        raise DataError(f"data.subject: {where} has one subject alone; two are needed at least, one for each part")
    counts = np.zeros((len(about.names), int(y.max()) + 1), np.int64)
    np.add.at(counts, (about.subjects, y), 1)
    first = np.unique(about.subjects, return_index=True)[1]
    chosen = stratified.part(config.test_share, counts.argmax(axis=1), None if owner is None else owner[first])
    test: Mask = chosen[about.subjects]
    return test


def _refuse_divided(test: Mask, about: Whose, where: str) -> None:
    """Raise DataError if the examples of a subject are in both parts."""
    both = np.intersect1d(about.subjects[test], about.subjects[~test])
    if both.size:
        raise DataError(
            f"data.part: {where} has the rows of {about.names[both[0]]!r} (of data.subject) in both parts, train and test"
        )


def distinct_rows(config: OwnFilesConfig, x: NDArray[Any], y: Ints, called: Sequence[str] | None = None) -> Mask:
    """Return which examples are kept, [n]: all, or the first of equal ones.

    Args:
        config: the component's fields.
        x: [n, ...] examples.
        y: [n] labels.
        called: [n] what the examples are called in a message; None: by their row.

    Raises:
        DataError: two examples are equal, and duplicates are refused.
    """
    first = np.ones(len(y), np.bool_)
    if config.duplicates == "keep":
        return first
    seen: dict[bytes, int] = {}
    pair: tuple[int, int] | None = None
    for row, label in enumerate(y.tolist()):
        digest = hashlib.blake2b(np.ascontiguousarray(x[row]).data, digest_size=16, key=str(label).encode()).digest()
        earlier = seen.setdefault(digest, row)
        first[row] = earlier == row
        pair = pair or ((earlier, row) if earlier != row else None)
    if pair and config.duplicates == "refuse":
        one, other = (called[row] if called else f"row {row + 1}" for row in pair)
        raise duplicates_error(int((~first).sum()), len(y), one, other)
    return first


def duplicates_error(count: int, total: int, one: str, other: str) -> DataError:
    """Return the error for ``count`` of ``total`` examples that repeat earlier ones, first ``other`` repeats ``one``."""
    verb = "repeats an earlier one" if count == 1 else "repeat earlier ones"
    return DataError(
        f"data.duplicates: {count} of {total} examples {verb} (first: {other} equals {one}). A copy of a member among the "
        "non-members spoils membership inference: write duplicates: drop to leave the repetitions out, or keep"
    )


def build(
    name: str, x: NDArray[Any], y: Ints, classes: int, test: Mask, of: Whose | None = None, statistics: str = "none"
) -> Source:
    """Return the source of examples in one array, of which ``test`` [n] are the test part.

    Args:
        name: the name of the data set in messages.
        x: [n, ...] uint8 or float32; where the parts are contiguous, they are views of it.
        y: [n] labels.
        classes: the number of classes.
        test: [n] which examples are the test part.
        of: whose each example is.
        statistics: whose mean of each channel (axis 1) is subtracted, and by whose deviation is divided (a constant
            channel is only moved to zero): "server", of the shadow set, "all_clients", of the training part, or "none".
    """
    train, held_out = (Examples(_rows(x, rows), y[rows]) for rows in (~test, test))
    subjects = None if of is None else np.concatenate([of.subjects[~test], of.subjects[test]])
    names, groups, group_names = ((), None, ()) if of is None else (of.names, of.groups, of.group_names)
    source = Source(
        name,
        classes,
        train,
        held_out,
        subjects=subjects,
        subject_names=names,
        subject_groups=groups,
        group_names=group_names,
    )
    if statistics == "none":
        return source

    def standardized(rows: Ints | slice) -> Source:
        mean, std = channel_statistics(train.x[rows])
        return replace(source, mean=mean, std=std)

    return replace(source, fit=standardized) if statistics == "server" else standardized(slice(None))


def refuse_lonely(config: StatisticsConfig) -> None:
    """Raise DataError where statistics are asked of a server that has no examples."""
    if config.statistics == "server" and config.shadow_size < FEWEST_OF_SERVER:
        raise DataError(
            f"data.statistics: means, deviations, medians and categories are those of the server's own examples, and "
            f"data.shadow_size leaves it {config.shadow_size} (at least {FEWEST_OF_SERVER}); raise that, or write "
            "all_clients, which voids every epsilon"
        )


def _rows(x: NDArray[Any], rows: Mask) -> NDArray[Any]:
    """Return some rows of an array, as a view if they are next to one another, so that a mapped file stays one."""
    found = np.flatnonzero(rows)
    return x[found[0] : found[-1] + 1] if found[-1] - found[0] + 1 == len(found) else x[found]


def channel_statistics(x: NDArray[Any]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of each channel [n, channels, ...], pixels (uint8) scaled to [0, 1].

    Computed in float64, a thousand examples at a time. The deviation of a constant channel is given as 1.
    """
    channels, scale = x.shape[1], 255.0 if x.dtype == np.uint8 else 1.0
    sums, squares, count = np.zeros(channels), np.zeros(channels), 0
    center = x[0].astype(np.float64).reshape(channels, -1).mean(axis=1) / scale  # against cancellation
    for start in range(0, len(x), 1000):
        block = x[start : start + 1000].reshape(len(x[start : start + 1000]), channels, -1) / scale - center[:, None]
        sums, squares = sums + block.sum(axis=(0, 2)), squares + np.square(block).sum(axis=(0, 2))
        count += block.shape[0] * block.shape[2]
    mean = sums / count
    deviation = np.sqrt(np.maximum(squares / count - np.square(mean), 0))
    constant = deviation <= 1e-12 * np.maximum(np.abs(center), 1e-12)
    return tuple((mean + center).tolist()), tuple(np.where(constant, 1.0, deviation).tolist())
