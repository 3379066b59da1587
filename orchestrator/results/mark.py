"""The file ``.fedpriv.json``, which says of a folder that it holds a sweep of ours: which one, and the id it has in MLflow.

The id cannot be found again, and without it MLflow would hold the sweep twice. So there are two files with the same content,
and each is restored from the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.results.integrity import Damage, DamageError, read_mapping

SWEEP_FILES = "sweep_files"  # checksums that sweep.yaml may have: the one that is written next, and those before
KEPT = 3  # a run that is killed at once leaves the file of the run before
ID = re.compile("[0-9a-f]{32}")


def copy_of(path: Path) -> Path:
    """The second file of a mark, beside the first."""
    return path.with_name(f"{path.stem}.copy{path.suffix}")


def holds_mark(path: Path) -> bool:
    """Whether a mark is there, damaged or not. ``path`` is its first file."""
    return path.exists() or copy_of(path).exists()


def read_mark(path: Path) -> dict[str, Any]:
    """Read the mark of a folder, from the second file if the first is damaged or missing.

    Args:
        path: the first file.

    Returns:
        The name of the sweep, its id, the digest of its trials, and the checksums of its file where they were kept.

    Raises:
        FileNotFoundError: neither is there.
        DamageError: none can be believed; it names the first.
    """
    try:
        return _checked(path)
    except (FileNotFoundError, DamageError) as error:
        try:
            return _checked(copy_of(path))
        except (FileNotFoundError, DamageError):
            raise error from None


def mark_damages(path: Path) -> list[Damage]:
    """What is wrong with the files of a mark; a second file that is missing was not written by an earlier version."""
    found = []
    for one in (path, copy_of(path)):
        try:
            _checked(one)
        except FileNotFoundError:
            found += [Damage(one, "is missing")] if one == path else []
        except DamageError as error:
            found.append(error.damage)
    return found


def _checked(path: Path) -> dict[str, Any]:
    held, whole = read_mapping(path)
    texts = all(isinstance(held.get(key), str) for key in ("name", "id", "digest"))
    if not texts or not ID.fullmatch(held["id"]) or not _are_texts(held.get(SWEEP_FILES, [])):
        raise DamageError(Damage(path, "is not what was saved: it does not name a sweep, its id and its trials"))
    if SWEEP_FILES in held and not whole:
        raise DamageError(Damage(path, "is not what was saved: its checksum is missing"))
    return held


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def next_mark(before: Mapping[str, Any] | None, name: str, identity: str, digest: str, sweep: str) -> dict[str, Any]:
    """The content of a mark, unsealed.

    Args:
        before: the mark that the folder has; None if it has none.
        name: the name of the sweep.
        identity: its id, unless it has one already.
        digest: identifies its trials.
        sweep: the checksum of its ``sweep.yaml``, which is written afterwards.
    """
    former = before.get(SWEEP_FILES, [])[:KEPT] if before else []
    files = list(dict.fromkeys([sweep, *former]))
    return {"name": name, "id": before["id"] if before else identity, "digest": digest, SWEEP_FILES: files}
