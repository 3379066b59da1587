"""The one sentence that a sweep comes to: the strongest attack at hand, its value by chance, and what lowers it.

Which attack counts is decided by the order of `figures.trade_off.RISKS`, before any number is looked at; so is the setting
that it is stated for, the baseline of the swept slots. Nothing here is the largest of what was found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.metric_names import metric
from orchestrator.report.data import Results, Setting
from orchestrator.report.estimate import FEWEST, claim_words, number
from orchestrator.report.figures.arrangement import ALGORITHM, arrange
from orchestrator.report.figures.trade_off import EPSILON, Risk, risks
from orchestrator.report.tables.attacks import HEADLINE, LEFT_OUT
from orchestrator.report.tables.context import attack_names
from orchestrator.report.tables.differences import Contrast, baseline_of, contrasts
from orchestrator.report.values import Row, text
from orchestrator.report.vocabulary import key_label, setting_label, value_label

SIGNIFICANT = 0.05  # of p values after Holm's correction
NAMED = 3  # settings that a sentence names one by one; of more, it names the ends
WORST = "_worst"
BARE = "so without intervals"
# What an attack does, up to the number that says how well it does it.
WORDS = {
    "calibrated_auc_minority": (
        "Calibrated membership inference tells the minority clients' training examples from others with AUC"
    ),
    "calibrated_auc": "Calibrated membership inference tells training examples from others with AUC",
    "risk_minority": "Membership inference tells the minority clients' training examples from others with accuracy",
    "mia_accuracy_minority": "Membership inference on the minority model tells training examples with accuracy",
    "mia_accuracy_global": "Membership inference on the global model tells training examples with accuracy",
    "mia_accuracy": "Membership inference tells training examples of a model, in the mean over models, with accuracy",
    "fedmia_auc": "Who sees the updates tells their clients' training examples from others with AUC",
    "whitebox_accuracy": "A white-box attack tells training examples from others with accuracy",
    "sia_mean": "Source inference traces training examples to their owner with accuracy",
    "cia_advantage": "Client inference sees whether the target takes part with advantage |2 AUC - 1| of",
}
# The measure in ``attacks.parquet`` that a trial's metric of one model repeats; the rest of its name is the model.
MEASURES = {"mia_accuracy_": "balanced_accuracy", "mia_auc_": "auc", "mia_tpr_at_1_fpr_": "tpr_at_1_fpr"}
CALIBRATED = "calibrated_"  # begins the metrics that repeat what the calibrated attack found over replicas


@dataclass(frozen=True)
class HeadlineRisk:
    """The risk that the headline is about.

    Attributes:
        name: its metric.
        words: what the attack does, up to the number.
        accuracy: the metric of the accuracy that belongs to it; empty if it was not measured.
        settings: the baseline's settings that have it.
    """

    name: str
    words: str
    accuracy: str
    settings: tuple[Setting, ...]


def headline_risk(results: Results) -> HeadlineRisk | None:
    """The first measured risk of the strongest kind of attack at hand, in the baseline's settings.

    The kinds are in a fixed order, so the choice does not depend on what they found. Of the worst of several models, the
    mean is taken instead, because the largest of several values is too high by chance.

    Returns:
        None if no attack has such a result.
    """
    arr = arrange(results)
    first = next((row[0] for row in risks(arr)), None) if arr else None
    if first is None or first is EPSILON:
        return None
    name = _not_the_worst(first, results)
    accuracy = next((one for one in first.accuracies if any(s.measured(one) for s in results.settings)), "")
    words = WORDS.get(name) or f"{first.label[:1].upper()}{first.label[1:]}:"
    return HeadlineRisk(name, words, accuracy, tuple(baseline_settings(results, name)))


def baseline_settings(results: Results, name: str) -> list[Setting]:
    """The settings with ``name`` in which every swept slot has its baseline; all settings with it if there are none."""
    bases = {slot: baseline_of(results, slot) for slot in ALGORITHM if slot in results.keys}
    having = [setting for setting in results.settings if setting.measured(name)]
    base = [
        setting
        for setting in having
        if all(text(setting.values[results.keys.index(slot)]) == name for slot, name in bases.items())
    ]
    return base or having


def headline(results: Results) -> str:
    """One sentence: what the strongest attack at hand finds in the baseline, by chance, and whether a method lowers it.

    Args:
        results: the results of a sweep.
    """
    if not any(setting.finished for setting in results.settings):
        return "No trial has finished, so there is no result."
    found = headline_risk(results)
    if found is None:
        return _without_attack(results)
    values = in_settings(results, found.settings, found.name)
    chances = [chance_of(setting, found.name) for setting in found.settings]
    chance = _by_chance(chances)
    # After "without intervals", a parenthesis would belong to nothing.
    sentence = f"{found.words} {values}{f'; {chance[2:-1]}' if chance and values.endswith(BARE) else chance}"
    sentence += _verdict(found)
    return f"{sentence}; {_compared(contrasts(results, [found.name]), found.name)}."


def in_settings(results: Results, settings: Sequence[Setting], name: str) -> str:
    """The values of a metric in some settings, with the settings in words.

    Such as "0.630 ± 0.050 (minority ratio 0.1) and 0.551 ± 0.031 (minority ratio 0.3) under IFCA". Of more than three
    settings, the lowest and the highest mean are given.
    """
    where, own = _common(results, settings)
    if len(settings) == 1:
        return f"{value_of(results, settings[0], name)}{where}"
    named = sorted(settings, key=lambda one: one.estimate(name).mean)
    bare = _without_intervals(results, settings, name)
    parts = [
        f"{_shown(one, name) if bare else value_of(results, one, name)} ({own[id(one)]})"
        for one in (settings if len(settings) <= NAMED else named)
    ]
    if len(settings) > NAMED:
        return f"from {parts[0]} to {parts[-1]} in {len(settings)} settings{where}{bare}"
    return f"{', '.join(parts[:-1])} and {parts[-1]}{where}{bare}"


def _without_intervals(results: Results, settings: Sequence[Setting], name: str) -> str:
    """What is said once of settings with equally few runs and without any interval; empty for others."""
    found = [setting.estimate(name) for setting in settings]
    few = {one.n for one in found}
    exact = any(one.claim for one in found) or any(audit_interval(results, one.finished, name) for one in settings)
    if exact or len(few) > 1 or max(few) >= FEWEST:
        return ""
    return f", {'one run' if few == {1} else f'{max(few)} runs'} each, {BARE}"


def _shown(setting: Setting, name: str) -> str:
    return " ".join(filter(None, setting.estimate(name).shown(metric(name).digits)))


def value_of(results: Results, setting: Setting, name: str) -> str:
    """A metric in one setting: mean and interval over runs, or the values of one or two runs.

    A single run has the interval over the attacked examples, if its attack gave one.
    """
    found, digits = setting.estimate(name), metric(name).digits
    if found.claim:
        return claim_words(found, lambda value: number(value, digits))
    shown = _shown(setting, name)
    if found.n >= FEWEST:
        return shown
    if found.n == 1 and (ends := audit_interval(results, setting.finished, name)):
        return f"{shown} ({number(ends[0], digits)} to {number(ends[1], digits)} over examples, one run)"
    return f"{shown} ({'one run' if found.n == 1 else f'{found.n} runs'}, so without an interval)"


def audit_interval(results: Results, trials: Sequence[Row], name: str) -> tuple[float, float] | None:
    """The 95 % interval over attacked examples of the only trial with ``name``: its own columns, or its attack's row."""
    having = [trial for trial in trials if trial.get(name) is not None]
    if len(having) != 1:
        return None
    (trial,) = having
    low, high = trial.get(f"{name}_low"), trial.get(f"{name}_high")
    if low is not None and high is not None:
        return float(low), float(high)
    return _interval_of_row(results.table(trial, "attacks"), name, float(trial[name]))


def _interval_of_row(table: Sequence[Row], name: str, value: float) -> tuple[float, float] | None:
    """The interval of the row of ``attacks.parquet`` that a metric repeats; None if there is not exactly one."""
    place = _place(name)
    needed = ("attack", "round", "target", "metric", "value", "low", "high")
    rows = [row for row in table if (row.get("target"), row.get("metric")) == place]
    rows = [row for row in rows if all(row.get(one) is not None for one in needed)]
    last = max((row["round"] for row in rows), default=None)
    rows = [row for row in rows if row["round"] == last and math.isclose(row["value"], value, abs_tol=1e-12)]
    # The row of the attack that counts repeats one of the others.
    rows = [row for row in rows if row["attack"] == LEFT_OUT[0]] or rows
    found = {(float(row["low"]), float(row["high"])) for row in rows}
    return found.pop() if len(found) == 1 else None


def _place(name: str) -> tuple[str, str] | None:
    """Target and measure of the row that a metric repeats; None if it repeats none."""
    if name.startswith(CALIBRATED):
        return HEADLINE, name.removeprefix(CALIBRATED)
    start = next((one for one in MEASURES if name.startswith(one)), None)
    return (name.removeprefix(start), MEASURES[start]) if start else None


def chance_of(setting: Setting, name: str) -> float | None:
    """The value by chance of a metric in a setting; None if it is unknown."""
    chance = metric(name).chance
    if isinstance(chance, str):
        values = setting.measured(chance)
        return sum(values) / len(values) if values else None
    return chance


def is_guessing(setting: Setting, name: str) -> bool:
    """Whether the interval over runs, from three runs on, has the value by chance in it."""
    found, chance = setting.estimate(name), chance_of(setting, name)
    return chance is not None and found.n >= FEWEST and found.low <= chance <= found.high


def is_below_guessing(setting: Setting, name: str) -> bool:
    """Whether the interval over runs, from three runs on, lies below the value by chance."""
    found, chance = setting.estimate(name), chance_of(setting, name)
    return chance is not None and found.n >= FEWEST and found.high < chance


def turned_around(name: str) -> str:
    """What a value below chance says, if the attack answers yes or no; empty for other attacks."""
    return ": the attack tells them apart, but the wrong way round" if metric(name).chance == 0.5 else ""


def _verdict(found: HeadlineRisk) -> str:
    """Whether the headline's values are no more than guessing in all of its settings; empty if one is more."""
    guessed = [is_guessing(setting, found.name) for setting in found.settings]
    below = [is_below_guessing(setting, found.name) for setting in found.settings]
    if all(guessed):
        return ", which cannot be told from guessing"
    if all(below):
        return f", which is below guessing{turned_around(found.name)}"
    if all(one or other for one, other in zip(guessed, below, strict=True)):
        return ", which in some settings cannot be told from guessing and in the others is below it"
    return ""


def difference_words(one: Contrast) -> str:
    """The size of a difference with its interval, such as "0.021 (0.010 to 0.032)"; the sign is left to the verb."""
    digits, d = metric(one.metric).digits, one.difference
    low, high = sorted((abs(d.low), abs(d.high))) if d.low * d.high > 0 else (d.low, d.high)
    exact = "" if math.isnan(d.half) else f" ({number(low, digits)} to {number(high, digits)})"
    return f"{number(abs(d.mean), digits)}{exact}"


def is_significant(one: Contrast) -> bool:
    """Whether a difference is told from none among all comparisons that it was corrected for."""
    return not math.isnan(one.p_holm) and one.p_holm < SIGNIFICANT


def _not_the_worst(risk: Risk, results: Results) -> str:
    for ending in ("_global", "") if risk.name.endswith(WORST) else ():
        other = risk.name.removesuffix(WORST) + ending
        if any(setting.measured(other) for setting in results.settings):
            return other
    return risk.name


def _common(results: Results, settings: Sequence[Setting]) -> tuple[str, dict[int, str]]:
    """What all these settings have in common, as " under IFCA, minority ratio 0.1", and the rest of each by identity."""
    keys = list(enumerate(results.keys))
    same = [i for i, _ in keys if len({text(setting.values[i]) for setting in settings}) == 1]
    own = {
        id(setting): setting_label(
            tuple(key for i, key in keys if i not in same),
            tuple(v for i, v in enumerate(setting.values) if i not in same),
        )
        for setting in settings
    }
    slots = [i for i in same if results.keys[i] in ALGORITHM]
    words = [_method(results.keys[i], text(settings[0].values[i])) for i in slots]
    rest = [i for i in same if i not in slots]
    fields = setting_label(tuple(results.keys[i] for i in rest), tuple(settings[0].values[i] for i in rest))
    where = " and ".join(filter(None, words))
    return (f" {where}" if where else "") + (f" ({fields})" if fields else ""), own


def _method(key: str, name: str) -> str:
    return f"without {key_label(key)}" if name == "none" else f"under {value_label(key, name)}" if name else ""


def _by_chance(chances: Sequence[float | None]) -> str:
    known = [chance for chance in chances if chance is not None]
    if not known or len(known) < len(chances):
        return ""
    low, high = number(min(known), 3), number(max(known), 3)
    return f" ({_short(low)} by chance)" if low == high else f" ({_short(low)} to {_short(high)} by chance)"


def _short(digits: str) -> str:
    return digits.rstrip("0").rstrip(".") or "0"


def _compared(found: Sequence[Contrast], name: str) -> str:
    """Whether another method changes the headline's risk, after Holm's correction over these comparisons."""
    if not found:
        return "no defense was compared with it"
    tested = [one for one in found if not math.isnan(one.p)]
    if not tested:
        return "with fewer than three pairs of runs it cannot be told whether another method lowers it"
    better = -1 if metric(name).direction == "lower" else 1
    changed = [one for one in tested if is_significant(one)]
    helps = [one for one in changed if one.difference.mean * better > 0]
    harms = [one for one in changed if one not in helps]
    words = [
        f"{_who(one)} {'lowers' if better < 0 else 'raises'} it by {difference_words(one)}" for one in helps[:NAMED]
    ]
    if len(helps) > NAMED:
        words = [f"{len(helps)} of {len(tested)} comparisons with other methods show less of it"]
    if not helps:
        words = [f"no other method tried here lowers it measurably ({_counted(tested)})"]
    words += [f"{_who(one)} makes it worse by {difference_words(one)}" for one in harms[:NAMED]]
    return ", ".join(words)


def _who(one: Contrast) -> str:
    return f"{one.method}{f' ({one.setting})' if one.setting else ''}"


def _counted(tested: Sequence[Contrast]) -> str:
    """How many comparisons over how many pairs of runs: few pairs find large differences only."""
    fewest, most = min(one.difference.n for one in tested), max(one.difference.n for one in tested)
    pairs = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return (
        f"one comparison over {pairs} pairs" if len(tested) == 1 else f"{len(tested)} comparisons, {pairs} pairs each"
    )


def _without_attack(results: Results) -> str:
    """The headline of a sweep without a risk: its attacks, its guarantee, if it states an epsilon, and its accuracy."""
    names = [name for name in ("accuracy", "aggregated_accuracy") if any(s.measured(name) for s in results.settings)]
    settings = baseline_settings(results, names[0]) if names else []
    accuracy = f" The accuracy is {in_settings(results, settings, names[0])}." if settings else ""
    stating = [setting for setting in results.settings if setting.measured("epsilon")]
    budget = f" The epsilon of a client is {in_settings(results, stating, 'epsilon')}." if stating else ""
    return f"{_attacked(results)}{budget}{accuracy}"


def _attacked(results: Results) -> str:
    """Which attacks the finished trials made, although none of them gives the headline its risk."""
    finished = [trial for setting in results.settings for trial in setting.finished]
    made = dict.fromkeys(name for trial in finished for name in attack_names(trial).split(", ") if name != "none")
    if not made:
        return "No attack was made, so no risk was measured."
    if len(made) == 1:
        return f"An attack was made ({', '.join(made)}), but it gives no risk that can be stated."
    return f"Attacks were made ({', '.join(made)}), but none gives a risk that can be stated."
