"""Running trials with Ray Tune: schedulers and a search that know our trial ids and survive a
resumed sweep, and events.
"""

from __future__ import annotations

import math
import shutil
import time
from collections import Counter, namedtuple
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray import tune
from ray.exceptions import OutOfMemoryError
from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from orchestrator.cluster.address import StallError
from orchestrator.cluster.placement import Placement, concurrent_trials
from orchestrator.cluster.ray_session import RESUMES, causes, death
from orchestrator.config.sweep_file import Sweep
from orchestrator.config.tune_section import Tune
from orchestrator.results.paths import Folder
from orchestrator.results.provenance import Hashes
from orchestrator.results.record import TrialIdentity, has_ended, part_of, read_record
from orchestrator.results.tables import read_table
from orchestrator.results.writing import REFUSALS, WriteError, write_error
from orchestrator.scheduling.trials import (
    TUNE_FOLDER,
    TrialConfig,
    TrialSpec,
    trial_specs,
    tune_trial_id,
)
from orchestrator.tracking.events import TrialEvents
from orchestrator.trial import outcome

if TYPE_CHECKING:
    from orchestrator.scheduling.search import Search

WORTH_SAYING = 30.0  # seconds without a running trial until the user is told
ROUNDS = "rounds done"
TrialHandle = namedtuple(
    "TrialHandle", ["trial_id"]
)  # what a scheduler of Tune sees of a trial: our id


class StoppingScheduler(FIFOScheduler):
    """Passes every round of every trial, including those of earlier sessions, to Tune's
    scheduler ASHA (``inner``).

    Attributes:
        last: for each trial, the last round that had the metric, and the value there.
    """

    def __init__(self, goal: Tune, longest: int) -> None:
        """Set up the scheduler of the section ``tune``; ``longest`` is the number of rounds of
        the longest trial.
        """
        super().__init__()
        self.goal = goal
        asha = goal.scheduler
        assert asha is not None and isinstance(goal.metric, str) and isinstance(goal.mode, str)
        self.name = goal.metric
        # One round more than the longest trial has, so that the scheduler does not stop that trial
        # in its last round.
        rungs: dict[str, Any] = {
            "max_t": longest + 1,
            "time_attr": ROUNDS,
            "grace_period": asha.grace_period,
        }
        rungs["reduction_factor"] = asha.reduction_factor
        self.inner: Any = AsyncHyperBandScheduler(metric=goal.metric, mode=goal.mode, **rungs)
        self.last: dict[str, tuple[int, float]] = {}

    def recall(self, folder: Folder, trials: Iterable[TrialSpec]) -> None:
        """Replay the saved rounds of ended trials, as if Tune had reported them in this session."""
        for spec in trials:
            own = folder.trial(spec.id)
            ended = has_ended(read_record(own) or {}, self.goal)
            rounds = part_of(own, own.table("rounds")) if ended else None
            if rounds:
                self.decide(spec.id, read_table(rounds).to_pylist())

    def decide(self, trial: str, rows: Iterable[Mapping[str, Any]]) -> str:
        """Report a trial's rounds, in order, to the scheduler, except those without the metric.

        Returns:
            The scheduler's decision after any of these rounds, a constant of `TrialScheduler`.
        """
        handle = TrialHandle(trial)
        decision = TrialScheduler.CONTINUE
        for row in rows:
            value = row.get(self.name)
            if (
                value is None
                or value != value
                or (trial in self.last and row["round"] <= self.last[trial][0])
            ):
                continue
            if trial not in self.last:
                self.inner.on_trial_add(None, handle)
            self.last[trial] = (row["round"], float(value))
            result = {ROUNDS: row["round"] + 1, self.name: float(value)}
            if self.inner.on_trial_result(None, handle, result) == TrialScheduler.STOP:
                decision = (
                    TrialScheduler.STOP
                )  # the rounds after it are done, too, and count at their rungs
        return decision

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """Decide after a report of Tune whether the trial continues; with the rounds of its last
        one, others are compared.
        """
        own = tune_trial_id(trial)
        self.decide(
            own, result.get("before", [])
        )  # of a resumed trial, which has passed their rungs
        return self.decide(own, result.get("rows", []))

    on_trial_complete = on_trial_result


class TuneCallback(tune.Callback):
    """Translates Tune's callbacks into events of our trials.

    Attributes:
        again: whether Tune has abandoned a trial that may be retried, or itself, so that it must be
            started again. A trial is abandoned if the driver's process dies before the trial has
            begun, or while it takes over the trial.
    """

    def __init__(
        self,
        progress: TrialEvents,
        needs: str,
        patience: float,
        retries: int,
        stopping: StoppingScheduler | None = None,
    ) -> None:
        """Wait ``patience`` seconds for room for what a trial ``needs``, and allow its process
        ``retries`` deaths.
        """
        self.progress = progress
        self.needs = needs
        self.patience = patience
        self.retries = retries
        self.stopping = stopping
        self.again = False
        self.began: dict[str, float] = {}
        self.processes: dict[str, int | None] = {}
        self.deaths: Counter[str] = Counter()
        self.idle_since = math.inf  # since when no trial runs
        self.was_said = False  # whether the user knows

    def __getstate__(self) -> dict[str, Any]:
        """An empty state: Tune pickles its callbacks in order to resume, which we do not use;
        threads cannot be pickled.
        """
        return {}

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Announce that a trial has started."""
        started = tune_trial_id(trial)
        self.began.setdefault(started, time.time())
        if (
            started not in self.progress.statuses
        ):  # Tune restarts a trial whose process died after the trial had ended
            self.progress.on_started(started)

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any
    ) -> None:
        """Pass on a driver's report; raises WriteError if the driver could not write its
        results.
        """
        if "unwritable" in result:  # the other trials could not write either
            raise WriteError(*result["unwritable"])
        reporting = tune_trial_id(trial)
        if result.get("repaired"):
            self.progress.on_note(reporting, result["repaired"], lasting=True)
        self.processes[reporting] = result.get("pid")
        self.progress.on_rounds(reporting, result.get("rows", []))
        if result.get("note"):
            self.progress.on_note(reporting, result["note"])
        if "summary" in result and reporting not in self.progress.statuses:
            self.progress.on_ended(reporting, result["summary"])

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Record a trial that the scheduler has stopped; other trials report their end
        themselves.
        """
        stopped = tune_trial_id(trial)
        if stopped in self.progress.statuses or self.stopping is None:
            return
        identity = TrialConfig.from_dict(trial.config["trial"]).identity
        by = self.stopping.goal.rule or {}
        last = self.stopping.last[stopped]
        folder = self.progress.folder.trial(stopped)
        self.progress.on_ended(
            stopped, outcome.stop(folder, identity, self.began[stopped], by, last)
        )

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Look for trials that wait for resources.

        Raises:
            StallError: Ray has died, or no trial could be placed for too long.
        """
        end_if_dead()
        waiting = [tune_trial_id(trial) for trial in trials if trial.status == "PENDING"]
        now = time.monotonic()
        if not waiting or any(trial.status == "RUNNING" for trial in trials):
            self.idle_since = math.inf
            self.was_said = False
            return
        if not any(node["Alive"] for node in ray.nodes()):
            raise StallError(f"Ray has died: no node of the cluster is left; {RESUMES}")
        self.idle_since = min(self.idle_since, now)
        if now - self.idle_since > self.patience:
            raise StallError(
                f"no trial could be placed for {self.patience:g} s: one trial needs "
                f"{self.needs}, and the cluster no longer has these resources, or others use "
                f"them; {RESUMES}"
            )
        if now - self.idle_since > WORTH_SAYING and not self.was_said:
            self.was_said = True
            self.progress.on_note(waiting[0], f"waiting for resources on the cluster: {self.needs}")

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Have a trial whose process died started again if it may be retried, or mark it as failed.

        Raises:
            StallError: the process died with its Ray.
        """
        end_if_dead()
        lost = tune_trial_id(trial)
        text = ""
        with suppress(OSError):  # a file of Tune's, which may be gone
            text = Path(trial.error_file).read_text(errors="replace") if trial.error_file else ""
        self.deaths[lost] += (
            1 if trial.should_recover() else self.retries + 1
        )  # Tune has counted the others
        self._retry(lost, text)

    def on_killed(self, text: str) -> None:
        """Have all trials go on, as Tune has ended itself over one whose process Ray has killed,
        and says ``text`` of it.
        """
        running = self.began.keys() - self.progress.statuses.keys()
        self.again = True
        for lost in {
            trial for trial in running if f"pid={self.processes.get(trial)}," in text
        } or running:
            self.deaths[lost] += 1
            self._retry(lost, text)

    def _retry(self, lost: str, text: str) -> None:
        if self.deaths[lost] > self.retries:
            self.progress.on_lost(lost, text)
        else:
            self.again = True


class SearchAdapter(Searcher):
    """Gives the trials of a search to Tune, as ``configured`` makes them, except those that
    already have a result.
    """

    def __init__(
        self, search: Search, configured: Callable[[TrialSpec], TrialConfig], callback: TuneCallback
    ) -> None:
        super().__init__()
        self.search = search
        self.configured = configured
        self.callback = callback
        self.suggested: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        """An empty state: Tune pickles its searchers in order to resume, but we resume from the
        records of the trials.
        """
        return {}

    def suggest(self, trial_id: str) -> Any:
        """The configuration of the next trial; None while the next draw needs a trial that is
        still running.
        """
        if self.callback.again:
            return Searcher.FINISHED
        self.search.replay()
        for spec in self.search.specs:
            if spec.id not in self.suggested and spec.id not in self.search.over:
                self.suggested.add(spec.id)
                if not has_ended(
                    read_record(self.search.folder.trial(spec.id)) or {}, self.search.tune
                ):
                    return {"trial": asdict(self.configured(spec))}
        return Searcher.FINISHED if self.search.complete else None

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Do nothing: the search reads results from the records of the trials."""


def run_trials(
    sweep: Sweep,
    folder: Folder,
    trials: list[TrialSpec],
    place: Placement,
    nodes: list[dict[str, float]],
    progress: TrialEvents,
    hashes: Hashes,
    search: Search | None = None,
) -> None:
    """Run trials until all have ended, as many at a time as fit.

    With a ``search``, which draws them, ``trials`` are those that it has drawn so far. ``nodes``
    are the resources of each node, ``place`` is what one trial reserves, and ``progress`` receives
    all events.

    Raises:
        WriteError: results cannot be saved.
        StallError: Ray has died, or the cluster has no room for any trial.
    """
    resources = sweep.resources
    stopping = None
    if sweep.tune and sweep.tune.scheduler:
        stopping = StoppingScheduler(sweep.tune, max(run.rounds for run in sweep.runs))
        stopping.recall(folder, search.specs if search else trial_specs(sweep))
    callback = TuneCallback(
        progress, str(place), resources.timeout_seconds, resources.trial_retries, stopping
    )

    def configured(trial: TrialSpec) -> TrialConfig:
        identity = TrialIdentity(trial.id, trial.run.to_dict(), hashes.origin(trial.run))
        progress.on_planned(trial.id, trial.title, identity.run, trial.values)
        return TrialConfig(
            identity=identity,
            sweep=str(folder.path),
            data_root=str(sweep.root_of(trial.run)),
            placement=place,
            timeout=resources.timeout_seconds,
            every_round=stopping is not None,
            title=f"{sweep.name} {trial.title}",
            share=resources.share,
        )

    options: dict[str, Any] = {"scheduler": stopping}
    options["max_concurrent_trials"] = concurrent_trials(place, nodes, resources.concurrent_trials)
    callback.again = True
    while callback.again and (trials or search):
        callback.again = False
        space = dict[str, Any]()
        if search:
            search.over = progress.statuses
            options |= {
                "search_alg": SearchAdapter(search, configured, callback),
                "num_samples": search.samples,
            }
        else:
            space = {"trial": tune.grid_search([asdict(configured(trial)) for trial in trials])}
        _fit(folder, place, space, options, callback)
        trials = [trial for trial in trials if trial.id not in progress.statuses]


def tune_trial_name(trial: Any) -> str:
    """The name that Tune and Ray's dashboard show for Tune's ``trial``: the sweep and the
    trial's swept values.
    """
    return str(trial.config["trial"]["title"])


def _fit(
    folder: Folder,
    place: Placement,
    space: dict[str, Any],
    options: dict[str, Any],
    callback: TuneCallback,
) -> None:
    """Run Tune once over the trials of ``space``; ``options`` are further ones of TuneConfig."""
    from orchestrator.scheduling.driver import Driver

    driver: Any = tune.with_resources(Driver, tune.PlacementGroupFactory([{}, *place.bundles]))
    driver.__name__ = driver.__qualname__ = (
        "Driver"  # as Ray's dashboard shows it, not as Tune's helper calls it
    )
    tuner = tune.Tuner(
        driver,
        param_space=space,
        tune_config=tune.TuneConfig(
            reuse_actors=True,
            trial_name_creator=tune_trial_name,
            trial_dirname_creator=tune_trial_id,
            **options,
        ),
        run_config=tune.RunConfig(
            name="tune",
            storage_path=str(folder.path / TUNE_FOLDER),
            callbacks=[callback],
            failure_config=tune.FailureConfig(max_failures=callback.retries),
            checkpoint_config=tune.CheckpointConfig(
                checkpoint_at_end=False
            ),  # a trial's own folder has every round
            verbose=0,
            # says nothing; in a notebook, the usual one clears the cell's output
            progress_reporter=tune.CLIReporter(),
        ),
    )
    try:
        tuner.fit()
    except Exception as error:
        stalled = next((cause for cause in causes(error) if isinstance(cause, StallError)), None)
        if stalled:
            raise stalled from None
        end_if_dead(error)
        refused = _refused(error, folder)
        if refused:
            raise refused from None
        # Tune knows the error of an actor that has died, and ends itself at one that Ray has ended
        # for lack of memory.
        killed = next(
            (cause for cause in causes(error) if isinstance(cause, OutOfMemoryError)), None
        )
        if killed is None:
            raise
        callback.on_killed(str(killed))
    finally:
        shutil.rmtree(folder.path / TUNE_FOLDER, ignore_errors=True)


def end_if_dead(error: Exception | None = None) -> None:
    """Raise StallError if Ray has died, of which all else that goes wrong (``error``) follows."""
    sentence = death()
    if sentence:
        # else Tune, which tidies up, waits for the dead, and Ray ends this process after a minute
        ray.shutdown()
        raise StallError(sentence) from error


def _refused(error: BaseException, folder: Folder) -> WriteError | None:
    """What the disk has refused, to `TuneCallback` or to Tune, which wraps it; None if it was
    something else.
    """
    for cause in causes(error):
        if isinstance(cause, WriteError):
            return cause
        if isinstance(cause, OSError) and cause.errno in REFUSALS:
            return write_error(
                Path(cause.filename or folder.path / TUNE_FOLDER), "could not be written", cause
            )
    return None
