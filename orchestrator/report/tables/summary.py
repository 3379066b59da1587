"""The sweep in numbers: one row per setting, every final metric with its interval, and the trials without a result."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

from orchestrator.metric_names import Metric, families
from orchestrator.report.data import Results, Setting, counts
from orchestrator.report.estimate import estimate
from orchestrator.report.swept import SLOT_NAMES
from orchestrator.report.values import Value, text
from orchestrator.report.vocabulary import COMPONENTS, key_label, key_labels, value_label

READING = (
    "Means over the finished seeds of a setting ± half the width of the 95 % interval (Student's t over seeds). One "
    "seed gives no interval. An empty cell was not measured. Rates are fractions of one."
)

# Underscores inside a word are no emphasis in Markdown, and metric names read better without a backslash.
MARKS = re.compile(r"[\\`*\[\]<>|~&]|(?<!\w)_|_(?!\w)")


def summary_csv(results: Results) -> str:
    """``summary.csv``: swept keys, trials by status, then mean, interval and seeds of every final metric."""
    statuses = list(counts(results.trials))
    measures = ("", "_low", "_high", "_seeds")
    head = [*results.keys, "trials", *statuses, *(f"{name}{end}" for name in results.metrics for end in measures)]
    lines: list[list[Value]] = []
    for setting in results.settings:
        seen = counts(setting.trials)
        cells: list[Value] = [*setting.values, len(setting.trials), *(seen.get(status, 0) for status in statuses)]
        for name in results.metrics:
            found = estimate(setting.measured(name))
            cells += [found.mean, found.low, found.high, found.n]
        lines.append(cells)
    return csv_text(head, lines)


def summary_markdown(results: Results) -> str:
    """``summary.md``: a table for each family of metrics, one row per setting, then what did not finish."""
    blocks = [f"# {escape(results.name)}: summary", state_line(results.trials), fixed_line(results), READING]
    for family, metrics in families(results.metrics).items():
        blocks += [f"## {family}", _family_table(results, metrics)]
    blocks.append(_guarantees(results))
    lost = [trial for trial in results.trials if trial["status"] != "finished"]
    if lost:
        head = ["trial", "status", *key_labels(results.keys), "seed", "reason"]
        lines = [[t["id"], text(t["status"]), *_values(results.keys, t), text(t.get("seed")), _reason(t)] for t in lost]
        blocks += ["## Trials without a result", markdown_table(head, lines)]
    bare = ", ".join(f"`{ident}`" for ident, rounds in results.rounds.items() if not rounds)
    if bare:
        blocks.append(f"Finished, but without a readable `rounds.parquet` and so without curves: {bare}.")
    return "\n\n".join(block for block in blocks if block) + "\n"


def state_line(trials: Sequence[dict[str, Value]]) -> str:
    """How many trials there are and what became of them, for example "6 trials: 5 finished, 1 diverged."."""
    states = ", ".join(f"{n} {status}" for status, n in counts(trials).items())
    return f"{len(trials)} {'trial' if len(trials) == 1 else 'trials'}: {states}."


def fixed_line(results: Results) -> str:
    """The components that every trial shares, so that a table can be read without the sweep's file."""
    shared = []
    for key in SLOT_NAMES:
        names = {text(trial.get(key)) for trial in results.trials}
        if key not in results.keys and len(names) == 1 and names != {""}:
            name = names.pop()
            shared.append(f"{key_label(key)} {escape(COMPONENTS.get(name, name))}")
    return f"The same in every trial: {', '.join(shared)}." if shared else ""


def csv_text(head: Sequence[str], lines: Iterable[Sequence[Value]]) -> str:
    """A CSV table with LF line ends; numbers in ten significant digits, missing values empty."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([text(cell) for cell in line] for line in lines)
    return buffer.getvalue()


def markdown_table(head: Sequence[str], lines: Iterable[Sequence[str]], numbers: int | None = None) -> str:
    """A Markdown table; the last ``numbers`` columns are aligned to the right."""
    right = len(head) - (numbers or 0)
    rule = ["---:" if i >= right else "---" for i in range(len(head))]
    body = [[escape(cell) for cell in line] for line in ([*head], *lines)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (body[0], rule, *body[1:]))


def escape(cell: str) -> str:
    """Text that Markdown shows as it is: one line, and no mark that opens a cell, a link, code, emphasis or HTML."""
    return MARKS.sub(r"\\\g<0>", " ".join(cell.split()))


def _family_table(results: Results, metrics: list[Metric]) -> str:
    head = [*key_labels(results.keys), "seeds", *(_heading(metric) for metric in metrics)]
    lines = []
    for setting in results.settings:
        labels = [value_label(key, value) for key, value in zip(results.keys, setting.values, strict=True)]
        lines.append([*labels, _seeds(setting), *(_cell(setting, metric) for metric in metrics)])
    return markdown_table(head, lines, numbers=len(metrics) + 1)


def _guarantees(results: Results) -> str:
    """What differential privacy holds in each setting that was asked about it, or the reason why none does."""
    lines = []
    for setting in results.settings:
        told = dict.fromkeys(text(trial.get("guarantee")) for trial in setting.finished if trial.get("guarantee"))
        if told:
            words = "; ".join("an epsilon holds, see above" if one == "dp" else one for one in told)
            lines.append([*_values(results.keys, setting.trials[0]), words])
    if not lines:
        return ""
    return "## Guarantees\n\n" + markdown_table([*key_labels(results.keys), "differential privacy"], lines, numbers=0)


def _heading(metric: Metric) -> str:
    return (
        metric.label
        if metric.unit in ("", "fraction") or metric.unit in metric.label
        else f"{metric.label} ({metric.unit})"
    )


def _seeds(setting: Setting) -> str:
    finished, all_trials = len(setting.finished), len(setting.trials)
    return str(all_trials) if finished == all_trials else f"{finished} of {all_trials}"


def _cell(setting: Setting, metric: Metric) -> str:
    found = estimate(setting.measured(metric.name))
    mean, half = found.parts(metric.digits)
    fewer = f" ({found.n} of {len(setting.finished)} seeds)" if 0 < found.n < len(setting.finished) else ""
    return (f"{mean} ± {half}" if half else mean) + fewer


def _values(keys: tuple[str, ...], trial: dict[str, Value]) -> list[str]:
    return [value_label(key, trial.get(key)) for key in keys]


def _reason(trial: dict[str, Value]) -> str:
    return text(trial.get("reason"))
