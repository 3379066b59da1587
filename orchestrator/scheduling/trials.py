"""The trials of a sweep, and what Tune and the results folder are told of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from algorithms.interfaces import Run
from orchestrator.cluster.placement import Placement
from orchestrator.config.run import trial_id
from orchestrator.config.slots import chosen_components
from orchestrator.config.sweep_file import Sweep
from orchestrator.results.record import TrialIdentity
from orchestrator.tracking.labels import trial_name

TUNE_FOLDER = ".fedpriv-tune"


@dataclass(frozen=True)
class TrialSpec:
    """One trial of a sweep: the hash of its run (`trial_id`), the run, and its values of the swept keys, by dotted key."""

    id: str
    run: Run
    values: Mapping[str, Any]

    @property
    def title(self) -> str:
        """The swept values in short, for example ``ifca_mir minority_ratio=0.2 seed=1``."""
        return trial_name(self.values) or self.id


@dataclass(frozen=True)
class TrialConfig:
    """What Tune hands to the driver of a trial, as ``config["trial"]``, in plain values: Tune replaces objects."""

    identity: TrialIdentity
    sweep: str  # the folder of the sweep's results
    data_root: str  # the folder under which data sets lie
    placement: Placement
    timeout: float  # seconds to wait for a process that does not start
    every_round: bool  # whether every round is reported by itself, because a scheduler may stop the trial after each
    title: str = ""  # the sweep and the trial's swept values, as Ray's dashboard shows them

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> TrialConfig:
        """The configuration of which ``plain`` are the values, by ``dataclasses.asdict``."""
        identity, placement = TrialIdentity(**plain["identity"]), Placement(**plain["placement"])
        return cls(**{**plain, "identity": identity, "placement": placement})


def tune_trial_id(trial: Any) -> str:
    """The id of the trial of ours that Tune's ``trial`` runs."""
    return str(trial.config["trial"]["identity"]["id"])


def tune_trial_name(trial: Any) -> str:
    """The name that Tune and Ray's dashboard show for Tune's ``trial``: the sweep and the trial's swept values."""
    return str(trial.config["trial"]["title"])


def trial_specs(sweep: Sweep) -> list[TrialSpec]:
    """The trials of the sweep in the order of the file; for a search, those at the ends of the search space."""
    return [TrialSpec(trial_id(run), run, values) for run, values in zip(sweep.runs, sweep.values, strict=True)]


def unrepeatable(trials: list[TrialSpec]) -> str | None:
    """A sentence on the trials whose noise is secret, to be said before they start; None if there are none."""
    count = sum(not trial.run.repeatable for trial in trials)
    if not count:
        return None
    return f"{count} of {len(trials)} trials draw secret noise: running them again would give other numbers"


def plan(trials: list[TrialSpec]) -> list[dict[str, Any]]:
    """What is known of every trial before it runs: id, component of every slot, attacks, seed, rounds, swept keys."""
    rows, words = [], _words(trials)
    for trial in trials:
        slots = {
            ".".join((*map(str, key), "name")): component.name
            for key, component in chosen_components(trial.run)
            if key[0] != "attacks"
        }
        attacks = ",".join(attack.name for attack in trial.run.attacks)
        row: dict[str, Any] = {"id": trial.id, **slots, "attacks": attacks or None}
        row |= {"seed": trial.run.seed, "rounds": trial.run.rounds}
        for key, value in trial.values.items():
            as_text = key in words and not isinstance(value, str | None)
            row[key] = json.dumps(value) if as_text else value
        rows.append(json.loads(json.dumps(row)))
    return rows


def _words(trials: list[TrialSpec]) -> set[str]:
    """The swept keys whose values are cells of JSON: lists and maps, and values of several kinds (``all`` and 1)."""
    kinds: dict[str, set[type]] = {}
    for key, value in (pair for trial in trials for pair in trial.values.items() if pair[1] is not None):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        kinds.setdefault(key, set()).add(float if number else type(value))
    return {key for key, types in kinds.items() if len(types) > 1 or types & {dict, list, tuple}}
