"""The files in a sweep's folder ``shadows``: what attacks have trained, which can be made again at any time.

A file that is not what was written is not read: what it held is trained again, and replaces it. Each file says of
itself what it is and has a checksum: arrays end with a stamp, JSON is sealed.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.results.folder import Folder, write_atomically
from orchestrator.results.integrity import ASIDE, Damage, DamageError, read_sealed, sealed, set_aside
from orchestrator.results.stamped import is_stamped, read_regular, read_stamped, require_regular, stamped

ZIP_END = 22  # bytes at the end of a zip file, of which nothing follows
KEY = "of"  # in a JSON file: its name, so that a copy under another name is none


def write_arrays(path: Path, content: bytes) -> None:
    """Write the bytes of a file of arrays. Raises WriteError."""
    _make_room(path)
    write_atomically(path, stamped(content, path.name))


def read_arrays(path: Path) -> bytes | None:
    """Return what `write_arrays` wrote; None if there is no such file, an earlier version wrote it, or it is damaged."""
    with suppress(FileNotFoundError, DamageError):
        return read_stamped(path, path.name)
    return None


def write_values(path: Path, values: Mapping[str, Any]) -> None:
    """Write a mapping of JSON values. Raises WriteError."""
    _make_room(path)
    write_atomically(path, json.dumps(sealed({KEY: path.name, "values": values})).encode())


def read_values(path: Path) -> dict[str, Any] | None:
    """Return what `write_values` wrote; None if there is no such file, an earlier version wrote it, or it is damaged."""
    with suppress(FileNotFoundError, DamageError):
        require_regular(path)
        held = read_sealed(path)
        if held.keys() == {KEY, "values"} and held[KEY] == path.name and isinstance(held.get("values"), dict):
            return dict(held["values"])
    return None


def cache_damages(folder: Folder) -> list[Damage]:
    """Return the files of a sweep's cache that are damaged; those of earlier versions are none, though not used.

    Args:
        folder: the sweep's folder, in which nothing is changed.
    """
    path = folder.shadows
    if not os.path.lexists(path):
        return []
    if path.is_symlink() or not path.is_dir():
        return [Damage(path, "is no folder")]
    found = [_damage(one) for one in sorted(path.iterdir()) if ASIDE not in one.name and not one.name.startswith(".")]
    return [one for one in found if one]


def _damage(path: Path) -> Damage | None:
    try:
        if path.suffix == ".json":
            require_regular(path)
            held = read_sealed(path)
            if KEY in held and held[KEY] != path.name:
                return Damage(path, f"is a copy of another file: {held[KEY]}")
        elif path.suffix in (".npy", ".npz"):
            whole = read_regular(path)
            if is_stamped(whole) or not _of_before(whole):
                read_stamped(path, path.name)
    except FileNotFoundError:  # a run has just removed it
        return None
    except DamageError as error:
        return error.damage
    return None


def _of_before(whole: bytes) -> bool:
    """Whether these are the bytes of a whole file of arrays without a stamp, as earlier versions wrote them."""
    source = io.BytesIO(whole)
    with suppress(Exception):  # NumPy and zipfile raise a dozen kinds of errors about damaged files
        held = np.load(source, allow_pickle=False)
        if isinstance(held, np.ndarray):
            return source.tell() == len(whole)
        for name in held.files:
            held[name]
        return whole[-ZIP_END:].startswith(b"PK\x05\x06")
    return False


def _make_room(path: Path) -> None:
    """Set aside a folder where a file is to be written; a file or a link is replaced."""
    if path.is_dir() and not path.is_symlink():
        set_aside(path)
