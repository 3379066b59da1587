"""Adapters for Tune's schedulers and search algorithms that use our trial ids and survive a resumed sweep."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler, MedianStoppingRule, TrialScheduler
from ray.tune.search import Searcher

from orchestrator.config.tune_section import Asha, Tune
from orchestrator.results.paths import Folder
from orchestrator.results.record import has_ended, read_record
from orchestrator.results.tables import read_table
from orchestrator.scheduling.search import Search
from orchestrator.scheduling.trials import TrialConfig, TrialSpec, tune_trial_id

ROUNDS = "rounds done"
FOREVER: Any = math.inf


@dataclass(frozen=True)
class TrialHandle:
    """What a Tune scheduler sees of a trial: our trial id, because Tune's own id changes in every session."""

    trial_id: str


class StoppingScheduler(FIFOScheduler):
    """Passes every round of every trial, including those of earlier sessions, to one of Tune's schedulers.

    Attributes:
        goal: the section ``tune`` of the sweep.
        inner: Tune's scheduler.
        last: for each trial, the last round that had the metric, and the value there.
        unmeasured: ids of the trials that ended without a value of the metric in any round.
    """

    def __init__(self, goal: Tune, longest: int) -> None:
        """Set up the scheduler of ``goal``; ``longest`` is the number of rounds of the longest trial."""
        super().__init__()
        self.goal, self.inner = goal, _scheduler(goal, longest)
        self.last: dict[str, tuple[int, float]] = {}
        self.unmeasured: set[str] = set()

    def recall(self, folder: Folder, trials: Iterable[TrialSpec]) -> None:
        """Replay the saved rounds of ended trials, as if Tune had reported them in this session."""
        for spec in trials:
            table = folder.trial(spec.id).table("rounds")
            if has_ended(read_record(folder.trial(spec.id)) or {}, self.goal) and table.exists():
                self.decide(spec.id, read_table(table).to_pylist())

    def decide(self, trial: str, rows: Iterable[Mapping[str, Any]]) -> str:
        """Report rounds to the scheduler; rounds without the metric are skipped.

        Args:
            trial: our trial id.
            rows: the metrics of the rounds, in order.

        Returns:
            The scheduler's decision after the last of these rounds, a constant of `TrialScheduler`.
        """
        handle, decision = TrialHandle(trial), TrialScheduler.CONTINUE
        for row in rows:
            value = row.get(self.goal.metric)
            if value is None or value != value or (trial in self.last and row["round"] <= self.last[trial][0]):
                continue
            if trial not in self.last:
                self.inner.on_trial_add(None, handle)
            self.last[trial] = (row["round"], float(value))
            result = {ROUNDS: row["round"] + 1, self.goal.metric: float(value)}
            decision = self.inner.on_trial_result(None, handle, result)
            if decision == TrialScheduler.STOP:
                break
        return decision

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """Decide after a report of Tune whether the trial continues."""
        return self.decide(tune_trial_id(trial), result.get("rows", []))

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        """Report the last rounds of a trial, and note whether it ever had the metric."""
        self.decide(tune_trial_id(trial), result.get("rows", []))
        if tune_trial_id(trial) not in self.last:
            self.unmeasured.add(tune_trial_id(trial))

    def complaint(self) -> list[str]:
        """A sentence about trials that could not be compared; empty if there are none."""
        if not self.unmeasured:
            return []
        count, metric, name = len(self.unmeasured), self.goal.metric, type(self.goal.scheduler).__name__
        return [f"{count} trials have no round with the metric {metric!r}, so they were not compared ({name.lower()})"]


def _scheduler(goal: Tune, longest: int) -> Any:
    chosen: Any = goal.scheduler
    common = {"time_attr": ROUNDS, "metric": goal.metric, "mode": goal.mode, "grace_period": chosen.grace_period}
    if isinstance(chosen, Asha):
        # One round more than the longest trial has, so that the scheduler does not stop that trial in its last round.
        return AsyncHyperBandScheduler(max_t=longest + 1, reduction_factor=chosen.reduction_factor, **common)
    # An infinite time slice, so that the rule never pauses a trial, which would have to be resumed later.
    return MedianStoppingRule(min_samples_required=chosen.fewest, min_time_slice=FOREVER, **common)


class SearchAdapter(Searcher):
    """Gives the trials of a `Search` to Tune, except those that already have a result.

    Args:
        search: the search.
        configured: makes Tune's configuration of a trial.
    """

    def __init__(self, search: Search, configured: Callable[[TrialSpec], TrialConfig]) -> None:
        super().__init__()
        self.search, self.configured = search, configured
        self.given: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        """An empty state: Tune pickles its searchers in order to resume, but we resume from the records of the trials."""
        return {}

    def suggest(self, trial_id: str) -> Any:
        """The configuration of the next trial; None while the next draw needs a trial that is still running."""
        if self.search.dropped:
            return Searcher.FINISHED
        self.search.replay()
        for spec in self.search.specs:
            if spec.id not in self.given and spec.id not in self.search.over:
                self.given.add(spec.id)
                if not has_ended(read_record(self.search.folder.trial(spec.id)) or {}, self.search.tune):
                    return {"trial": self.configured(spec).to_dict()}
        return Searcher.FINISHED if self.search.complete else None

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Do nothing: the search reads results from the records of the trials."""

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Do nothing: the draws can be repeated from the records of the trials."""

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Accept Tune's settings; metric and mode come from the sweep."""
        return True
