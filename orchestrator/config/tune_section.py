"""The ``tune`` section of a sweep file: early stopping, and search based on the results of earlier trials.

    tune:
      metric: accuracy                          compared by round (scheduler) and for finished trials (search)
      mode: max
      scheduler: {name: asha, grace_period: 3}  or a bare name
      search: {name: optuna, parallel: 4}       draws the random words of ``sweep``, ``samples`` times

A trial that the scheduler stops has the status ``stopped``: it keeps its tables and its state but has no final metrics.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Literal

from pydantic import Field

from datasets.components import Config
from orchestrator.config.errors import ConfigProblem, Key, format_value, unknown_name, validate
from orchestrator.metric_names import metrics


class Asha(Config):
    """Asynchronous successive halving (Li et al. 2020): at each rung only the best trials continue."""

    name: Literal["asha"] = "asha"
    grace_period: int = Field(1, ge=1, description="rounds that every trial completes, and the first rung")
    # Li et al. use 4 for searches of hundreds of trials; the sweeps here have tens.
    reduction_factor: int = Field(
        3, ge=2, description="a rung keeps one in this many trials; the next rung is this many times longer"
    )


class MedianStopping(Config):
    """The median rule (Golovin et al. 2017): stop a trial whose best value is worse than the median of the others' means."""

    name: Literal["median_stopping"] = "median_stopping"
    grace_period: int = Field(1, ge=1, description="rounds that every trial completes")
    fewest: int = Field(3, ge=1, description="other trials that must have reached the same round before one is stopped")


class Optuna(Config):
    """Optuna's tree-structured Parzen estimator (Bergstra et al. 2011)."""

    name: Literal["optuna"] = "optuna"
    # A fixed number instead of what fits on the machine, so that the draws are the same everywhere.
    parallel: int = Field(
        4, ge=1, description="trials that run at the same time and are drawn without each other's results"
    )
    startup: int = Field(10, ge=1, description="random draws before the sampler uses results")
    seed: int = Field(0, ge=0, description="seed of the draws; the runs have seeds of their own")


class Goal(Config):
    """The fields of ``tune`` that define what is compared; ``scheduler`` and ``search`` are chosen by name."""

    metric: str = Field(min_length=1, description="the metric to compare trials by, a column of rounds.parquet")
    mode: Literal["max", "min"] = Field(description="whether larger (max) or smaller (min) values are better")


class Tune(Goal):
    """The complete ``tune`` section."""

    scheduler: Asha | MedianStopping | None = None
    search: Optuna | None = None

    @property
    def rule(self) -> dict[str, Any] | None:
        """The rule that stops trials, in the form that a trial's record keeps; None without a scheduler."""
        if self.scheduler is None:
            return None
        return {"metric": self.metric, "mode": self.mode, **self.scheduler.model_dump()}

    def best(self, values: Sequence[float]) -> int:
        """The index of the best of ``values``."""
        return values.index(max(values) if self.mode == "max" else min(values))


KINDS: dict[str, dict[str, type[Config]]] = {
    "scheduler": {"asha": Asha, "median_stopping": MedianStopping},
    "search": {"optuna": Optuna},
}
PACKAGES = {"optuna": "optuna"}
TYPO = 0.85  # similarity from which an unknown metric counts as a typo; below it, it may be a component's own metric


def parse_tune(given: Any) -> tuple[Tune | None, list[ConfigProblem]]:
    """Read the section ``tune``.

    Args:
        given: the content of the section; None if the file has none.

    Returns:
        The section, or None if there is none or it is invalid, and its problems, with keys from the top of the file.
    """
    if given is None:
        return None, []
    if not isinstance(given, Mapping):
        return None, [
            ConfigProblem(f"must be a map of {', '.join(Tune.model_fields)}, got {format_value(given)}", ("tune",))
        ]
    own = {key: value for key, value in given.items() if key not in KINDS}
    goal, problems = validate(Goal, own, known=Tune.model_fields)
    if goal and goal.metric not in metrics():
        near = difflib.get_close_matches(goal.metric, metrics(), n=1, cutoff=TYPO)
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
        problems.append(ConfigProblem(f"has no effect: it must name {known}"))
    tune = Tune(**goal.model_dump(), **chosen) if goal and not problems else None
    return tune, [problem.under("tune") for problem in problems]


def _choose(kind: str, given: Any) -> tuple[Config | None, list[ConfigProblem]]:
    """The scheduler or search that ``given`` names, as text or as a map with fields."""
    kinds, key = KINDS[kind], (kind,)
    fields = {"name": given} if isinstance(given, str) else given
    if not isinstance(fields, Mapping) or not isinstance(fields.get("name"), str):
        return None, [
            ConfigProblem(f"must be one of {', '.join(kinds)}, or a map with that name, got {format_value(given)}", key)
        ]
    name = fields["name"]
    at: Key = key if isinstance(given, str) else (*key, "name")
    if name not in kinds:
        return None, [ConfigProblem(unknown_name(f"unknown {kind} {format_value(name)}", name, kinds), at)]
    component, problems = validate(kinds[name], fields)
    package = PACKAGES.get(name, "")
    if package and find_spec(package) is None:
        problems.append(
            ConfigProblem(f"needs the package {package}, which is not installed; run: uv pip install {package}")
        )
    return component, [problem.under(kind) for problem in problems]


def scheduler_problems(tune: Tune, rounds: int) -> list[ConfigProblem]:
    """The problem of a scheduler that cannot stop any trial because the longest trial has only ``rounds`` rounds."""
    if tune.scheduler is None or tune.scheduler.grace_period < rounds:
        return []
    sentence = f"must be less than the {rounds} rounds of the longest trial, or no trial is ever stopped"
    return [ConfigProblem(f"{sentence}, got {tune.scheduler.grace_period}", ("tune", "scheduler", "grace_period"))]
