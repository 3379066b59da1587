"""The summary of a sweep (``summary.md``) and what its attacks found (``attacks.md``), one row per setting."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

from algorithms.core.metric import Metric
from orchestrator import metric_names
from orchestrator.metric_names import families
from orchestrator.report.context import (
    BY_CHANCE,
    DASH,
    PROTECTED,
    USERS,
    adversary_sentence,
    attacks_by_setting,
    audited,
    chance_cell,
    chance_everywhere,
    chance_metric,
    foreign_models_by_setting,
    guarantee_columns,
    guessing,
    partition_line,
    readings,
    shown_beside,
    stated,
    together_lines,
    trial_notes,
    tuned_sentences,
)
from orchestrator.report.data import SLOT_NAMES, Results, Row, Setting, Value, counts, text
from orchestrator.report.statistics import estimate
from orchestrator.report.vocabulary import component_label, key_label, key_labels, setting_label, value_label

READING = (
    "Means over the finished seeds of a setting ± half the width of the 95 % interval (Student's t over seeds). With one "
    "or two seeds there is no interval: their values are printed, in the order of the seeds. An interval that would leave "
    "what is possible, such as a rate above 1, is cut there and printed by its ends. A dash means not measured. Rates are "
    "fractions of one."
)
CLAIMED = (
    "A claimed epsilon is no mean: where seeds differ, the smallest and the largest are printed. It is rounded up and holds "
    "for the model of one trial alone."
)
PAIRED = "Differences between methods, paired by partition and seed, with intervals and p values: differences.md."

Column = tuple[str, Callable[[Setting], str]]  # a heading, and what a setting has below it
Columns = Sequence[Column]
WIDEST = 8  # columns of metrics that a page has room for

# Underscores inside a word are not emphasis in Markdown, and metric names read better without backslashes.
MARKS = re.compile(r"[\\`*\[\]<>|~&]|(?<!\w)_|_(?!\w)")


def summary_markdown(results: Results, paired: bool = False) -> str:
    """The content of ``summary.md``: a table for each family of metrics, and the trials that did not finish.

    Args:
        results: the results of a sweep.
        paired: whether ``differences.md`` is written beside it.
    """
    blocks = [f"# {escape(results.name)}: summary", state_line(results.trials), fixed_line(results)]
    blocks += [
        f"{READING} {CLAIMED}"
        if any(metric_names.metric(name).bound == "upper" for name in results.metrics)
        else READING
    ]
    blocks += [escape(sentence) for sentence in tuned_sentences(results.folder, results.trials)]
    who = escape(adversary_sentence(results))
    blocks += [
        partition_line(results),
        PAIRED if paired else "",
        _attacks(results),
        f"{who[:1].upper()}{who[1:]}." if who else "",
    ]
    own = set(results.metrics) - shown_beside(results.metrics)
    for family, metrics in families([name for name in results.metrics if name in own]).items():
        chance = "" if _is_upright(results, metrics) else guessing(((m.label, m) for m in metrics), results)
        blocks += [f"## {family}", f"{chance[:1].upper()}{chance[1:]}." if chance else ""]
        blocks.append(_family_table(results, metrics))
        blocks += [escape(f"{line[:1].upper()}{line[1:]}.") for line in readings(results, [m.name for m in metrics])]
    blocks += [
        _guarantees(results),
        _section("Notes on trials", trial_notes(results.trials)),
        _section("Models that serve other groups", foreign_models_by_setting(results)),
    ]
    lost = [trial for trial in results.trials if trial["status"] != "finished"]
    if lost:
        head = ["trial", "status", *key_labels(results.keys), "seed", "reason"]
        lines = [
            [
                *(text(trial.get(key)) for key in ("id", "status")),
                *(value_label(key, trial.get(key)) for key in results.keys),
                *(text(trial.get(key)) for key in ("seed", "reason")),
            ]
            for trial in lost
        ]
        blocks += ["## Trials without a result", markdown_table(head, lines)]
    bare = ", ".join(f"`{ident}`" for ident, rounds in results.rounds.items() if not rounds)
    if bare:
        blocks.append(f"Finished, but without curves, because `rounds.parquet` is missing or unreadable: {bare}.")
    return "\n\n".join(block for block in blocks if block) + "\n"


def state_line(trials: Sequence[dict[str, Value]]) -> str:
    """The number of trials in total and by status, for example "6 trials: 5 finished, 1 diverged."."""
    states = ", ".join(f"{n} {status}" for status, n in counts(trials).items())
    return f"{len(trials)} {'trial' if len(trials) == 1 else 'trials'}: {states}."


def fixed_line(results: Results) -> str:
    """A sentence with the components that all trials share, so that a reader does not need the sweep file."""
    shared = []
    for key in SLOT_NAMES:
        names = {text(trial.get(key)) for trial in results.trials}
        if key not in results.keys and len(names) == 1 and names != {""}:
            name = names.pop()
            shared.append(f"{key_label(key)} {escape(component_label(key, name))}")
    return f"All trials have: {', '.join(shared)}." if shared else ""


def csv_text(head: Sequence[str], lines: Iterable[Sequence[Value]]) -> str:
    """A CSV table with LF line ends, ten significant digits, and empty cells for missing values."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([text(cell) for cell in line] for line in lines)
    return buffer.getvalue()


def markdown_table(head: Sequence[str], lines: Iterable[Sequence[str]], numbers: int | None = None) -> str:
    """A Markdown table. The last ``numbers`` columns are aligned to the right."""
    right = len(head) - (numbers or 0)
    rule = ["---:" if i >= right else "---" for i in range(len(head))]
    body = [[escape(cell) for cell in line] for line in ([*head], *lines)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (body[0], rule, *body[1:]))


def escape(cell: str) -> str:
    """Escape text for Markdown: one line, without cells, links, code, emphasis or HTML."""
    return MARKS.sub(r"\\\g<0>", " ".join(cell.split()))


def by_setting(results: Results, columns: Columns) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of a table with a line for each setting: its swept values, then these columns."""
    return [*key_labels(results.keys), *(heading for heading, _ in columns)], [
        [*_values(results.keys, setting), *(cell(setting) for _, cell in columns)] for setting in results.settings
    ]


def _family_table(results: Results, metrics: list[Metric]) -> str:
    """A table of a family's metrics: a column for each or, of many, a line for each; many settings have several tables."""
    if not _is_upright(results, metrics):
        parts = [metrics[at : at + WIDEST] for at in range(0, len(metrics), WIDEST)]
        return "\n\n".join(
            markdown_table(*by_setting(results, metric_columns(results, part, "seeds")), numbers=len(part) + 1)
            for part in parts
        )
    labels = [setting_label(results.keys, setting.values) or "the whole sweep" for setting in results.settings]
    lines = [["seeds", "", *map(seeds_cell, results.settings)]]
    for metric, (heading, cell) in zip(metrics, metric_columns(results, metrics), strict=True):
        chance = chance_everywhere(metric, results)
        lines.append([heading, "" if chance is None else text(round(chance, 3)), *map(cell, results.settings)])
    return markdown_table(["metric", "by chance", *labels], lines, numbers=len(labels) + 1)


def metric_columns(results: Results, metrics: Iterable[Metric], seeds: str = "") -> Columns:
    """A column for each metric; with ``seeds``, the numbers of runs come first, under this heading."""
    columns = [(metric_heading(one, results), partial(metric_cell, metric=one, results=results)) for one in metrics]
    return [(seeds, seeds_cell), *columns] if seeds else columns


def _is_upright(results: Results, metrics: list[Metric]) -> bool:
    """Whether metrics are the lines of a family's table: there are many of them and few settings."""
    return len(metrics) > WIDEST >= len(results.settings)


def _guarantees(results: Results) -> str:
    """A section with the privacy guarantees of each setting, or the reasons why there are none."""
    shown = guarantee_columns(results)
    if not shown:
        return ""
    columns: list[Column] = [(f"{name}: for {PROTECTED[name]}", partial(_stated, name=name)) for name in shown]
    if any(audited(setting) for setting in results.settings):
        columns.append(("claimed epsilon, audited", lambda setting: audited(setting) or DASH))
    together = [f"{line[:1].upper()}{escape(line[1:])}." for line in together_lines(results)]
    return "\n\n".join(["## Guarantees", markdown_table(*by_setting(results, columns), numbers=0), *together])


def _stated(setting: Setting, name: str) -> str:
    return stated(setting, name) or DASH


def _attacks(results: Results) -> str:
    """A section with the attacks of each setting, if they differ."""
    found = iter(attacks_by_setting(results))
    first = next(found, None)
    if first is None:
        return ""
    names = chain([first], found)
    return "## Attacks\n\n" + markdown_table(*by_setting(results, [("attacks", lambda _: next(names))]), numbers=0)


def _section(title: str, sentences: Sequence[str]) -> str:
    """A section with a list of sentences; empty if there are none."""
    return "\n".join([f"## {title}", "", *(f"- {escape(one)}." for one in sentences)]) if sentences else ""


def metric_heading(metric: Metric, results: Results) -> str:
    """The heading of a metric with its unit, if it has one that is not plain."""
    plain = metric.unit in ("", "fraction") or metric.unit in metric.label
    label = f"{metric.label} {BY_CHANCE}" if chance_metric(metric, results) else metric.label
    return label if plain else f"{label} ({metric.unit})"


def seeds_cell(setting: Setting) -> str:
    """The number of finished runs of a setting, "2 of 3" if some did not finish."""
    finished, all_trials = len(setting.finished), len(setting.trials)
    return str(all_trials) if finished == all_trials else f"{finished} of {all_trials}"


def metric_cell(setting: Setting, metric: Metric, results: Results) -> str:
    """What a table shows of a metric in a setting: mean and interval, chance in parentheses, fewer seeds if so."""
    having = sum(trial.get(metric.name) is not None for trial in setting.finished)
    if not having:
        return DASH
    fewer = f" ({having} of {len(setting.finished)} seeds)" if having < len(setting.finished) else ""
    shown = " ".join(filter(None, setting.estimate(metric.name).shown(metric.digits)))
    return shown + chance_cell(setting, metric, results, metric.digits) + fewer


def _values(keys: tuple[str, ...], setting: Setting) -> list[str]:
    return [value_label(key, value) for key, value in zip(keys, setting.values, strict=True)]


Place = tuple[str, str, str]  # attack, target, metric
AUC = "auc"
CHOSEN = "is_"  # begins the name of the measure that says how often a variant counted
HEADLINE = "headline"  # the target of the variant that counts, whichever it is
# Rows that repeat another one, or are chosen with a look at the result, so that they are too high.
LEFT_OUT = ("risk", "maximum")
CLIENT = "client_"  # begins the targets that are single clients
ATTACKS_READING = (
    "The last time that each attack was made; single clients are in `attacks.parquet`. An AUC of 0.5 is guessing. "
    "Means over the finished seeds of a setting ± half the width of the 95 % interval (Student's t over seeds), or the "
    "values of one or two seeds. A seed in which nobody uses the model is left out, and the line says how many count. The "
    "largest of many AUCs is too high by chance; an attack says itself which of its "
    "variants counts (the share of targets for which it does), and that is chosen without a look at the attacked model."
)


def attacks_markdown(results: Results) -> str:
    """The content of ``attacks.md``: a line for each setting, attack and target; empty if no attack has an AUC.

    Args:
        results: the results of a sweep.
    """
    lines = [line for setting in results.settings for line in _lines(results, setting)]
    if not lines:
        return ""
    head = [*key_labels(results.keys), "attack", "on", "measure", "AUC", "counted"]
    return "\n\n".join([f"# {results.name}: attacks", ATTACKS_READING, markdown_table(head, lines, numbers=0)]) + "\n"


def _lines(results: Results, setting: Setting) -> Iterator[list[str]]:
    """The lines of one setting, in the order in which its trials have the attacks."""
    labels = _values(results.keys, setting)
    found: dict[Place, list[float]] = {}
    counted: dict[tuple[str, str], list[float]] = {}
    for trial in setting.finished:
        for row in _last(results.table(trial, "attacks")):
            attack, target, metric, value = (row[name] for name in ("attack", "target", "metric", "value"))
            if value is None or trial.get(f"{USERS}{target}") == 0:
                continue
            if metric.startswith(CHOSEN):
                counted.setdefault(_variant(attack, target, metric.removeprefix(CHOSEN)), []).append(float(value))
            elif attack not in LEFT_OUT and not target.startswith(CLIENT) and _is_auc(metric):
                found.setdefault((attack, target, metric), []).append(float(value))
    for (attack, target, metric), values in found.items():
        share = counted.get((attack, target))
        times = f"{sum(share) / len(share):.0%}" if share else ""
        left_out = len(values) < len(setting.finished)
        seeds = f"({len(values)} of {len(setting.finished)} seeds)" if left_out else ""
        shown = " ".join(filter(None, [*estimate(values, (0, 1)).shown(3), seeds]))
        yield [*labels, attack, target, metric, shown, times]


def _variant(attack: str, target: str, name: str) -> tuple[str, str]:
    """The attack and target whose line the variant ``name`` has: it is a target of its own, or an attack of its own."""
    return (attack, target.replace(HEADLINE, name)) if HEADLINE in target else (name, target)


def _is_auc(metric: str) -> bool:
    return AUC in metric.split("_")


def _last(rows: list[Row]) -> list[Row]:
    """The rows of the last round in which each attack was made."""
    needed = {"attack", "round", "target", "metric", "value"}
    rows = [row for row in rows if needed <= row.keys()]
    last: dict[str, int] = {}
    for row in rows:
        last[row["attack"]] = max(row["round"], last.get(row["attack"], 0))
    return [row for row in rows if row["round"] == last[row["attack"]]]
