"""The trials of a sweep, and what Tune and the results folder are told of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
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
    """One trial of a sweep.

    Attributes:
        id: the hash of its run, see `trial_id`.
        run: its resolved run.
        values: its values of the swept keys, by dotted key.
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
    """What Tune hands to the driver of a trial, as ``config["trial"]``.

    There it stands as plain values: Tune replaces objects by placeholders.

    Attributes:
        identity: what the trial is.
        sweep: the folder of the sweep's results.
        data_root: the folder under which data sets lie.
        placement: the processes that it is given.
        timeout: seconds to wait for a process that does not start.
        every_round: whether every round is reported by itself, because a scheduler may stop the trial after each.
        title: the sweep and the trial's swept values, as Ray's dashboard shows them.
    """

    identity: TrialIdentity
    sweep: str
    data_root: str
    placement: Placement
    timeout: float
    every_round: bool
    title: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The configuration as plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> TrialConfig:
        """The configuration that `to_dict` made ``plain`` of."""
        identity, placement = TrialIdentity(**plain["identity"]), Placement(**plain["placement"])
        return cls(**{**plain, "identity": identity, "placement": placement})


def tune_trial_id(trial: Any) -> str:
    """The id of the trial of ours that Tune's ``trial`` runs."""
    found: str = trial.config["trial"]["identity"]["id"]
    return found


def tune_trial_name(trial: Any) -> str:
    """The name that Tune and Ray's dashboard show for Tune's ``trial``: the sweep and the trial's swept values."""
    shown: str = trial.config["trial"]["title"]
    return shown


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
    rows = []
    for trial, swept in zip(trials, _cells(trials), strict=True):
        slots = {
            ".".join((*map(str, key), "name")): component.name
            for key, component in chosen_components(trial.run)
            if key[0] != "attacks"
        }
        attacks = ",".join(attack.name for attack in trial.run.attacks)
        row = (
            {"id": trial.id} | slots | {"attacks": attacks or None, "seed": trial.run.seed, "rounds": trial.run.rounds}
        )
        rows.append(json.loads(json.dumps(row | swept)))
    return rows


def _cells(trials: list[TrialSpec]) -> list[dict[str, Any]]:
    """The swept values of each trial as cells: lists and maps are JSON, and so are numbers beside texts (``all`` and 1)."""
    rows = [
        {
            key: json.dumps(value) if isinstance(value, dict | list | tuple) else value
            for key, value in trial.values.items()
        }
        for trial in trials
    ]
    kinds: dict[str, set[type]] = {}
    for key, value in (pair for row in rows for pair in row.items() if pair[1] is not None):
        kinds.setdefault(key, set()).add(type(value) if isinstance(value, bool | str) else float)
    mixed = {key for key, found in kinds.items() if len(found) > 1}
    return [
        {
            key: json.dumps(value) if key in mixed and not isinstance(value, str | None) else value
            for key, value in row.items()
        }
        for row in rows
    ]
