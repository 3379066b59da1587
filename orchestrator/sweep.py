"""A sweep: its trials handed to Ray Tune, what they report passed on to the terminal, MLflow and the table of trials."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, MutableMapping
from dataclasses import asdict, dataclass
from typing import Any

from orchestrator.config import Run, trial_id
from orchestrator.labels import trial_name
from orchestrator.placement import Placement, together
from orchestrator.progress import Progress
from orchestrator.records import read_record
from orchestrator.results import Folder
from orchestrator.sweep_file import Sweep

TUNE_FOLDER = ".fedpriv-tune"


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


def specs(sweep: Sweep) -> list[TrialSpec]:
    """The sweep's trials in the order of the file."""
    return [TrialSpec(trial_id(run), run, values) for run, values in zip(sweep.runs, sweep.values, strict=True)]


def remaining(folder: Folder, trials: list[TrialSpec]) -> list[TrialSpec]:
    """The trials that have not come to a result; what failed is tried again."""
    done = {"finished", "diverged"}
    return [trial for trial in trials if (read_record(folder.trial(trial.id)) or {}).get("status") not in done]


def run_trials(
    sweep: Sweep,
    folder: Folder,
    trials: list[TrialSpec],
    place: Placement,
    nodes: list[dict[str, float]],
    progress: Progress,
    commit: str | None,
) -> None:
    """Run ``trials`` to their ends with Ray Tune, as many at a time as fit. ``progress`` hears of everything."""
    from ray import tune

    from orchestrator.driver import Driver
    from orchestrator.hearing import Hearing

    common = {
        "sweep": str(folder.path),
        "data_root": str(sweep.data_root),
        "placement": asdict(place),
        "timeout": sweep.resources.timeout_seconds,
        "commit": commit,
    }
    configs = [{"id": trial.id, "run": trial.run.to_dict()} | common for trial in trials]
    tuner = tune.Tuner(
        tune.with_resources(Driver, tune.PlacementGroupFactory([{}, *place.bundles])),
        param_space={"trial": tune.grid_search(configs)},
        tune_config=tune.TuneConfig(
            reuse_actors=True,
            max_concurrent_trials=together(place, nodes, sweep.resources.concurrent_trials),
            trial_name_creator=_named,
            trial_dirname_creator=_named,
        ),
        run_config=tune.RunConfig(
            name="tune",
            storage_path=str(folder.path / TUNE_FOLDER),
            callbacks=[Hearing(progress)],
            failure_config=tune.FailureConfig(max_failures=sweep.resources.trial_retries),
            verbose=0,
        ),
    )
    try:
        tuner.fit()
    finally:
        shutil.rmtree(folder.path / TUNE_FOLDER, ignore_errors=True)


def _named(trial: Any) -> str:
    return trial.config["trial"]["id"]


def tune_environment(environment: MutableMapping[str, str]) -> None:
    """Switch off what Tune would write beside our results; must be set before Tune is imported."""
    environment.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    environment.setdefault("TUNE_DISABLE_AUTO_CALLBACK_SYNCER", "1")
    environment.setdefault("TUNE_RESULT_BUFFER_LENGTH", "0")
    environment.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")  # Ctrl-C is ours: it ends the command, not only a trial
    environment.setdefault("TUNE_GLOBAL_CHECKPOINT_S", "3600")
    environment.setdefault("RAY_AIR_NEW_OUTPUT", "0")


def results_of(folder: Folder, trials: list[TrialSpec]) -> list[dict[str, Any]]:
    """The rows of ``trials.parquet``: id, status, the name of every slot, seed, the swept keys, final metrics."""
    rows = []
    for trial in trials:
        record = read_record(folder.trial(trial.id)) or {}
        slots = {
            ".".join((*map(str, key), "name")): member.name for key, member in trial.run.chosen() if key[0] != "attacks"
        }
        attacks = ",".join(attack.name for attack in trial.run.attacks)
        swept = {key: json.dumps(v) if isinstance(v, dict | list) else v for key, v in trial.values.items()}
        row = {"id": trial.id, "status": record.get("status", "unfinished")} | slots
        row |= {"attacks": attacks or None, "seed": trial.run.seed, "rounds": trial.run.rounds} | swept
        rows.append(row | {"reason": record.get("reason")} | record.get("metrics", {}))
    return rows
