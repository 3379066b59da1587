"""Metrics over the rounds and final metrics by setting: one figure for all metrics that declare its name.

A component says with ``Metric.over_rounds`` and ``Metric.final`` to which figure a metric belongs; its label is the panel's.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.metric_names import metric
from orchestrator.report.context import full_label
from orchestrator.report.data import Row, text
from orchestrator.report.figures.arrangement import Arrangement, Point, by_method
from orchestrator.report.figures.drawing import (
    PANEL_HEIGHT,
    PER_INCH,
    RATES,
    REFERENCE,
    Sheet,
    algorithm_handles,
    blank,
    categories,
    chances,
    dashed_handle,
    intervals,
    is_nothing,
    label_columns,
    label_row,
    legend,
    mean_note,
    measured,
    panel_width,
    same_scale,
)
from orchestrator.report.statistics import FEWEST, NAN, Estimate, estimate, limits
from orchestrator.report.vocabulary import setting_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_COLUMNS = 4  # positions that have a column each; more of them are told apart by color


def over_rounds(arr: Arrangement, title: str) -> Figure | None:
    """The metrics that belong to a figure, over the rounds: a row for each, a column for each position."""
    from matplotlib.ticker import MaxNLocator

    seen = {name for rounds in arr.results.rounds.values() if len(rounds) > 1 for row in rounds for name in row}
    names = [name for name in seen if metric(name).over_rounds == title and in_rounds(arr, name)]
    names = _finest(sorted(names, key=_place))
    if not names:
        return None
    if arr.axis == (arr.hue,) or len(arr.positions) > MOST_COLUMNS:
        arr = by_method(arr)
    columns = arr.columns
    expected = [name for name in names if metric(name).chance is not None]
    extra = (dashed_handle("by chance"),) if expected else ()
    sheet = Sheet(f"{_words(title)} over the rounds", mean_note(arr, mean="lines", spread="bands"), extra)
    rows = [(panel, name) for panel in arr.panels for name in names]
    figure, axes = blank(arr, sheet, len(rows), len(columns), 3.1)
    for line, (panel, name) in zip(axes, rows, strict=True):
        for ax, position in zip(line, columns, strict=True):
            curves(ax, arr, panel, position, name)
            ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        label_row(line, _label(name), arr.panel_label(panel))
    same_scale(axes, [_scale(name) for _, name in rows], sheet.within)
    label_columns(axes, [setting_label(arr.axis, one) if one else "" for one in columns], "round")
    legend(figure, algorithm_handles(arr, "line"), sheet)
    return figure


def final(arr: Arrangement, title: str) -> Figure | None:
    """The final metrics that belong to a figure, by setting: means with intervals, or single runs."""
    names = [name for name in arr.results.metrics if metric(name).final == title and measured(arr, name)]
    if not names:
        return None
    found = {round(value, 9) for name in names for value in chances(arr.trials, name)}
    known = f"by chance ({found.pop():g})" if len(found) == 1 else "by chance" if found else ""
    extra = (dashed_handle(known),) if known else ()
    rates = all(metric(name).unit == "fraction" and metric(name).direction for name in names)
    within = RATES if rates else Sheet.within
    sheet = Sheet(f"{_words(title)} at the end of the runs", mean_note(arr, names), extra, within)
    rows = [(panel, name) for panel in arr.panels for name in names]
    figure, axes = blank(arr, sheet, len(rows), 1, panel_width(arr))
    for (ax,), (panel, name) in zip(axes, rows, strict=True):
        intervals(ax, arr, panel, name)
        categories(ax, arr)
        label_row([ax], _label(name), arr.panel_label(panel))
    same_scale(axes, [_scale(name) for _, name in rows], sheet.within)
    label_columns(axes, [""], arr.axis_label)
    legend(figure, algorithm_handles(arr), sheet)
    return figure


def curves(ax: Axes, arr: Arrangement, panel: Point, position: Point, name: str) -> None:
    """Draw a metric over the rounds for each color, and its value by chance, the mean over the colors."""
    shown = []
    for hue in arr.hues:
        trials = arr.cell(panel, position, hue)
        curve(ax, arr, trials, name, color=arr.palette[text(hue)])
        shown += trials
    chance = metric(name).chance
    if isinstance(chance, float):
        ax.axhline(chance, **REFERENCE)
    elif chance:
        by = by_round([arr.results.rounds[trial["id"]] for trial in shown], chance)
        if by:
            ax.plot(list(by), [e.mean for e in by.values()], **REFERENCE)


def curve(ax: Axes, arr: Arrangement, trials: Sequence[Row], name: str, **style: Any) -> None:
    """Draw a metric of these trials over the rounds; rounds without values are left out.

    Three or more trials are a line for their mean, with a band for the interval where a round has three values; fewer
    trials have a thin line each.
    """
    tables = [arr.results.rounds[trial["id"]] for trial in trials]
    found = by_round(tables, name)
    if max((e.n for e in found.values()), default=0) < FEWEST:
        for table in tables:
            own = [(row["round"], float(row[name])) for row in table if row.get(name) is not None]
            ax.plot([x for x, _ in own], [y for _, y in own], **({"linewidth": 1.4} | style))
        return
    numbers = list(found)
    ax.plot(numbers, [e.mean for e in found.values()], **({"linewidth": 2} | style))
    if any(e.n >= FEWEST for e in found.values()):
        sure = [e if e.n >= FEWEST else Estimate(NAN, NAN, e.n) for e in found.values()]
        low, high = [e.low for e in sure], [e.high for e in sure]
        ax.fill_between(numbers, low, high, color=style["color"], alpha=0.18, linewidth=0)


def by_round(tables: Sequence[list[Row]], name: str) -> dict[int, Estimate]:
    """The mean and interval over trials for every round in which at least one trial has a value.

    Args:
        tables: the rounds of each trial.
        name: the metric.
    """
    values: dict[int, list[float]] = {}
    for table in tables:
        for row in table:
            if row.get(name) is not None:
                values.setdefault(row["round"], []).append(float(row[name]))
    ends = limits(metric(name))
    return {number: estimate(values[number], ends) for number in sorted(values)}


def in_rounds(arr: Arrangement, name: str) -> bool:
    """Whether any trial has the metric in its rounds, and not only zeros."""
    tables = (arr.results.rounds[trial["id"]] for trial in arr.trials)
    return any(not is_nothing(row.get(name)) for table in tables for row in table)


def _words(title: str) -> str:
    return title[:1].upper() + title[1:].replace("_", " ")


def _label(name: str) -> str:
    one = metric(name)
    unit = f" ({one.unit})" if one.unit and one.unit not in one.label else ""
    return textwrap.fill(f"{full_label(name)}{unit}", int(PANEL_HEIGHT * PER_INCH))


def _scale(name: str) -> str:
    one = metric(name)
    return text(
        [one.family, one.unit, one.direction, one.chance if isinstance(one.chance, float) else name * bool(one.chance)]
    )


def _place(name: str) -> int:
    from orchestrator.metric_names import metrics

    return list(metrics()).index(name) if name in metrics() else len(metrics())


def _finest(names: list[str]) -> list[str]:
    """The metrics by group, if there are any of a metric, without that of all."""
    return [name for name in names if not any(other.startswith(f"{name}_") for other in names)]
