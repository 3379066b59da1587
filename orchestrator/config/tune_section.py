"""The ``tune`` section of a sweep file: stop trials early, and draw the next ones from the results of the ones before.

    tune:
      metric: accuracy                          a metric of the rounds (scheduler) and of finished trials (search)
      mode: max
      scheduler: {name: asha, grace_period: 3}  or a bare name
      search: {name: optuna, parallel: 4}       draws the random words of ``sweep``, ``samples`` times

A trial that the scheduler ends has the status ``stopped``: it keeps its tables and its state, and has no final metrics.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Literal

from pydantic import Field

from datasets.components import Config
from orchestrator.config.errors import ConfigProblem, Key, format_value, unknown_name, validate
from orchestrator.metric_names import METRICS


class Asha(Config):
    """Asynchronous successive halving (Li et al. 2020): at rungs of growing length only the best share goes on."""

    name: Literal["asha"] = "asha"
    grace_period: int = Field(1, ge=1, description="rounds that every trial gets, and the first rung")
    # Li et al. use 4 for searches of hundreds of trials; the sweeps here have tens.
    reduction_factor: int = Field(3, ge=2, description="a rung keeps one trial in so many, the next is so much longer")


class MedianStopping(Config):
    """The median rule (Golovin et al. 2017): a trial whose best is below the median of the others' means stops."""

    name: Literal["median_stopping"] = "median_stopping"
    grace_period: int = Field(1, ge=1, description="rounds that every trial gets")
    fewest: int = Field(3, ge=1, description="other trials that must have come as far before one is stopped")


class Optuna(Config):
    """Optuna's tree-structured Parzen estimator (Bergstra et al. 2011)."""

    name: Literal["optuna"] = "optuna"
    # A fixed number, and not what a machine has room for: so the draws are the same everywhere.
    parallel: int = Field(4, ge=1, description="trials under way at the same time, drawn without each other's results")
    startup: int = Field(10, ge=1, description="draws at random before results count")
    seed: int = Field(0, ge=0, description="seed of the draws; the runs have their own")


class Goal(Config):
    """What is compared; ``scheduler`` and ``search`` are chosen by name."""

    metric: str = Field(min_length=1, description="the metric that decides, a column of rounds.parquet")
    mode: Literal["max", "min"] = Field(description="whether more of it is better, or less")


class Tune(Goal):
    """A whole ``tune`` section."""

    scheduler: Asha | MedianStopping | None = None
    search: Optuna | None = None

    @property
    def rule(self) -> dict[str, Any] | None:
        """What a trial is stopped by, as its record keeps it; None without a scheduler."""
        if self.scheduler is None:
            return None
        return {"metric": self.metric, "mode": self.mode, **self.scheduler.model_dump()}

    def best(self, values: Sequence[float]) -> int:
        """The place of the best of ``values``."""
        return values.index(max(values) if self.mode == "max" else min(values))


KINDS: dict[str, dict[str, type[Config]]] = {
    "scheduler": {"asha": Asha, "median_stopping": MedianStopping},
    "search": {"optuna": Optuna},
}
PACKAGES = {"optuna": "optuna"}
TYPO = 0.85  # names this near to a known one are slips; a component's own metrics may be called as they like


def parse_tune(given: Any) -> tuple[Tune | None, list[ConfigProblem]]:
    """The section ``tune``, or None and its problems with keys from the top of the file; None alone where there is none."""
    if given is None:
        return None, []
    if not isinstance(given, Mapping):
        return None, [
            ConfigProblem(f"must be a map of {', '.join(Tune.model_fields)}, got {format_value(given)}", ("tune",))
        ]
    own = {key: value for key, value in given.items() if key not in KINDS}
    goal, problems = validate(Goal, own, known=Tune.model_fields)
    if goal and goal.metric not in METRICS:
        near = difflib.get_close_matches(goal.metric, METRICS, n=1, cutoff=TYPO)
        problems += (
            [ConfigProblem(f"no metric {format_value(goal.metric)}. Did you mean {near[0]!r}?", ("metric",))]
            if near
            else []
        )
    chosen: dict[str, Any] = {}
    for kind in KINDS:
        if given.get(kind) is not None:
            chosen[kind], found = _choose(kind, given[kind])
            problems += found
    if not any(given.get(kind) is not None for kind in KINDS):
        known = " or ".join(f"a {kind} ({', '.join(names)})" for kind, names in KINDS.items())
        problems.append(ConfigProblem(f"tunes nothing: it must name {known}"))
    tune = Tune(**goal.model_dump(), **chosen) if goal and not problems else None
    return tune, [problem.under("tune") for problem in problems]


def _choose(kind: str, given: Any) -> tuple[Config | None, list[ConfigProblem]]:
    """The component of ``kind`` that ``given`` names, as text or as a map with fields."""
    known, key = KINDS[kind], (kind,)
    fields = {"name": given} if isinstance(given, str) else given
    if not isinstance(fields, Mapping) or not isinstance(fields.get("name"), str):
        return None, [
            ConfigProblem(f"must be one of {', '.join(known)}, or a map with that name, got {format_value(given)}", key)
        ]
    name = fields["name"]
    at: Key = key if isinstance(given, str) else (*key, "name")
    if name not in known:
        return None, [ConfigProblem(unknown_name(f"unknown {kind} {format_value(name)}", name, known), at)]
    component, problems = validate(known[name], fields)
    package = PACKAGES.get(name, "")
    if package and find_spec(package) is None:
        problems.append(
            ConfigProblem(f"needs the package {package}, which is not installed here: uv pip install {package}")
        )
    return component, [problem.under(kind) for problem in problems]


def scheduler_problems(tune: Tune, rounds: int) -> list[ConfigProblem]:
    """The problem of a scheduler that cannot stop any trial, where the longest has ``rounds``."""
    if tune.scheduler is None or tune.scheduler.grace_period < rounds:
        return []
    sentence = f"must be less than the {rounds} rounds of the longest trial, or nothing is ever stopped"
    return [ConfigProblem(f"{sentence}, got {tune.scheduler.grace_period}", ("tune", "scheduler", "grace_period"))]
