"""Conditions on the metrics of a sweep under which its command fails: ``--fail-if
'calibrated_auc_high > 0.6'``.

A condition is about the worst setting: it holds if it holds in any. It also holds where its value
is not known, as nothing can be released on a number that is missing. Where a setting has no
guarantee, its epsilon is beyond every limit.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from algorithms.core.columns import (
    ENDS,
    HIGH,
    WORST_CLIENT,
    asked_of,
    is_of_group,
    of_part,
    register,
)
from algorithms.interfaces import Run
from algorithms.metrics.declared import ROUND_METRICS
from algorithms.metrics.statistics import FEWEST
from datasets.federation import excerpt
from orchestrator.config.errors import ConfigError, ConfigProblem, amount, suggest
from orchestrator.config.metric_names import metric, metrics
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
NAMED = 3  # settings that a sentence names
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
        return asked_of(self.name)

    def holds(self, value: float) -> bool:
        """Whether a value fails; one that is not known does."""
        return math.isnan(value) or SIGNS[self.sign](value, self.limit)


def conditions(texts: Iterable[str]) -> tuple[Condition, ...]:
    """Read conditions. Raises ConfigError.

    >>> conditions(["calibrated_auc_high > 0.6"])[0].of
    ('calibrated_auc', 'high')
    """
    read = []
    problems = []
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
    return set(register((*ROUND_METRICS, *declared)))


def unknown(
    asked: Iterable[Condition], names: Collection[str], grouped: bool = False
) -> list[ConfigProblem]:
    """Problems of conditions on metrics that are none of ``names``; of ``grouped`` clients, a
    group may end a name.
    """
    problems = []
    for condition in asked:
        whole, part = condition.of
        share = of_part(condition.name, metrics())
        known = condition.name in names or bool(share and share[0].name in names)
        known |= whole in names and (
            part in ENDS or (part == WORST_CLIENT and metric(whole).clients is not None)
        )
        known |= grouped and is_of_group(condition.name, OF_GROUPS)
        if not known:
            near = suggest(condition.name, names)
            sentence = (
                f"this sweep measures no metric {condition.name!r}. "
                f"{near or 'fedpriv list metrics names all.'}"
            )
            problems.append(ConfigProblem(sentence, file=OPTION))
    return problems


def failures(results: Results, asked: Sequence[Condition]) -> list[str]:
    """A sentence for each condition that holds in any setting: the worst number, then the settings
    without a guarantee, then those in which nothing is known, and why.
    """
    sentences = []
    for condition in asked:
        pairs = [(value_of(results, setting, condition), setting) for setting in results.settings]
        failing = [pair for pair in pairs if condition.holds(pair[0])]
        parts = [_worst_number(results, condition, failing)]
        endless = [setting for value, setting in failing if math.isinf(value)]
        if endless:
            parts.append(f"no guarantee{_labels(results, endless)}, so every limit is exceeded")
        unknown: dict[str, list[Setting]] = {}
        for value, setting in failing:
            if math.isnan(value):
                unknown.setdefault(why_unknown(setting, condition), []).append(setting)
        parts += [
            f"{condition.name} is not known{_labels(results, settings)}: {why}"
            for why, settings in unknown.items()
        ]
        if failing:
            said = "; ".join(filter(None, parts))
            sentences.append(f"{OPTION} {condition.text!r}: {said}")
    return sentences


def _worst_number(
    results: Results, condition: Condition, failing: Sequence[tuple[float, Setting]]
) -> str:
    """The worst of the failing numbers, and in how many settings there is one; or empty."""
    numbers = [(value, setting) for value, setting in failing if math.isfinite(value)]
    if not numbers:
        return ""
    worst = min if condition.sign.startswith("<") else max
    value, setting = worst(numbers, key=lambda pair: pair[0])
    words = f"{condition.name} is {value:.6g}{_labels(results, [setting])}"
    count = len(results.settings)
    return words if count == 1 else f"{words}, and it fails in {len(numbers)} of {count} settings"


def _labels(results: Results, settings: Sequence[Setting]) -> str:
    """The settings in parentheses, with a space before them; empty if the sweep varies nothing."""
    labels = [setting_label(results.keys, setting.values) for setting in settings]
    return f" ({excerpt(labels, NAMED)})" if results.keys else ""


def why_unknown(setting: Setting, condition: Condition) -> str:
    """Why the value of a condition is not known in a setting, and what would make it known."""
    whole, part = condition.of
    runs = len(setting.finished)
    if not runs:
        return "no trial has finished"
    lacking = sum(trial.get(whole) is None for trial in setting.finished)
    if part in ENDS and not lacking:
        return (
            f"{amount(runs, 'run')} without an interval within them, and one over runs needs "
            f"{FEWEST} seeds"
        )
    if part == WORST_CLIENT:
        return "no client was attacked"
    lacking = lacking or sum(trial.get(condition.name) is None for trial in setting.finished)
    return f"{lacking} of {amount(runs, 'finished run')} did not measure it"


def value_of(results: Results, setting: Setting, condition: Condition) -> float:
    """What a condition compares in one setting; NaN if it is not known.

    Of a metric it is the mean over independent runs, of a guarantee the largest, as it must hold
    for every run; infinity where a run has none. An end of an interval is that of the interval over
    runs, which all tables print, if there are three; of one or two runs it is the outer one of
    their own intervals.
    """
    whole, part = condition.of
    if part == WORST_CLIENT and not setting.measured(condition.name):
        return _mean([(repeat(trial), _worst(results, trial, whole)) for trial in setting.finished])
    itself = _value(setting, condition.name)
    if part not in ENDS or math.isnan(_value(setting, whole)):
        return itself
    estimate = setting.estimate(whole)
    outer = max if part == HIGH else min
    if estimate.bound == "upper":
        return outer(estimate.values)
    if estimate.n >= FEWEST:
        return estimate.high if part == HIGH else estimate.low
    return itself if math.isnan(itself) else outer(setting.measured(condition.name))


def _value(setting: Setting, name: str) -> float:
    """A metric in a setting; NaN if a finished run lacks it."""
    if not setting.finished:
        return math.nan
    if any(trial.get(name) is None for trial in setting.finished):
        return math.inf if metric(name).protects else math.nan
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
