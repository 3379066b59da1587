"""Metrics over the rounds and final metrics by setting: one figure for all metrics that declare
its name.

A component says with ``Metric.over_rounds`` and ``Metric.final`` to which figure a metric belongs.
"""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from algorithms.core.columns import column
from algorithms.core.metric import of_group
from algorithms.metrics.statistics import FEWEST, Estimate, estimate, limits
from orchestrator.config.metric_names import metric, ordered
from orchestrator.papers.numbers import Number, compare
from orchestrator.papers.records import counterpart, records
from orchestrator.report.context import capital
from orchestrator.report.data import Setting, grouped, independent, repeat
from orchestrator.report.figures import drawing
from orchestrator.report.figures.arrangement import Arrangement, Point, by_method, is_nothing
from orchestrator.report.vocabulary import GROUP_COLORS, key_labels

HOLLOW: dict[str, Any] = {
    "linestyle": "none",
    "markerfacecolor": "none",
    "markeredgewidth": 1.8,
    "markersize": 11,
}
MOST_COLUMNS = 4  # positions that have a panel each; more of them are told apart by color


def over_rounds(arr: Arrangement, title: str) -> Figure | None:
    """The metrics that belong to a figure, over the rounds: a panel for each metric, position
    and facet.
    """
    tables = [rounds for rounds in arr.results.rounds.values() if len(rounds) > 1]
    cells = ((name, value) for rounds in tables for row in rounds for name, value in row.items())
    columns = {
        name for name, value in cells if isinstance(value, int | float) and not is_nothing(value)
    }
    names = [name for name in ordered(columns) if metric(name).over_rounds == title]
    # The metrics by group, if there are any of a metric, without that of all.
    names = [
        name
        for name in names
        if not any(column(name, of_group(group)) in names for group in GROUP_COLORS)
    ]
    if not names:
        return None
    if arr.axis == arr.hue or len(arr.positions) > MOST_COLUMNS:
        arr = by_method(arr)
    panels = [(name, panel, at) for panel in arr.panels for name in names for at in arr.columns]
    words = [(drawing.described(name), arr.heading(panel, at)) for name, panel, at in panels]
    headings = ["\n".join(filter(None, pair)) for pair in words]
    across = len(arr.columns) if len(arr.columns) > 1 else drawing.IN_A_ROW
    figure, axes = drawing.grid(
        arr, f"{capital(title.replace('_', ' '))} over the rounds", headings, across
    )
    for ax, (name, panel, at) in zip(axes, panels, strict=True):
        for hue in arr.hues:
            draw_rounds(ax, arr, arr.cell(panel, at, hue), name, color=arr.look(hue)["color"])
        _chance_over_rounds(ax, arr, panel, at, name)
        ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    drawing.same_scale(axes, [drawing.scale(name) for name, *_ in panels])
    drawing.label_axes(axes, "round", "")
    note = drawing.mean_note([cell.repetitions for *_, cell in arr.cells()], "lines", "bands")
    return drawing.legend(
        figure, drawing.handles(arr, marker="") + drawing.chance_handles(arr, names), note
    )


def final(arr: Arrangement, title: str) -> Figure | None:
    """The final metrics that belong to a figure, by setting: means with intervals, or single runs.

    Hollow points are published values.
    """
    names = [name for name in arr.results.metrics if metric(name).final == title and arr.has(name)]
    if not names:
        return None
    panels = [(name, panel) for panel in arr.panels for name in names]
    headings = [
        "\n".join(filter(None, (drawing.described(name), arr.panel_label(panel))))
        for name, panel in panels
    ]
    labels = 0.6 + max(0.55, 0.12 * len(arr.hues)) * len(arr.positions)  # inches that they need
    width = min(max(drawing.WIDTH, labels), 9.0)
    across = max(1, min(drawing.IN_A_ROW, int(11 / width), len(names)))
    figure, axes = drawing.grid(
        arr, f"{capital(title.replace('_', ' '))} at the end of the runs", headings, across, width
    )
    published = {name: _published(arr, name) for name in names}
    for ax, (name, panel) in zip(axes, panels, strict=True):
        drawing.by_chance(ax, arr, panel, name)
        cells = {
            hue: [(x, arr.cell(panel, at, of)) for x, at, of in arr.places() if of == hue]
            for hue in arr.hues
        }
        for hue, places in cells.items():
            drawing.marks(
                ax,
                [(x, cell.estimate(name)) for x, cell in places],
                connected=arr.ordered,
                **arr.look(hue),
            )
        for x, at, hue in arr.places():
            ids = {trial["id"] for trial in arr.cell(panel, at, hue).trials}
            values = [
                number.printed
                for number in published[name]
                if {trial.id for trial in number.trials} <= ids
            ]
            if values:
                ax.plot([x] * len(values), values, **arr.look(hue) | HOLLOW)
        drawing.categories(ax, arr, figure.get_figwidth() / min(across, len(axes)))
    rates = all(limits(metric(name)) == (0, 1) and metric(name).direction for name in names)
    drawing.same_scale(
        axes, [drawing.scale(name) for name, _ in panels], drawing.RATES if rates else drawing.FREE
    )
    drawing.label_axes(axes, " / ".join(key_labels(arr.axis)), "")
    note = drawing.mean_note(
        [len(cell.measured(name)) for *_, cell in arr.cells() for name in names]
    )
    entries = (
        [drawing.stroke("published", marker="o", color=drawing.GRAY, **HOLLOW)]
        if any(published.values())
        else []
    )
    return drawing.legend(
        figure, drawing.handles(arr) + entries + drawing.chance_handles(arr, names), note
    )


def _published(arr: Arrangement, name: str) -> list[Number]:
    """The published values of a metric that have a counterpart in the sweep, without differences
    and averages over settings.
    """
    printed = [(record, counterpart(record)) for record in records()]
    direct = [
        record
        for record, rule in printed
        if rule and name in rule.metrics and not (rule.against or rule.over)
    ]
    return compare(arr.results, direct)


def draw_rounds(ax: Axes, arr: Arrangement, cell: Setting, name: str, **style: Any) -> None:
    """Draw a metric of these trials over the rounds; rounds without values are left out.

    Three or more repetitions are a line for their mean, with a band for the interval where a round
    has three values; the trials of fewer have a thin line each.
    """
    means = by_round(arr, cell, name)
    if max((point.n for point in means.values()), default=0) >= FEWEST:
        ax.plot(list(means), [point.mean for point in means.values()], **{"linewidth": 2} | style)
        low = [point.low for point in means.values()]
        high = [point.high for point in means.values()]
        ax.fill_between(list(means), low, high, color=style["color"], alpha=0.18, linewidth=0)
        return
    for trial in cell.trials:
        line = by_round(arr, Setting((), (trial,)), name)
        ax.plot(list(line), [point.mean for point in line.values()], **{"linewidth": 1.4} | style)


def by_round(arr: Arrangement, cell: Setting, name: str) -> dict[int, Estimate]:
    """The mean and interval over trials for every round, counted from 1, in which at least one
    trial has a value.
    """
    rows = [
        (repeat(trial), row) for trial in cell.trials for row in arr.results.rounds[trial["id"]]
    ]
    values = grouped(
        (row["round"] + 1, (run, float(row[name])))
        for run, row in rows
        if row.get(name) is not None
    )
    return {
        number: estimate(independent(values[number]), limits(metric(name)))
        for number in sorted(values)
    }


def _chance_over_rounds(ax: Axes, arr: Arrangement, panel: Point, at: Point, name: str) -> None:
    """Draw the value by chance, the mean over all colors."""
    chance = metric(name).chance
    if isinstance(chance, float):
        ax.axhline(chance, **drawing.REFERENCE)
    elif chance:
        trials = tuple(trial for hue in arr.hues for trial in arr.cell(panel, at, hue).trials)
        means = by_round(arr, Setting((), trials), chance)
        ax.plot(list(means), [point.mean for point in means.values()], **drawing.REFERENCE)
