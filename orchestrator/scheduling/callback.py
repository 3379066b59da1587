"""The callback through which Tune's events reach `TrialEvents`."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ray import tune

from orchestrator.cluster.address import StallError
from orchestrator.results.writing import WriteError
from orchestrator.scheduling.adapters import StoppingScheduler
from orchestrator.scheduling.trials import TrialConfig, tune_trial_id
from orchestrator.tracking.events import TrialEvents
from orchestrator.trial import outcome

WORTH_SAYING = 30.0  # seconds without a running trial until the user is told


class TuneCallback(tune.Callback):
    """Translates Tune's callbacks into events of our trials.

    Attributes:
        dropped: ids of trials that Tune has abandoned although they may be retried. Tune does so if the driver's process
            dies before the trial has started or while it takes over the trial; `run_trials` starts them again.
        drops: how often each trial was dropped.
    """

    def __init__(
        self, progress: TrialEvents, needs: str, patience: float, stopping: StoppingScheduler | None = None
    ) -> None:
        """Make a callback.

        Args:
            progress: receives the events.
            needs: the resources of one trial, in words.
            patience: seconds to wait for room on the cluster before the sweep is ended.
            stopping: the scheduler, if trials are stopped early.
        """
        self.progress, self.stopping = progress, stopping
        self.needs, self.patience = needs, patience
        self.began: dict[str, float] = {}
        self.processes: dict[str, int | None] = {}
        self.idle_since: float | None = None
        self.said = ""  # the trial of which it was said that there is no room
        self.dropped: set[str] = set()
        self.drops: Counter[str] = Counter()

    def __getstate__(self) -> dict[str, Any]:
        """An empty state: Tune pickles its callbacks in order to resume, which we do not use; threads cannot be pickled."""
        return {}

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Announce that a trial has started."""
        began = tune_trial_id(trial)
        self.began.setdefault(began, time.time())
        if began not in self.progress.statuses:  # Tune restarts a trial whose process died after the trial had ended
            self.progress.on_started(began)

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Pass on a driver's report; raises WriteError if the driver could not write its results."""
        if "unwritable" in result:  # the other trials could not write either
            raise WriteError(*result["unwritable"])
        reporting = tune_trial_id(trial)
        if result.get("repaired"):
            self.progress.on_repaired(reporting, result["repaired"])
        self.processes[reporting] = result.get("pid")
        self.progress.on_rounds(reporting, result.get("rows", []))
        if result.get("note"):
            self.progress.on_note(reporting, result["note"])
        if "summary" in result and reporting not in self.progress.statuses:
            self.progress.on_ended(reporting, result["summary"])

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Record a trial that the scheduler has stopped; other trials report their end themselves."""
        stopped = tune_trial_id(trial)
        if stopped in self.progress.statuses or self.stopping is None:
            return
        identity = TrialConfig.from_dict(trial.config["trial"]).identity
        by, last = self.stopping.goal.rule or {}, self.stopping.last[stopped]
        folder = self.progress.folder.trial(stopped)
        self.progress.on_ended(stopped, outcome.stop(folder, identity, self.began[stopped], by, last))

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Check for trials that wait for resources. Raises StallError if no trial could be placed for too long."""
        self._watch([(tune_trial_id(trial), trial.status) for trial in trials], time.monotonic())

    def _watch(self, statuses: Iterable[tuple[str, str]], now: float) -> None:
        waiting = [trial for trial, status in statuses if status == "PENDING"]
        if not waiting or any(status == "RUNNING" for _, status in statuses):
            if self.said:
                self.progress.on_note(self.said, "")
            self.idle_since, self.said = None, ""
            return
        self.idle_since = now if self.idle_since is None else self.idle_since
        waited = now - self.idle_since
        if waited > self.patience:
            raise StallError(
                f"no trial could be placed for {self.patience:g} s: one trial needs {self.needs}, and the cluster "
                "no longer has these resources, or others use them; the same command resumes from the saved results"
            )
        if waited > WORTH_SAYING and not self.said:
            self.said = waiting[0]
            self.progress.on_note(waiting[0], f"waiting for resources on the cluster: {self.needs}")

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Mark a trial whose process died as dropped if it may be retried, otherwise as failed."""
        lost, text = tune_trial_id(trial), ""
        with suppress(OSError):  # a file of Tune's, which may be gone
            text = Path(trial.error_file).read_text(errors="replace") if trial.error_file else ""
        self._drop(lost, trial.should_recover() and self.drops[lost] < trial.max_failures, text)

    def drop_running(self, retries: int, text: str) -> None:
        """Drop the trials that were running when Tune ended itself; it counts for those whose process was killed.

        Args:
            retries: how often the process of a trial may die.
            text: what Ray says of the processes that it has killed, with their numbers.
        """
        running = self.began.keys() - self.progress.statuses.keys()
        killed = {one for one in running if re.search(rf"pid={self.processes.get(one)}\b", text)} or running
        for lost in running:
            if lost in killed:
                self._drop(lost, self.drops[lost] < retries, text)
            else:
                self.dropped.add(lost)

    def _drop(self, lost: str, again: bool, text: str) -> None:
        if again:
            self.dropped.add(lost)
            self.drops[lost] += 1
        else:
            self.progress.on_lost(lost, text)
