"""Running the trials of a sweep with Ray Tune. Events are passed on, and Tune's own files are removed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cluster.placement import Placement, concurrent_trials
from orchestrator.config.sweep_file import Sweep
from orchestrator.results.paths import Folder
from orchestrator.results.provenance import Hashes
from orchestrator.results.record import TrialIdentity
from orchestrator.results.writing import REFUSALS, WriteError, write_error
from orchestrator.scheduling.trials import (
    TUNE_FOLDER,
    TrialConfig,
    TrialSpec,
    trial_specs,
    tune_trial_id,
    tune_trial_name,
)
from orchestrator.tracking.events import TrialEvents

if TYPE_CHECKING:
    from orchestrator.scheduling.search import Search


TUNE_SETTINGS = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_AUTO_CALLBACK_SYNCER": "1",
    "TUNE_RESULT_BUFFER_LENGTH": "0",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Ctrl-C should end the command and not only a trial
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",
    "RAY_AIR_NEW_OUTPUT": "0",
}


def run_trials(
    sweep: Sweep,
    folder: Folder,
    trials: list[TrialSpec],
    place: Placement,
    nodes: list[dict[str, float]],
    progress: TrialEvents,
    hashes: Hashes,
    search: Search | None = None,
) -> list[str]:
    """Run trials until all have ended, as many at a time as fit; return warnings for the user.

    With a ``search``, which draws them, ``trials`` are those that it has drawn so far. ``nodes`` are the resources of each
    node, ``place`` is what one trial reserves, and ``progress`` receives all events.

    Raises:
        WriteError: results cannot be saved.
        StallError: the cluster has no room for any trial.
    """
    from ray import tune

    from orchestrator.scheduling.adapters import SearchAdapter, StoppingScheduler, TuneCallback

    resources, stopping = sweep.resources, None
    if sweep.tune and sweep.tune.scheduler:
        stopping = StoppingScheduler(sweep.tune, max(run.rounds for run in sweep.runs))
        stopping.recall(folder, search.specs if search else trial_specs(sweep))
    hearing = TuneCallback(progress, str(place), resources.timeout_seconds, resources.trial_retries, stopping)

    def configured(trial: TrialSpec) -> TrialConfig:
        identity = TrialIdentity(trial.id, trial.run.to_dict(), hashes.origin(trial.run))
        progress.on_planned(trial.id, trial.title, identity.run, trial.values)
        return TrialConfig(
            identity=identity,
            sweep=str(folder.path),
            data_root=str(sweep.root_of(trial.run)),
            placement=place,
            timeout=resources.timeout_seconds,
            every_round=bool(sweep.tune and sweep.tune.scheduler),
            title=f"{sweep.name} {trial.title}",
        )

    order: dict[str, Any] = {"scheduler": stopping}
    order["max_concurrent_trials"] = concurrent_trials(place, nodes, resources.concurrent_trials)
    hearing.again = True
    while hearing.again and (trials or search):
        hearing.again, space = False, dict[str, Any]()
        if search:
            search.over = progress.statuses
            order |= {"search_alg": SearchAdapter(search, configured, hearing), "num_samples": search.samples}
        else:
            space = {"trial": tune.grid_search([configured(trial).to_dict() for trial in trials])}
        _fit(folder, place, space, order, hearing)
        trials = [trial for trial in trials if trial.id not in progress.statuses]
    return stopping.complaint() if stopping else []


def _fit(folder: Folder, place: Placement, space: dict[str, Any], order: dict[str, Any], hearing: Any) -> None:
    """Run Tune once over the trials of ``space``; ``order`` has the further options of TuneConfig."""
    from ray import tune
    from ray.exceptions import OutOfMemoryError
    from ray.tune.error import TuneError

    from orchestrator.scheduling.driver import Driver

    driver: Any = tune.with_resources(Driver, tune.PlacementGroupFactory([{}, *place.bundles]))
    driver.__name__ = driver.__qualname__ = "Driver"  # as Ray's dashboard shows it, not as Tune's helper calls it
    tuner = tune.Tuner(
        driver,
        param_space=space,
        tune_config=tune.TuneConfig(
            reuse_actors=True, trial_name_creator=tune_trial_name, trial_dirname_creator=tune_trial_id, **order
        ),
        run_config=tune.RunConfig(
            name="tune",
            storage_path=str(folder.path / TUNE_FOLDER),
            callbacks=[hearing],
            failure_config=tune.FailureConfig(max_failures=hearing.retries),
            verbose=0,
            progress_reporter=tune.CLIReporter(),  # says nothing; in a notebook, the usual one clears the cell's output
        ),
    )
    try:
        tuner.fit()
    except (TuneError, OSError, RuntimeError) as error:
        if refused := _refused(error, folder):
            raise refused from None
        # Tune knows the error of an actor that has died, and ends itself at one that Ray has ended for lack of memory.
        killed = next((one for one in _causes(error) if isinstance(one, OutOfMemoryError)), None)
        if killed is None:
            raise
        hearing.on_killed(str(killed))
    finally:
        shutil.rmtree(folder.path / TUNE_FOLDER, ignore_errors=True)


def _refused(error: BaseException, folder: Folder) -> WriteError | None:
    """What the disk has refused, to `TuneCallback` or to Tune, which wraps it; None if it was something else."""
    for at in _causes(error):
        if isinstance(at, WriteError):
            return at
        if isinstance(at, OSError) and at.errno in REFUSALS:
            return write_error(Path(at.filename or folder.path / TUNE_FOLDER), "could not be written", at)
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, and what it was raised from, one after another."""
    at: BaseException | None = error
    while at is not None:
        yield at
        at = at.__cause__ or at.__context__


def tune_environment(environment: MutableMapping[str, str]) -> None:
    """Set the variables that stop Tune from writing files of its own; call it before Tune is imported."""
    for name, value in TUNE_SETTINGS.items():
        environment.setdefault(name, value)
