"""Whether what a report reads is what the run wrote: the files of the sweep, and those of its trials but for the models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orchestrator.results.folder import Folder
from orchestrator.results.integrity import Damage, DamageError, found_each_time, shortened
from orchestrator.results.sweep_files import SETTLED, read_trials_table, row_damages, sweep_damages
from orchestrator.results.trial_files import check_trials, unreadable

REPAIRED = "; the same `fedpriv run` repairs it"


def used_damages(folder: Path) -> list[Damage]:
    """The damaged files of a sweep among those that a report uses.

    Args:
        folder: the results folder of the sweep, with a ``trials.parquet``.
    """
    return found_each_time(lambda: _found(Folder(folder)))


def damage_sentences(found: Sequence[Damage]) -> list[str]:
    """Say what is damaged and what repairs it, a sentence for each file, and the number of the others."""
    return shortened([f"{one}{REPAIRED}" for one in found])


def _found(folder: Folder) -> list[Damage]:
    try:
        rows, sealed = read_trials_table(folder.table)
    except FileNotFoundError:
        return []
    except DamageError as error:
        return [error.damage]
    checks = check_trials([folder.trial(row["id"]) for row in rows], models=False)
    found = sweep_damages(folder) + [damage for one in checks for damage in one.damages]
    for row, one in zip(rows, checks, strict=True):
        if one.record is None and not one.damages and row["status"] in SETTLED:
            found += unreadable(one.folder, models=False)
    return found + row_damages(folder, rows, sealed, checks, needed=sealed)
