"""All numbers of a sweep as one tidy frame, and the paired differences between methods that are a part of it.

Each component of a swept slot is compared with the slot's baseline: its default or, if the sweep does not have it, the
first component. All other swept keys are equal, except for fields that the baseline's component does not have (such as
``objective.beta`` beside plain training).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from algorithms.core.metric import MINOR
from orchestrator.config.slots import SLOTS
from orchestrator.metric_names import metric, table_columns
from orchestrator.report.context import chance_of, partition_line, shown_beside
from orchestrator.report.data import DEAL, Repeat, Results, Row, Setting, independent, repeat, text
from orchestrator.report.figures.arrangement import ALGORITHM, arrange
from orchestrator.report.figures.trade_off import EPSILON, accuracies, risks
from orchestrator.report.statistics import (
    FEWEST,
    INFINITY,
    NAN,
    SIGNIFICANT,
    Estimate,
    estimate,
    holm,
    least_significant,
    limits,
    number,
    paired_test,
)
from orchestrator.report.summary import escape, markdown_table
from orchestrator.report.vocabulary import key_label, setting_label, value_label

if TYPE_CHECKING:
    import pandas as pd

READING = (
    "Each line compares a method with the baseline of its slot on the same partitions of the data and with the same seeds: "
    "mean difference, method minus baseline, over the pairs, with its 95 % interval and the p value of the paired t test. "
    "Deals that are hard for all methods do not widen these intervals. The last column corrects p for the number of tests in "
    "its family (Holm); below 0.05, a difference is significant. A family is what one method and its baseline in one "
    "setting are tested for: the headline's risk and the accuracy that belongs to it; apart from these, the metrics of one "
    "section of summary.md. Families are not corrected for one another. With fewer than three pairs the differences "
    "themselves are printed, without interval and p value."
)
HEAD = (
    *("method", "baseline", "setting", "metric", "better", "baseline's mean", "difference", "95 % interval", "pairs"),
    *("p", "tests", "p (Holm)"),
)
NUMBERS = range(5, len(HEAD))  # the columns of numbers
HEADLINE = "headline"  # the family of the headline's risk and of its accuracy


@dataclass(frozen=True)
class Contrast:
    """A method compared with the baseline of its slot in one setting, for one metric.

    Attributes:
        slot: the slot's key, such as ``clustering.name``.
        method: the label of the method.
        baseline: the label of the baseline.
        setting: what both have in common, as text.
        metric: the metric's name.
        baseline_mean: the baseline's mean over the pairs.
        difference: method minus baseline; ``n`` is the number of independent pairs.
        p: the p value of the paired t test.
        p_holm: the same, corrected for the tests of its family.
        left_out: repetitions without a partner, each with the reason.
        family: the tests of this comparison that it was corrected with, see `corrected`.
        tests: the number of tests in this family.
        place: the place of the method's setting among those of the results; -1 outside of a sweep.
    """

    slot: str
    method: str
    baseline: str
    setting: str
    metric: str
    baseline_mean: float
    difference: Estimate
    p: float
    p_holm: float
    left_out: tuple[str, ...]
    family: str = ""
    tests: int = 0
    place: int = -1


def contrasts(results: Results) -> list[Contrast]:
    """All comparisons of a sweep in the headline's risk, its accuracy, and the metrics of `headline`.

    Args:
        results: the results of a sweep.

    Returns:
        The comparisons, with p values corrected by `corrected`; empty if the sweep varies no component of a method.
    """
    found: list[Contrast] = []
    first = main_risk(results) or ()
    compared = dict.fromkeys((*headline(results), *filter(None, first)))
    for slot in ALGORITHM:
        for method, baseline, common in _pairs_of_settings(results, slot):
            names = [_label(results, slot, one, other) for one, other in ((method, baseline), (baseline, method))]
            for name in compared:
                if all(one.measured(name) or not one.finished for one in (method, baseline)):
                    one = contrast(slot, names[0], names[1], common, name, method, baseline)
                    found.append(replace(one, place=results.settings.index(method)))
    return corrected(found, first)


def main_risk(results: Results) -> tuple[str, str] | None:
    """The first measured risk of the strongest kind of attack at hand, which the headline is about.

    The kinds are in a fixed order, so the choice does not depend on what they found.

    Returns:
        Its metric, and the metric of the accuracy that belongs to it (empty if it was not measured); None if no attack has
        such a result.
    """
    arr = arrange(results)
    first = next((row[0] for row in risks(arr)), None) if arr else None
    if first is None or first == EPSILON:
        return None
    measured = {name for name in results.metrics if any(setting.measured(name) for setting in results.settings)}
    declared = metric(first).risk
    name = next((one for one in (declared.instead if declared else ()) if one in measured), first)
    return name, next((one for one in accuracies(first) if one in measured), "")


def is_significant(one: Contrast) -> bool:
    """Whether a difference is significant among the tests of its family."""
    return not math.isnan(one.p_holm) and one.p_holm < SIGNIFICANT


def corrected(found: Sequence[Contrast], first: Collection[str]) -> list[Contrast]:
    """Correct p values (Holm) within families: what one method and its baseline in one setting are tested for.

    The metrics ``first`` are one family, as they are chosen before anything is measured; the others belong together if they
    belong to one family of metrics (`Metric.family`). More settings, methods or side metrics make no family larger.

    Args:
        found: the comparisons, with p values of their own.
        first: the metrics of the headline.
    """
    families: dict[tuple[str, ...], list[Contrast]] = {}
    named = [replace(one, family=HEADLINE if one.metric in first else metric(one.metric).family) for one in found]
    for one in named:
        families.setdefault((one.slot, one.method, one.baseline, one.setting, one.family), []).append(one)
    adjusted = {}
    for members in families.values():
        tests = sum(not math.isnan(one.p) for one in members)
        for one, p in zip(members, holm([one.p for one in members]), strict=True):
            adjusted[id(one)] = replace(one, p_holm=p, tests=tests)
    return [adjusted[id(one)] for one in named]


def detectable(tested: Sequence[Contrast]) -> str:
    """Say how large a difference must be to be significant, with the pairs that there are."""
    times = [number(least_significant(one.difference.n, one.tests), 1) for one in tested]
    ends = " to ".join(dict.fromkeys((min(times, key=float), max(times, key=float))))
    return f"with {pairs_words(tested)}, a difference is significant from {ends} times its standard deviation between pairs on"


def pairs_words(tested: Sequence[Contrast]) -> str:
    """The number of pairs of some comparisons, such as "3 to 5 pairs"."""
    pairs = [one.difference.n for one in tested]
    return f"{' to '.join(dict.fromkeys((str(min(pairs)), str(max(pairs)))))} pairs"


def chance_words(tested: Sequence[Contrast]) -> str:
    """Say how many families would show a difference if there were none at all."""
    count = len({(one.slot, one.method, one.baseline, one.setting, one.family) for one in tested})
    if count == 1:
        return "paired t tests at 5 %, in one family"
    return (
        f"paired t tests at 5 % in each of {count} families, of which {number(SIGNIFICANT * count, 1)} would show a "
        "difference by chance"
    )


def headline(results: Results) -> list[str]:
    """The metrics that are compared: columns of the terminal table with an interval and a better direction."""
    measured = [name for name in results.metrics if any(setting.measured(name) for setting in results.settings)]
    columns = [column for column in table_columns(measured) if column.interval and column.rank < MINOR]
    names = dict.fromkeys(name for column in columns for name in column.metrics if name in measured)
    return [name for name in names if metric(name).direction and name not in shown_beside(measured)]


def differences_markdown(results: Results, found: list[Contrast]) -> str:
    """The content of ``differences.md``: a table for each slot, and the repetitions without a partner."""
    blocks = [
        f"# {escape(results.name)}: differences between methods",
        READING,
        partition_line(results),
        _family(found),
    ]
    for slot in dict.fromkeys(one.slot for one in found):
        own = [one for one in found if one.slot == slot]
        table = markdown_table(HEAD, [cells(one) for one in own], numbers=len(NUMBERS))
        blocks += [f"## {escape(key_label(slot))}", table]
    left = dict.fromkeys(
        f"- {escape(f'{one.method} against {one.baseline}' + (f', {one.setting}' if one.setting else ''))}: "
        f"{escape('; '.join(one.left_out))}"
        for one in found
        if one.left_out
    )
    blocks += ["## Left out, because there is no partner", "\n".join(left)] if left else []
    return "\n\n".join(block for block in blocks if block) + "\n"


def _family(found: list[Contrast]) -> str:
    tested = [one for one in found if not math.isnan(one.p)]
    if not tested:
        return "No comparison has three pairs."
    return f"{len(found)} comparisons, {len(tested)} of them with a p value ({chance_words(tested)}): {detectable(tested)}."


def baseline_of(results: Results, slot: str) -> str:
    """The component with which the others of a swept slot are compared: the default, or else the first."""
    at = results.keys.index(slot)
    names = list(dict.fromkeys(text(setting.values[at]) for setting in results.settings))
    default = next((one.default for one in SLOTS if f"{one.key}.name" == slot), None)
    return default if default in names else names[0]


def _pairs_of_settings(results: Results, slot: str) -> Iterator[tuple[Setting, Setting, str]]:
    """Each setting of a method, the baseline's setting that it is compared with, and what they have in common."""
    if slot not in results.keys:
        return
    at = results.keys.index(slot)
    base = baseline_of(results, slot)
    others = [(i, key) for i, key in enumerate(results.keys) if i != at]
    for method in results.settings:
        for baseline in results.settings:
            if text(method.values[at]) != base and text(baseline.values[at]) == base:
                same = [i for i, _ in others if text(method.values[i]) == text(baseline.values[i])]
                if all(i in same or _own(slot, key, method, baseline, i) for i, key in others):
                    keys = tuple(results.keys[i] for i in same)
                    yield method, baseline, setting_label(keys, tuple(method.values[i] for i in same))


def _own(slot: str, key: str, method: Setting, baseline: Setting, at: int) -> bool:
    """Whether ``key`` is a field of this slot that only one of the two components has."""
    return key.startswith(slot.removesuffix("name")) and None in (method.values[at], baseline.values[at])


def _label(results: Results, slot: str, setting: Setting, other: Setting) -> str:
    """The label of a component, with the values of the fields that the other one does not have."""
    own = [
        (key, mine)
        for key, mine, theirs in zip(results.keys, setting.values, other.values, strict=True)
        if key != slot and text(mine) != text(theirs) and mine is not None
    ]
    name = value_label(slot, setting.values[results.keys.index(slot)])
    return ", ".join(filter(None, (name, setting_label(tuple(k for k, _ in own), tuple(v for _, v in own)))))


def contrast(slot: str, label: str, base: str, common: str, name: str, method: Setting, baseline: Setting) -> Contrast:
    """Compare two settings in one metric, over the repetitions that both have; p is not yet corrected.

    Args:
        slot: the slot in which they differ.
        label: the method's label.
        base: the baseline's label.
        common: what both have in common, as text.
        name: the metric.
        method: the method's setting.
        baseline: the baseline's setting, on the same data.
    """
    by_repeat = [{repeat(trial): trial for trial in setting.trials} for setting in (method, baseline)]
    values: list[tuple[Repeat, tuple[float, float]]] = []
    left_out = []
    for one in sorted({key for trials in by_repeat for key in trials}, key=_in_order):
        sides = [(who, trials.get(one)) for who, trials in zip((label, base), by_repeat, strict=True)]
        missing = [f"{who} {reason}" for who, trial in sides if (reason := _missing(trial, name))]
        if missing:
            left_out.append(f"{_repeat_label(method, one)} ({', '.join(missing)})")
        else:
            mine, theirs = (float(trial[name]) for _, trial in sides if trial)
            values.append((one, (mine, theirs)))
    lowest, highest = limits(metric(name))
    width = highest - lowest if highest < INFINITY else INFINITY
    differences = independent([(one, mine - theirs) for one, (mine, theirs) in values])
    found, p = estimate(differences, (-width, width)), paired_test(differences)
    bases = independent([(one, theirs) for one, (_, theirs) in values])
    mean = math.fsum(bases) / len(bases) if bases else NAN
    return Contrast(slot, label, base, common, name, mean, found, p, NAN, tuple(left_out))


def _missing(trial: Row | None, name: str) -> str:
    """Why a trial has no value; empty if it has one."""
    if trial is None:
        return "was not run"
    if trial["status"] != "finished":
        return text(trial["status"]) or "unfinished"
    return "" if trial.get(name) is not None else f"has no {metric(name).label}"


def _in_order(one: Repeat) -> tuple[tuple[int, str], ...]:
    """A key that sorts the texts of seeds by their numbers."""
    return tuple((len(number_text), number_text) for number_text in one)


def _repeat_label(setting: Setting, one: Repeat) -> str:
    partitions = any(trial.get(DEAL) is not None for trial in setting.trials)
    return f"partition {one[0]}, seed {one[1]}" if partitions else f"seed {one[1]}"


def cells(one: Contrast) -> list[str]:
    """The cells of a comparison under `HEAD`."""
    described = metric(one.metric)
    digits, d = described.digits, one.difference
    exact = d.n >= FEWEST
    return [
        one.method,
        one.baseline,
        one.setting or "the whole sweep",
        " ".join(described.table.heading.split()) if described.table else described.label,
        described.direction or "",
        number(one.baseline_mean, digits),
        _signed(d.mean, digits) if exact else ", ".join(_signed(value, digits) for value in d.values),
        f"{_signed(d.low, digits)} to {_signed(d.high, digits)}" if exact and not math.isnan(d.half) else "",
        str(d.n),
        _p_value(one.p),
        str(one.tests or ""),
        _p_value(one.p_holm),
    ]


def _signed(value: float, digits: int) -> str:
    shown = number(value, digits)
    return shown if not shown or shown.startswith("-") or value <= 0 else f"+{shown}"


def _p_value(p: float) -> str:
    return "" if math.isnan(p) else "<0.001" if p < 0.001 else f"{p:.3f}"


COLUMNS = ("metric", "value", "low", "high", "chance", "n", "against", "difference", "p", "p_holm")


def tidy(results: Results, paired: Sequence[Contrast] = ()) -> pd.DataFrame:
    """The frame: the swept keys, then `COLUMNS`; NaN where there is no such number.

    ``value`` is the mean over ``n`` independent runs, ``low`` and ``high`` the ends of its 95 % interval (of a guarantee, the
    range), ``chance`` the value by chance. ``difference`` is that from the baseline ``against`` on the same partitions and
    seeds, with the p value of the paired t test, and the same after Holm's correction within its family.

    Args:
        results: the results of a sweep.
        paired: its comparisons, see `contrasts`.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for place, setting in enumerate(results.settings):
        for name in results.metrics:
            found = setting.estimate(name)
            row = dict(zip(results.keys, setting.values, strict=True)) | {
                "metric": name,
                "value": found.mean,
                "n": found.n,
            }
            row |= {"low": found.low, "high": found.high, "chance": chance_of(setting, name)}
            tested = [one for one in paired if (one.place, one.metric) == (place, name)]
            rows += [
                row | {"against": one.baseline, "difference": one.difference.mean, "p": one.p, "p_holm": one.p_holm}
                for one in tested
            ] or [row]
    return pd.DataFrame(rows, columns=[*results.keys, *COLUMNS])
