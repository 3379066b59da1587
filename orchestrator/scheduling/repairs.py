"""Damaged results of complete trials: which there are before a sweep runs, and what is done about them.

A trial whose files are not what it wrote runs again. Its damaged files are set aside, and its MLflow run is kept, so that it
goes on there. ``config.yaml`` alone is written again from the sweep file. What is no longer of the sweep is only named.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orchestrator.config.errors import ConfigError, ConfigProblem
from orchestrator.config.tune_section import Tune
from orchestrator.results.folder import Folder, TrialFolder, WriteError, write_atomically
from orchestrator.results.integrity import Damage, DamageError, checksum, set_aside, shortened
from orchestrator.results.record import CHECKSUMS, STATE, config_bytes, drew_secret_noise, has_ended, result_files
from orchestrator.results.sweep_files import NO_MARK, can_be_rewritten, read_trials_table, row_damages, sweep_damages
from orchestrator.results.trial_files import TrialCheck, check_trials
from orchestrator.results.writing import remove
from orchestrator.scheduling.trials import TrialSpec

SECRET = (
    "and its trial drew secret noise, so it cannot be restored by running it again: restore the file from a copy, or delete "
    "the folder {} to draw new noise"
)


@dataclass(frozen=True)
class Repair:
    """What is done about one trial.

    Attributes:
        folder: the trial's folder.
        damages: what is wrong with its files.
        config: the content of ``config.yaml`` where writing it again is enough; else the trial runs again.
        ended: whether the trial is known to have ended, so that what it saved on the way is not needed.
        drawn: whether the trial is known to be of the sweep; a search may still draw it.
    """

    folder: TrialFolder
    damages: tuple[Damage, ...]
    config: bytes | None = None
    ended: bool = True
    drawn: bool = True

    @property
    def ending(self) -> str:
        """What happens then, as the end of a sentence."""
        if not self.drawn:
            return "and runs again if the search draws it"
        return "and written again" if self.config is not None else "and the trial runs again"

    def planned(self) -> list[str]:
        """Say of each damaged file what a run would do."""
        what = "it" if self.drawn else "its trial"
        return [f"{one}: a run would set {what} aside, {self.ending}" for one in self.damages]

    def mend(self) -> list[str]:
        """Set the damaged files aside, so that the trial runs again, or write its configuration again; say so.

        Of a trial that may not be of the sweep any more, the whole folder is set aside: it may never run again.

        Raises:
            WriteError: a file cannot be renamed, written or removed.
        """
        if not self.drawn:
            aside = _set_aside(self.folder.path)
            return [f"{one}: its trial is {aside}{self.ending}" for one in self.damages]
        if self.config is None and all(one.path != self.folder.result for one in self.damages):
            remove(self.folder.result)  # first: what has a record is taken as a whole
        said = [f"{one}: {_set_aside(one.path)}{self.ending}".replace(": and ", ": ") for one in self.damages]
        if self.config is not None:
            write_atomically(self.folder.config, self.config)
            return said
        for path in result_files(self.folder):  # else a record that comes to less would vouch for them
            remove(path)
        if self.ended:  # if it was stopped, it begins anew, because schedulers compare trials from their first round
            shutil.rmtree(self.folder.state, ignore_errors=True)
        return said

    def given_up(self) -> list[str]:
        """Say of each damaged file that it goes with all others of its trial, which runs again for another reason, too."""
        return [f"{one}: the trial runs again as a whole" for one in self.damages]


@dataclass(frozen=True)
class Repairs:
    """What is done about damaged results before a sweep runs.

    Attributes:
        trials: what is done about trials.
        beside: damaged files that a run writes again in any case, because they follow from others.
        aside: damaged files of trials that are no longer of the sweep.
        lost: damaged files of the sweep that no run can write again.
    """

    trials: tuple[Repair, ...] = ()
    beside: tuple[Damage, ...] = ()
    aside: tuple[Damage, ...] = ()
    lost: tuple[Damage, ...] = ()

    @property
    def again(self) -> list[str]:
        """The ids of the trials that run again."""
        return [one.folder.id for one in self.trials if one.config is None]

    def planned(self) -> list[str]:
        """Say what a run would do."""
        said = [sentence for one in self.trials for sentence in one.planned()]
        said += [f"{one}; {NO_MARK}" for one in self.lost]
        said += [f"{one}: a run would write it again" for one in self.beside]
        return shortened(said + self._left())

    def mend(self, given_up: Collection[str] = ()) -> list[str]:
        """Do it, in a folder that is claimed, and say so.

        Args:
            given_up: the ids of trials of which nothing is kept, whatever is damaged.

        Raises:
            WriteError: a file cannot be renamed, written or removed.
        """
        done = [one.given_up() if one.folder.id in given_up else one.mend() for one in self.trials]
        said = [sentence for sentences in done for sentence in sentences]
        return shortened(said + [f"{one}: written again" for one in self.beside] + self._left())

    def _left(self) -> list[str]:
        return [f"{one}: left as it is, for the trial is not of this sweep any more" for one in self.aside]


def find_repairs(
    folder: Folder, trials: Sequence[TrialSpec], tune: Tune | None = None, drawing: bool = False
) -> Repairs:
    """Check the results that a sweep's folder holds.

    Args:
        folder: the sweep's folder; it need not exist.
        trials: the trials of the sweep.
        tune: the section ``tune`` of the sweep.
        drawing: whether a search may still draw further trials.

    Raises:
        ConfigError: a damaged trial drew secret noise, so it cannot be restored.
    """
    specs = {trial.id: trial for trial in trials}
    checks = check_trials(folder.trials())
    table = _table_damages(folder, checks)
    missing = {one.path.parent.name: one for one in table if one.path != folder.table}
    checks = [replace(one, damages=(missing[one.folder.id],)) if one.folder.id in missing else one for one in checks]
    damaged = [one for one in checks if one.damages]
    of_sweep = [one for one in damaged if drawing or one.folder.id in specs]
    needed = [one for one in of_sweep if one.record is None or has_ended(one.record, tune)]  # failed ones run anyway
    repairs = [_repair(one, specs.get(one.folder.id)) for one in needed]
    found = zip(repairs, needed, strict=True)
    if lost := [one for one, check in found if _is_lost(one, check, specs.get(one.folder.id))]:
        raise ConfigError(
            ConfigProblem(f"{one.damages[0]}, {SECRET.format(one.folder.path)}", file="--results") for one in lost
        )
    aside = [damage for one in damaged if one not in of_sweep for damage in one.damages]
    own = sweep_damages(folder)
    beside = [one for one in own if can_be_rewritten(folder, one)] + [one for one in table if one.path == folder.table]
    gone = [one for one in own if not can_be_rewritten(folder, one)]
    return Repairs(tuple(repairs), tuple(beside), tuple(aside), tuple(gone))


def _repair(check: TrialCheck, spec: TrialSpec | None) -> Repair:
    folder, content = check.folder, None
    if spec and [one.path for one in check.damages] == [folder.config]:
        content = config_bytes(plain_run(spec))
        kept = (check.record or {}).get(CHECKSUMS, {}).get(folder.config.name)
        content = content if kept in (None, checksum(content)) else None
    return Repair(folder, check.damages, content, check.record is not None, spec is not None)


def plain_run(spec: TrialSpec) -> dict[str, Any]:
    """The resolved run of a trial as JSON holds it."""
    held: dict[str, Any] = json.loads(json.dumps(spec.run.to_dict()))
    return held


def _is_lost(repair: Repair, check: TrialCheck, spec: TrialSpec | None) -> bool:
    """Whether a trial's noise was secret and is not in a saved state either, from which the trial would be resumed."""
    if repair.config is not None:
        return False
    if spec is None:
        return drew_secret_noise(repair.folder, check.record) is not False
    resumed = not repair.ended and (repair.folder.state / STATE).exists()
    return not resumed and not spec.run.repeatable


def _set_aside(path: Path) -> str:
    try:
        return f"set aside as {set_aside(path).name}, "
    except FileNotFoundError:
        return ""
    except OSError as error:
        said = (error.strerror or str(error)).lower()
        raise WriteError(error.errno, f"{path} is damaged and cannot be set aside: {said}") from error


def _table_damages(folder: Folder, checks: Sequence[TrialCheck]) -> list[Damage]:
    """What is wrong with ``trials.parquet``, and the records that are missing although it has their trials' results."""
    try:
        rows, sealed = read_trials_table(folder.table)
    except FileNotFoundError:
        return []
    except DamageError as error:
        return [error.damage]
    return row_damages(folder, rows, sealed, checks)
