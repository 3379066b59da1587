"""The summary table on the terminal at the end of a run: the trade-off between accuracy and privacy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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
    from rich.text import Text

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
    shown, left_out, stacked = _fit(found, _columns(found), width)
    table = Table(
        title=Text(title) if title else None,
        caption=_in_red(Text("\n".join([_caption(found, shown, left_out), *remarks]))),
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        title_justify="left",
        caption_justify="left",
    )
    for heading in _key_headings(found):
        table.add_column(heading)
    for column in shown:
        table.add_column(column.heading, justify="right", no_wrap=True)
    if _notes(found):
        table.add_column("no result", style="yellow", no_wrap=True)
    for setting in found.settings:
        cells = [*_key_cells(found, setting), *(_cell(found, setting, column, stacked) for column in shown)]
        styles = [""] * (len(cells) - len(shown)) + [_style(setting, column) for column in shown]
        table.add_row(*map(Text, cells, styles), *([_note(setting)] if _notes(found) else []))
    return table


def _style(setting: Setting, column: Shown) -> str:
    """Red for the audited epsilon of a setting whose claimed one is refuted."""
    return REFUTED if column.metrics[0].startswith(AUDITED) and refuted(setting) else ""


def _in_red(caption: Text) -> Text:
    """The caption with what is refuted in red."""
    caption.highlight_regex(r"(?<!not )refuted in \d+ of \d+ runs", REFUTED)
    return caption


def _columns(found: Results) -> list[Shown]:
    measured = [name for name in found.metrics if any(_estimate(setting, name).n for setting in found.settings)]
    beside = shown_beside(measured)
    if not protects_clients(found.trials):  # nobody compares what canaries find where nothing is claimed
        beside |= {name for name in measured if name.startswith(AUDITED)}
    columns = [column for column in table_columns(measured) if column.metrics[0] not in beside]
    columns = [replace(column, heading=_with_round(column, found)) for column in columns]
    return [
        replace(column, heading=f"{column.heading}\n{BY_CHANCE}") if _has_chance(column, found) else column
        for column in columns
    ]


def _with_round(column: Shown, found: Results) -> str:
    """The heading of a column, with the round whose value it shows if that need not be the run's last one."""
    if not column.round:
        return column.heading
    rounds = {value for setting in found.settings for value in setting.measured(column.round)}
    return f"{column.heading}\nround {rounds.pop():g}" if len(rounds) == 1 else f"{column.heading}\nlast measured"


def _has_chance(column: Shown, found: Results) -> bool:
    return len(column.metrics) == 1 and chance_metric(metric(column.metrics[0]), found) is not None


def _fit(found: Results, columns: list[Shown], width: int) -> tuple[list[Shown], list[Shown], bool]:
    """The columns that fit into ``width``, those that do not, and whether intervals are below the means."""
    fixed = sum(_wide([head, *cells]) + GAP for head, cells in zip(*_key_columns(found), strict=True))
    fixed += _wide(["no result", *_notes(found)]) + GAP if _notes(found) else 0
    major = [column for column in columns if column.rank < MINOR]
    for kept, stacked in ((columns, False), (major, False), (columns, True)):
        if fixed + _width(found, kept, stacked) <= width:
            return list(kept), [column for column in columns if column not in kept], stacked
    kept = list(columns)
    left_out: list[Shown] = []
    while kept and fixed + _width(found, kept, stacked=True) > width:
        left_out.append(least_important(kept))
        kept.remove(left_out[-1])
    return kept, left_out, True


def _width(found: Results, columns: Sequence[Shown], stacked: bool) -> int:
    cells = [[column.heading, *(_cell(found, s, column, stacked) for s in found.settings)] for column in columns]
    return sum(_wide(column) for column in cells) + GAP * (len(columns) - 1)


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


def _key_headings(found: Results) -> list[str]:
    return [label.replace(" ", "\n") for label in key_labels(found.keys)]


def _key_cells(found: Results, setting: Setting) -> list[str]:
    return [value_label(key, value) or DASH for key, value in zip(found.keys, setting.values, strict=True)]


def _key_columns(found: Results) -> tuple[list[str], list[list[str]]]:
    lines = [_key_cells(found, setting) for setting in found.settings]
    return _key_headings(found), [[line[i] for line in lines] for i in range(len(found.keys))]


def _note(setting: Setting) -> str:
    return setting.unfinished.replace(", ", "\n")


def _notes(found: Results) -> list[str]:
    return [line for setting in found.settings for line in _note(setting).split("\n") if line]


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
        lines[0] = lines[0].replace(f"{over} seeds", f"{over} runs") + "; runs on the same deal are averaged first"
    if seeds == [0]:
        lines = ["no trial has finished"]
    elif len(counts(found.trials)) > 1:
        lines[0] += "; only finished trials count"
    if any(not setting.finished and STOPPED in counts(setting.trials) for setting in found.settings):
        lines.append("stopped: the last values before a scheduler stopped the trial; they enter no mean")
    shown = [name for column in columns for name in column.metrics]
    lines += readings(found, [*shown, *([UNCLIPPED] if AUDITED in shown else [])])
    lines.append(_attacks(found))
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


def _attacks(found: Results) -> str:
    """Which settings have which attacks, if they differ."""
    words = joined_by_text(found, attacks_by_setting(found))
    return f"attacks: {', '.join(words)}; {DASH}: not measured" if words else ""
