"""Checksums of what we save, and what happens to a file that is not what was saved: it is named, set aside, not believed.

A JSON file of ours is sealed: it contains the checksum of the rest of itself. Of other files the checksum stands in a
sealed one, or in the file's own metadata.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from orchestrator.results.writing import open_plain, read_plain

SEAL = "checksum"  # the key of a sealed mapping that holds the checksum of the others
DIGEST_BYTES = 16
ASIDE = ".damaged"  # is added to the name of a file that was set aside


Found = TypeVar("Found")

NAMED = 10  # damaged files that have a sentence each


@dataclass(frozen=True)
class Damage:
    """A file that is not what was saved.

    Attributes:
        path: the file.
        problem: what is wrong with it, to be read after its name: "is empty", "is missing".
    """

    path: Path
    problem: str

    def __str__(self) -> str:
        return f"{self.path} {self.problem}"


class DamageError(ValueError):
    """A saved file cannot be believed. Its text is a sentence that begins with the file's path."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(str(damage))
        self.damage = damage


def checksum(content: bytes | memoryview) -> str:
    """Return the checksum of bytes: BLAKE2b of 16 bytes, as hexadecimal digits."""
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


def file_checksum(path: Path) -> str:
    """Return the checksum of a file's bytes, as `checksum` does. Raises OSError."""
    with open_plain(path) as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=DIGEST_BYTES)).hexdigest()


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping of JSON values with the checksum of its content added.

    >>> sealed({"id": "ab"})["checksum"]
    '3eee4aadab085735899be09da09bb504'
    """
    plain = {name: value for name, value in content.items() if name != SEAL}
    return {**plain, SEAL: _content_checksum(plain)}


def read_sealed(path: Path) -> dict[str, Any]:
    """Read a JSON file with a sealed mapping, and return the mapping without its checksum.

    A file without a checksum, as earlier versions wrote them, is returned as it is: its reader checks the values.

    Args:
        path: the file.

    Raises:
        FileNotFoundError: there is no such file.
        DamageError: it cannot be read, is no mapping, or its content is not what was saved.
    """
    return read_mapping(path)[0]


def read_mapping(path: Path) -> tuple[dict[str, Any], bool]:
    """Read a JSON file like `read_sealed`, and return also whether it was sealed. Raises like `read_sealed`."""
    try:
        held = json.loads(read_plain(path))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamageError(Damage(path, f"cannot be read: {(error.strerror or str(error)).lower()}")) from error
    except (ValueError, RecursionError) as error:
        empty = path.stat().st_size == 0
        raise DamageError(Damage(path, "is empty" if empty else "is not what was saved: it is no JSON")) from error
    if not isinstance(held, dict):
        raise DamageError(Damage(path, "is not what was saved: it is no mapping"))
    found = held.pop(SEAL, None)
    if found is not None and found != _content_checksum(held):
        raise DamageError(Damage(path, "is not what was saved: its checksum differs"))
    return held, found is not None


def set_aside(path: Path) -> Path:
    """Rename a damaged file or folder, so that nobody reads it, and return its new path. Raises OSError.

    ``state.safetensors`` becomes ``state.safetensors.damaged``, or ``.damaged-2`` and so on if there is one already.
    """
    number = 1
    while os.path.lexists(aside := path.with_name(f"{path.name}{ASIDE}{'' if number == 1 else f'-{number}'}")):
        number += 1
    os.rename(path, aside)
    return aside


def shortened(said: Sequence[str]) -> list[str]:
    """The first sentences about damaged files, and the number of the others."""
    more = len(said) - NAMED
    return (
        list(said)
        if more <= 1
        else [*said[:NAMED], f"... and {more} more damaged files; `fedpriv check` names them all"]
    )


def found_each_time(find: Callable[[], Iterable[Found]], tries: int = 3) -> list[Found]:
    """Return what is found each time, without looking again if nothing is: a run may write while we read.

    Args:
        find: looks once.
        tries: how often it is called at most.
    """
    found = list(find())
    for _ in range(tries - 1):
        if not found:
            break
        found = [one for one in find() if one in found]
    return found


def _content_checksum(plain: Mapping[str, Any]) -> str:
    written = json.loads(json.dumps(plain))  # keys as they will be read: texts, which are sorted otherwise than numbers
    return checksum(json.dumps(written, sort_keys=True, separators=(",", ":")).encode())
