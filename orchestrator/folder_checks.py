"""The command ``check`` on results: every file of every sweep and trial, a line for each sweep and each damage."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from orchestrator.config.errors import ConfigError, ConfigProblem
from orchestrator.config.slots import SLOTS
from orchestrator.exit_codes import FINISHED, SOME_FAILED
from orchestrator.results.cached_files import cache_damages
from orchestrator.results.declared import FILE as DECLARED
from orchestrator.results.folder import Folder
from orchestrator.results.integrity import Damage, DamageError, found_each_time
from orchestrator.results.mark import copy_of, holds_mark, read_mark
from orchestrator.results.record import drew_secret_noise
from orchestrator.results.sweep_files import (
    NO_MARK,
    can_be_rewritten,
    read_trials_table,
    row_damages,
    sweep_damages,
)
from orchestrator.results.trial_files import TrialCheck, check_trials
from orchestrator.results.writing import read_plain

AGAIN = "the same `fedpriv run` runs the trial again"
IF_DRAWN = "the same `fedpriv run` runs the trial again if its search draws it"
REWRITTEN = "the same `fedpriv run` writes it again"
FORMER = "the trial is not of the sweep any more: restore the file from a copy, or delete the trial's folder"
SECRET = "its noise was secret: restore the file from a copy, or delete the trial's folder to draw new noise"
ANEW = "the same `fedpriv run` begins the trial anew"
TRAINED = "the next run that needs it trains it again"


@dataclass(frozen=True)
class SweepCheck:
    """What was found in the folder of a sweep.

    Attributes:
        folder: the folder.
        trials: the number of trials that have a folder.
        files: the number of files that were checked.
        read: how many of them could only be read, because an earlier version kept no checksums.
        damages: what is damaged, each with what repairs it.
    """

    folder: Folder
    trials: int
    files: int
    read: int
    damages: tuple[tuple[Damage, str], ...]


def check_folder(path: Path) -> int:
    """Check all results in a folder and print what was found; return the exit code.

    Args:
        path: RESULTS, the folder of all sweeps, or the folder of one sweep.

    Raises:
        ConfigError: the folder is neither.
    """
    found = [check_sweep(folder) for folder in _sweeps(path)]
    width = max(len(one.folder.name) for one in found)
    for one in found:
        count = f"{one.trials} trial{'s' if one.trials != 1 else ''}, {one.files} files"
        print(f"{one.folder.name:{width}}  {count}: {f'{len(one.damages)} damaged' if one.damages else 'no damage'}")
        if one.read:
            files = "1 file" if one.read == 1 else f"{one.read} files"
            print(f"  written by an earlier version, without checksums: {files} could only be read, not compared")
        for damage, repair in one.damages:
            print(f"  {damage}; {repair}")
    return SOME_FAILED if any(one.damages for one in found) else FINISHED


def check_sweep(folder: Folder) -> SweepCheck:
    """Check all files of a sweep; nothing is written, and what a run has just replaced or removed is no damage.

    Args:
        folder: the sweep's folder.
    """
    checks = list[SweepCheck]()

    def damages() -> tuple[tuple[Damage, str], ...]:
        checks.append(_check_once(folder))
        return checks[-1].damages

    return replace(checks[-1], damages=tuple(found)) if (found := found_each_time(damages)) else checks[-1]


def _check_once(folder: Folder) -> SweepCheck:
    trials = folder.trials()
    checks = check_trials(trials)
    beside = sweep_damages(folder)
    if not holds_mark(folder.record):
        beside.insert(0, Damage(folder.record, "is missing"))
    known, table, old_table = _table(folder, checks)
    found = [(one, REWRITTEN if can_be_rewritten(folder, one) else NO_MARK) for one in beside]
    found += [(one, REWRITTEN if one.path == folder.table else AGAIN) for one in table]
    damaged = [check for check in checks if check.damages]
    drawn = bool(damaged) and _draws(folder)
    for check in damaged:
        repair = _trial_repair(check, known is None or check.folder.id in known, drawn)
        found += [(one, repair) for one in check.damages]
    for check in checks:
        found += [(one, ANEW) for one in _saved_damages(check)]
    found += [(one, TRAINED) for one in cache_damages(folder)]
    own = [one for one in _own_files(folder) if os.path.lexists(one)]
    read = sum(len(one.files) for one in checks if one.record and not one.compared)
    read += sum(old_table if one == folder.table else _has_no_seal(folder) for one in own)
    return SweepCheck(folder, len(trials), len(own) + sum(len(one.files) for one in checks), read, tuple(found))


def results_folder(argument: str) -> Path | None:
    """Return the folder of results that an argument of ``check`` means; None if it names a component.

    An absolute path, one that begins or ends with a dot or a slash, and one below a folder that is no slot is a folder in
    any case; another name is one if there is such a folder with results.

    Args:
        argument: what the user gave.
    """
    path, slots = Path(argument).expanduser(), [slot.key for slot in SLOTS]
    slots += [slot.field for slot in SLOTS] + [slot.folder.rpartition(".")[2] for slot in SLOTS]
    first, separator, rest = argument.partition("/")
    explicit = (
        argument in (".", "..") or first in ("", ".", "..", "~") or bool(separator and (not rest or first not in slots))
    )
    with suppress(OSError):
        if explicit or any(_found_in(path)):
            return path
    return None


def _sweeps(path: Path) -> list[Folder]:
    shown = os.path.abspath(path)
    if not path.is_dir():
        what = "is not a folder" if os.path.lexists(path) else "does not exist"
        raise ConfigError([ConfigProblem(f"{shown} {what}; give RESULTS or RESULTS/<sweep>", file="check")])
    found = list(_found_in(path))
    if not found:
        sentence = f"{shown} holds no results of fedpriv; give RESULTS or RESULTS/<sweep>"
        raise ConfigError([ConfigProblem(sentence, file="check")])
    return found


def _found_in(path: Path) -> Iterator[Folder]:
    """The sweeps in a folder: itself, or those below it."""
    path = Path(os.path.abspath(path))
    if _is_sweep(Folder(path)):
        yield Folder(path)
    elif path.is_dir():
        below = (Folder(one) for one in sorted(path.iterdir()) if one.is_dir())
        yield from (one for one in below if _is_sweep(one))


def _is_sweep(folder: Folder) -> bool:
    return holds_mark(folder.record) or folder.table.is_file() or any(one.result.exists() for one in folder.trials())


def _own_files(folder: Folder) -> list[Path]:
    return [folder.record, copy_of(folder.record), folder.sweep, folder.table, folder.path / DECLARED]


def _has_no_seal(folder: Folder) -> bool:
    """Whether an earlier version wrote the sweep's own files."""
    with suppress(FileNotFoundError, DamageError):
        return "sweep_files" not in read_mark(folder.record)
    return False


def _table(folder: Folder, checks: Sequence[TrialCheck]) -> tuple[set[str] | None, list[Damage], bool]:
    """The trials that ``trials.parquet`` has (None if it cannot be read), its damages, and whether it has no checksum."""
    try:
        rows, whole = read_trials_table(folder.table)
    except FileNotFoundError:
        return None, [Damage(folder.table, "is missing")] if any(one.record for one in checks) else [], False
    except DamageError as error:
        return None, [error.damage], False
    return {row["id"] for row in rows}, row_damages(folder, rows, whole, checks), not whole


def _saved_damages(check: TrialCheck) -> list[Damage]:
    """What is damaged of the state of a trial that has not ended."""
    if not check.folder.state.exists() or (check.record or {}).get("status") in ("finished", "diverged"):
        return []
    from orchestrator.trial.saved import state_damages

    return state_damages(check.folder)


def _draws(folder: Folder) -> bool:
    """Whether a search draws the sweep's trials, which are in its table only once a run has ended."""
    with suppress(OSError, ValueError, RecursionError, AttributeError, yaml.YAMLError):
        return "search" in yaml.safe_load(read_plain(folder.sweep)).get("tune", {})
    return False


def _trial_repair(check: TrialCheck, in_table: bool, drawn: bool) -> str:
    if not in_table and not drawn:
        return FORMER
    if in_table and all(one.path == check.folder.config for one in check.damages):
        return "the same `fedpriv run` writes it again, or runs the trial again"
    if drew_secret_noise(check.folder, check.record):
        return SECRET
    return AGAIN if in_table else IF_DRAWN
