"""What Tune tells, passed on to `TrialEvents`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from ray import tune

from orchestrator.cluster.ray_session import StallError
from orchestrator.results.folder import WriteError
from orchestrator.scheduling.adapters import StoppingScheduler
from orchestrator.tracking.events import TrialEvents
from orchestrator.trial import outcome

WORTH_SAYING = 30.0  # seconds without a running trial


class TuneCallback(tune.Callback):
    """Translates Tune's callbacks; the only place that knows how Tune speaks of trials.

    Attributes:
        dropped: ids of trials that Tune has given up though they may be taken up again. It does so where the process
            dies while a trial is handed over to it, or before it has started; whoever runs the sweep takes them up.
    """

    def __init__(
        self, progress: TrialEvents, needs: str, patience: float, stopping: StoppingScheduler | None = None
    ) -> None:
        """``needs``: what a trial asks the cluster for; ``patience``: seconds until a cluster without room is given up."""
        self.progress, self.stopping = progress, stopping
        self.needs, self.patience = needs, patience
        self.began: dict[str, float] = {}
        self.idle_since: float | None = None
        self.said = False
        self.dropped: set[str] = set()
        self.drops: Counter[str] = Counter()

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles its callbacks for its own way of resuming, which is not ours; screens and threads cannot be pickled."""
        return {}

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.began.setdefault(_id(trial), time.time())
        if _id(trial) not in self.progress.statuses:  # Tune starts it again where its process died after its end
            self.progress.on_started(_id(trial))

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        if "unwritable" in result:  # no other trial would fare better
            raise WriteError(*result["unwritable"])
        self.progress.on_rounds(_id(trial), result.get("rows", []))
        if result.get("note"):
            self.progress.on_note(_id(trial), result["note"])
        if "summary" in result and _id(trial) not in self.progress.statuses:
            self.progress.on_ended(_id(trial), result["summary"])

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        if _id(trial) in self.progress.statuses or self.stopping is None:
            return
        spec, by, last = trial.config["trial"], self.stopping.goal.rule or {}, self.stopping.last[_id(trial)]
        record = outcome.stop(self.progress.folder.trial(_id(trial)), spec, self.began[_id(trial)], by, last)
        self.progress.on_ended(_id(trial), record)

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Watch over trials that wait for a place. Raises Stalled where none has found one for too long."""
        self._watch([(_id(trial), trial.status) for trial in trials], time.monotonic())

    def _watch(self, statuses: Iterable[tuple[str, str]], now: float) -> None:
        waiting = [trial for trial, status in statuses if status == "PENDING"]
        if not waiting or any(status == "RUNNING" for _, status in statuses):
            self.idle_since, self.said = None, False
            return
        self.idle_since = now if self.idle_since is None else self.idle_since
        waited = now - self.idle_since
        if waited > self.patience:
            raise StallError(
                f"no trial could be placed for {self.patience:g} s: one needs {self.needs}, and the cluster has no such "
                "room any more, or others use it; the same command goes on from what was saved"
            )
        if waited > WORTH_SAYING and not self.said:
            self.said = True
            self.progress.on_note(waiting[0], f"waits for room on the cluster: {self.needs}")

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        lost = _id(trial)
        if trial.should_recover() and self.drops[lost] < trial.max_failures:
            self.dropped.add(lost)
            self.drops[lost] += 1
        else:
            self.progress.on_lost(lost, trial.error_file)


def _id(trial: Any) -> str:
    return trial.config["trial"]["id"]
