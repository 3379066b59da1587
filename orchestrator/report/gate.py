"""Conditions on the metrics of a sweep under which its command fails: ``--fail-if
'calibrated_auc_high > 0.6'``.

A condition is about the worst setting: it holds if it holds in any. It also holds where its value
is not known, as
nothing can be released on a number that is missing.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from algorithms.core.metric import names_of
from algorithms.interfaces import Run
from algorithms.metrics.declared import ROUND_METRICS
from algorithms.metrics.statistics import FEWEST
from orchestrator.config.errors import ConfigError, ConfigProblem, suggest
from orchestrator.config.metric_names import PART, metric
from orchestrator.config.slots import chosen_components
from orchestrator.report.data import Results, Row, Setting, independent, repeat
from orchestrator.report.vocabulary import setting_label

OPTION = "--fail-if"
CONDITION = re.compile(r"\s*(?P<name>\w[\w .-]*?)\s*(?P<sign>>=|<=|>|<)\s*(?P<limit>\S+)\s*")
SIGNS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
ENDS = ("_low", "_high")
WORST = "_worst_client"
OF_GROUPS = (
    "accuracy",
    "model_accuracy",
    "risk",
    "violations",
    "moved",
    "calibrated_auc",
    "calibrated_run_auc",
)


@dataclass(frozen=True)
class Condition:
    """A metric, or an end of its interval or its worst client, and the values of it that fail."""

    text: str
    name: str
    sign: str
    limit: float

    @property
    def of(self) -> tuple[str, str]:
        """The metric, and what of it: an end of its interval, its worst client, or empty."""
        part = next((part for part in (*ENDS, WORST) if self.name.endswith(part)), "")
        return self.name.removesuffix(part), part

    def holds(self, value: float) -> bool:
        """Whether a value fails; one that is not known does."""
        return math.isnan(value) or SIGNS[self.sign](value, self.limit)


def conditions(texts: Iterable[str]) -> tuple[Condition, ...]:
    """Read conditions. Raises ConfigError.

    >>> conditions(["calibrated_auc_high > 0.6"])[0].of
    ('calibrated_auc', '_high')
    """
    read, problems = [], []
    for text in texts:
        match = CONDITION.fullmatch(text)
        try:
            limit = float(match["limit"]) if match else math.nan
        except ValueError:
            limit = math.nan
        if match and math.isfinite(limit):
            read.append(Condition(text.strip(), match["name"], match["sign"], limit))
        else:
            sentence = (
                f"{text!r} is no condition, which looks like 'calibrated_auc_high > 0.6' (also "
                ">=, <, <=)"
            )
            problems.append(ConfigProblem(sentence, file=OPTION))
    if problems:
        raise ConfigError(problems)
    return tuple(read)


def measurable(runs: Iterable[Run]) -> set[str]:
    """The metrics that runs can measure, by what their components declare."""
    chosen = {
        (component.folder, component.name): component
        for run in runs
        for _, component in chosen_components(run)
    }
    declared = [entry for component in chosen.values() for entry in component.module.METRICS]
    return set(names_of((*ROUND_METRICS, *declared)))


def unknown(
    asked: Iterable[Condition], names: Collection[str], grouped: bool = False
) -> list[ConfigProblem]:
    """Problems of conditions on metrics that are none of ``names``; of ``grouped`` clients, a
    group may end a name.
    """
    problems = []
    for condition in asked:
        whole, part = condition.of
        share = PART.fullmatch(condition.name)
        known = condition.name in names or bool(share and share["whole"] in names)
        known |= whole in names and (
            part in ENDS or (part == WORST and metric(whole).clients is not None)
        )
        known |= grouped and condition.name.startswith(tuple(f"{name}_" for name in OF_GROUPS))
        if not known:
            near = suggest(condition.name, names)
            sentence = (
                f"this sweep measures no metric {condition.name!r}. "
                f"{near or 'fedpriv list metrics names all.'}"
            )
            problems.append(ConfigProblem(sentence, file=OPTION))
    return problems


def failures(results: Results, asked: Sequence[Condition]) -> list[str]:
    """A sentence for each condition that holds in any setting, with the worst value."""
    sentences = []
    for condition in asked:
        values = [(value_of(results, setting, condition), setting) for setting in results.settings]
        failing = [pair for pair in values if condition.holds(pair[0])]
        if not failing:
            continue
        down = condition.sign.startswith("<")
        value, setting = max(
            failing, key=lambda pair: math.inf if math.isnan(pair[0]) else pair[0] * (-1) ** down
        )
        found = "is not known" if math.isnan(value) else f"is {value:.6g}"
        where = f" ({setting_label(results.keys, setting.values)})" if results.keys else ""
        several = (
            f", and it fails in {len(failing)} of {len(values)} settings" if len(values) > 1 else ""
        )
        sentences.append(f"{OPTION} {condition.text!r}: {condition.name} {found}{where}{several}")
    return sentences


def value_of(results: Results, setting: Setting, condition: Condition) -> float:
    """What a condition compares in one setting; NaN if it is not known.

    Of a metric it is the mean over independent runs, of a guarantee the largest, as it must hold
    for every run. An end of an interval is the outer one of the interval over runs, if there are
    three, and of the mean one within a run.
    """
    whole, part = condition.of
    itself = _value(setting, condition.name)
    if part == WORST and not setting.measured(condition.name):
        return _mean([(repeat(trial), _worst(results, trial, whole)) for trial in setting.finished])
    if part not in ENDS or math.isnan(_value(setting, whole)):
        return itself
    estimate = setting.estimate(whole)
    outer = max if part == "_high" else min
    if estimate.bound == "upper":
        return outer(estimate.values)
    ends = [] if math.isnan(itself) else [itself]
    if estimate.n >= FEWEST:
        ends.append(estimate.high if part == "_high" else estimate.low)
    return outer(ends, default=math.nan)


def _value(setting: Setting, name: str) -> float:
    """A metric in a setting; NaN if a finished run lacks it."""
    if not setting.finished or any(trial.get(name) is None for trial in setting.finished):
        return math.nan
    estimate = setting.estimate(name)
    return max(estimate.values) if estimate.bound == "upper" else estimate.mean


def _worst(results: Results, trial: Row, name: str) -> float:
    """The value of the client for which a metric of clients is worst, when it was last measured;
    NaN without one.
    """
    described = metric(name)
    column = (described.clients and described.clients.column) or name
    rows = [row for row in results.table(trial, "clients") if row.get(column) is not None]
    last = max((row["round"] for row in rows), default=None)
    values = [float(row[column]) for row in rows if row["round"] == last]
    return (min if described.direction == "higher" else max)(values, default=math.nan)


def _mean(values: Sequence[tuple[tuple[str, str], float]]) -> float:
    means = independent(values)
    return sum(means) / len(means) if means else math.nan
