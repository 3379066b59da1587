"""Ray Tune as a sweep uses it: trials in, what they report passed on, nothing of Tune's left behind."""

from __future__ import annotations

import shutil
from collections.abc import Callable, MutableMapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from orchestrator.cluster.placement import Placement, concurrent_trials
from orchestrator.config.sweep_file import Sweep
from orchestrator.results.folder import Folder, WriteError
from orchestrator.scheduling.trials import TrialSpec, trial_specs
from orchestrator.tracking.events import TrialEvents

if TYPE_CHECKING:
    from orchestrator.scheduling.adapters import StoppingScheduler
    from orchestrator.scheduling.callback import TuneCallback
    from orchestrator.scheduling.search import Search

TUNE_FOLDER = ".fedpriv-tune"


def run_trials(
    sweep: Sweep,
    folder: Folder,
    trials: list[TrialSpec],
    place: Placement,
    nodes: list[dict[str, float]],
    progress: TrialEvents,
    commit: str | None,
    search: Search | None = None,
) -> list[str]:
    """Run ``trials`` to their ends, as many at a time as fit. ``progress`` hears of everything.

    With a ``search`` the trials are those that it draws, and ``trials`` what it has drawn so far. Returns what there is
    to complain about. Raises WriteError where results cannot be kept, and Stalled where the cluster has no room left.
    """
    from orchestrator.scheduling.callback import TuneCallback

    retries, concurrent = (
        sweep.resources.trial_retries,
        concurrent_trials(place, nodes, sweep.resources.concurrent_trials),
    )
    stopping = _scheduler(sweep, folder, search)
    hearing = TuneCallback(progress, str(place), sweep.resources.timeout_seconds, stopping)
    if search:
        search.over, search.dropped = progress.statuses, hearing.dropped
    while True:
        space, order = _trials(sweep, folder, trials, place, progress, commit, search)
        order |= {"max_concurrent_trials": concurrent, "scheduler": stopping}
        _fit(folder, place, space, order, retries, hearing)
        if not hearing.dropped:
            return stopping.complaint() if stopping else []
        trials = [trial for trial in trials if trial.id in hearing.dropped]
        hearing.dropped.clear()


def _fit(
    folder: Folder, place: Placement, space: dict[str, Any], order: dict[str, Any], retries: int, hearing: TuneCallback
) -> None:
    """One pass of Tune over the trials of ``space``, in this order."""
    from ray import tune
    from ray.tune.error import TuneError

    from orchestrator.scheduling.driver import Driver

    tuner = tune.Tuner(
        tune.with_resources(Driver, tune.PlacementGroupFactory([{}, *place.bundles])),
        param_space=space,
        tune_config=tune.TuneConfig(
            reuse_actors=True, trial_name_creator=_trial_name, trial_dirname_creator=_trial_name, **order
        ),
        run_config=tune.RunConfig(
            name="tune",
            storage_path=str(folder.path / TUNE_FOLDER),
            callbacks=[hearing],
            failure_config=tune.FailureConfig(max_failures=retries),
            verbose=0,
        ),
    )
    try:
        tuner.fit()
    except TuneError as error:
        # What `TuneCallback` raises arrives wrapped in a traceback.
        if isinstance(error.__context__, WriteError):
            raise error.__context__ from None
        raise
    finally:
        shutil.rmtree(folder.path / TUNE_FOLDER, ignore_errors=True)


def _scheduler(sweep: Sweep, folder: Folder, search: Search | None) -> StoppingScheduler | None:
    """The scheduler, which knows the trials of earlier sessions."""
    if not sweep.tune or not sweep.tune.scheduler:
        return None
    from orchestrator.scheduling.adapters import StoppingScheduler

    stopping = StoppingScheduler(sweep.tune, max(run.rounds for run in sweep.runs))
    stopping.recall(folder, search.specs if search else trial_specs(sweep))
    return stopping


def _trials(
    sweep: Sweep,
    folder: Folder,
    trials: list[TrialSpec],
    place: Placement,
    progress: TrialEvents,
    commit: str | None,
    search: Search | None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tune's search space, and how trials come out of it: all that there are, or one after another as they are drawn."""
    common = {
        "sweep": str(folder.path),
        "data_root": str(sweep.data_root),
        "placement": asdict(place),
        "timeout": sweep.resources.timeout_seconds,
        "commit": commit,
        "every_round": bool(sweep.tune and sweep.tune.scheduler),
    }

    def configured(trial: TrialSpec) -> dict[str, Any]:
        progress.on_planned(trial.id, trial.title, trial.run.to_dict())
        return {"id": trial.id, "run": trial.run.to_dict()} | common

    return _draw_trials(search, configured) if search else (_list_trials(trials, configured), {})


def _list_trials(trials: list[TrialSpec], configured: Callable[[TrialSpec], dict[str, Any]]) -> dict[str, Any]:
    from ray import tune

    return {"trial": tune.grid_search([configured(trial) for trial in trials])}


def _draw_trials(
    search: Search, configured: Callable[[TrialSpec], dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    from orchestrator.scheduling.adapters import SearchAdapter

    return {}, {"search_alg": SearchAdapter(search, configured), "num_samples": search.samples}


def _trial_name(trial: Any) -> str:
    return trial.config["trial"]["id"]


def tune_environment(environment: MutableMapping[str, str]) -> None:
    """Switch off what Tune would write beside our results; must be set before Tune is imported."""
    environment.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    environment.setdefault("TUNE_DISABLE_AUTO_CALLBACK_SYNCER", "1")
    environment.setdefault("TUNE_RESULT_BUFFER_LENGTH", "0")
    environment.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")  # Ctrl-C is ours: it ends the command, not only a trial
    environment.setdefault("TUNE_GLOBAL_CHECKPOINT_S", "3600")
    environment.setdefault("RAY_AIR_NEW_OUTPUT", "0")
