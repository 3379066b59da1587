"""What stands beside the numbers of every table: values by chance, attackers, guarantees, notes,
the search, risks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

from algorithms.core.columns import LOW, end, guarantee_column
from algorithms.core.metric import ACCURACY, FAIRNESS, Metric, Risk
from algorithms.interfaces import Run
from algorithms.metrics.statistics import estimate, number
from attacks.interfaces import adversary
from datasets.components import described
from orchestrator.config.errors import amount
from orchestrator.config.metric_names import metric, metrics
from orchestrator.config.tune_section import Tune, unaccounted
from orchestrator.report.data import DEAL, Results, Row, Setting, Value, grouped, lookup, text
from orchestrator.report.vocabulary import setting_label

DASH = "–"  # not measured
BY_CHANCE = "(by chance)"
MOST_SETTINGS = 3  # settings that a line names one by one


def capital(words: str) -> str:
    """The words with a capital at their beginning."""
    return words[:1].upper() + words[1:]


def sentence(line: str) -> str:
    """A line as a sentence: a capital, and a full stop unless it ends with another mark."""
    return capital(line) + ("" if not line or line.endswith((".", "?", "!")) else ".")


def full_label(name: str) -> str:
    """The label of a metric outside of the table of its family: "minority clients" is "accuracy,
    minority clients".
    """
    entry = metric(name)
    return (
        f"accuracy, {entry.label}"
        if entry.family == ACCURACY and "accuracy" not in entry.label
        else entry.label
    )


def chance_metric(metric: Metric, results: Results) -> str | None:
    """The metric whose values stand beside those of ``metric``: its value by chance, if it
    depends on the setting.
    """
    if not isinstance(metric.chance, str) or metric.chance not in results.metrics:
        return None
    return metric.chance if chance_everywhere(metric, results) is None else None


def end_within(name: str, results: Results) -> bool:
    """Whether a metric is an end of the interval of another one within a run, which is not that
    over runs.
    """
    whole = re.sub(r"_(low|high)$", "", name)
    return whole != name and whole in results.metrics


def chance_everywhere(metric: Metric, results: Results) -> float | None:
    """The value by chance of a metric if it is the same in all settings; None if it differs or
    is unknown.
    """
    if not isinstance(metric.chance, str):
        return metric.chance
    measured = [
        setting.measured(metric.chance)
        for setting in results.settings
        if setting.measured(metric.chance)
    ]
    values = [value for of_setting in measured for value in of_setting]
    alike = 1e-9
    if (
        metric.family == ACCURACY
    ):  # that of a constant answer varies with the partition, and is one number to a reader
        values = [sum(of_setting) / len(of_setting) for of_setting in measured]
        alike = 5e-4
    same = len(results.settings) > 1 and values and max(values) - min(values) < alike
    return values[0] if same else None


def chance_of(setting: Setting, name: str) -> float | None:
    """The value by chance of a metric in a setting; None if it is unknown."""
    chance = metric(name).chance
    if not isinstance(chance, str):
        return chance
    values = setting.measured(chance)
    return sum(values) / len(values) if values else None


def shown_beside(measured: Collection[str]) -> set[str]:
    """The metrics that are values by chance of other measured ones.

    They have no column of their own.
    """
    chances = (metric(name).chance for name in measured)
    return {chance for chance in chances if isinstance(chance, str) and chance in measured}


def chance_cell(setting: Setting, metric: Metric, results: Results, digits: int) -> str:
    """The mean by chance in parentheses, with a space before it; empty if it was not measured in
    this setting.
    """
    name = chance_metric(metric, results)
    mean = (
        estimate(setting.measured(name)).text(digits)
        if name and setting.measured(metric.name)
        else ""
    )
    return f" ({mean})" if mean else ""


def guessing(named: Iterable[tuple[str, Metric]], results: Results) -> str:
    """A line with the values by chance that are the same in all settings, such as "by chance:
    0.5 for MIA"; or empty.

    ``named`` has the headings and the metrics that are shown.
    """
    known = (
        (chance_everywhere(entry, results), " ".join(heading.split())) for heading, entry in named
    )
    headings = grouped((round(value, 3), heading) for value, heading in known if value is not None)
    words = [
        f"{text(value)} for {', '.join(dict.fromkeys(names))}"
        for value, names in sorted(headings.items())
    ]
    return f"by chance: {'; '.join(words)}" if words else ""


def readings(results: Results, names: Iterable[str]) -> list[str]:
    """The lines that the shown metrics ``names`` declare for their tables, each once, filled
    with the numbers.
    """
    declared = [metric(name).reading for name in names if results.has(name)]
    return list(
        dict.fromkeys(filter(None, (_filled(results, reading) for reading in declared if reading)))
    )


def _filled(results: Results, reading: str) -> str:
    """A line with the means of the metrics that it names, the smallest and the largest of all
    settings; or empty.
    """
    values = {}
    for name in filter(None, (part[1] for part in Formatter().parse(reading))):
        means = [
            setting.estimate(name).mean for setting in results.settings if setting.measured(name)
        ]
        if not means:
            return ""
        ends = (
            number(end, metric(name).digits, metric(name).bound) for end in (min(means), max(means))
        )
        values[name] = " to ".join(dict.fromkeys(ends))
    return reading.format_map(values)


def joined_by_text(results: Results, texts: Iterable[str], most: int = MOST_SETTINGS) -> list[str]:
    """Texts on the settings, each once, with the settings that it is about in parentheses if it
    is not about all.

    Such as "shadow_mia (ifca; ifca_mir)"; more than ``most`` settings are counted. There is one
    text for each setting, in their order; of those with an empty one, nothing is said.
    """
    pairs = list(zip(results.settings, texts, strict=True))
    groups = grouped(
        (words, setting_label(results.keys, setting.values)) for setting, words in pairs if words
    )
    if len(groups) == 1 and all(words for _, words in pairs):
        return list(groups)
    return [
        f"{words} ({'; '.join(labels) if len(labels) <= most else f'{len(labels)} settings'})"
        for words, labels in groups.items()
    ]


def attacks_of(results: Results, trial: Row) -> dict[str, Any]:
    """The attacks of a trial by name, with what they declare under the fields of its resolved
    run; None: not there.
    """
    listed: Value = (
        lookup(results.configs.get(trial["id"]), "attacks") or trial.get("attacks") or []
    )
    entries = listed.split(",") if isinstance(listed, str) else listed
    maps = [
        dict(entry) if isinstance(entry, Mapping) else {"name": entry.strip()} for entry in entries
    ]
    there = described("attacks")
    fields = {entry.pop("name"): entry for entry in maps}
    return {name: there[name].under(fields[name]) if name in there else None for name in fields}


def partition_line(results: Results) -> str:
    """A sentence on the partitions behind the intervals; empty if the trials' runs are not
    known.
    """
    if any(trial.get(DEAL) is not None for trial in results.trials):
        return (
            "The partition of the data varies: trials with the same partition are averaged first."
        )
    data = [lookup(results.configs.get(trial["id"]), "data") for trial in results.trials]
    seeds = [
        section["split_seed"]
        for section in data
        if isinstance(section, dict) and "split_seed" in section
    ]
    if not seeds or len(seeds) < len(results.trials):
        return ""
    fixed = ", ".join(sorted({text(seed) for seed in seeds if seed is not None}))
    if not fixed:
        return "Every seed has its own partition of the data."
    return (
        f"The partition of the data is fixed (data.split_seed {fixed}): intervals say nothing "
        "of other partitions."
    )


def adversary_sentence(results: Results) -> str:
    """A line that says of each attack who makes it, and joins the settings of which the same is
    said; or empty.

    Such as "attackers: shadow_mia by anybody who has the models; sia by the server, who sees every
    client's update". An attack whose component is not there is left out.
    """
    texts = list[str]()
    for setting in results.settings:
        by = dict[
            str, dict[str, None]
        ]()  # names by attacker, each once, in the order of the attacks
        for name, attack in (
            pair for trial in setting.trials for pair in attacks_of(results, trial).items()
        ):
            if attack:
                by.setdefault(adversary(attack), {})[name] = None
        texts.append("; ".join(f"{', '.join(names)} by {who}" for who, names in by.items()))
    attackers = joined_by_text(results, texts)
    return f"attackers: {'; '.join(attackers)}" if attackers else ""


# the column of trials.parquet that judges a claim, and its worst word
VERDICT = "audit_verdict"
REFUTED = "refuted"
# An exact claim lies below its 95 % interval with the first probability; what happens with the
# second refutes it.
BELOW = 0.025
SELDOM = 0.005


def epsilons() -> list[str]:
    """The metrics of guarantees (`Metric.protects`)."""
    return sorted(metric.name for metric in metrics().values() if metric.protects)


def stated(setting: Setting, epsilon: str) -> str:
    """The guarantee of a setting: "dp" and the assumption, or "none" and the reason; empty if no
    trial states one.
    """
    column = guarantee_column(epsilon)
    return "; ".join(
        dict.fromkeys(text(trial[column]) for trial in setting.finished if trial.get(column))
    )


def protects(results: Results) -> bool:
    """Whether a trial has a mechanism that protects clients or examples, beside which guarantees
    and audits say something.
    """
    others = set(map(guarantee_column, epsilons())) - {
        guarantee_column("epsilon")
    }  # that one is stated without any mechanism, too
    mechanisms = {text(trial.get("privacy.name")) for trial in results.trials} - {"none", ""}
    return bool(mechanisms) or any(
        trial.get(column) for trial in results.trials for column in others
    )


def audits(results: Results) -> list[Metric]:
    """The measured metrics that audit a claim (`Metric.audits`) of the same unit that a setting
    makes.
    """
    measured = [
        metric for metric in metrics().values() if metric.audits and results.has(metric.name)
    ]
    return [metric for metric in measured if any(map(results.has, metric.audits))]


def of_other_units(results: Results) -> set[str]:
    """The metrics of audits, and the ends of their intervals, that no claim of the same unit stands
    beside: of them there is a sentence.
    """
    beside = {audit.name for audit in audits(results)}
    alone = {metric.name for metric in metrics().values() if metric.audits} - beside
    return {name for name in results.metrics if re.sub(r"_(low|high)$", "", name) in alone}


def _found_without_claim(results: Results) -> list[str]:
    """A line on what canaries of clients find where no epsilon of a client is claimed, such as
    under DP-SGD.
    """
    measured = [
        metric for metric in metrics().values() if metric.audits and results.has(metric.name)
    ]
    if not measured or audits(results):
        return []
    found = [
        setting.estimate(measured[0].name).mean
        for setting in results.settings
        if setting.measured(measured[0].name)
    ]
    ends = " to ".join(dict.fromkeys(number(end, 1) for end in (min(found), max(found))))
    return [
        f"canaries of whole clients are found (audited epsilon {ends}): no protection of a "
        "client is claimed"
    ]


def claims_of(audits: Iterable[Metric], measured: Callable[[str], Any]) -> list[str]:
    """The guarantees that are ``measured`` and that one of the ``audits`` is held against."""
    return [
        name
        for name in dict.fromkeys(name for audit in audits for name in audit.audits)
        if measured(name)
    ]


def claim_of(trial: Row, audit: Metric) -> float | None:
    """The guarantee of a trial that ``audit`` is held against; None if it has none."""
    return next((trial[name] for name in audit.audits if trial.get(name) is not None), None)


def refuted(setting: Setting) -> int:
    """The number of trials of a setting whose audit refutes the claimed epsilon; 0 if the claim
    stands.

    A trial's own verdict counts, and so do trials in which the 95 % interval of the audited epsilon
    lies above the claim, if they are too many for chance: if the claim is exact, one in forty does.
    That is two of up to four trials, three of up to 14, and so on (binomial test).
    """
    from scipy.special import bdtrc

    judged = [trial for trial in setting.finished if trial.get(VERDICT)]
    sure = [trial[VERDICT] == REFUTED for trial in judged]
    audits = [metric for metric in metrics().values() if metric.audits]
    pairs = [
        [(trial.get(end(audit.name, LOW)), claim_of(trial, audit)) for audit in audits]
        for trial in judged
    ]
    higher = [
        any(low is not None and claim is not None and low > claim for low, claim in pair)
        for pair in pairs
    ]
    above = sum(map(max, sure, higher))
    many = above > 1 and float(bdtrc(above - 1, len(judged), BELOW)) < SELDOM
    return above if many else sum(sure)


def audited(setting: Setting) -> str:
    """What an audit says of a setting's claim: "refuted in 2 of 3 runs", "not refuted", "loose";
    empty without any.
    """
    words = [text(trial[VERDICT]) for trial in setting.finished if trial.get(VERDICT)]
    if not words:
        return ""
    count = refuted(setting)
    if count:
        return f"{REFUTED} in {count} of {len(words)} runs"
    loose = set(words) == {"loose"}
    return (
        "loose: the audit shows less than half of it" if loose else "not refuted, which is no proof"
    )


def guarantee_lines(results: Results, most: int = MOST_SETTINGS) -> list[str]:
    """What is guaranteed, and what audits say of it; each line joins the settings of which the
    same is said.

    Such as "guarantee for a client: none: updates are neither clipped nor noised (none); dp
    (global-DP)"; more than ``most`` settings are counted.
    """
    lines = list[str]()
    for epsilon in epsilons() if protects(results) else ():
        protected = metric(epsilon).protects
        guarantees = joined_by_text(
            results, [stated(setting, epsilon) for setting in results.settings], most
        )
        lines += [f"guarantee for {protected}: {'; '.join(guarantees)}"] if guarantees else []
        if results.has(epsilon):
            lines.append(
                f"an epsilon for {protected} holds for the model of one trial alone: "
                "several models compose"
            )
    lines += _found_without_claim(results) if lines else []
    verdicts = joined_by_text(results, map(audited, results.settings), most)
    return [*lines, f"claimed epsilon, audited: {'; '.join(verdicts)}"] if verdicts else lines


def trial_notes(trials: Sequence[Mapping[str, Value]]) -> list[str]:
    """What must be known of trials, each line once with the number of trials that it is about."""
    notes = [note for trial in trials for note in text(trial.get("notes")).split("; ") if note]
    return [f"{notes.count(note)} of {len(trials)} trials: {note}" for note in dict.fromkeys(notes)]


def tuned_sentences(tune: Tune | None, runs: Sequence[Run]) -> list[str]:
    """Lines about the search of a tuned sweep with these runs: on what it chooses, and what an
    epsilon does not include.

    Such as "tuned: hyperparameters chosen on validation accuracy over 12 trials"; of drawn trials
    whose epsilon is stated, their law is told and not their number.
    """
    if tune is None:
        return []
    declared = [
        entry
        for run in runs
        for slot in (run.privacy, run.training)
        for entry in slot.module.METRICS
    ]
    protects = any(entry.protects for entry in declared)
    unmet = unaccounted(tune, runs) if protects else []
    over = f"over {(protects and tune.draws) or amount(len(runs), 'trial')}"
    label = " and ".join(metric(name).label for name in tune.metrics)
    reported = [name for name in tune.metrics if metric(name).on == "tests"]
    if not reported:
        chosen = f"on {label} {over}"
    elif any(metric(name).family in (ACCURACY, FAIRNESS) for name in reported):
        chosen = f"on the reported test set {over}: {label} is optimistic"
    else:
        chosen = f"on {label} {over}: its best value is optimistic"
    lines = [f"tuned: hyperparameters chosen {chosen}"]
    if unmet:
        lines.append(f"epsilon does not include the search {over}: {'; '.join(unmet)}")
    elif tune.draws and any(
        entry.protects for run in runs for entry in run.training.module.METRICS
    ):
        lines.append(
            f"the epsilon of an example does not include the search {over}; epsilon_search "
            "is that of a client"
        )
    return lines


# Which risks of a sweep count, the strongest kind of attack first: declared (`Metric.risk`) before
# any number is seen

OF_BUDGETS = Risk("", accuracies=("aggregated_accuracy", "accuracy"))


def risks(results: Results) -> list[tuple[str, ...]]:
    """The risks that a sweep measured, the strongest kind of attack first; those of one kind are
    side by side.

    Of each kind the first counts that was measured, in the order that the attacks declare. A risk
    needs an accuracy to stand beside. Without any attack, it is the budget of a guarantee, if
    several settings state one.
    """
    rows: list[tuple[str, ...]] = []
    for entry in first_risks(results):
        names = (entry.name, *(entry.risk.beside if entry.risk else ()))
        new = [name for name in dict.fromkeys(names) if not any(name in row for row in rows)]
        rows.append(
            tuple(name for name in new if _shows(results, name) and accuracy_of(results, name))
        )
    if any(rows):
        return [row for row in rows if row]
    stated = [
        name
        for name in epsilons()
        if sum(bool(setting.measured(name)) for setting in results.settings) > 1
    ]
    rows = [(name,) for name in stated if accuracy_of(results, name)]
    return rows[:1]


def first_risks(results: Results) -> list[Metric]:
    """The first measured risk of each kind of attack, the strongest kind first."""
    declared = [(entry.risk, entry) for entry in metrics().values() if entry.risk]
    ranked = [(risk.rank, risk.kind, entry) for risk, entry in declared if risk.rank is not None]
    first: dict[str, Metric] = {}
    for _, kind, entry in sorted(ranked, key=lambda found: found[0]):
        if _shows(results, entry.name):
            first.setdefault(kind or entry.name, entry)
    return list(first.values())


def stated_risk(results: Results, name: str) -> str:
    """The metric that a sentence is about if ``name`` is a risk: that itself, or what is
    declared to be stated instead.
    """
    risk = metric(name).risk
    return next((other for other in (risk.instead if risk else ()) if results.has(other)), name)


@dataclass(frozen=True)
class HeadlineRisk:
    """The metric of the headline's risk, that of its accuracy (empty: not measured), and the
    baseline's settings with it.
    """

    name: str
    accuracy: str
    settings: tuple[Setting, ...]


def main_risk(results: Results) -> tuple[str, str] | None:
    """The first measured risk of the strongest kind of attack at hand, which the headline is about.

    The kinds are in a fixed order, so the choice does not depend on what they found.

    Returns:
        Its metric, and the metric of the accuracy that belongs to it (empty if it was not
        measured); None if no attack has such a result.
    """
    first = next((row[0] for row in risks(results)), "")
    return (
        (stated_risk(results, first), accuracy_of(results, first)) if metric(first).risk else None
    )


def accuracy_of(results: Results, name: str) -> str:
    """The metric of the accuracy that belongs to a risk: the first measured one; empty if there
    is none.
    """
    return next(
        (
            column
            for column in (metric(name).risk or OF_BUDGETS).accuracies
            if _shows(results, column)
        ),
        "",
    )


def _shows(results: Results, name: str) -> bool:
    """Whether a metric has a value that is not 0."""
    return any(
        abs(value) > 1e-12 for setting in results.settings for value in setting.measured(name)
    )
