"""Whether the files of a sweep as a whole are what was written: its mark, its file, its components, its table of trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from orchestrator.results.declared import declared_damages
from orchestrator.results.folder import Folder, TrialFolder
from orchestrator.results.integrity import Damage, DamageError, file_checksum
from orchestrator.results.mark import SWEEP_FILES, copy_of, holds_mark, mark_damages, read_mark
from orchestrator.results.tables import ROWS, rows_checksum
from orchestrator.results.trial_files import TrialCheck
from orchestrator.results.writing import read_plain

NO_MARK = "restore it from a copy, or move the folder away: no run can tell whose results these are"
SETTLED = ("finished", "diverged")  # a row with one of these was written after the trial's record
NO_TABLE = "is not what was saved: it is no Parquet table"


def sweep_damages(folder: Folder) -> list[Damage]:
    """What is wrong with ``.fedpriv.json``, ``sweep.yaml`` and ``declared.json``; nothing in a folder without a mark."""
    if not holds_mark(folder.record):
        return declared_damages(folder.path)
    return [*mark_damages(folder.record), *_sweep_file_damages(folder), *declared_damages(folder.path)]


def _sweep_file_damages(folder: Folder) -> list[Damage]:
    path = folder.sweep
    try:
        kept = read_mark(folder.record).get(SWEEP_FILES)
    except (FileNotFoundError, DamageError):
        kept = None
    try:
        if kept is not None and file_checksum(path) not in kept:
            return [Damage(path, "is not what was saved: its checksum differs" if path.stat().st_size else "is empty")]
        if kept is None and not isinstance(yaml.safe_load(read_plain(path)), Mapping):
            return [Damage(path, "is not what was saved: it is no mapping")]
    except FileNotFoundError:
        return [Damage(path, "is missing")]
    except OSError as error:
        return [Damage(path, f"cannot be read: {(error.strerror or str(error)).lower()}")]
    except (ValueError, RecursionError, yaml.YAMLError):
        return [Damage(path, "is not what was saved: it is no YAML")]
    return []


def can_be_rewritten(folder: Folder, damage: Damage) -> bool:
    """Whether a run writes a damaged file of the sweep again; not the mark, if that is damaged in both of its files."""
    if damage.path not in (folder.record, copy_of(folder.record)):
        return True
    try:
        read_mark(folder.record)
    except (FileNotFoundError, DamageError):
        return False
    return True


def read_trials_table(path: Path) -> tuple[list[dict[str, Any]], bool]:
    """Read ``trials.parquet``.

    Returns:
        Its rows, and whether they were compared with their checksum, which earlier versions did not write.

    Raises:
        FileNotFoundError: there is no such file.
        DamageError: it is no Parquet table, its rows are not what was written, or it is no table of trials.
    """
    try:
        content = read_plain(path)
        table = pq.read_table(pa.BufferReader(content))
        rows: list[dict[str, Any]] = table.to_pylist()
    except FileNotFoundError:
        raise
    except (pa.ArrowException, MemoryError, OSError, ValueError) as error:
        said = getattr(error, "strerror", None)
        problem = f"cannot be read: {said.lower()}" if said else NO_TABLE
        empty = path.is_file() and path.stat().st_size == 0
        raise DamageError(Damage(path, "is empty" if empty else problem)) from error
    kept = (table.schema.metadata or {}).get(ROWS.encode())
    if kept is not None and kept.decode("ascii", "replace") != rows_checksum(table):
        raise DamageError(Damage(path, "is not what was saved: the checksum of its rows differs"))
    for row in rows:
        if not all(isinstance(row.get(key), str) for key in ("id", "status")):
            raise DamageError(Damage(path, "is not what was saved: it is no table of trials"))
    return rows, kept is not None


def row_damages(
    folder: Folder, rows: Sequence[Mapping[str, Any]], sealed: bool, checks: Sequence[TrialCheck], needed: bool = True
) -> list[Damage]:
    """Compare the rows of ``trials.parquet`` with the records of the trials.

    A row is written after the record of its trial, so a trial that has just ended, or runs again, may be ahead of its row.

    Args:
        folder: the sweep's folder.
        rows: the rows.
        sealed: whether the rows have a checksum; then a record without one that differs is what is damaged.
        checks: what was found of each trial with a record.
        needed: whether a trial that has ended must have its record.
    """
    by_id, found = {one.folder.id: one for one in checks}, []
    for row in rows:
        trial = folder.trial(row["id"])
        check = by_id.get(row["id"], TrialCheck(trial))
        if row["status"] not in SETTLED or check.record_is_damaged:
            continue
        if check.record is None:
            found += [Damage(trial.result, "is missing")] if needed else []
        elif problem := _differs(row, check.record):
            found.append(_other_than_its_record(folder, trial, problem, sealed and not check.compared))
    return found


def _other_than_its_record(folder: Folder, trial: TrialFolder, problem: str, record: bool) -> Damage:
    """The damage of a row that differs from its record; of the record, where the row alone has a checksum."""
    if record:
        return Damage(trial.result, f"is not what was saved: {problem} is not that of {folder.table.name}")
    return Damage(folder.table, f"is not what was saved: {problem} of trial {trial.id} is not that of its record")


def _differs(row: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    """What of a row is not as in the record; empty if all is."""
    if row["status"] != record["status"]:
        return "the status"
    for name, value in record["metrics"].items():
        if not _same(row.get(name), value):
            return f"the value {name!r}"
    return ""


def _same(cell: Any, value: Any) -> bool:
    numbers = [float(one) for one in (cell, value) if isinstance(one, int | float)]
    if len(numbers) == 2:
        return numbers[0] == numbers[1] or all(map(math.isnan, numbers))
    return bool(cell == value) or (cell is None and value != value)
