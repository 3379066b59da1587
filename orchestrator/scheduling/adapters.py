"""Tune's schedulers and search algorithms as a sweep uses them: by trials' own ids, and going on where they were."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler, MedianStoppingRule, TrialScheduler
from ray.tune.search import Searcher

from orchestrator.config.tune_section import Asha, Tune
from orchestrator.results.folder import Folder
from orchestrator.results.record import has_ended, read_record
from orchestrator.results.tables import read_table
from orchestrator.scheduling.search import Search
from orchestrator.scheduling.trials import TrialSpec

ROUNDS = "rounds done"
FOREVER: Any = math.inf


@dataclass(frozen=True)
class TrialHandle:
    """A trial as the schedulers know it, by its own id; Tune gives it another one in every session."""

    trial_id: str


class StoppingScheduler(FIFOScheduler):
    """Asks one of Tune's schedulers about every round of every trial, those of earlier sessions included.

    Attributes:
        last: of each trial that was asked about, the last round that had the metric, and its value.
        unmeasured: ids of trials that came to their end without any round that had the metric.
    """

    def __init__(self, goal: Tune, longest: int) -> None:
        super().__init__()
        self.goal, self.inner = goal, _scheduler(goal, longest)
        self.last: dict[str, tuple[int, float]] = {}
        self.unmeasured: set[str] = set()

    def recall(self, folder: Folder, trials: Iterable[TrialSpec]) -> None:
        """Go through the rounds that trials have left in ``folder`` as if they were reported now."""
        for spec in trials:
            table = folder.trial(spec.id).table("rounds")
            if has_ended(read_record(folder.trial(spec.id)) or {}, self.goal) and table.exists():
                self.decide(spec.id, read_table(table).to_pylist())

    def decide(self, trial: str, rows: Iterable[Mapping[str, Any]]) -> str:
        """What the scheduler says after these rounds. Rounds in which the metric was not measured are passed over."""
        known, decision = TrialHandle(trial), TrialScheduler.CONTINUE
        for row in rows:
            value = row.get(self.goal.metric)
            if value is None or value != value or (trial in self.last and row["round"] <= self.last[trial][0]):
                continue
            if trial not in self.last:
                self.inner.on_trial_add(None, known)
            self.last[trial] = (row["round"], float(value))
            told = {ROUNDS: row["round"] + 1, self.goal.metric: float(value)}
            decision = self.inner.on_trial_result(None, known, told)
            if decision == TrialScheduler.STOP:
                break
        return decision

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        return self.decide(_id(trial), result.get("rows", []))

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        self.decide(_id(trial), result.get("rows", []))
        if _id(trial) not in self.last:
            self.unmeasured.add(_id(trial))

    def complaint(self) -> list[str]:
        """A sentence if trials could not be compared."""
        if not self.unmeasured:
            return []
        count, metric, name = len(self.unmeasured), self.goal.metric, type(self.goal.scheduler).__name__
        return [f"{count} trials have no round with the metric {metric!r}, so they were not compared ({name.lower()})"]


def _scheduler(goal: Tune, longest: int) -> Any:
    chosen: Any = goal.scheduler
    common = {"time_attr": ROUNDS, "metric": goal.metric, "mode": goal.mode, "grace_period": chosen.grace_period}
    if isinstance(chosen, Asha):
        # The longest trial ends by itself; a round more, so that the scheduler does not end it first.
        return AsyncHyperBandScheduler(max_t=longest + 1, reduction_factor=chosen.reduction_factor, **common)
    # Paused trials would have to be taken up again; without a slice of time none is.
    return MedianStoppingRule(min_samples_required=chosen.fewest, min_time_slice=FOREVER, **common)


class SearchAdapter(Searcher):
    """Hands the trials of a `Search` to Tune, without those that have come to a result already."""

    def __init__(self, search: Search, configured: Callable[[TrialSpec], dict[str, Any]]) -> None:
        super().__init__()
        self.search, self.configured = search, configured
        self.given: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles its searchers for its own way of resuming, which is not ours; what leads to files and screens stays."""
        return {}

    def suggest(self, trial_id: str) -> Any:
        """The configuration of the next trial; None while it depends on one that is still running."""
        if self.search.dropped:
            return Searcher.FINISHED
        self.search.replay()
        for spec in self.search.specs:
            if spec.id not in self.given and spec.id not in self.search.over:
                self.given.add(spec.id)
                if not has_ended(read_record(self.search.folder.trial(spec.id)) or {}, self.search.tune):
                    return {"trial": self.configured(spec)}
        return Searcher.FINISHED if self.search.complete else None

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Results are read from the records that trials leave."""

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Nothing: what was drawn follows from the records."""

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        return True


def _id(trial: Any) -> str:
    return trial.config["trial"]["id"]
