"""Ways in which a file of a results folder is damaged: by a full disk, a bad one, an editor, a copy of the wrong folder."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors import safe_open
from safetensors.numpy import save

from orchestrator.results.integrity import SEAL
from tests.support.command import TIMES, timeless

Way = Callable[[Path, Path], None]
"""``way(file, other)`` damages ``file``; ``other`` is the same file of another trial."""
Arrays = dict[str, np.ndarray]

GARBAGE = bytes(range(7, 256, 3)) * 4
CHECKSUMS = "checksums"  # the key of a record that holds those of a trial's files


def missing(file: Path, _: Path) -> None:
    file.unlink()


def empty(file: Path, _: Path) -> None:
    os.truncate(file, 0)


def half(file: Path, _: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def garbage(file: Path, _: Path) -> None:
    file.write_bytes(GARBAGE)


def flipped(file: Path, _: Path) -> None:
    """One bit of the byte in the middle."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 16
    file.write_bytes(content)


def appended(file: Path, _: Path) -> None:
    with open(file, "ab") as end:
        end.write(b"\n# edited\n")


def anothers(file: Path, other: Path) -> None:
    shutil.copyfile(other, file)


def a_folder(file: Path, _: Path) -> None:
    file.unlink()
    file.mkdir()
    (file / "inside").write_text("something")


def a_dangling_link(file: Path, _: Path) -> None:
    file.unlink()
    file.symlink_to(file.with_name("nowhere"))


def text(content: str | bytes) -> Way:
    """The file holds ``content``."""
    return lambda file, _: file.write_bytes(content.encode() if isinstance(content, str) else content) and None


# Mappings


def edited(change: Callable[[dict[str, Any]], Any]) -> Way:
    """A JSON mapping of which ``change`` changes an entry, in an editor: its checksum stays as it was."""

    def way(file: Path, _: Path) -> None:
        held = json.loads(file.read_text())
        change(held)
        file.write_text(json.dumps(held, indent=1))

    return way


def unsealed(change: Callable[[dict[str, Any]], Any] = lambda held: None) -> Way:
    """The same with a mapping as older versions wrote it, without checksums."""

    def older(held: dict[str, Any]) -> None:
        for key in (SEAL, CHECKSUMS):
            held.pop(key, None)
        change(held)

    return edited(older)


def entry(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Sets an entry, ``a.b`` that of a mapping in the mapping."""

    def change(held: dict[str, Any]) -> None:
        *above, last = key.split(".")
        for one in above:
            held = held[one]
        held[last] = value

    return change


def without(key: str) -> Callable[[dict[str, Any]], None]:
    """Removes an entry."""
    return lambda held: held.pop(key)


# Tables


def another_number(file: Path, _: Path) -> None:
    """A sound table with another number in it."""
    frame = pd.read_parquet(file)
    column = next(
        name for name in reversed(frame.columns) if frame[name].dtype == np.float64 and frame[name].notna().any()
    )
    row = int(frame[column].notna().to_numpy().nonzero()[0][0])
    frame.loc[row, column] += 0.125
    frame.to_parquet(file)


# Arrays


def held_in(file: Path) -> tuple[Arrays, dict[str, str] | None]:
    """The arrays and the metadata of a file of safetensors."""
    with safe_open(file, framework="numpy") as opened:
        return {name: opened.get_tensor(name) for name in opened.keys()}, opened.metadata()  # noqa: SIM118


def arrays(change: Callable[[Arrays], Any]) -> Way:
    """A sound file of which ``change`` changes an array; its metadata stay as they were."""

    def way(file: Path, _: Path) -> None:
        found, metadata = held_in(file)
        change(found)
        file.write_bytes(save(found, metadata=metadata))

    return way


def first_weight(value: float) -> Callable[[Arrays], None]:
    """Sets the first number of the largest array: a weight."""

    def change(found: Arrays) -> None:
        name = max(found, key=lambda one: (one.startswith("model."), found[one].size))
        found[name].flat[0] = value

    return change


def state(change: Callable[[Arrays, dict[str, Any]], Any] = lambda arrays, plain: None, sealed: bool = False) -> Way:
    """A saved state of which ``change`` changes an array or a plain value, as older versions wrote it unless ``sealed``."""

    def way(file: Path, _: Path) -> None:
        found, metadata = held_in(file)
        assert metadata is not None
        kept = metadata if sealed else {key: metadata[key] for key in ("state", "clusters")}
        plain = json.loads(kept["state"])
        change(found, plain)
        file.write_bytes(save(found, metadata={**kept, "state": json.dumps(plain)}))

    return way


def metadata(change: Callable[[dict[str, str]], dict[str, str] | None]) -> Way:
    """A file of safetensors with other metadata."""

    def way(file: Path, _: Path) -> None:
        found, held = held_in(file)
        assert held is not None
        file.write_bytes(save(found, metadata=change(held)))

    return way


def deep(levels: int = 100_000) -> Way:
    """JSON of so many lists, one within the other."""
    return text("[" * levels + "]" * levels)


FILES: dict[str, Way] = {
    "missing": missing,
    "empty": empty,
    "half": half,
    "garbage": garbage,
    "one bit": flipped,
    "of another trial": anothers,
    "another number": another_number,
    "a folder": a_folder,
    "a dangling link": a_dangling_link,
}
zeros: Way = lambda file, _: file.write_bytes(bytes(file.stat().st_size)) and None  # noqa: E731
too_long = partial(np.append, values=0.0)


def trees_equal(folder: Path, expected: Path, without: Sequence[str] = ()) -> bool:
    """Whether a trial's folder holds all files of the expected one, times aside; says on the way which does not."""
    for path in sorted(path for path in expected.iterdir() if path.name not in without):
        mine = folder / path.name
        assert mine.is_file(), mine
        if path.name == "rounds.parquet":
            assert timeless(mine).equals(timeless(path)), mine
        elif path.name == "result.json":
            assert _result(mine) == _result(path)
        else:
            assert mine.read_bytes() == path.read_bytes(), mine
    return True


def _result(path: Path) -> dict[str, Any]:
    """What a record says, without times, checksums and provenance."""
    held = json.loads(path.read_text())
    metrics = {name: value for name, value in held["metrics"].items() if name not in TIMES}
    return {key: held.get(key) for key in ("id", "status", "reason", "model", "notes")} | {"metrics": metrics}
