"""A sweep's trials: which there are, which are still to be run, and their rows in the table of trials."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.config.run import Run, trial_id
from orchestrator.config.sweep_file import Sweep
from orchestrator.config.tune_section import Tune
from orchestrator.results.folder import Folder
from orchestrator.results.record import has_ended, read_record
from orchestrator.tracking.labels import trial_name


@dataclass(frozen=True)
class TrialSpec:
    """One trial as the sweep knows it: its ``id``, its ``run`` and the values of the swept keys."""

    id: str
    run: Run
    values: Mapping[str, Any]

    @property
    def title(self) -> str:
        """The swept values in short, for example ``ifca_mir minority_ratio=0.2 seed=1``."""
        return trial_name(self.values) or self.id


def trial_specs(sweep: Sweep) -> list[TrialSpec]:
    """The sweep's trials in the order of the file; where they are searched for, the ends of the space instead."""
    return [TrialSpec(trial_id(run), run, values) for run, values in zip(sweep.runs, sweep.values, strict=True)]


def remaining_trials(folder: Folder, trials: list[TrialSpec], tune: Tune | None = None) -> list[TrialSpec]:
    """The trials that have not come to a result (see `records.ended`)."""
    return [trial for trial in trials if not has_ended(read_record(folder.trial(trial.id)) or {}, tune)]


def trial_rows(folder: Folder, trials: list[TrialSpec]) -> list[dict[str, Any]]:
    """The rows of ``trials.parquet``: id, status, the name of every slot, seed, the swept keys, final metrics."""
    rows = []
    for trial in trials:
        record = read_record(folder.trial(trial.id)) or {}
        slots = {
            ".".join((*map(str, key), "name")): component.name
            for key, component in trial.run.chosen()
            if key[0] != "attacks"
        }
        attacks = ",".join(attack.name for attack in trial.run.attacks)
        swept = {key: json.dumps(v) if isinstance(v, dict | list) else v for key, v in trial.values.items()}
        row = {"id": trial.id, "status": record.get("status", "unfinished")} | slots
        row |= {"attacks": attacks or None, "seed": trial.run.seed, "rounds": trial.run.rounds} | swept
        rows.append(row | {"reason": record.get("reason")} | record.get("metrics", {}))
    return rows
