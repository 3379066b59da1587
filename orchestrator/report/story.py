"""The story of a sweep: a handful of sentences, each a template that rows of numbers fill.

What an attack does, and which of several attacks the headline is about, the attacks declare (`Metric.risk`) before any number
is looked at; so is the setting that it is stated for, the baseline of the swept slots. No sentence says more than its number:
differences that are not significant are stated with their intervals or counted, because few pairs do not show a large
difference either.
"""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import yaml

from algorithms.core.metric import CLIENT, MEMBERSHIP, SOURCE
from datasets.federation import printable
from orchestrator.metric_names import metric, metrics
from orchestrator.report.comparison import Comparison, compare
from orchestrator.report.context import (
    adversary_sentence,
    attack_names,
    audit_lines,
    audited,
    chance_of,
    foreign_models_by_setting,
    full_label,
    guarantee_lines,
    partition_line,
    protects_clients,
    stated,
    trial_notes,
    tuned_sentences,
)
from orchestrator.report.data import Results, Row, Setting, text
from orchestrator.report.figures.arrangement import ALGORITHM
from orchestrator.report.frame import (
    HEADLINE,
    Contrast,
    baseline_of,
    chance_words,
    contrasts,
    detectable,
    is_significant,
    main_risk,
    pairs_words,
)
from orchestrator.report.statistics import FEWEST, claim_words, number, short
from orchestrator.report.summary import state_line
from orchestrator.report.vocabulary import key_labels, setting_label
from orchestrator.results.paths import Folder
from orchestrator.results.sweeps import sweep_file

SETS = "# --set "  # begins the lines of a saved sweep file that hold its overrides
KINDS = (MEMBERSHIP, SOURCE, CLIENT)
LOWER_BOUND = "An attack that finds little proves little: another one may find more."
NAMED = 3  # methods that the headline names, and clients
MOST = 6  # sentences of one kind
EPSILON, AUDIT = "epsilon", "epsilon_audit"
PUBLISHED = "risk"  # the attack whose rows repeat those of the attack that counts
# Where the 95 % interval over runs lies, beside the value by chance.
SIDES = {
    "above": "significantly above guessing",
    "around": "not significantly different from guessing",
    "below": "significantly below guessing",
}


@dataclass(frozen=True)
class Story:
    """What a sweep asked and what it found, in sentences.

    Attributes:
        question: the sweep's description, or what its swept keys ask.
        headline: one sentence with its interval and its value by chance.
        findings: what differs between the settings.
        verdicts: claimed beside audited epsilons, published beside measured numbers.
        limits: who attacks and what he sees, guarantees and their assumptions, what was not measured.
        command: what repeats the sweep, beside its ``sweep.yaml``.
    """

    question: str
    headline: str
    findings: tuple[str, ...]
    verdicts: tuple[str, ...]
    limits: tuple[str, ...]
    command: str


def story(results: Results, comparison: Comparison | None = None) -> Story:
    """The story of a sweep.

    Args:
        results: the results of a sweep; unfinished trials are counted and left out.
        comparison: the comparison with published numbers; default: it is made.
    """
    sweep = sweep_file(Folder(results.folder))
    return Story(
        question=question(results, sweep),
        headline=headline(results),
        findings=findings(results),
        verdicts=verdicts(results, comparison),
        limits=limits(results),
        command=command(sweep),
    )


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
    """The risk of `main_risk` in the baseline's settings; None if no attack has such a result."""
    risk = main_risk(results)
    if risk is None:
        return None
    declared = metric(risk[0]).risk
    words = (declared.words if declared else "") or f"{_capital(metric(risk[0]).label)}:"
    return HeadlineRisk(risk[0], words, risk[1], tuple(baseline_settings(results, risk[0])))


def baseline_settings(results: Results, name: str) -> list[Setting]:
    """The settings with ``name`` in which every swept slot has its baseline; all settings with it if there are none."""
    bases = {results.keys.index(slot): baseline_of(results, slot) for slot in ALGORITHM if slot in results.keys}
    having = [setting for setting in results.settings if setting.measured(name)]
    base = [setting for setting in having if all(text(setting.values[at]) == it for at, it in bases.items())]
    return base or having


def headline(results: Results) -> str:
    """One sentence: what the strongest attack at hand finds in the baseline, by chance, and whether a method lowers it."""
    if not any(setting.finished for setting in results.settings):
        return "No trial has finished, so there is no result."
    found = headline_risk(results)
    if found is None:
        return _without_attack(results)
    value = _ends(results, found.settings, found.name)
    chances = {number(chance, 3) for one in found.settings if (chance := chance_of(one, found.name)) is not None}
    by_chance = f" (by chance {' to '.join(dict.fromkeys((min(chances), max(chances))))})" if chances else ""
    sides = Counter(side for one in found.settings if (side := _side(one, found.name)))
    several = len(found.settings) > 1
    verdict = [
        f"{SIDES[it]}{f' in {n} of {len(found.settings)} settings' if several else ''}" for it, n in sides.items()
    ]
    risks = [one for one in contrasts(results) if one.metric == found.name]
    return f"{found.words} {value}{by_chance}{''.join(f', {one}' for one in verdict)}; {_compared(risks, found.name)}."


def findings(results: Results) -> tuple[str, ...]:
    """Accuracy beside the headline's risk, its worst clients, where the risk is more than guessing, paired differences."""
    found, lines = headline_risk(results), list[str]()
    if found and found.accuracy:
        having = [setting for setting in found.settings if setting.measured(found.accuracy)]
        lines += [f"{_capital(full_label(found.accuracy))}: {_ends(results, having, found.accuracy)}."] * bool(having)
    if found:
        lines += _worst(results, found.settings) + _sides(results, found.name)
    return (*lines, *_differences(contrasts(results)))


def verdicts(results: Results, comparison: Comparison | None = None) -> tuple[str, ...]:
    """What audits say of claimed epsilons, a sentence for each setting, and how published numbers compare.

    Args:
        results: the results of a sweep.
        comparison: the comparison with published numbers; default: it is made.
    """
    audits = [one for one in results.settings if one.measured(AUDIT) and protects_clients(one.finished)]
    said = [_claim(results, setting) for setting in audits]
    return tuple(filter(None, [*said, _published(compare(results) if comparison is None else comparison)]))


def value_of(results: Results, setting: Setting, name: str) -> str:
    """A metric in one setting: mean and interval over runs, or the values of one or two runs.

    A single run has the interval over the attacked examples, if its attack gave one.
    """
    found, digits = setting.estimate(name), metric(name).digits
    if found.claim:
        return claim_words(found, lambda value: number(value, digits, found.bound))
    shown = " ".join(filter(None, found.shown(digits)))
    if found.n >= FEWEST:
        return shown
    if found.n == 1 and (ends := examples_interval(results, setting.finished, name)):
        return f"{shown} ({number(ends[0], digits)} to {number(ends[1], digits)} over examples, one run)"
    return f"{shown} ({'one run' if found.n == 1 else f'{found.n} runs'}, so without an interval)"


def examples_interval(results: Results, trials: Sequence[Row], name: str) -> tuple[float, float] | None:
    """The 95 % interval over attacked examples of the only trial with ``name``.

    It is in the trial's own columns, or in the row of ``attacks.parquet`` that the metric repeats. If rows with different
    intervals have that value, there is none.
    """
    having = [trial for trial in trials if trial.get(name) is not None]
    if len(having) != 1:
        return None
    low, high = (having[0].get(f"{name}_{end}") for end in ("low", "high"))
    if low is not None and high is not None:
        return float(low), float(high)
    rows = [row for row in results.table(having[0], "attacks") if row.get("low") is not None and "round" in row]
    last = max((row["round"] for row in rows), default=None)
    value = float(having[0][name])
    rows = [row for row in rows if row["round"] == last and math.isclose(row["value"], value, abs_tol=1e-12)]
    rows = [row for row in rows if row["attack"] == PUBLISHED] or rows
    found = {(float(row["low"]), float(row["high"])) for row in rows}
    return found.pop() if len(found) == 1 else None


def most_exposed(results: Results, setting: Setting, column: str) -> str:
    """Return who has the largest value of a column of ``clients.parquet`` in a setting's trials; empty without names."""
    found = list[str]()
    for trial in setting.finished:
        rows = [row for row in results.table(trial, "clients") if row.get(column) is not None and row.get("name")]
        rows = [row for row in rows if row["round"] == max(one["round"] for one in rows)]
        found += [printable(str(max(rows, key=lambda row: row[column])["name"]))] if rows else []
    counted = sorted(Counter(found).items(), key=lambda one: (-one[1], one[0]))
    named = ", ".join(f"{name} in {n}" for name, n in counted[:NAMED])
    more = f", {len(counted) - NAMED} others" if len(counted) > NAMED else ""
    return f"{named}{more} of {len(found)} trials" if found else ""


def epsilon_words(setting: Setting, name: str) -> str:
    """A claimed epsilon: the largest of all runs. An audited one: mean and interval over runs, or a single run's own."""
    found = setting.estimate(name)
    shown = partial(short, bound=found.bound)
    if found.claim:
        return claim_words(found, shown)
    trials = [trial for trial in setting.finished if trial.get(name) is not None]
    low, high = (trials[0].get(f"{name}_{end}") for end in ("low", "high"))
    if len(trials) == 1 and low is not None and high is not None:
        return f"{short(found.mean)} ({short(float(low), 'lower')} to {short(float(high))})"
    if len(set(found.values)) == 1:
        return shown(found.mean)
    if math.isnan(found.half):
        return ", ".join(map(shown, found.values))
    return f"{shown(found.mean)} ({shown(max(found.low, 0.0))} to {short(found.high)})"


def _ends(results: Results, settings: Sequence[Setting], name: str) -> str:
    """A metric in a setting, or in those with the lowest and the highest mean, with the settings in words."""
    by_mean = sorted(settings, key=lambda setting: setting.estimate(name).mean)
    chosen = dict.fromkeys(map(id, (by_mean[0], by_mean[-1])))
    ends = [setting for setting in settings if id(setting) in chosen]
    labels = [setting_label(results.keys, setting.values) for setting in ends]
    shown = [
        value_of(results, one, name) + (f" ({label})" if label else "") for one, label in zip(ends, labels, strict=True)
    ]
    return " and ".join(shown) + (f", the ends of {len(settings)} settings" if len(settings) > len(ends) else "")


def _side(setting: Setting, name: str) -> str:
    """On which side of the value by chance the interval over runs lies, one of `SIDES`; empty if there is no interval."""
    found, chance = setting.estimate(name), chance_of(setting, name)
    if chance is None or found.n < FEWEST:
        return ""
    return "above" if found.low > chance else "below" if found.high < chance else "around"


def _sides(results: Results, name: str) -> list[str]:
    """In how many settings the risk is more than guessing, and in how many no more."""
    having = [setting for setting in results.settings if setting.measured(name)]
    lines = list[str]()
    for side, words in SIDES.items() if len(having) > 1 else ():
        those = [setting_label(results.keys, one.values) for one in having if _side(one, name) == side]
        where = f" ({'; '.join(those)})" if len(those) < min(len(having), MOST) else ""
        lines += [
            f"{_capital(metric(name).label)} is {words} in {len(those)} of {len(having)} settings{where}."
        ] * bool(those)
    return lines


def _worst(results: Results, settings: Sequence[Setting]) -> list[str]:
    """The worst client of each setting, beside what the largest of so many equal clients would show."""
    declared = {one.clients.worst: one for one in metrics().values() if one.clients and one.clients.worst}
    name = next((one for one in declared if any(setting.measured(one) for setting in settings)), "")
    lines = list[str]()
    for setting in settings:
        chance = chance_of(setting, name) if name and setting.measured(name) else None
        if chance is not None and (spec := declared[name].clients):
            where = setting_label(results.keys, setting.values)
            who = most_exposed(results, setting, spec.column or declared[name].name)
            told = "; ".join(filter(None, (value_of(results, setting, name), who, f"by chance {number(chance, 3)}")))
            lines.append(f"{_capital(metric(name).label)}{f' ({where})' if where else ''}: {told}.")
    return lines[:MOST]


def _differences(compared: Sequence[Contrast]) -> list[str]:
    """A sentence for each significant difference, for each other one of the headline, and one that counts the others."""
    tested = sorted((one for one in compared if not math.isnan(one.p)), key=lambda one: one.family != HEADLINE)
    if not tested:
        none = (
            f"{len(compared)} differences between methods were measured, none with the three pairs that a test needs."
        )
        return [none] * bool(compared)
    significant = [one for one in tested if is_significant(one)]
    others = [one for one in tested if not is_significant(one)]
    lines = [_difference(one) for one in significant[:MOST]]
    if len(significant) > MOST:
        lines.append(f"{len(significant) - MOST} more differences are significant: see differences.md.")
    lines += [_difference(one) for one in others if one.family == HEADLINE][:MOST]
    if others:
        lines.append(
            f"{len(others)} of {len(tested)} differences between methods are not significant, which does not show that "
            f"there are none: {detectable(tested)}; {chance_words(tested)}."
        )
    return lines


def _difference(one: Contrast) -> str:
    kind, better = "higher" if one.difference.mean > 0 else "lower", metric(one.metric).direction
    verdict = (
        (f" ({'better' if better == kind else 'worse'})" if better else "")
        if is_significant(one)
        else ", not significant"
    )
    p = "p < 0.001" if one.p_holm < 0.001 else f"p = {one.p_holm:.3f}"
    return (
        f"{one.method} against {one.baseline}{f', {one.setting}' if one.setting else ''}: {full_label(one.metric)} {kind} by "
        f"{_size(one)}{verdict}; {one.difference.n} pairs, {p}{' (Holm)' if one.tests > 1 else ''}."
    )


def _size(one: Contrast) -> str:
    """The size of a difference with its interval, such as "0.021 (0.010 to 0.032)"; the sign is left to the verb."""
    digits, d = metric(one.metric).digits, one.difference
    low, high = (d.low, d.high) if d.mean >= 0 else (-d.high, -d.low)
    exact = "" if math.isnan(d.half) else f" ({number(low, digits)} to {number(high, digits)})"
    return f"{number(abs(d.mean), digits)}{exact}"


def _compared(found: Sequence[Contrast], name: str) -> str:
    """Whether another method changes the headline's risk, after Holm's correction with the accuracy that belongs to it."""
    tested = [one for one in found if not math.isnan(one.p)]
    if not tested:
        few = "fewer than three pairs of runs do not show whether another method lowers it"
        return few if found else "no defense was compared with it"
    better = -1 if metric(name).direction == "lower" else 1
    changed = [one for one in tested if is_significant(one)]
    words = [
        f"{one.method}{f' ({one.setting})' if one.setting else ''} "
        f"{'improves it' if one.difference.mean * better > 0 else 'makes it worse'} by {_size(one)}"
        for one in changed[:NAMED]
    ]
    counted = (
        f"{len(changed)} of {len(tested)} comparisons with other methods are significant, {pairs_words(tested)} each"
    )
    return ", ".join([*words, counted])


def _claim(results: Results, setting: Setting) -> str:
    """The claimed epsilon of a setting beside the audited one."""
    where, verdict = setting_label(results.keys, setting.values) or "All runs", audited(setting)
    if setting.measured(EPSILON):
        claimed = f"an epsilon of {epsilon_words(setting, EPSILON)} is claimed for a client"
    else:
        claimed, verdict = f"no epsilon is claimed for a client ({stated(setting, 'guarantee') or 'none'})", ""
    found = f"canaries in the releases estimate {epsilon_words(setting, AUDIT)}"
    return f"{_capital(where)}: {claimed}; {found}{f': {verdict}' if verdict else ''}."


def _published(comparison: Comparison) -> str:
    """How many published numbers lie in the intervals of what was measured; empty if none has a counterpart."""
    known = [line for line in comparison.lines if not math.isnan(line.measured)]
    exact = [line for line in known if not math.isnan(line.measured_low)]
    inside = sum(line.measured_low <= line.published <= line.measured_high for line in exact)
    other = sum(bool(line.differs) for line in known)
    said = f"{inside} of {len(exact)} lie in the 95 % interval of ours" if exact else "too few runs for an interval"
    told = f"published numbers with a counterpart here: {len(known)}; {said}; in settings that differ: {other}"
    return f"{_capital(told)} (published.md)." if known else ""


def _without_attack(results: Results) -> str:
    """The headline of a sweep without a risk: its attacks, its guarantee, if it states an epsilon, and its accuracy."""
    made = dict.fromkeys(
        name for one in results.settings for trial in one.finished for name in attack_names(trial).split(", ")
    )
    made.pop("none", None)
    words = [f"Attacks without a risk that can be stated: {', '.join(made)}." if made else "No attack was made."]
    for name in (EPSILON, "accuracy", "aggregated_accuracy"):
        settings = [setting for setting in results.settings if setting.measured(name)]
        settings = settings if name == EPSILON or not settings else baseline_settings(results, name)
        if settings and len(words) < NAMED:
            words.append(f"{_capital(full_label(name))}: {_ends(results, settings, name)}.")
    return " ".join(words)


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def question(results: Results, sweep: str) -> str:
    """The question of a sweep: its description, the question in its leading comment, or else one from its swept keys.

    Args:
        results: the results of the sweep.
        sweep: the text of its sweep file.
    """
    described = _described(sweep)
    if described:
        return " ".join(described.split())
    comment = _leading_comment(sweep)
    if comment:
        return comment
    attacked = [kind.lower() for kind in KINDS if _measured(results, kind)]
    what = " and ".join(["accuracy", f"the risk of {', '.join(attacked)}"] if attacked else ["accuracy"])
    labels = key_labels(results.keys)
    if not labels:
        return f"What {what} does this federation have?"
    keys = f"{', '.join(labels[:-1])} and {labels[-1]}" if len(labels) > 1 else labels[0]
    return f"How {'do' if len(labels) > 1 else 'does'} {keys} change {what}?"


def limits(results: Results) -> tuple[str, ...]:
    """What the numbers do not say: adversaries, guarantees with their assumptions, what was not measured."""
    who = adversary_sentence(results)
    lines = [who, LOWER_BOUND if who else ""]
    audits = audit_lines(results)
    guarantees = [line for line in guarantee_lines(results) if line not in audits]
    lines += guarantees or ["no setting protects anybody by noise, so there is no guarantee"]
    missing = [kind.lower() for kind in KINDS if not _measured(results, kind)]
    lines.append(f"not measured: {', '.join(missing)}" if missing else "")
    lines += tuned_sentences(results.folder, results.trials)
    lines.append(partition_line(results))
    finished = [len(setting.finished) for setting in results.settings]
    if finished and min(finished) < FEWEST:
        few = sum(n < FEWEST for n in finished)
        lines.append(
            f"{few} of {len(finished)} settings have fewer than {FEWEST} finished runs, so no interval over runs"
        )
    if any(trial["status"] != "finished" for trial in results.trials):
        lines.append(state_line(results.trials))
    lines += [*trial_notes(results.trials), *foreign_models_by_setting(results)]
    return tuple(_sentence(line) for line in lines if line)


def command(sweep: str) -> str:
    r"""The command that repeats a sweep from its saved file, with the overrides that it was run with.

    >>> command("name: x\n# --set base.rounds=3\n")
    'fedpriv run sweep.yaml --set base.rounds=3'
    """
    sets = [line.removeprefix(SETS) for line in sweep.splitlines() if line.startswith(SETS)]
    return " ".join(["fedpriv run sweep.yaml", *(f"--set {shlex.quote(change)}" for change in sets)])


def _measured(results: Results, family: str) -> bool:
    names = [name for name in results.metrics if metric(name).family == family]
    return any(setting.measured(name) for setting in results.settings for name in names)


def _described(sweep: str) -> str:
    try:
        loaded: Any = yaml.safe_load(sweep)
    except yaml.YAMLError:
        return ""
    found = loaded.get("description") if isinstance(loaded, dict) else None
    return found if isinstance(found, str) else ""


def _leading_comment(sweep: str) -> str:
    """The first question of the comment at the top of a sweep file, or else its first sentence."""
    lines = []
    for line in sweep.splitlines():
        if not line.startswith("#") or not line.strip("# ") or line.startswith(SETS):
            break
        lines.append(line.lstrip("#").strip())
    found = re.match(r".*?\?(?=\s|$)|.*?\.(?=\s|$)|.+", " ".join(lines))
    return found.group() if found else ""


def _sentence(line: str) -> str:
    line = _capital(line)
    return line if line.endswith((".", "?", "!")) else f"{line}."
