"""The answer of a sweep: a handful of sentences, each a template that rows of numbers fill.

What an attack does, and which of several attacks the headline is about, the attacks declare
(`Metric.risk`) before any number is looked at; so is the setting that it is stated for, the
baseline of the swept slots. No sentence says more than its number: differences that are not
significant are stated with their intervals or counted, because few pairs do not show a large
difference either.
"""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import NormalDist

from algorithms.core.columns import interval
from algorithms.core.metric import CLIENT, MEMBERSHIP, SOURCE
from algorithms.metrics.statistics import (
    FEWEST,
    NAN,
    ROUNDING,
    SIGNIFICANT,
    holm,
    number,
    p_text,
    paired_test,
)
from datasets.federation import printable
from orchestrator.config.document import read
from orchestrator.config.errors import amount
from orchestrator.config.metric_names import metric, metrics
from orchestrator.papers.numbers import Number, compare
from orchestrator.report import context
from orchestrator.report.context import HeadlineRisk, main_risk
from orchestrator.report.data import Results, Row, Setting, text
from orchestrator.report.frame import (
    HEADLINE,
    Contrast,
    baseline_of,
    between,
    contrasts,
    learns,
    power,
)
from orchestrator.report.records import flagged
from orchestrator.report.vocabulary import ALGORITHM, key_labels, setting_label

KINDS = (MEMBERSHIP, SOURCE, CLIENT)
SIMULATED = "the federation is simulated: the data of all clients lay in one place"
KEPT = (
    "repeated examples were kept (data.duplicates: keep): a copy of a member among the non-members "
    "looks like a member, so that the AUC of membership inference is too low"
)
LOWER_BOUND = "An attack that finds little proves little: another one may find more."
NAMED = 3  # methods that the headline names, and clients
MOST = 6  # sentences of one kind
EVERY_CLASS = "f1_macro"
COMMON = 0.75  # the share of the commonest class from which on accuracy says little of the others
REACH = NormalDist().inv_cdf(0.975)  # half a normal interval, in standard deviations
PUBLISHED = "risk"  # the attack whose rows repeat those of the attack that counts
# Where the mean over runs is, beside the value by chance.
SIDES = {
    "above": "significantly above guessing",
    "around": "not significantly different from guessing",
    "below": "significantly below guessing",
}


@dataclass(frozen=True)
class Sentences:
    """What a sweep asked and what it found, in sentences.

    Attributes:
        question: the sweep's description, or what its swept keys ask.
        headline: one sentence with its interval and its value by chance.
        findings: what belongs to the headline, what other attacks find, and what differs between
            the settings.
        verdicts: claimed beside audited epsilons, published beside measured numbers.
        limits: who attacks and what he sees, guarantees and their assumptions, what was not
            measured.
        command: what repeats the sweep, beside its ``sweep.yaml``.
    """

    question: str
    headline: str
    findings: tuple[str, ...]
    verdicts: tuple[str, ...]
    limits: tuple[str, ...]
    command: str


def sentences_of(
    results: Results,
    paired: Sequence[Contrast] | None = None,
    compared: Sequence[Number] | None = None,
) -> Sentences:
    """The sentences of a sweep; what is not given, the comparisons of its methods and with
    published numbers, is made.
    """
    paired = contrasts(results) if paired is None else paired
    compared = compare(results) if compared is None else compared
    risk = headline_risk(results)
    sets = results.facts.get("sets", ())
    return Sentences(
        question=question(results),
        headline=headline(results, risk, paired),
        findings=(
            *_of_risk(results, risk),
            *flagged(results, risk),
            *_other_attacks(results, risk),
            *_differences(paired),
        ),
        verdicts=(*_claims(results), *_published(compared)),
        limits=limits(results),
        command=" ".join(
            ["fedpriv run sweep.yaml", *(f"--set {shlex.quote(change)}" for change in sets)]
        ),
    )


def headline_risk(results: Results) -> HeadlineRisk | None:
    """The risk of `main_risk` in the baseline's settings; None if no attack has such a result."""
    risk = main_risk(results)
    return HeadlineRisk(*risk, tuple(baseline_settings(results, risk[0]))) if risk else None


def baseline_settings(results: Results, name: str) -> list[Setting]:
    """The settings with ``name`` in which every swept slot has its baseline; all settings with
    it if there are none.
    """
    bases = {
        results.keys.index(slot): baseline_of(results, slot)
        for slot in ALGORITHM
        if slot in results.keys
    }
    having = [setting for setting in results.settings if setting.measured(name)]
    return [
        setting
        for setting in having
        if all(text(setting.values[at]) == it for at, it in bases.items())
    ] or having


def headline(results: Results, risk: HeadlineRisk | None, paired: Sequence[Contrast]) -> str:
    """One sentence: what the strongest attack at hand finds in the baseline, by chance, and
    whether a method lowers it.
    """
    if not any(setting.finished for setting in results.settings):
        return "No trial has finished, so there is no result."
    if risk is None:
        return _without_attack(results)
    compared = _compared([test for test in paired if test.metric == risk.name], risk.name)
    sides = _sides(_beyond_chance(results, risk.settings, risk.name))
    words = [f"{_found(results, risk.settings, risk.name, sides)}; {compared}."]
    if set(sides) != {"above"}:
        words += _other_attacks(results, risk)
    return " ".join((*words, *_constant(results, risk.accuracy)))


def _constant(results: Results, name: str) -> list[str]:
    """A sentence on the finished settings in which a model is not shown to be more accurate than
    one that always gives the same answer.
    """
    measured = [setting for setting in results.settings if name and setting.measured(name)]
    idle = [setting for setting in measured if not learns(setting, name)]
    if not idle:
        return []
    chances = [context.chance_of(setting, name) or NAN for setting in idle]
    ends = dict.fromkeys(number(end, 3) for end in (min(chances), max(chances)))
    reached = f"accuracy {' to '.join(ends)}"
    constant = f"a constant answer, the commonest class of the training examples ({reached})"
    if len(idle) == len(results.settings):
        return [f"No model is shown to beat {constant}."]
    labels = [setting_label(results.keys, setting.values) for setting in idle]
    count = amount(len(measured), "finished setting")
    return [
        f"Models are not shown to beat {constant}, in {len(idle)} of {count}: {_listed(labels)}."
    ]


def _found(results: Results, settings: Sequence[Setting], name: str, sides: Sequence[str]) -> str:
    """What an attack finds in these settings, what that is by chance, and in how many it is
    significantly more or less.
    """
    declared = metric(name).risk
    label = context.capital(metric(name).label)
    words = declared.words if declared and declared.words else f"{label}:"
    chances = {
        number(value, 3)
        for cell in settings
        if (value := context.chance_of(cell, name)) is not None
    }
    by_chance = (
        f" (by chance {' to '.join(dict.fromkeys((min(chances), max(chances))))})"
        if chances
        else ""
    )
    counts = Counter(
        side
        for setting, side in zip(settings, sides, strict=True)
        if side and setting.estimate(name).n >= FEWEST
    )
    several = f" of {len(settings)} settings" if len(settings) > 1 else ""
    verdict = "".join(
        f", {SIDES[side]}{f' in {n}{several}' if several else ''}" for side, n in counts.items()
    )
    return f"{words} {_ends(results, settings, name)}{by_chance}{verdict}"


def _other_attacks(results: Results, risk: HeadlineRisk | None) -> list[str]:
    """A sentence for each other kind of attack that is significantly above chance in a setting
    of the baseline.

    Holm's correction is over all of these kinds in all settings, because those that find nothing
    are not mentioned.
    """
    if risk is None:
        return []
    names = [context.stated_risk(results, entry.name) for entry in context.first_risks(results)]
    others = [(baseline_settings(results, name), name) for name in names if name != risk.name]
    sides = iter(_sides([gap for pair in others for gap in _beyond_chance(results, *pair)]))
    sided = [(*pair, list(islice(sides, len(pair[0])))) for pair in others]
    return [f"{_found(results, *one)}." for one in sided if "above" in one[-1]]


def _beyond_chance(
    results: Results, settings: Sequence[Setting], name: str
) -> list[tuple[float, float]]:
    """By how much each setting's runs are above their values by chance, added up, and the p
    value of no difference.

    By the paired test over runs or, of a single run, by the interval within it, as if it were
    normal; NaN if there is neither.
    """
    found = list[tuple[float, float]]()
    for setting in settings:
        chance = context.chance_of(setting, name)
        values = setting.measured(name)
        source = metric(name).chance
        chances = (
            setting.measured(source) if isinstance(source, str) else []
        )  # of the same runs, where all have one
        chances = (
            chances
            if len(chances) == len(values)
            else [NAN if chance is None else chance] * len(values)
        )
        above = [value - by_chance for value, by_chance in zip(values, chances, strict=True)]
        p = paired_test(above)
        if len(above) == 1 and (ends := _interval_within(results, setting.finished, name)):
            half = values[0] - ends[0] if above[0] > 0 else ends[1] - values[0]
            p = 2 * NormalDist().cdf(-REACH * abs(above[0]) / max(half, ROUNDING))
        found.append((sum(above), p))
    return found


def _sides(family: Sequence[tuple[float, float]]) -> list[str]:
    """On which side of chance each of a family of `_beyond_chance` is, one of `SIDES`, after
    Holm's correction; or empty.
    """
    return [
        "" if math.isnan(p) else "around" if p >= SIGNIFICANT else "above" if gap > 0 else "below"
        for (gap, _), p in zip(family, holm([p for _, p in family]), strict=True)
    ]


def _without_attack(results: Results) -> str:
    """The headline of a sweep without a risk: its attacks, its epsilons, if it states any, and
    its accuracy.
    """
    finished = [trial for setting in results.settings for trial in setting.finished]
    attacks = dict.fromkeys(
        name for trial in finished for name in context.attacks_of(results, trial)
    )
    words = [
        f"Attacks without a risk that can be stated: {', '.join(attacks)}."
        if attacks
        else "No attack was made."
    ]
    accuracy = next(filter(results.has, ("accuracy", "aggregated_accuracy")), "")
    for name in filter(results.has, (*context.epsilons(), accuracy)):
        settings = baseline_settings(results, name) if name == accuracy else results.settings
        settings = [setting for setting in settings if setting.measured(name)]
        words.append(
            f"{context.capital(context.full_label(name))}: {_ends(results, settings, name)}."
        )
    return " ".join(words)


def _compared(paired: Sequence[Contrast], name: str) -> str:
    """Whether another method changes the headline's risk, after Holm's correction with the
    accuracy that belongs to it.
    """
    tested = [test for test in paired if not math.isnan(test.p)]
    if paired and not any(test.difference.n for test in paired):
        return "no other method has a finished run to compare it with"
    if not tested:
        few = "fewer than three pairs of runs do not show whether another method lowers it"
        return few if paired else "no defense was compared with it"
    better = -1 if metric(name).direction == "lower" else 1
    changed = [test for test in tested if test.significant]
    words = [
        f"{test.method}{f' ({test.setting})' if test.setting else ''} "
        f"{'raises' if test.difference.mean > 0 else 'lowers'} {context.full_label(name)} by "
        f"{_size(test)} ({'better' if test.difference.mean * better > 0 else 'worse'})"
        for test in changed[:NAMED]
    ]
    pairs = between([test.difference.n for test in tested])
    counted = (
        f"{len(changed)} of {len(tested)} comparisons with other methods are significant, "
        f"{pairs} pairs each"
    )
    return ", ".join([*words, counted])


def value_of(results: Results, setting: Setting, name: str) -> str:
    """A metric in one setting: mean and interval over runs, or the values of one or two runs; a
    guarantee's range.

    A single run has the interval within it, over attacked examples, targets or canaries, if its
    attack gave one.
    """
    estimate = setting.estimate(name)
    digits = metric(name).digits
    words = " ".join(filter(None, estimate.cell(digits)))
    if estimate.n >= FEWEST or estimate.bound == "upper":
        return words
    if estimate.n == 1 and (ends := _interval_within(results, setting.finished, name)):
        return f"{words} ({number(ends[0], digits)} to {number(ends[1], digits)} within one run)"
    return (
        f"{words} ({'one run' if estimate.n == 1 else f'{estimate.n} independent runs'}, so "
        "without an interval)"
    )


def _interval_within(
    results: Results, trials: Sequence[Row], name: str
) -> tuple[float, float] | None:
    """The 95 % interval within the only trial with ``name``: of its columns, or of the published
    risk's last row.
    """
    (trial,) = (trial for trial in trials if trial.get(name) is not None)
    low, high = map(trial.get, interval(name)[1:])
    rows = [
        row
        for row in results.table(trial, "attacks")
        if row["attack"] == PUBLISHED and row.get("low") is not None
    ]
    last = max((row["round"] for row in rows), default=None)
    for row in rows if low is None else ():
        if row["round"] == last and math.isclose(row["value"], float(trial[name]), abs_tol=1e-12):
            low = row["low"]
            high = row["high"]
    return None if low is None or high is None else (float(low), float(high))


def _ends(results: Results, settings: Sequence[Setting], name: str) -> str:
    """A metric in a setting, or in those with the lowest and the highest mean, with the settings
    in words.
    """
    by_mean = sorted(settings, key=lambda setting: setting.estimate(name).mean)
    ends = [setting for setting in settings if setting is by_mean[0] or setting is by_mean[-1]]
    labels = [setting_label(results.keys, setting.values) for setting in ends]
    values = [value_of(results, setting, name) for setting in ends]
    words = [
        f"{value} ({label})" if label else value
        for value, label in zip(values, labels, strict=True)
    ]
    return " and ".join(words) + (
        f", the ends of {len(settings)} settings" if len(settings) > len(ends) else ""
    )


def _of_risk(results: Results, risk: HeadlineRisk | None) -> list[str]:
    """The accuracy beside the headline's risk, and the worst client of each setting."""
    lines = list[str]()
    if risk and risk.accuracy:
        having = [setting for setting in risk.settings if setting.measured(risk.accuracy)]
        label = context.capital(context.full_label(risk.accuracy))
        lines += [f"{label}: {_ends(results, having, risk.accuracy)}."] if having else []
        lines += _of_rare_classes(results, having, risk.accuracy)
    declared = [(entry.name, entry.clients) for entry in metrics().values() if entry.clients]
    worst = list[str]()
    for name, of in [(name, of) for name, of in declared if results.has(of.worst)][:1]:
        for setting in risk.settings if risk else ():
            chance = context.chance_of(setting, of.worst)
            if chance is not None and setting.measured(of.worst):
                where = setting_label(results.keys, setting.values)
                who = most_exposed(results, setting, of.column or name)
                words = filter(
                    None,
                    (value_of(results, setting, of.worst), who, f"by chance {number(chance, 3)}"),
                )
                label = context.capital(metric(of.worst).label) + (f" ({where})" if where else "")
                worst.append(f"{label}: {'; '.join(words)}.")
    if len(worst) > MOST:
        worst[MOST:] = [f"The worst clients of {len(worst) - MOST} other settings: see summary.md."]
    lines += worst
    return lines


def _of_rare_classes(results: Results, settings: Sequence[Setting], accuracy: str) -> list[str]:
    """A sentence with macro F1 where accuracy says little, as one class is most of the examples."""
    chances = [context.chance_of(setting, accuracy) or 0.0 for setting in settings]
    having = [setting for setting in settings if setting.measured(EVERY_CLASS)]
    if not having or min(chances) < COMMON:
        return []
    return [
        f"One class is {min(chances):.0%} of the test examples or more, so accuracy hides the "
        f"others; {metric(EVERY_CLASS).label}, in which each class counts alike: "
        f"{_ends(results, having, EVERY_CLASS)}."
    ]


def most_exposed(results: Results, setting: Setting, column: str) -> str:
    """Return who has the largest value of a column of ``clients.parquet`` in a setting's trials;
    empty without names.
    """
    names = list[str]()
    for trial in setting.finished:
        rows = [
            row
            for row in results.table(trial, "clients")
            if row.get(column) is not None and row.get("name")
        ]
        names += (
            [printable(str(max(rows, key=lambda row: (row["round"], row[column]))["name"]))]
            if rows
            else []
        )
    counted = sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))
    named = ", ".join(f"{name} in {n}" for name, n in counted[:NAMED])
    more = f", {len(counted) - NAMED} others" if len(counted) > NAMED else ""
    return f"{named}{more} of {len(names)} trials" if names else ""


def _differences(paired: Sequence[Contrast]) -> list[str]:
    """A sentence for each significant difference, for each other one of the headline, and one
    that counts the others.
    """
    tested = sorted(
        (test for test in paired if not math.isnan(test.p)),
        key=lambda test: test.family != HEADLINE,
    )
    if not tested:
        measured = sum(test.difference.n > 0 for test in paired)
        none = (
            f"{measured} differences between methods were measured, none with the three "
            "pairs that a test needs."
        )
        return [none] if measured else []
    significant = [test for test in tested if test.significant]
    others = [test for test in tested if not test.significant]
    shown = [*significant[:MOST], *[test for test in others if test.family == HEADLINE][:MOST]]
    rest = (
        "; that the others are not significant does not show that there are none" if others else ""
    )
    counted = (
        f"{len(significant)} of {len(tested)} differences between methods are "
        f"significant{rest}: {power(tested)}"
    )
    return [*map(_difference, shown), f"{counted}. All are in differences.md."]


def _difference(test: Contrast) -> str:
    kind = "higher" if test.difference.mean > 0 else "lower"
    better = metric(test.metric).direction
    judged = f" ({'better' if better == kind else 'worse'})" if better else ""
    p = f"p = {p_text(test.p_holm)}".replace("= <", "< ")
    where = f", {test.setting}" if test.setting else ""
    return (
        f"{test.method} against {test.baseline}{where}: {context.full_label(test.metric)} "
        f"{kind} by {_size(test)}{judged if test.significant else _undecided(test)}; "
        f"{test.difference.n} pairs, {p}{' (Holm)' if test.tests > 1 else ''}."
    )


def _undecided(test: Contrast) -> str:
    """Why a difference is called neither better nor worse."""
    return ", not significant" if test.learned else ", and neither model beats a constant answer"


def _size(test: Contrast) -> str:
    """The size of a difference with its interval, such as "0.021 (0.010 to 0.032)"; the sign is
    left to the verb.
    """
    digits = metric(test.metric).digits
    d = test.difference
    low, high = (d.low, d.high) if d.mean >= 0 else (-d.high, -d.low)
    return f"{number(abs(d.mean), digits)} ({number(low, digits)} to {number(high, digits)})"


def _claims(results: Results) -> list[str]:
    """What audits find beside what is claimed, a sentence for each setting with both."""
    lines = list[str]()
    for setting in results.settings:
        measured = setting.measured
        audits = [audit for audit in context.audits(results) if measured(audit.name)]
        claims = context.claims_of(audits, measured)
        if claims:
            where = context.capital(setting_label(results.keys, setting.values)) or "All runs"
            claim = f"{metric(claims[0]).label} {value_of(results, setting, claims[0])} is claimed"
            values = ", ".join(
                f"{audit.label} {value_of(results, setting, audit.name)}" for audit in audits
            )
            verdict = context.audited(setting)
            lines.append(f"{where}: {claim}; {values}{f': {verdict}' if verdict else ''}.")
    return lines


def _published(compared: Sequence[Number]) -> list[str]:
    """How many published numbers lie where one more run would; empty if none has a counterpart."""
    judged = [entry.predicted for entry in compared if entry.predicted is not None]
    near = f"{sum(judged)} of {len(judged)} lie where one more run of ours would with 95 %"
    shares = near if judged else "too few runs to say where one more would lie"
    other = sum(bool(entry.differs) for entry in compared)
    counted = (
        f"Published numbers with a counterpart here: {len(compared)}; {shares}; in settings "
        f"that differ: {other}"
    )
    return [f"{counted} (published.md)."] if compared else []


def question(results: Results) -> str:
    """The question in the sweep file: its description, or in its first comment, or else one from
    the swept keys.
    """
    sweep = results.facts.get("file", "")
    fields = read(sweep, "sweep.yaml").value
    described = (
        " ".join(text(fields.get("description")).split()) if isinstance(fields, dict) else ""
    )
    if described:
        return described
    comment = re.match(r"(?:#.*\S.*\n)*", sweep)
    words = " ".join(
        line.lstrip("#").strip() for line in (comment.group() if comment else "").splitlines()
    )
    first = re.match(r".*?\?(?=\s|$)|.*?\.(?=\s|$)|.+", words)
    if first:
        return first.group()
    attacked = [kind.lower() for kind in KINDS if _measured(results, kind)]
    what = f"accuracy and the risk of {', '.join(attacked)}" if attacked else "accuracy"
    labels = ", ".join(key_labels(results.keys))
    if labels:
        return f"How {'do' if attacked else 'does'} {what} depend on {labels}?"
    return f"What {'are' if attacked else 'is'} the {what} of this federation?"


def limits(results: Results) -> tuple[str, ...]:
    """What the numbers do not say: adversaries, guarantees with their assumptions, what was not
    measured.
    """
    who = context.adversary_sentence(results)
    missing = ", ".join(kind.lower() for kind in KINDS if not _measured(results, kind))
    reached = [setting for setting in results.settings if setting.finished]
    few = sum(setting.repetitions < FEWEST for setting in reached)
    finished = all(trial["status"] == "finished" for trial in results.trials)
    some = "finished " if len(reached) < len(results.settings) else ""
    lines = [
        *((who, LOWER_BOUND) if who else ()),
        *(
            context.guarantee_lines(results)
            or [f"no {some}setting protects anybody by noise, so there is no guarantee"]
        ),
        SIMULATED,
        *_of_data(results),
        f"not measured: {missing}" if missing else "",
        *results.facts.get("tuned", ()),
        context.partition_line(results),
        f"{few} of {len(reached)} {some}settings have fewer than {FEWEST} independent runs, so "
        "no interval" * bool(few),
        _without_result(results),
        "" if finished else results.state,
        *context.trial_notes(results.trials),
    ]
    return tuple(context.sentence(line) for line in lines if line)


def _without_result(results: Results) -> str:
    """A line with the settings without a finished trial; empty if there are none."""
    missing = [setting for setting in results.settings if not setting.finished]
    labels = [setting_label(results.keys, setting.values) for setting in missing]
    known = len(missing) < len(results.settings)
    return f"no trial has finished of: {_listed(labels)}" if labels and known else ""


def _listed(labels: Sequence[str]) -> str:
    """Settings in words, the first ones by name."""
    more = [f"{len(labels) - NAMED} more"] if len(labels) > NAMED else []
    return "; ".join([*labels[:NAMED], *more])


def _of_data(results: Results) -> list[str]:
    """What was chosen about the data that changes what an attack finds."""
    kept = [
        setting
        for setting in results.settings
        if any(results.value(trial, "data.duplicates") == "keep" for trial in setting.trials)
    ]
    return [KEPT] if kept else []


def _measured(results: Results, family: str) -> bool:
    return any(results.has(name) for name in results.metrics if metric(name).family == family)
