"""What lies in a folder of a user's own: files and sub-folders, the parts train and test, and
what is not read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from datasets.federation import DataError, excerpt

PARTS = ("train", "test")
HIDDEN = (".", "__MACOSX")  # what names of files and folders begin with that are not the user's own
MOST_FOLDERS = 100_000
PART_WORDS = {  # by their kind, in lower case
    "train": "training|train|trn",
    "test": "testing|test|tst",
    "validation": "validation|valid|val|dev|evaluation|eval",
}
PART_NAME = re.compile(
    "(?:public|private|internal|external)?"
    rf"(?:{'|'.join(f'(?P<{kind}>{words})' for kind, words in PART_WORDS.items())})"
    "(?:set|data|part|split|folder|images?|samples?|examples?|cohort|group|phase)*"
)
ANY_PART = "|".join(PART_WORDS.values())
NAME_WITH_PART = re.compile(rf"(?i)({ANY_PART})[\W_]?(.+)|(.+?)[\W_]?({ANY_PART})")


def walked(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the files and the folders below ``folder``, relative to it and sorted, without
    hidden ones.

    Links are followed, but to no folder that they lie in. Raises DataError if a folder cannot be
    read, if something is neither file nor folder, or if links lead in circles in too many ways.
    """
    files = list[Path]()
    folders = list[Path]()
    root = os.path.realpath(folder)
    waiting = [(Path(), frozenset([root, *map(str, Path(root).parents)]))]
    while waiting:
        place, around = waiting.pop()
        for entry in _entries(folder / place):
            path = place / entry.name
            if not entry.is_dir():
                files.append(path)
            elif (real := os.path.realpath(folder / path)) not in around:
                folders.append(path)
                waiting.append((path, around | {real}))
        if len(folders) > MOST_FOLDERS:
            raise DataError(
                f"data.path: {folder} has more than {MOST_FOLDERS} folders; do links lead "
                "in circles?"
            )
    return sorted(files), sorted(folders)


def _entries(place: Path) -> list[os.DirEntry[str]]:
    try:
        entries = [entry for entry in os.scandir(place) if not entry.name.startswith(HIDDEN)]
        unfit = [
            entry.path
            for entry in entries
            if not (entry.is_file() or entry.is_dir()) and os.path.exists(entry)
        ]
    except OSError as error:
        raise DataError(f"data.path: {place} cannot be read: {error.strerror}") from error
    if unfit:
        raise DataError(
            f"data.path: {unfit[0]} is neither file nor folder (a pipe, a socket, a "
            "device); remove it"
        )
    return entries


def part_of(name: str) -> str:
    """Return train, test or validation for a name of such a part in any usual spelling; empty
    for another name.

    >>> [part_of(name) for name in ("Training_set", "TEST", "val2017", "cat")]
    ['train', 'test', 'validation', '']
    """
    named = PART_NAME.fullmatch(re.sub(r"[\W\d_]", "", name.lower()))
    return str(named.lastgroup) if named else ""


def parts(names: Iterable[str]) -> dict[str, str]:
    """Return which of the ``names`` are the parts train and test; empty if there are not both.

    Where there is no test part, the validation part is it.

    >>> parts(["Train", "val", "extra"]), parts(["adult_train", "adult_test"])
    ({'Train': 'train', 'val': 'test'}, {'adult_train': 'train', 'adult_test': 'test'})
    """
    names = list(names)
    kinds = {name: part_of(name) for name in names}
    testing = "test" if "test" in kinds.values() else "validation"
    found = {
        name: "train" if kind == "train" else "test"
        for name, kind in kinds.items()
        if kind in ("train", testing)
    }
    if set(found.values()) == set(PARTS):
        return found
    pairs = list(divided(names).values())
    return pairs[0] if len(pairs) == 1 else {}


def divided(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return which of the ``names`` are train and test, by what they have in common beside the
    word of a part.

    >>> divided(["test_x", "train_x", "yTrain", "y"])
    {'x': {'train_x': 'train', 'test_x': 'test'}}
    """
    words: dict[str, dict[str, str]] = {}
    for name in names:
        match = NAME_WITH_PART.fullmatch(name)
        if match:
            before, rest, other, after = match.groups()
            words.setdefault(rest or other, {})[name] = before or after
    pairs = {}
    for rest, word_of in words.items():
        part_by_word = parts(word_of.values())
        found = {name: part_by_word[word] for name, word in word_of.items() if word in part_by_word}
        if found:
            pairs[rest] = dict(sorted(found.items(), key=lambda item: PARTS.index(item[1])))
    return pairs


def part_remarks(found: Mapping[str, str]) -> list[str]:
    """Return which names ``found`` by `parts` are which part, as a sentence, where they are
    others than train and test.
    """
    said = [
        f"{name} is the {'training' if part == 'train' else 'test'} part"
        for name, part in found.items()
    ]
    return [", ".join(said)] if set(found) - set(PARTS) else []


def unread(counts: Mapping[str, int], most: int = 8) -> list[str]:
    """Return a sentence on what lies there and is not read, by ``counts`` of what it is; none if
    that is nothing.

    >>> unread({"files in val": 1, ".gif in fish": 60})
    ['not read: 60 .gif in fish, 1 file in val']
    """
    said = []
    for what, count in sorted(counts.items(), key=lambda item: -item[1]):
        if count == 1:
            what = re.sub("^(file|image|row)s ", r"\1 ", what)
        said.append(f"{count} {what}")
    return [f"not read: {excerpt(said, most)}"] if said else []
