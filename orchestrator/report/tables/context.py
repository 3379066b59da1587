"""What stands beside the numbers of every table: values by chance, the attacks of each setting, and the deal."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from string import Formatter

from algorithms.core.metric import ACCURACY, Metric
from orchestrator.metric_names import metric
from orchestrator.model_use import foreign_models
from orchestrator.report.data import Results, Setting, independent, repeat
from orchestrator.report.estimate import FEWEST, estimate, number
from orchestrator.report.swept import DEAL
from orchestrator.report.values import Row, Value, lookup, text
from orchestrator.report.vocabulary import setting_label

DASH = "–"  # not measured
BY_CHANCE = "(by chance)"
MOST_SETTINGS = 3  # settings that a line names one by one


def full_label(name: str) -> str:
    """The label of a metric outside of the table of its family: "minority clients" is "accuracy, minority clients"."""
    one = metric(name)
    return f"accuracy, {one.label}" if one.family == ACCURACY and "accuracy" not in one.label else one.label


def chance_metric(one: Metric, results: Results) -> str | None:
    """The metric whose values stand beside those of ``one``: its value by chance, if it depends on the setting."""
    name = _chance_of(one, results.metrics)
    return name if name and _same_everywhere(results, name) is None else None


def shown_beside(measured: Collection[str]) -> set[str]:
    """The metrics that are values by chance of other measured ones. They have no column of their own."""
    found = {_chance_of(metric(name), measured) for name in measured}
    return {name for name in found if name is not None}


def chance_cell(setting: Setting, one: Metric, results: Results, digits: int) -> str:
    """The mean by chance in parentheses, with a space before it; empty if it was not measured in this setting."""
    name = chance_metric(one, results)
    mean = estimate(setting.measured(name)).parts(digits)[0] if name and setting.measured(one.name) else ""
    return f" ({mean})" if mean else ""


def guessing(metrics: Iterable[tuple[str, Metric]], results: Results) -> str:
    """A sentence with the values by chance that are the same in all settings; empty if there are none.

    Such as "by chance: 0.5 for MIA".

    Args:
        metrics: the headings and the metrics that are shown.
        results: the results.
    """
    found: dict[float, list[str]] = {}
    for heading, one in metrics:
        value = chance_everywhere(one, results)
        if value is not None:
            found.setdefault(round(value, 3), []).append(" ".join(heading.split()))
    words = [f"{text(value)} for {', '.join(dict.fromkeys(names))}" for value, names in sorted(found.items())]
    return f"by chance: {'; '.join(words)}" if words else ""


def chance_everywhere(one: Metric, results: Results) -> float | None:
    """The value by chance of a metric if it is the same in all settings; None if it differs or is unknown."""
    name = _chance_of(one, results.metrics)
    value = _same_everywhere(results, name) if name else one.chance
    return float(value) if isinstance(value, int | float) else None


def chance_of(setting: Setting, name: str) -> float | None:
    """The value by chance of a metric in a setting; None if it is unknown."""
    chance = metric(name).chance
    if not isinstance(chance, str):
        return chance
    values = setting.measured(chance)
    return sum(values) / len(values) if values else None


def readings(results: Results, names: Iterable[str]) -> list[str]:
    """The sentences that these metrics declare for tables that show them, each once, filled with the numbers.

    Args:
        results: the results of a sweep.
        names: the metrics that a table shows.
    """
    measured = [name for name in names if any(setting.measured(name) for setting in results.settings)]
    found = [_filled(results, metric(name).reading) for name in measured if metric(name).reading]
    return list(dict.fromkeys(filter(None, found)))


def _filled(results: Results, reading: str) -> str:
    """A sentence with the means of the metrics that it names, the smallest and the largest of all settings; or empty."""
    values = {}
    for _, name, *_ in Formatter().parse(reading):
        means = [setting.estimate(name).mean for setting in results.settings if name and setting.measured(name)]
        if name and not means:
            return ""
        if name:
            digits, bound = metric(name).digits, metric(name).bound
            values[name] = " to ".join(dict.fromkeys(number(end, digits, bound) for end in (min(means), max(means))))
    return reading.format_map(values)


def _chance_of(one: Metric, measured: Collection[str]) -> str | None:
    return one.chance if isinstance(one.chance, str) and one.chance in measured else None


def _same_everywhere(results: Results, name: str) -> float | None:
    """The value of a metric if it is the same in all trials of several settings."""
    values = [value for setting in results.settings for value in setting.measured(name)]
    same = len(results.settings) > 1 and values and max(values) - min(values) < 1e-9
    return values[0] if same else None


def joined_by_text(results: Results, texts: Iterable[str]) -> list[str]:
    """Texts on the settings, each once, with the settings that it is about in parentheses if there are several texts.

    Such as "shadow_mia (ifca; ifca_mir)"; more than three settings are counted.

    Args:
        results: the results.
        texts: one for each setting, in their order; empty: there is nothing to say of it.
    """
    groups: dict[str, list[str]] = {}
    for setting, words in zip(results.settings, texts, strict=False):
        if words:
            groups.setdefault(words, []).append(setting_label(results.keys, setting.values))
    if len(groups) == 1:
        return list(groups)
    return [
        f"{words} ({'; '.join(labels) if len(labels) <= MOST_SETTINGS else f'{len(labels)} settings'})"
        for words, labels in groups.items()
    ]


def foreign_models_by_setting(results: Results) -> list[str]:
    """Sentences on models that serve none of the clients of their group, or fewer of them than of others, by setting.

    Such as "ifca_mir, 0.1: the minority's model serves 4 of the minority's clients and 25 others; so in 1 of 2 runs".
    """
    found = []
    for setting in results.settings:
        runs = [foreign_models(trial) for trial in setting.finished]
        for group in sorted({group for one in runs for group in one}):
            said = [one[group] for one in runs if group in one]
            often = f"so, or like this, in {len(said)} of {len(runs)} runs"
            found.append(f"{setting_label(results.keys, setting.values)}: {said[0]}; {often}")
    return found


def attack_names(trial: Row) -> str:
    """The attacks of a trial, such as "shadow_mia, sia"; "none" if it has none."""
    held: Value = trial.get("attacks")
    names = held.split(",") if isinstance(held, str) else held if isinstance(held, list) else []
    return ", ".join(one["name"] if isinstance(one, dict) else str(one).strip() for one in names) or "none"


def attacks_by_setting(results: Results) -> list[str]:
    """The attacks of each setting, in the order of the settings; empty if all settings have the same."""
    found = [", ".join(dict.fromkeys(map(attack_names, setting.trials))) for setting in results.settings]
    return found if len(set(found)) > 1 else []


def deal_line(results: Results) -> str:
    """A sentence on the deals behind the intervals; empty if the trials' runs are not known."""
    exact = any(len(independent([(repeat(t), 0.0) for t in s.finished])) >= FEWEST for s in results.settings)
    if any(trial.get(DEAL) is not None for trial in results.trials):
        over = ", and intervals are over deals" if exact else ""
        return f"The deal of the data varies: trials with the same deal are averaged first{over}."
    held = [lookup(results.configs.get(trial["id"]), "data") for trial in results.trials]
    known = [data["split_seed"] for data in held if isinstance(data, dict) and "split_seed" in data]
    if not known or len(known) < len(results.trials):
        return ""
    if all(seed is None for seed in known):
        return (
            f"Every seed has its own deal of the data{', so intervals are over deals and training' if exact else ''}."
        )
    fixed = ", ".join(sorted({text(seed) for seed in known if seed is not None}))
    if not exact:
        return f"The deal of the data is fixed (data.split_seed {fixed}): the runs say nothing of other deals."
    return (
        f"The deal of the data is fixed (data.split_seed {fixed}): intervals are over training alone and say nothing of "
        "other deals."
    )
