"""The ``tune`` section of a sweep file (docs/tuning.md): early stopping, and search based on the
results of earlier trials.

The default metric is measured on validation examples (``data.validation_size``,
``data.validation_share``), so that the test set that is reported has chosen nothing. Another metric
has to be named. Several are searched for their front.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Annotated, Any, Literal

from pydantic import Field

from algorithms.core.private_search import Draws, unmet
from algorithms.interfaces import Run
from datasets.components import Component, Config
from orchestrator.config.errors import ConfigProblem, format_value, validate
from orchestrator.config.metric_names import metric, metrics


class Asha(Config):
    """Asynchronous successive halving (Li et al. 2020): at each rung only the best trials
    continue.
    """

    name: Literal["asha"] = "asha"
    grace_period: int = Field(
        1, ge=1, description="rounds that every trial completes, and the first rung"
    )
    # Li et al. use 4 for searches of hundreds of trials; the sweeps here have tens.
    reduction_factor: int = Field(
        3,
        ge=2,
        description="a rung keeps one in this many trials; the next rung is this many times longer",
    )


class Optuna(Config):
    """Optuna's samplers, for one metric or several."""

    name: Literal["optuna"] = "optuna"
    # A fixed number instead of what fits on the machine, so that the draws are the same everywhere.
    sampler: Literal["tpe", "nsga2", "random"] = Field(
        "tpe",
        description=(
            "tree-structured Parzen estimator (Bergstra et al. 2011), NSGA-II (Deb et al. "
            "2002), or random"
        ),
    )
    parallel: int = Field(
        4,
        ge=1,
        description="trials that run at the same time and are drawn without each other's results",
    )
    startup: int = Field(
        10,
        ge=1,
        description=(
            "random draws before the sampler uses results; each generation of nsga2 has so many"
        ),
    )
    seed: int = Field(
        0, ge=0, lt=2**32, description="seed of the draws; the runs have seeds of their own"
    )


Name = Annotated[str, Field(min_length=1)]
Mode = Literal["max", "min"]


class Tune(Config):
    """The section ``tune``; once it is read, ``mode`` is filled in."""

    # On the test set, the best of many trials is partly luck: its accuracy there would be too high
    # to report.
    metric: Name | Annotated[tuple[Name, ...], Field(min_length=2, max_length=4)] = Field(
        "validation_accuracy",
        description=(
            "the metric to compare trials by, a column of rounds.parquet, or a list of some"
        ),
    )
    mode: Mode | tuple[Mode, ...] | None = Field(
        None,
        description=(
            "whether larger (max) or smaller (min) values are better; null: as each metric is "
            "declared"
        ),
    )
    scheduler: Asha | None = Field(
        None, description="what stops trials early, by name, with its fields"
    )
    search: Optuna | None = Field(
        None, description="what draws trials from earlier results, by name, with its fields"
    )
    draws: Draws | None = Field(
        None, description="a random search whose epsilon is stated, in place of the other two"
    )

    @property
    def rule(self) -> dict[str, Any] | None:
        """The rule that stops trials, in the form that a trial's record keeps; None without a
        scheduler.
        """
        if self.scheduler is None:
            return None
        return {"metric": self.metric, "mode": self.mode, **self.scheduler.model_dump()}

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that trials are compared by."""
        return (self.metric,) if isinstance(self.metric, str) else self.metric

    @property
    def signs(self) -> tuple[int, ...]:
        """Of each metric, 1 if larger values are better, else -1."""
        modes = self.mode if isinstance(self.mode, tuple) else (self.mode,) * len(self.metrics)
        return tuple(1 if mode == "max" else -1 for mode in modes)


MODES: dict[str | None, str] = {"higher": "max", "lower": "min"}  # by the direction of a metric
KINDS: dict[str, tuple[str, type[Config]]] = {
    "scheduler": ("asha", Asha),
    "search": ("optuna", Optuna),
}
# similarity from which an unknown metric counts as a typo; below it, it may be a component's own
# metric
TYPO = 0.85


def parse_tune(section: Any) -> tuple[Tune | None, list[ConfigProblem]]:
    """Read the section ``tune``; ``section`` is None if the file has none.

    Returns:
        The section, or None if there is none or it is invalid, and its problems, with keys from the
        top of the file.
    """
    if section is None:
        return None, []
    if isinstance(section, Mapping):  # a bare name stands for a map with it
        named = {
            kind: {"name": section[kind]} for kind in KINDS if isinstance(section.get(kind), str)
        }
        section = {**section, **named}
    tune, problems = validate(Tune, section)
    if tune is not None:
        modes, problems = _modes(tune)
        problems += _combination_problems(tune)
        mode = modes[0] if isinstance(tune.metric, str) else tuple(modes)
        tune = tune.model_copy(update={"mode": mode})
    return None if problems else tune, [problem.under("tune") for problem in problems]


def _modes(tune: Tune) -> tuple[list[str | None], list[ConfigProblem]]:
    """Of each metric whether larger or smaller values are better, and the problems of metrics and
    modes.
    """
    problems: list[ConfigProblem] = []
    count = len(tune.metrics)
    given: Sequence[str | None] = (
        tune.mode if isinstance(tune.mode, tuple) else (tune.mode,) * count
    )
    if len(given) != count:
        sentence = f"must have one entry for each of the {count} metrics, got {len(given)}"
        problems.append(ConfigProblem(sentence, ("mode",)))
        given = (None,) * count
    modes = []
    for name, written in zip(tune.metrics, given, strict=True):
        mode = written or MODES.get(metric(name).direction)
        near = difflib.get_close_matches(name, metrics(), n=1, cutoff=TYPO)
        if name not in metrics() and near:
            sentence = f"no metric {format_value(name)}. Did you mean {near[0]!r}?"
            problems.append(ConfigProblem(sentence, ("metric",)))
        elif mode is None:
            sentence = (
                f"is missing; it must be 'max' or 'min', as nothing says which {name} is better"
            )
            problems.append(ConfigProblem(sentence, ("mode",)))
        modes.append(mode)
    if len(set(tune.metrics)) < count:
        problems.append(ConfigProblem("names a metric twice", ("metric",)))
    return modes, problems


def _combination_problems(tune: Tune) -> list[ConfigProblem]:
    """Why scheduler, search and draws do not go together, or with several metrics."""
    problems = []
    several = len(tune.metrics) > 1
    if several and tune.scheduler:
        sentence = (
            f"stops trials by one metric, and there are {len(tune.metrics)}; use a search alone"
        )
        problems.append(ConfigProblem(sentence, ("scheduler",)))
    if tune.draws and (tune.scheduler or tune.search or several):
        sentence = (
            "are independent trials, of which one metric chooses the best: leave out "
            "scheduler and search"
        )
        problems.append(ConfigProblem(sentence, ("draws",)))
    if not (tune.scheduler or tune.search or tune.draws):
        kinds = " or ".join(f"a {kind} ({name})" for kind, (name, _) in KINDS.items())
        problems.append(ConfigProblem(f"has no effect: it must name {kinds}, or draws"))
    return problems


def unaccounted(tune: Tune, runs: Sequence[Run]) -> list[str]:
    """Return in words what keeps an epsilon of the best of these runs from including the search
    (`private_search.unmet`).
    """
    search = tune.search
    compared = " and ".join(tune.metrics)
    guided = f"{tune.scheduler.name} stops" if tune.scheduler else ""
    if search and search.sampler != "random":
        guided = f"{search.name}'s {search.sampler} draws"
    secret = all(run.draws_noise and not run.repeatable for run in runs)
    public = all(
        getattr(run.data.config, "VALIDATION", "") == "validation_size"
        and not run.split.module.OF_CLIENTS
        for run in runs
    )
    raw = not (public and all(metric(name).on == "validation" for name in tune.metrics))
    return unmet(tune.draws is not None, guided, compared if raw else "", secret)


def _draw_problems(tune: Tune, runs: Sequence[Run]) -> list[str]:
    """Why no epsilon includes the choice of the best of these runs, drawn in secret, as the end
    of a sentence.
    """
    accounts = {run.privacy.module.planned(run.privacy.config, run) for run in runs}
    conditions = (
        (
            None in accounts,
            f"privacy {runs[0].privacy.name} states no epsilon of a client that is known "
            "beforehand",
        ),
        (
            len(accounts) > 1,
            "what is drawn changes the epsilon of a trial; draw what leaves noise and rounds alone",
        ),
        (
            len({repr((run.seed, run.data, run.split)) for run in runs}) > 1,
            "what is drawn changes seed or data",
        ),
    )
    return [words for fails, words in conditions if fails] + unaccounted(tune, runs)


def tune_problems(tune: Tune, runs: Sequence[Run]) -> list[ConfigProblem]:
    """The problems of the section with these runs: a scheduler that cannot stop any, and trials
    without validation examples.
    """
    problems: list[ConfigProblem] = []
    rounds = max(run.rounds for run in runs)
    if tune.scheduler and tune.scheduler.grace_period >= rounds:
        sentence = (
            f"must be less than the {rounds} rounds of the longest trial, or no trial is ever "
            f"stopped, got {tune.scheduler.grace_period}"
        )
        problems.append(ConfigProblem(sentence, ("tune", "scheduler", "grace_period")))
    if tune.search and find_spec("optuna") is None:
        sentence = "needs the package optuna, which is not installed; run: uv pip install optuna"
        problems.append(ConfigProblem(sentence, ("tune", "search")))
    reasons = _draw_problems(tune, runs) if tune.draws else []
    if reasons:
        sentence = (
            f"state an epsilon that includes the search, and none holds: {'; '.join(reasons)}"
        )
        problems.append(ConfigProblem(sentence, ("tune", "draws")))
    without = [run.data for run in runs if not getattr(run.data.config, "validates", False)]
    validation = next((name for name in tune.metrics if metric(name).on == "validation"), None)
    if without and validation:
        problems.append(_unvalidated(validation, without, len(runs)))
    return problems


def _unvalidated(
    validation: str, without: Sequence[Component[Any, Any]], trials: int
) -> ConfigProblem:
    """The problem that trials with these data have no validation examples for a metric."""
    data = without[0]
    field = getattr(data.config, "VALIDATION", "")
    where = "" if len(without) == trials else f" (in {len(without)} of {trials} trials)"
    instead = (
        "write tune.metric: accuracy to select on the reported test set, which every table "
        "then says"
    )
    if not field:
        sentence = f"{data.name} sets no examples aside for {validation}{where}; {instead}"
        return ConfigProblem(sentence, ("tune", "metric"))
    sentence = (
        f"must be more than 0 for {validation}, which tune compares{where}; set it, or {instead}"
    )
    return ConfigProblem(sentence, ("base", "data", field))
