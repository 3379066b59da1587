"""The trials of a sweep, what Tune and the results folder are told of them, and what the folder
holds of them already.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from algorithms.interfaces import Run
from orchestrator.cluster.placement import Placement
from orchestrator.config.errors import ConfigError, ConfigProblem
from orchestrator.config.run import trial_id
from orchestrator.config.slots import chosen_components
from orchestrator.config.sweep_file import Sweep
from orchestrator.config.tune_section import Tune
from orchestrator.results.log import DamageError, in_parallel, quarantine
from orchestrator.results.paths import Folder
from orchestrator.results.provenance import Hashes
from orchestrator.results.record import (
    UNREPEATABLE,
    TrialIdentity,
    damage_of_trial,
    drew_secret_noise,
    has_ended,
    read_record,
)
from orchestrator.results.writing import remove_folder
from orchestrator.tracking.labels import trial_name
from orchestrator.trial.saved import begun_with, lost_record, was_saved

TUNE_FOLDER = ".fedpriv-tune"


@dataclass(frozen=True)
class TrialSpec:
    """One trial of a sweep: the hash of its run (`trial_id`), the run, and its values of the
    swept keys, by dotted key.
    """

    id: str
    run: Run
    values: Mapping[str, Any]

    @property
    def title(self) -> str:
        """The swept values in short, for example ``ifca_mir minority_ratio=0.2 seed=1``."""
        return trial_name(self.values) or self.id


@dataclass(frozen=True)
class TrialConfig:
    """What Tune hands to the driver of a trial, as ``config["trial"]``, in plain values: Tune
    replaces objects.
    """

    identity: TrialIdentity
    sweep: str  # the folder of the sweep's results
    data_root: str  # the folder under which data sets lie
    placement: Placement
    timeout: float  # seconds to wait for a process that does not start
    # whether every round is reported by itself, because a scheduler may stop the trial after each
    every_round: bool
    title: str = ""  # the sweep and the trial's swept values, as Ray's dashboard shows them
    share: bool = (
        True  # whether the trial takes over what others of the sweep have trained, and the reverse
    )

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> TrialConfig:
        """The configuration of which ``plain`` are the values, by ``dataclasses.asdict``."""
        identity = TrialIdentity(**plain["identity"])
        placement = Placement(**plain["placement"])
        return cls(**{**plain, "identity": identity, "placement": placement})


def tune_trial_id(trial: Any) -> str:
    """The id of the trial of ours that Tune's ``trial`` runs."""
    return str(trial.config["trial"]["identity"]["id"])


def trial_specs(sweep: Sweep) -> list[TrialSpec]:
    """The trials of the sweep in the order of the file; for a search, those at the ends of the
    search space.
    """
    return [
        TrialSpec(trial_id(run), run, values)
        for run, values in zip(sweep.runs, sweep.values, strict=True)
    ]


def unrepeatable(trials: list[TrialSpec]) -> str | None:
    """A sentence on the trials whose noise is secret, to be said before they start; None if
    there are none.
    """
    count = sum(not trial.run.repeatable for trial in trials)
    if not count:
        return None
    return (
        f"{count} of {len(trials)} trials draw secret noise: running them again would give "
        "other numbers"
    )


def plan(trials: list[TrialSpec]) -> list[dict[str, Any]]:
    """What is known of every trial before it runs: id, component of every slot, attacks, seed,
    rounds, swept keys.
    """
    rows = []
    words = _words(trials)
    for trial in trials:
        chosen = [
            (key, component.name)
            for key, component in chosen_components(trial.run)
            if key[0] != "attacks"
        ]
        slots = {".".join((*map(str, key), "name")): name for key, name in chosen}
        attacks = ",".join(attack.name for attack in trial.run.attacks)
        row: dict[str, Any] = {"id": trial.id, **slots, "attacks": attacks or None}
        row |= {"seed": trial.run.seed, "rounds": trial.run.rounds}
        for key, value in trial.values.items():
            as_text = key in words and not isinstance(value, str | None)
            row[key] = json.dumps(value) if as_text else value
        rows.append(json.loads(json.dumps(row)))
    return rows


def _words(trials: list[TrialSpec]) -> set[str]:
    """The swept keys whose values are cells of JSON: lists and maps, and values of several kinds
    (``all`` and 1).
    """
    kinds: dict[str, set[type]] = {}
    for key, value in (
        pair for trial in trials for pair in trial.values.items() if pair[1] is not None
    ):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        kinds.setdefault(key, set()).add(float if number else type(value))
    return {key for key, types in kinds.items() if len(types) > 1 or types & {dict, list, tuple}}


# What the sweep's folder holds already: what is complete, what ran with other code or data, what is
# damaged


@dataclass(frozen=True)
class Earlier:
    """The trials of a sweep before this run, by their ids.

    Attributes:
        complete: those that have a result.
        changed: those among them that ran with other code or data than today's, with what differs.
        begun: unfinished ones that began with other code or data: they begin anew.
        damaged: what is damaged of trials that run again.
        repeat: whether the changed trials are to run again.
    """

    complete: frozenset[str]
    changed: Mapping[str, Sequence[str]]
    begun: Mapping[str, Sequence[str]]
    damaged: Mapping[str, DamageError]
    repeat: bool = False

    def again(self) -> set[str]:
        """The ids of the trials whose results are given up."""
        return {*self.begun, *self.damaged, *(self.changed if self.repeat else ())}

    def remaining(self, trials: Sequence[TrialSpec]) -> list[TrialSpec]:
        """The trials to run, in the order of the sweep."""
        over = self.complete - self.again()
        return [trial for trial in trials if trial.id not in over]

    def sentences(self, total: int, search: bool = False) -> list[str]:
        """Say what the earlier results of the sweep's ``total`` trials are, before anything
        runs; a ``search`` repeats none.
        """
        sentences = []
        if self.changed:
            option = "" if search else "; --repeat-changed runs them again"
            then = "and run again" if self.repeat else f"and their results stand{option}"
            sentences.append(
                f"{len(self.changed)} of {total} trials ran with {_other(self.changed)} {then}"
            )
        if self.begun:
            other = _other(self.begun)
            sentences.append(
                f"{len(self.begun)} unfinished trials were begun with {other}, and begin anew"
            )
        return sentences

    def set_back(self, folder: Folder) -> list[str]:
        """Set damaged trials aside, delete what runs again with other code or data, and say so.

        The folder is claimed.

        Raises:
            WriteError: something could not be renamed or deleted.
        """
        sentences = []
        for trial, damage in self.damaged.items():
            aside = quarantine(folder.trial(trial).path)
            sentences.append(
                f"{damage}: its folder is set aside as {aside.name}, and the trial runs again"
            )
        for trial in self.again() - self.damaged.keys():
            remove_folder(folder.trial(trial).path)
        return sentences


def earlier_results(
    folder: Folder,
    trials: Sequence[TrialSpec],
    hashes: Hashes,
    tune: Tune | None = None,
    repeat: bool = False,
    drawing: bool = False,
) -> Earlier:
    """Compare what a results folder, which need not exist, holds with the trials, the code and
    the data of today.

    Trials that ran with other code or data ``repeat`` or not; a search that is ``drawing`` may
    still draw further ones.

    Raises:
        ConfigError: a trial that is damaged, has lost its manifest, or was begun with other code or
            data, drew secret noise, so running it again would give other results.
    """
    specs = {trial.id: trial for trial in trials}
    present = [trial for trial in folder.trials() if trial.id in specs or drawing]
    records = {trial.id: read_record(trial) or {} for trial in present}
    damages = in_parallel(damage_of_trial, present)
    found = [(trial.id, damage) for trial, damage in zip(present, damages, strict=True) if damage]
    damaged = {
        trial: damage
        for trial, damage in found
        if not records[trial] or has_ended(records[trial], tune)
    }
    gone = {
        trial.id: DamageError(trial.manifest, "is missing")
        for trial in present
        if lost_record(trial)
    }
    lost = [
        ConfigProblem(f"{damage}{UNREPEATABLE.format(folder.trial(trial).path)}", file="--results")
        for trial, damage in (damaged | gone).items()
        if (
            drew_secret_noise(folder.trial(trial))
            if trial not in specs
            else not specs[trial].run.repeatable
        )
    ]
    complete = (
        frozenset(trial for trial in specs if has_ended(records.get(trial, {}), tune))
        - damaged.keys()
    )
    now = {trial: hashes.origin(spec.run) for trial, spec in specs.items() if trial in records}
    recorded = {trial: records[trial].get("origin", {}) for trial in complete}
    begun = _changed(
        {trial: begun_with(folder.trial(trial)) for trial in now if trial not in complete}, now
    )
    lost += [
        ConfigProblem(
            f"{folder.trial(trial).path} was begun with "
            f"{_other({trial: kinds})}{UNREPEATABLE.format('what it began with')}",
            file="--results",
        )
        for trial, kinds in begun.items()
        if not specs[trial].run.repeatable and was_saved(folder.trial(trial))
    ]
    if lost:
        raise ConfigError(lost)
    return Earlier(complete, _changed(recorded, now), begun, damaged, repeat)


def _changed(
    before: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, str]]
) -> dict[str, list[str]]:
    """Which of "code" and "data" have other hashes than before, by trial; what was not hashed
    then or now is in neither.
    """
    kinds = {
        trial: [
            kind
            for kind in {"code", "data"} & then.keys() & now[trial].keys()
            if then[kind] != now[trial][kind]
        ]
        for trial, then in before.items()
    }
    return {trial: changed for trial, changed in kinds.items() if changed}


def _other(changed: Mapping[str, Sequence[str]]) -> str:
    return "other " + " and ".join(sorted({name for names in changed.values() for name in names}))
