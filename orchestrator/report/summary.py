"""Tables with a line for each setting: their cells, and the pages ``summary.md``, ``attacks.md``
and ``differences.md``.

Every table that somebody reads (Markdown, the page, a notebook, LaTeX, MLflow's note) is made of
the cells and headings here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from algorithms.core.columns import column, is_auc, is_client
from algorithms.core.metric import Metric, of_model
from algorithms.metrics.statistics import FEWEST, estimate, number, p_text
from orchestrator.config.metric_names import families, metric
from orchestrator.report import context
from orchestrator.report.data import (
    SLOT_NAMES,
    Repeat,
    Results,
    Setting,
    independent,
    over_seeds,
    repeat,
    rows,
    text,
)
from orchestrator.report.frame import Contrast, power
from orchestrator.report.front import Front
from orchestrator.report.markdown import escape, markdown_table
from orchestrator.report.vocabulary import component_label, key_label, key_labels, value_label

READING = (
    "Means over the finished seeds of a setting ± half the width of the 95 % interval "
    "(Student's t over seeds). With one or two seeds there is no interval: their values are "
    "printed, in the order of the seeds. An interval that would leave what is possible, such "
    "as a rate above 1, is cut there and printed by its ends. A dash means not measured. "
    "Rates are fractions of one."
)
CLAIMED = (
    "A claimed epsilon is no mean: where seeds differ, the smallest and the largest are "
    "printed. It is rounded up and holds for the model of one trial alone."
)
PAIRED = (
    "Differences between methods, paired by partition and seed, with intervals and p values: "
    "differences.md."
)

Column = tuple[str, Callable[[Setting], str]]  # a heading, and what a setting has below it
Columns = Sequence[Column]
WIDEST = 8  # columns of metrics that a page has room for


# Cells and tables


def by_setting(results: Results, columns: Columns) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of a table with a line for each setting: its swept values, then these
    columns.
    """
    return [*key_labels(results.keys), *(heading for heading, _ in columns)], [
        [*_values(results.keys, setting), *(cell(setting) for _, cell in columns)]
        for setting in results.settings
    ]


def _values(keys: tuple[str, ...], setting: Setting) -> list[str]:
    return [value_label(key, value) for key, value in zip(keys, setting.values, strict=True)]


def metric_columns(results: Results, metrics: Iterable[Metric], seeds: str = "seeds") -> Columns:
    """The numbers of runs under the heading ``seeds``, then a column for each metric."""
    pairs = [
        (metric_heading(entry, results), partial(metric_cell, metric=entry, results=results))
        for entry in metrics
    ]
    return [(seeds, seeds_cell), *pairs]


def metric_heading(metric: Metric, results: Results) -> str:
    """The heading of a metric with its unit, if it has one that is not plain."""
    plain = metric.unit in ("", "fraction") or metric.unit in metric.label
    label = metric.label
    if context.chance_metric(metric, results):
        label = f"{label} {context.BY_CHANCE}"
    if context.end_within(metric.name, results):
        label = f"{label}, within a run"
    return label if plain else f"{label} ({metric.unit})"


def seeds_cell(setting: Setting) -> str:
    """The number of finished runs of a setting, "2 of 3" if some did not finish."""
    finished = len(setting.finished)
    trials = len(setting.trials)
    return str(trials) if finished == trials else f"{finished} of {trials}"


def metric_cell(setting: Setting, metric: Metric, results: Results) -> str:
    """What a table shows of a metric in a setting: mean and interval, chance in parentheses,
    fewer seeds if so.
    """
    value = " ".join(filter(None, setting.estimate(metric.name).cell(metric.digits)))
    chance = context.chance_cell(setting, metric, results, metric.digits)
    return f"{value}{chance}{fewer_seeds(setting, metric.name)}" if value else context.DASH


def fewer_seeds(setting: Setting, name: str) -> str:
    """Say how many of a setting's finished seeds have a metric, with a space before it; empty if
    all of them have.
    """
    having = sum(trial.get(name) is not None for trial in setting.finished)
    return f" ({having} of {len(setting.finished)} seeds)" if having < len(setting.finished) else ""


# The summary


def summary_markdown(results: Results, paired: bool = False) -> str:
    """The content of ``summary.md``: a table for each family of metrics, and the trials that did
    not finish.

    ``paired`` says that ``differences.md`` is written beside it.
    """
    claims = any(metric(name).bound == "upper" for name in results.metrics)
    blocks = [f"# {escape(results.name)}: summary", results.state, fixed_line(results)]
    blocks += [f"{READING} {CLAIMED}" if claims else READING]
    blocks += [escape(line) for line in results.facts.get("tuned", ())]
    attackers = escape(context.sentence(context.adversary_sentence(results)))
    blocks += [context.partition_line(results), PAIRED if paired else "", attackers]
    beside = context.shown_beside(results.metrics) | context.of_other_units(results)
    for family, group in families([name for name in results.metrics if name not in beside]).items():
        blocks += [
            f"## {family}",
            context.sentence(context.guessing(((item.label, item) for item in group), results)),
        ]
        for part in (group[at : at + WIDEST] for at in range(0, len(group), WIDEST)):
            blocks.append(
                markdown_table(
                    *by_setting(results, metric_columns(results, part)), numbers=len(part) + 1
                )
            )
        blocks += [
            escape(context.sentence(line))
            for line in context.readings(results, [item.name for item in group])
        ]
    blocks += [_section("Guarantees", context.guarantee_lines(results, most=len(results.settings)))]
    blocks += [_section("Notes on trials", context.trial_notes(results.trials))]
    lost = [trial for trial in results.trials if trial["status"] != "finished"]
    if lost:
        lines = []
        for trial in lost:
            ident, status, seed, reason = (
                text(trial.get(key)) for key in ("id", "status", "seed", "reason")
            )
            lines.append(
                [
                    ident,
                    status,
                    *(value_label(key, trial.get(key)) for key in results.keys),
                    seed,
                    reason,
                ]
            )
        head = ["trial", "status", *key_labels(results.keys), "seed", "reason"]
        blocks += ["## Trials without a result", markdown_table(head, lines)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def fixed_line(results: Results) -> str:
    """A sentence with the components that all trials share, so that a reader does not need the
    sweep file.
    """
    shared = []
    for key in SLOT_NAMES:
        names = {text(trial.get(key)) for trial in results.trials}
        if key not in results.keys and len(names) == 1 and names != {""}:
            shared.append(f"{key_label(key)} {escape(component_label(key, names.pop()))}")
    return f"All trials have: {', '.join(shared)}." if shared else ""


def _section(title: str, lines: Sequence[str]) -> str:
    """A section with a list of sentences; empty if there are none."""
    return (
        "\n".join([f"## {title}", "", *(f"- {escape(line)}." for line in lines)]) if lines else ""
    )


# The front

FRONT_READING = (
    "A setting dominates another on the same data if it is better in accuracy or in risk and "
    "not worse in the other. The last column is the probability with which none of the others "
    "does, as all means are drawn together from their t distribution over the common "
    "partitions and seeds: from 0.95 on a setting is on the front, below 0.05 it is not, in "
    "between that is open."
)


def front_cells(results: Results, front: Front) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of a table of the settings on the same data, the most probable ones on
    the front first.
    """
    entries = (metric(front.accuracy), metric(front.risk))
    lines = []
    for setting, share in sorted(front.shares, key=lambda pair: -pair[1]):
        cells = (metric_cell(setting, entry, results) for entry in entries)
        lines.append(
            [*(_values(results.keys, setting) or [WHOLE]), *cells, number(share, 2) or context.DASH]
        )
    return [*key_labels(results.keys), *(entry.label for entry in entries), "on the front"], lines


def front_line(front: Front) -> str:
    """What a table of `front_cells` does not say: the size of the front by chance, and its
    hypervolume.
    """
    value, low, high = (number(end, 3) for end in front.volume)
    interval = f" ({low} to {high})" if low else ""
    by_chance = sum(1 / place for place in range(1, len(front.shares) + 1))
    return (
        f"Of {len(front.shares)} equal settings, {number(by_chance, 1)} would be on the front "
        "by chance, if accuracy and risk err independently. The front's hypervolume, between "
        f"accuracy 0 and risk 1, is {value}{interval}, rather too large, because the best of "
        f"several are partly lucky, which the interval takes off; {front.repetitions} common "
        "repetitions."
    )


def front_markdown(results: Results, undominated: Sequence[Front]) -> str:
    """The content of ``front.md``: a table for each group of settings on the same data."""
    blocks = [f"# {escape(results.name)}: accuracy against risk", FRONT_READING]
    for front in undominated:
        head, lines = front_cells(results, front)
        blocks += [markdown_table(head, lines, numbers=3), front_line(front)]
    return "\n\n".join(blocks) + "\n"


# Attacks

Place = tuple[str, str, str]  # attack, target, metric
REPEATED = "risk"  # the attack whose rows are those of another one, which was chosen
ATTACKS_READING = (
    "The last time that each attack was made; single clients are in `attacks.parquet`. An AUC "
    "of 0.5 is guessing. Means over the finished seeds of a setting ± half the width of the "
    "95 % interval (Student's t over seeds), or the values of one or two seeds. A seed in "
    "which nobody uses the model is left out, and the line says how many count. The largest "
    "of many AUCs is too high by chance."
)


def attacks_markdown(results: Results) -> str:
    """The content of ``attacks.md``: a line for each setting, attack and target; empty if no
    attack has an AUC.
    """
    lines = [line for setting in results.settings for line in _attack_lines(results, setting)]
    head = [*key_labels(results.keys), "attack", "on", "measure", "AUC"]
    blocks = [f"# {results.name}: attacks", ATTACKS_READING, context.partition_line(results)]
    return "\n\n".join(filter(None, [*blocks, markdown_table(head, lines)])) + "\n" if lines else ""


def _attack_lines(results: Results, setting: Setting) -> Iterator[list[str]]:
    """The lines of one setting, in the order in which its trials have the attacks."""
    aucs: dict[Place, list[tuple[Repeat, float]]] = {}
    for trial in setting.finished:
        frame = results.last_attacks(trial, "attacks")
        found = dict[Place, list[float]]()
        for row in [] if frame is None else rows(frame.to_dict("records")):
            attack, target, measure, value = (
                row[name] for name in ("attack", "target", "metric", "value")
            )
            if value is None or trial.get(column("clients", of_model(target))) == 0:
                continue
            if attack != REPEATED and not is_client(target) and is_auc(measure):
                place = attack, over_seeds(target, len(setting.finished)), measure
                found.setdefault(place, []).append(float(value))
        for place, values in found.items():
            aucs.setdefault(place, []).append((repeat(trial), sum(values) / len(values)))
    for (attack, target, measure), means in aucs.items():
        seeds = (
            f"({len(means)} of {len(setting.finished)} seeds)"
            if len(means) < len(setting.finished)
            else ""
        )
        auc = " ".join(filter(None, [*estimate(independent(means), (0, 1)).cell(3), seeds]))
        yield [*_values(results.keys, setting), attack, target, measure, auc]


# Differences between methods

DIFFERENCES_READING = (
    "Each line compares a method with the baseline of its slot on the same partitions of the "
    "data and with the same seeds: mean difference, method minus baseline, over the pairs, "
    "with its 95 % interval and the p value of the paired t test. Partitions that are hard "
    "for all methods do not widen these intervals. The last column corrects p for the number "
    "of tests in its family (Holm); below 0.05, a difference is significant. A family is what "
    "one method and its baseline in one setting are tested for: the headline's risk and the "
    "accuracy that belongs to it; apart from these, the metrics of one section of summary.md. "
    "Families are not corrected for one another. With fewer than three pairs the differences "
    "themselves are printed, without interval and p value."
)
DIFFERENCES = (
    *(
        "method",
        "baseline",
        "setting",
        "metric",
        "better",
        "baseline's mean",
        "difference",
        "95 % interval",
        "pairs",
    ),
    *("p", "tests", "p (Holm)"),
)
NUMBERS = range(5, len(DIFFERENCES))  # the columns of numbers


def differences_markdown(results: Results, paired: list[Contrast]) -> str:
    """The content of ``differences.md``: a table for each slot, and the repetitions without a
    partner.
    """
    tested = [test for test in paired if not math.isnan(test.p)]
    sentence = (
        f"{len(paired)} comparisons, {len(tested)} of them with a p value: {power(tested)}."
        if tested
        else ""
    )
    blocks = [f"# {escape(results.name)}: differences between methods", DIFFERENCES_READING]
    blocks += [context.partition_line(results), sentence or "No comparison has three pairs."]
    for slot in dict.fromkeys(test.slot for test in paired):
        lines = [difference_cells(test) for test in paired if test.slot == slot]
        blocks += [
            f"## {escape(key_label(slot))}",
            markdown_table(DIFFERENCES, lines, numbers=len(NUMBERS)),
        ]
    left_out = []
    for test in (test for test in paired if test.left_out):
        pair = ", ".join(filter(None, (f"{test.method} against {test.baseline}", test.setting)))
        left_out.append(f"{pair}: {', '.join(test.left_out)}")
    blocks.append(
        _section("Left out, because a method has no result", list(dict.fromkeys(left_out)))
    )
    return "\n\n".join(block for block in blocks if block) + "\n"


def difference_cells(test: Contrast) -> list[str]:
    """The cells of a comparison under `DIFFERENCES`."""
    described = metric(test.metric)
    digits = described.digits
    d = test.difference
    return [
        *(test.method, test.baseline, test.setting or WHOLE),
        " ".join(described.table.heading.split()) if described.table else described.label,
        described.direction or "",
        number(test.baseline_mean, digits, described.bound),
        _signed(d.mean, digits)
        if d.n >= FEWEST
        else ", ".join(_signed(value, digits) for value in d.values),
        "" if math.isnan(d.half) else f"{_signed(d.low, digits)} to {_signed(d.high, digits)}",
        *(str(d.n), p_text(test.p), str(test.tests or ""), p_text(test.p_holm)),
    ]


def _signed(value: float, digits: int) -> str:
    label = number(value, digits)
    return f"+{label}" if value > 0 else label


WHOLE = "the whole sweep"  # stands for the setting of a sweep that varies nothing
