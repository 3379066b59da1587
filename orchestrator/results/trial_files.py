"""Whether the files of a trial are what the trial wrote: compared with the checksums in its record, or at least readable.

Earlier versions wrote no checksums. Of what they left, a table must be a Parquet table, a model a safetensors file, and
``config.yaml`` must have the trial's id as its hash.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import SafetensorError, safe_open

from orchestrator.results.config_id import wrong_config
from orchestrator.results.folder import TrialFolder
from orchestrator.results.integrity import Damage, DamageError, file_checksum
from orchestrator.results.record import CHECKSUMS, checked_record, result_files

THREADS = 8  # hashing gives up the interpreter's lock
TRIES = 3  # a run may write while we read


@dataclass(frozen=True)
class TrialCheck:
    """What was found in a trial's folder.

    Attributes:
        folder: the folder.
        record: the trial's record; None if there is none, or if it is damaged.
        damages: what is not what was saved, the record first.
        files: the files that were checked, and are there.
    """

    folder: TrialFolder
    record: dict[str, Any] | None = None
    damages: tuple[Damage, ...] = ()
    files: tuple[Path, ...] = field(default=(), repr=False)

    @property
    def compared(self) -> bool:
        """Whether the files were compared with checksums; else they could only be read."""
        return self.record is not None and CHECKSUMS in self.record

    @property
    def record_is_damaged(self) -> bool:
        """Whether the record itself cannot be believed."""
        return any(one.path == self.folder.result for one in self.damages)


def check_trial(folder: TrialFolder, models: bool = True) -> TrialCheck:
    """Check the result files of a trial that has a record; one without, which has not ended, has nothing to check.

    Args:
        folder: the trial's folder.
        models: also check the models, which are large.
    """
    for _ in range(TRIES):
        before = _stamp(folder.result)
        found = _check(folder, models)
        if not found.damages or _stamp(folder.result) == before:  # else the trial has begun or ended meanwhile
            break
    return found


def check_trials(folders: Sequence[TrialFolder], models: bool = True) -> list[TrialCheck]:
    """Check several trials at a time, as `check_trial` does; the results are in the order of ``folders``."""
    if len(folders) < 2:
        return [check_trial(folder, models) for folder in folders]
    with ThreadPoolExecutor(min(THREADS, 2 * (os.cpu_count() or 1))) as pool:
        return list(pool.map(lambda folder: check_trial(folder, models), folders))


def unreadable(folder: TrialFolder, models: bool = True) -> tuple[Damage, ...]:
    """Those files of a trial that are there and cannot be read, where there is no record to compare them with."""
    return tuple(damage for path in _checked(folder, models) if path.exists() and (damage := _read(path)))


def _check(folder: TrialFolder, models: bool) -> TrialCheck:
    try:
        record = checked_record(folder)
    except FileNotFoundError:
        return TrialCheck(folder)
    except DamageError as error:
        return TrialCheck(folder, None, (error.damage,), (folder.result,))
    paths = _checked(folder, models)
    if CHECKSUMS in record:
        kept = record[CHECKSUMS]
        found = [_compared(path, kept.get(path.name)) for path in paths if path.name in kept or os.path.lexists(path)]
    else:
        needed = (folder.config, folder.model, folder.table("rounds")) if record["status"] == "finished" else ()
        found = [_read(path, folder.id) for path in paths if path in needed or os.path.lexists(path)]
    there = tuple(path for path in paths if os.path.lexists(path))
    return TrialCheck(folder, record, tuple(filter(None, found)), (folder.result, *there))


def _checked(folder: TrialFolder, models: bool) -> list[Path]:
    return [path for path in result_files(folder) if models or path != folder.model]


def _compared(path: Path, kept: str | None) -> Damage | None:
    """What is wrong with a file whose checksum was kept; None as checksum: the trial had no such file."""
    if kept is None:
        return Damage(path, "is not of this trial, which ended without such a file")
    try:
        if file_checksum(path) == kept:
            return None
        return Damage(path, "is not what was saved: its checksum differs" if path.stat().st_size else "is empty")
    except OSError as error:
        return _failed(path, error)


def _read(path: Path, trial: str = "") -> Damage | None:
    """What is wrong with a file that can only be read; ``trial`` is the id that the configuration must have as its hash."""
    try:
        if not path.stat().st_size:
            return Damage(path, "is empty")
        if path.suffix == ".yaml":
            problem = wrong_config(path, trial)
            return Damage(path, problem) if problem else None
        if path.suffix == ".safetensors":
            with safe_open(path, framework="numpy") as file:
                file.keys()
        else:
            pq.read_table(pa.BufferReader(path.read_bytes()))
    except (SafetensorError, pa.ArrowException, MemoryError, ValueError) as error:
        kind = "model" if isinstance(error, SafetensorError) else "table"
        return Damage(path, f"is not what was saved: it is no {kind}")
    except OSError as error:
        return _failed(path, error)
    return None


def _failed(path: Path, error: OSError) -> Damage:
    if isinstance(error, FileNotFoundError):
        return Damage(path, "is missing")
    if error.strerror is None:  # what Arrow says of a damaged table
        return Damage(path, "is not what was saved: it is no table")
    return Damage(path, f"cannot be read: {error.strerror.lower()}")


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        held = path.stat()
    except OSError:
        return None
    return held.st_mtime_ns, held.st_ino, held.st_size
