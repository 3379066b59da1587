"""The trials of a sweep, those that still have to run, and their rows in ``trials.parquet``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from algorithms.interfaces import Run
from orchestrator.cluster.placement import Placement
from orchestrator.config.run import trial_id
from orchestrator.config.slots import chosen_components
from orchestrator.config.sweep_file import Sweep
from orchestrator.config.tune_section import Tune
from orchestrator.results.folder import Folder
from orchestrator.results.record import TrialIdentity, has_ended, read_record
from orchestrator.tracking.labels import trial_name
from orchestrator.tracking.restored import Planned

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
        files = tuple((path, own) for path, own in plain["identity"]["files"])
        identity, placement = TrialIdentity(**{**plain["identity"], "files": files}), Placement(**plain["placement"])
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


def remaining_trials(folder: Folder, trials: list[TrialSpec], tune: Tune | None = None) -> list[TrialSpec]:
    """The trials that do not have a result yet, see `has_ended`."""
    return [trial for trial in trials if not has_ended(read_record(folder.trial(trial.id)) or {}, tune)]


def planned(trials: list[TrialSpec]) -> dict[str, Planned]:
    """How the trials are named in MLflow, by id."""
    return {
        trial.id: Planned.of(trial.title, json.loads(json.dumps(trial.run.to_dict())), trial.values) for trial in trials
    }


def tidy(folder: Folder, trials: list[TrialSpec]) -> None:
    """Remove what a killed run has left besides results: Tune's files, and the states of trials that have a result."""
    shutil.rmtree(folder.path / TUNE_FOLDER, ignore_errors=True)
    for trial in trials:
        files = folder.trial(trial.id)
        if files.state.exists() and (read_record(files) or {}).get("status") in ("finished", "diverged"):
            shutil.rmtree(files.state, ignore_errors=True)


def trial_rows(folder: Folder, trials: list[TrialSpec], again: Collection[str] = ()) -> list[dict[str, Any]]:
    """The rows of ``trials.parquet``: id, status, component of every slot, seed, swept keys, final metrics.

    Args:
        folder: the sweep's folder.
        trials: the trials.
        again: the ids of trials whose results are given up.
    """
    rows = []
    for trial in trials:
        record = (read_record(folder.trial(trial.id)) if trial.id not in again else None) or {}
        slots = {
            ".".join((*map(str, key), "name")): component.name
            for key, component in chosen_components(trial.run)
            if key[0] != "attacks"
        }
        attacks = ",".join(attack.name for attack in trial.run.attacks)
        swept = {key: json.dumps(v) if isinstance(v, dict | list) else v for key, v in trial.values.items()}
        row = {"id": trial.id, "status": record.get("status", "unfinished")} | slots
        row |= {"attacks": attacks or None, "seed": trial.run.seed, "rounds": trial.run.rounds} | swept
        row |= {"reason": record.get("reason")}
        row |= {"notes": "; ".join(notes)} if (notes := record.get("notes")) else {}
        rows.append(row | record.get("metrics", {}))
    return rows
