"""The summary table on the terminal at the end of a run: the trade-off between accuracy and privacy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from algorithms.core.metric import MINOR
from orchestrator.metric_names import Shown, least_important, metric, table_columns
from orchestrator.report.context import (
    BY_CHANCE,
    DASH,
    MOST_SETTINGS,
    adversary_sentence,
    attacks_by_setting,
    chance_cell,
    chance_metric,
    foreign_models_by_setting,
    guarantee_lines,
    guessing,
    joined_by_text,
    protects_clients,
    readings,
    refuted,
    shown_beside,
    trial_notes,
)
from orchestrator.report.data import DEAL, STOPPED, Configs, Results, Setting, Trials, counts, results, rows
from orchestrator.report.statistics import FEWEST, NAN, Estimate, estimate
from orchestrator.report.vocabulary import key_labels, value_label

if TYPE_CHECKING:
    from rich.table import Table

GAP = 2
REFUTED = "bold red"
AUDITED = "epsilon_audit"
UNCLIPPED = "audit_norm"  # measured where canaries are as long as the median update, because nothing is clipped


def summary_table(
    trials: Trials,
    swept: Iterable[str],
    *,
    title: str = "",
    width: int = 100,
    remarks: Sequence[str] = (),
    configs: Configs = MappingProxyType({}),
) -> Table:
    """The summary table: one row per setting, with the mean over its seeds ± half the width of the 95 % interval.

    Below three seeds their values replace mean and interval. Columns that never show an interval have the mean. If the
    table is too wide, the intervals are put below the means; if that is not enough, the least important columns are left
    out and named in the caption. A setting without a finished trial has dashes and its trials' statuses.

    Args:
        trials: the table of trials, or its rows.
        swept: the swept keys, with or without the seed.
        title: the title above the table.
        width: the columns of the terminal.
        remarks: further lines of the caption, such as `tuned_sentences`.
        configs: the resolved runs by id.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    found = results(Path(), rows(trials), swept, configs)
    notes = [setting.unfinished.replace(", ", "\n") for setting in found.settings]
    fixed = [
        (label.replace(" ", "\n"), [value_label(key, setting.values[at]) or DASH for setting in found.settings])
        for at, (key, label) in enumerate(zip(found.keys, key_labels(found.keys), strict=True))
    ]
    last = [("no result", notes)] if any(notes) else []
    shown, left_out, stacked = _fit(
        found, _columns(found), width - sum(_wide([*it]) + GAP for it in _flat(fixed + last))
    )
    caption = Text("\n".join([_caption(found, shown, left_out), *remarks]))
    caption.highlight_regex(r"(?<!not )refuted in \d+ of \d+ runs", REFUTED)
    table = Table(
        title=Text(title) if title else None,
        caption=caption,
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        title_justify="left",
        caption_justify="left",
    )
    for heading, _ in fixed:
        table.add_column(heading)
    for column in shown:
        table.add_column(column.heading, justify="right", no_wrap=True)
    for heading, _ in last:
        table.add_column(heading, style="yellow", no_wrap=True)
    for at, setting in enumerate(found.settings):
        own = [Text(_cell(found, setting, column, stacked), _style(setting, column)) for column in shown]
        table.add_row(*(Text(cells[at]) for _, cells in fixed), *own, *(cells[at] for _, cells in last))
    return table


def _flat(columns: Iterable[tuple[str, list[str]]]) -> Iterator[list[str]]:
    return ([heading, *cells] for heading, cells in columns)


def _style(setting: Setting, column: Shown) -> str:
    """Red for the audited epsilon of a setting whose claimed one is refuted."""
    return REFUTED if column.metrics[0].startswith(AUDITED) and refuted(setting) else ""


def _columns(found: Results) -> list[Shown]:
    measured = [name for name in found.metrics if any(_estimate(setting, name).n for setting in found.settings)]
    beside = shown_beside(measured)
    if not protects_clients(found.trials):  # nobody compares what canaries find where nothing is claimed
        beside |= {name for name in measured if name.startswith(AUDITED)}
    columns = [column for column in table_columns(measured) if column.metrics[0] not in beside]
    for at, column in enumerate(columns):
        heading = column.heading
        if column.round:  # the value need not be that of the run's last round
            rounds = {value for setting in found.settings for value in setting.measured(column.round)}
            heading += f"\nround {rounds.pop():g}" if len(rounds) == 1 else "\nlast measured"
        if len(column.metrics) == 1 and chance_metric(metric(column.metrics[0]), found) is not None:
            heading += f"\n{BY_CHANCE}"
        columns[at] = replace(column, heading=heading)
    return columns


def _fit(found: Results, columns: list[Shown], room: int) -> tuple[list[Shown], list[Shown], bool]:
    """The columns that fit into ``room``, those that do not, and whether intervals are below the means."""

    def width(kept: Sequence[Shown], stacked: bool) -> int:
        cells = [[column.heading, *(_cell(found, s, column, stacked) for s in found.settings)] for column in kept]
        return sum(map(_wide, cells)) + GAP * (len(kept) - 1)

    major = [column for column in columns if column.rank < MINOR]
    for kept, stacked in ((columns, False), (major, False), (columns, True)):
        if width(kept, stacked) <= room:
            return list(kept), [column for column in columns if column not in kept], stacked
    kept, left_out = list(columns), list[Shown]()
    while kept and width(kept, stacked=True) > room:
        left_out.append(least_important(kept))
        kept.remove(left_out[-1])
    return kept, left_out, True


def _wide(cells: Iterable[str]) -> int:
    return max(len(line) for cell in cells for line in cell.split("\n"))


def _cell(found: Results, setting: Setting, column: Shown, stacked: bool) -> str:
    estimates = [_estimate(setting, name) for name in column.metrics]
    unlike = column.metrics[0].startswith(AUDITED) and setting.measured(UNCLIPPED)
    if unlike or not any(e.n for e in estimates):
        return DASH
    if len(estimates) > 1:
        return " + ".join(e.parts(column.digits)[0] or DASH for e in estimates)
    one = estimates[0]
    mean, interval = one.shown(column.digits) if column.interval else (one.parts(column.digits)[0], "")
    if one.n >= FEWEST and stacked and interval:
        mean = f"{mean}\n{_short(interval)}"
    elif one.n >= FEWEST and interval:
        mean = f"{mean} {_short(interval)}"
    elif stacked:
        mean = mean.replace(", ", "\n")
    return mean + chance_cell(setting, metric(column.metrics[0]), found, column.digits)


def _estimate(setting: Setting, name: str) -> Estimate:
    """A metric of a setting; where no trial has finished, what those had come to that a scheduler stopped, no interval."""
    if setting.finished:
        return setting.estimate(name)
    stopped = [trial for trial in setting.trials if trial["status"] == STOPPED and trial.get(name) is not None]
    return replace(estimate([float(trial[name]) for trial in stopped]), half=NAN)


def _short(interval: str) -> str:
    """An interval without leading zeros, which makes it narrower and easy to distinguish from the mean."""
    whole, zero = re.compile(r"\b1\.0+\b"), re.compile(r"\b0\.0+\b")
    return re.sub(r"\b0\.", ".", zero.sub("0", whole.sub("1", interval))).replace("± ", "±")


def _caption(found: Results, columns: Sequence[Shown], left_out: Sequence[Shown]) -> str:
    seeds = sorted({len(setting.finished) for setting in found.settings} - {0}) or [0]
    over = " to ".join(str(n) for n in dict.fromkeys((seeds[0], seeds[-1])))
    lines = [f"mean over {over} seeds ± half the width of the 95 % interval"]
    if seeds[-1] < FEWEST:
        pair = "values of two seeds (an interval needs three), or their mean where there is one number"
        lines = [pair if seeds[-1] > 1 else "one seed: no intervals"]
    elif seeds[0] < FEWEST:
        lines[0] += "; below three seeds, their values"
    if any(trial.get(DEAL) is not None for trial in found.trials):
        lines[0] = lines[0].replace(f"{over} seeds", f"{over} runs") + "; runs on the same partition are averaged first"
    if seeds == [0]:
        lines = ["no trial has finished"]
    elif len(counts(found.trials)) > 1:
        lines[0] += "; only finished trials count"
    if any(not setting.finished and STOPPED in counts(setting.trials) for setting in found.settings):
        lines.append("stopped: the last values before a scheduler stopped the trial; they enter no mean")
    shown = [name for column in columns for name in column.metrics]
    lines += readings(found, [*shown, *([UNCLIPPED] if AUDITED in shown else [])])
    attacks = joined_by_text(found, attacks_by_setting(found))
    lines.append(f"attacks: {', '.join(attacks)}; {DASH}: not measured" if attacks else "")
    lines += [guessing(((c.heading, metric(name)) for c in columns for name in c.metrics[:1]), found)]
    lines += [*guarantee_lines(found), *(f"note: {one}" for one in trial_notes(found.trials))]
    foreign = foreign_models_by_setting(found)
    lines += [f"note: {one}" for one in foreign[:MOST_SETTINGS]]
    lines += (
        [f"and {len(foreign) - MOST_SETTINGS} more such notes in summary.md"] if len(foreign) > MOST_SETTINGS else []
    )
    lines.append(adversary_sentence(found))
    if left_out:
        names = ", ".join(column.heading.replace("\n", " ") for column in left_out)
        lines.append(f"in the report but too wide for this terminal: {names}")
    return "\n".join(filter(None, lines))
