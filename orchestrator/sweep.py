"""A sweep: its trials handed to Ray Tune, what they report passed on to the terminal, MLflow and the table of trials."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, MutableMapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.config import Run, trial_id
from orchestrator.labels import trial_name
from orchestrator.placement import Placement, together
from orchestrator.progress import Progress
from orchestrator.records import ended, read_record
from orchestrator.results import Folder, WriteError
from orchestrator.sweep_file import Sweep
from orchestrator.tuning import Tune

if TYPE_CHECKING:
    from orchestrator.search import Search

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
    """The sweep's trials in the order of the file; where they are searched for, the ends of the space instead."""
    return [TrialSpec(trial_id(run), run, values) for run, values in zip(sweep.runs, sweep.values, strict=True)]


def remaining(folder: Folder, trials: list[TrialSpec], tune: Tune | None = None) -> list[TrialSpec]:
    """The trials that have not come to a result (see `records.ended`)."""
    return [trial for trial in trials if not ended(read_record(folder.trial(trial.id)) or {}, tune)]


def run_trials(
    sweep: Sweep,
    folder: Folder,
    trials: list[TrialSpec],
    place: Placement,
    nodes: list[dict[str, float]],
    progress: Progress,
    commit: str | None,
    search: Search | None = None,
) -> list[str]:
    """Run ``trials`` to their ends with Ray Tune, as many at a time as fit. ``progress`` hears of everything.

    With a ``search`` the trials are those that it draws, and ``trials`` what it has drawn so far. Returns what there is
    to complain about.
    """
    from ray import tune
    from ray.tune.error import TuneError

    from orchestrator.driver import Driver
    from orchestrator.hearing import Hearing
    from orchestrator.stopping import Drawing, Stopping

    stopping = None
    if sweep.tune and sweep.tune.scheduler:
        stopping = Stopping(sweep.tune, max(run.rounds for run in sweep.runs))
        stopping.recall(folder, search.specs if search else specs(sweep))
    common = {
        "sweep": str(folder.path),
        "data_root": str(sweep.data_root),
        "placement": asdict(place),
        "timeout": sweep.resources.timeout_seconds,
        "commit": commit,
        "every_round": stopping is not None,
    }

    def configured(trial: TrialSpec) -> dict[str, Any]:
        progress.planned(trial.id, trial.title, trial.run.to_dict())
        return {"id": trial.id, "run": trial.run.to_dict()} | common

    if search:
        search.over = progress.statuses
    tuner = tune.Tuner(
        tune.with_resources(Driver, tune.PlacementGroupFactory([{}, *place.bundles])),
        param_space={} if search else {"trial": tune.grid_search([configured(trial) for trial in trials])},
        tune_config=tune.TuneConfig(
            search_alg=Drawing(search, configured) if search else None,
            num_samples=search.samples if search else 1,
            scheduler=stopping,
            reuse_actors=True,
            max_concurrent_trials=together(place, nodes, sweep.resources.concurrent_trials),
            trial_name_creator=_named,
            trial_dirname_creator=_named,
        ),
        run_config=tune.RunConfig(
            name="tune",
            storage_path=str(folder.path / TUNE_FOLDER),
            callbacks=[Hearing(progress, str(place), sweep.resources.timeout_seconds, stopping)],
            failure_config=tune.FailureConfig(max_failures=sweep.resources.trial_retries),
            verbose=0,
        ),
    )
    try:
        tuner.fit()
    except TuneError as error:
        # What `Hearing` raises arrives wrapped in a traceback.
        if isinstance(error.__context__, WriteError):
            raise error.__context__ from None
        raise
    finally:
        shutil.rmtree(folder.path / TUNE_FOLDER, ignore_errors=True)
    return stopping.complaint() if stopping else []


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
