"""The summary table on the terminal at the end of a run: the trade-off between accuracy and privacy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from algorithms.core.metric import MINOR
from orchestrator.metric_names import Shown, least_important, table_columns
from orchestrator.report.data import Results, Setting, Trials, counts, results, rows
from orchestrator.report.estimate import FEWEST, estimate
from orchestrator.report.vocabulary import key_labels, value_label

if TYPE_CHECKING:
    from rich.table import Table

GAP = 2
DASH = "–"


# Zhao et al. (2025) have names for FinP's client and server parts, which are two slots here.
FINP_ARMS = "Baseline: plain, FedAvg; FinP_client: FinP, FedAvg; FinP_server: plain, PCA or ALA; FinP: FinP, PCA or ALA"
ARMS, SERVERS = ("objective.name", "aggregation.name"), {"finp_pca", "finp_ala"}


def summary_table(trials: Trials, swept: Iterable[str], *, title: str = "", width: int = 100) -> Table:
    """The summary table: one row per setting, with the mean over its seeds ± half the width of the 95 % interval.

    If the table is too wide, the intervals are put below the means; if that is not enough, the least important columns
    are left out and named in the caption. A setting without a finished trial has dashes and its trials' statuses.

    Args:
        trials: the table of trials, or its rows.
        swept: the swept keys, with or without the seed.
        title: the title above the table.
        width: the columns of the terminal.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    found = results(Path(), rows(trials), swept, {})
    shown, left_out, stacked = _fit(found, _columns(found), width)
    table = Table(
        title=Text(title) if title else None,
        caption=Text(_caption(found, shown, left_out)),
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
        cells = [*_key_cells(found, setting), *(_cell(setting, column, stacked) for column in shown)]
        table.add_row(*map(Text, cells), *([_note(setting)] if _notes(found) else []))
    return table


def _columns(found: Results) -> list[Shown]:
    return table_columns([name for name in found.metrics if any(setting.measured(name) for setting in found.settings)])


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
    cells = [[column.heading, *(_cell(s, column, stacked) for s in found.settings)] for column in columns]
    return sum(_wide(column) for column in cells) + GAP * (len(columns) - 1)


def _wide(cells: Iterable[str]) -> int:
    return max(len(line) for cell in cells for line in cell.split("\n"))


def _cell(setting: Setting, column: Shown, stacked: bool) -> str:
    found = [estimate(setting.measured(name)) for name in column.metrics]
    if len(found) > 1:
        return " + ".join(e.parts(column.digits)[0] or DASH for e in found) if any(e.n for e in found) else DASH
    mean, half = found[0].parts(column.digits)
    half = half if found[0].n >= FEWEST else ""
    if not mean:
        return DASH
    # Without its leading zero, the interval is narrower and easy to distinguish from the mean.
    short = "0" if half and float(half) == 0 else half.removeprefix("0")
    between = "\n" if stacked else " "
    return f"{mean}{between}±{short}" if short and column.interval else mean


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
        lines = [
            f"mean over {over} seeds; an interval needs three or more" if seeds[-1] > 1 else "one seed: no intervals"
        ]
    if seeds == [0]:
        lines = ["no trial has finished"]
    elif len(counts(found.trials)) > 1:
        lines[0] += "; only finished trials count"
    lines += _reading(found, {name for column in columns for name in column.metrics})
    if left_out:
        names = ", ".join(column.heading.replace("\n", " ") for column in left_out)
        lines.append(f"in the report but too wide for this terminal: {names}")
    return "\n".join(lines)


def _reading(found: Results, shown: set[str]) -> list[str]:
    """Explanations of the shown metrics: a line for each attack and each kind of accuracy."""
    lines = [FINP_ARMS] if _arms_of_finp(found) else []
    if any(name.startswith("mia_") for name in shown):
        lines.append("accuracy: for the clients of a group; MIA: accuracy of the attack on a model, 0.5 is guessing")
    if "aggregated_accuracy" in shown:
        lines.append("accuracy: on the clients' and on the server's test data" * ("test_accuracy" in shown))
    if "sia_mean" in shown:
        chance = {1 / value for setting in found.settings for value in setting.measured("sia_chance")}
        guess = f"1/{chance.pop():.3g}" if len(chance) == 1 else "1 / clients"
        lines.append(f"SIA: accuracy of source inference, {guess} is guessing; max: in the worst round")
    if "eod" in shown:
        lines.append("CoV, FI, EOD: inequality between clients; by chance: EOD of equally exposed clients")
    if "epsilon" in shown:
        deltas = {value for setting in found.settings for value in setting.measured("delta")}
        at = f" at delta {deltas.pop():g}" if len(deltas) == 1 else ""
        lines.append(f"epsilon: for one client{at}, {DASH} if there is no guarantee")
    if "cia_difference" in shown or "cia_auc" in shown:
        lines.append("CIA: client inference, as difference of losses (as published) and as AUC (0.5 is guessing)")
    return [line for line in lines if line]


def _arms_of_finp(found: Results) -> bool:
    """Whether the sweep varies both the client's and the server's part of FinP."""
    values = [
        {setting.values[found.keys.index(key)] for setting in found.settings} for key in ARMS if key in found.keys
    ]
    return (
        len(values) == len(ARMS)
        and {"plain", "finp"} <= values[0]
        and "fedavg" in values[1]
        and bool(SERVERS & values[1])
    )
