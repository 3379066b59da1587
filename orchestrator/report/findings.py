"""What a sweep found, in sentences that follow from its tables: differences between methods, claims beside audits.

No sentence says more than its number: a difference is named if it can be told from none among all comparisons of
``differences.md``; everything else is counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from orchestrator.metric_names import metric
from orchestrator.report.data import Results, Setting
from orchestrator.report.estimate import claim_words, number
from orchestrator.report.headline import (
    chance_of,
    difference_words,
    headline_risk,
    in_settings,
    is_below_guessing,
    is_guessing,
    is_significant,
    turned_around,
    value_of,
)
from orchestrator.report.named_clients import COLUMNS, most_exposed
from orchestrator.report.tables.comparison import Comparison, Line, compare
from orchestrator.report.tables.differences import Contrast, contrasts
from orchestrator.report.tables.guarantees import audited, stated
from orchestrator.report.values import text
from orchestrator.report.vocabulary import setting_label

MOST = 6  # differences that are named one by one
EPSILON, AUDIT = "epsilon", "epsilon_audit"


def findings(results: Results) -> tuple[str, ...]:
    """Accuracy beside the headline's risk, settings where the risk is no more than guessing, and paired differences.

    Args:
        results: the results of a sweep.
    """
    found = headline_risk(results)
    lines = []
    if found and found.accuracy:
        label = metric(found.accuracy).label
        name = label if "accuracy" in label else f"accuracy, {label}"
        settings = [setting for setting in found.settings if setting.measured(found.accuracy)]
        lines += [f"{_capital(name)}: {in_settings(results, settings, found.accuracy)}."] if settings else []
    lines += _worst(results)
    compared = contrasts(results)
    if found:
        alone = contrasts(results, [found.name])
        lines += _costs(alone, compared, found.accuracy)
        lines += _guessing(results, found.name)
        return (*lines, *_differences(compared), *_only_by_itself(alone, compared))
    return tuple(lines + _differences(compared))


def verdicts(results: Results, comparison: Comparison | None = None) -> tuple[str, ...]:
    """What audits say of claimed epsilons, a sentence for each setting, and how published numbers compare.

    Args:
        results: the results of a sweep.
        comparison: the comparison with published numbers; default: it is made.
    """
    said = [*(_claim(results, setting) for setting in results.settings), _unclaimed(results)]
    lines = (compare(results) if comparison is None else comparison).lines
    return tuple(sentence for sentence in [*said, _published(lines)] if sentence)


def _worst(results: Results) -> list[str]:
    """The worst client in the settings of the headline, beside what equal clients would show."""
    found = headline_risk(results)
    name = next((one for one in COLUMNS if any(setting.measured(one) for setting in results.settings)), "")
    lines = []
    for setting in found.settings if found and name else ():
        chance = chance_of(setting, name)
        if setting.measured(name) and chance is not None:
            where = setting_label(results.keys, setting.values)
            told = filter(None, (value_of(results, setting, name), most_exposed(results, setting, name)))
            lines.append(
                f"{_capital(metric(name).label)}{f' ({where})' if where else ''}: "
                f"{'; '.join(told)}; by chance alone the largest of so many is {number(chance, 3)}."
            )
    return lines[:MOST]


def _costs(risks: Sequence[Contrast], compared: Sequence[Contrast], accuracy: str) -> list[str]:
    """What each method that changes the headline's risk does to the accuracy, told from none or not."""
    lines = []
    for risk in filter(is_significant, risks):
        place = (risk.slot, risk.method, risk.baseline, risk.setting)
        for one in compared:
            if one.metric == accuracy and (one.slot, one.method, one.baseline, one.setting) == place:
                d, digits = one.difference, metric(accuracy).digits
                where = f", {one.setting}" if one.setting else ""
                lines.append(
                    f"What {one.method} costs against {one.baseline}{where}: {metric(accuracy).label} changes by "
                    f"{d.mean:+.{digits}f} ({d.low:+.{digits}f} to {d.high:+.{digits}f}, {d.n} pairs)."
                )
    return lines[:MOST]


def _guessing(results: Results, name: str) -> list[str]:
    """The settings in which the risk is no more than guessing, if there is more than one setting."""
    having = [setting for setting in results.settings if setting.measured(name)]
    said = (
        (is_guessing, "cannot be told from guessing", ". That is no proof of safety."),
        (is_below_guessing, "is below guessing", f"{turned_around(name)}."),
    )
    lines = []
    for holds, words, end in said if len(having) > 1 else ():
        weak = [setting for setting in having if holds(setting, name)]
        labels = "; ".join(setting_label(results.keys, setting.values) for setting in weak)
        where = f" ({labels})" if len(weak) < min(len(having), MOST) else ""
        lines += [f"In {len(weak)} of {len(having)} settings{where}, {metric(name).label} {words}{end}"] * bool(weak)
    return lines


def _differences(found: Sequence[Contrast]) -> list[str]:
    """A sentence for each difference that can be told from none, and one that counts the others."""
    if not found:
        return []
    tested = [one for one in found if not math.isnan(one.p)]
    if not tested:
        return [f"{len(found)} differences between methods were measured, none with the three pairs that a test needs."]
    sure = [one for one in tested if is_significant(one)]
    lines = [_sentence(one) for one in sure[:MOST]]
    if len(sure) > MOST:
        lines.append(f"{len(sure) - MOST} more differences can be told from none: see differences.md.")
    rest = len(tested) - len(sure)
    lines += [
        f"{rest} of {len(tested)} comparisons between methods show no difference that can be told from none "
        f"(paired t tests at 5 %, with Holm's correction {_together(len(tested))})."
    ] * bool(rest)
    return lines


def _together(count: int) -> str:
    return "over this one comparison" if count == 1 else f"over all {count} together"


def _only_by_itself(alone: Sequence[Contrast], compared: Sequence[Contrast]) -> list[str]:
    """The differences of the headline's risk that the correction over all metrics' comparisons does not confirm."""
    sure = {_place(one) for one in compared if is_significant(one)}
    count, among = (
        len([one for one in alone if not math.isnan(one.p)]),
        [one for one in compared if not math.isnan(one.p)],
    )
    held = {_place(one) for one in among}
    family = "if it is tested by itself" if count == 1 else f"among the {count} comparisons of this risk"
    lines = []
    for one in alone if among else ():
        if is_significant(one) and _place(one) not in sure:
            where = f", {one.setting}" if one.setting else ""
            rest = f"but not among all {len(among)}" if _place(one) in held else f"and not one of these {len(among)}"
            lines.append(
                f"The headline's difference ({one.method} against {one.baseline}{where}) is significant {family} "
                f"({_p(one)}), {rest} comparisons: it is a hint, to be confirmed with more runs."
            )
    return lines[:MOST]


def _place(one: Contrast) -> tuple[str, ...]:
    return (one.slot, one.method, one.baseline, one.setting, one.metric)


def _p(one: Contrast) -> str:
    return "p < 0.001" if one.p_holm < 0.001 else f"p = {one.p_holm:.3f}"


def _sentence(one: Contrast) -> str:
    described = metric(one.metric)
    kind = "higher" if one.difference.mean > 0 else "lower"
    good = "" if described.direction is None else " (better)" if described.direction == kind else " (worse)"
    where = f", {one.setting}" if one.setting else ""
    return (
        f"{one.method} against {one.baseline}{where}: {described.label} {kind} by {difference_words(one)}{good}; "
        f"{one.difference.n} pairs, {_p(one)} (Holm)."
    )


def _claim(results: Results, setting: Setting) -> str:
    """The claimed epsilon of a setting beside the audited one; empty without an audit or a mechanism."""
    if not setting.measured(AUDIT) or not _has_mechanism(setting):
        return ""
    where = setting_label(results.keys, setting.values) or "All runs"
    verdict, claim = audited(setting), stated(setting, "guarantee")
    found = f"canaries in the releases estimate {epsilon_words(setting, AUDIT)}"
    if setting.measured(EPSILON):
        claimed = f"an epsilon of {epsilon_words(setting, EPSILON)} is claimed for a client"
        return f"{_capital(where)}: {claimed}, {found}{f': {verdict}' if verdict else ''}."
    because = f" ({claim})" if claim and claim != "none" else ""
    return f"{_capital(where)}: no epsilon is claimed for a client{because}; {found}."


def _unclaimed(results: Results) -> str:
    """What canaries find in the settings without a mechanism: one sentence for all of them, from lowest to highest mean."""
    settings = [setting for setting in results.settings if setting.measured(AUDIT) and not _has_mechanism(setting)]
    means = sorted(setting.estimate(AUDIT).mean for setting in settings)
    if not means:
        return ""
    ends = " to ".join(dict.fromkeys(_short(mean) for mean in (means[0], means[-1])))
    count = "one setting" if len(means) == 1 else f"{len(means)} settings"
    return f"Where no epsilon is claimed for a client ({count}), canaries in the releases estimate {ends}."


def _has_mechanism(setting: Setting) -> bool:
    return any(text(trial.get("privacy.name")) not in ("none", "") for trial in setting.finished)


def epsilon_words(setting: Setting, name: str) -> str:
    """A claimed epsilon: the largest of all runs. An audited one: mean and interval over runs, or a single run's own."""
    found = setting.estimate(name)
    if found.claim:
        return claim_words(found, _short)
    trials = [trial for trial in setting.finished if trial.get(name) is not None]
    low, high = (trials[0].get(f"{name}_{end}") for end in ("low", "high"))
    if len(trials) == 1 and low is not None and high is not None:
        return f"{_short(found.mean)} ({_short(float(low))} to {_short(float(high))})"
    if len(set(found.values)) == 1:
        return _short(found.mean)
    if math.isnan(found.half):
        return ", ".join(map(_short, found.values))
    return f"{_short(found.mean)} ({_short(max(found.low, 0.0))} to {_short(found.high)})"


def _short(value: float) -> str:
    """Two decimals, and fewer of a large number: an epsilon of 12163.13 is no more exact than one of 12200."""
    return number(value, 2) if not math.isfinite(value) or abs(value) < 100 else f"{float(f'{value:.3g}'):.0f}"


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _published(lines: Iterable[Line]) -> str:
    """How many published numbers lie in the intervals of what was measured; empty if none has a counterpart."""
    measured = [line for line in lines if not math.isnan(line.measured)]
    if not measured:
        return ""
    exact = [line for line in measured if not math.isnan(line.measured_low)]
    inside = [line for line in exact if line.measured_low <= line.published <= line.measured_high]
    other = [line for line in measured if line.differs]
    count = "1 published number has" if len(measured) == 1 else f"{len(measured)} published numbers have"
    words = [f"{count} a counterpart here"]
    words += [f"{len(inside)} of {len(exact)} lie in the 95 % interval of ours"] if exact else []
    words += ["too few runs for an interval"] if not exact else []
    words += [f"{len(other)} were measured in settings that differ from the paper's"] if other else []
    return f"{'; '.join(words)} (published.md)."
