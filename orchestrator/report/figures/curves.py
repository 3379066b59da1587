"""Figures with a numeric axis: convergence over the rounds, and attack accuracy over minority ratios."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.metric_names import metric
from orchestrator.report.estimate import FEWEST, NAN, Estimate, estimate, limits
from orchestrator.report.figures.arrangement import Arrangement, Point, points
from orchestrator.report.figures.drawing import (
    BODY,
    IN_A_ROW,
    RATES,
    REFERENCE,
    Sheet,
    algorithm_handles,
    blank,
    dashed_handle,
    label_columns,
    label_row,
    legend,
    same_scale,
    wrap,
)
from orchestrator.report.figures.marks import is_nothing, mean_note, means_with_intervals
from orchestrator.report.papers import rules
from orchestrator.report.published import records
from orchestrator.report.values import Row, text
from orchestrator.report.vocabulary import GROUP_COLORS, setting_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Printed = tuple[str, float, float]  # group of the model, minority ratio, attack accuracy

RATIO = "data.split.minority_ratio"
MODEL_MARKERS = {"majority": "o", "minority": "s"}


def convergence(arr: Arrangement) -> Figure | None:
    """Accuracy over rounds: a row for each group, a column for each position, a curve for each algorithm."""
    from matplotlib.ticker import MaxNLocator

    seen = {name for rounds in arr.results.rounds.values() if len(rounds) > 1 for name in rounds[-1]}
    names: list[str] = [f"accuracy_{group}" for group in GROUP_COLORS if f"accuracy_{group}" in seen]
    names = names or sorted({"accuracy"} & seen)
    if not names:
        return None
    columns: list[Point] = [()] if arr.axis == (arr.hue,) else arr.positions
    sheet = Sheet("Accuracy over the rounds", mean_note(arr, "lines", "bands"), within=RATES)
    lines = [(panel, name) for panel in arr.panels for name in names]
    headings = [setting_label(arr.axis, position) if position else "" for position in columns]
    if len(lines) == 1 and len(columns) > IN_A_ROW + 1:
        figure, line = wrap(arr, sheet, headings, "round", "accuracy (fraction)")
        axes = [line]
    else:
        figure, axes = blank(arr, sheet, len(lines), len(columns), 2.9)
        label_columns(axes, headings, "round")
    for line, (panel, name) in zip(axes, lines, strict=True):
        for ax, position in zip(line, columns, strict=True):
            curves(ax, arr, panel, position, name)
            ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        group = name.removeprefix("accuracy").removeprefix("_")
        ylabel = f"accuracy, {group} clients\n(fraction)" if group else "accuracy (fraction)"
        label_row(line, ylabel, arr.panel_label(panel))
    same_scale(axes, ["accuracy"] * len(lines), sheet.within)
    legend(figure, algorithm_handles(arr, "line"), sheet)
    return figure


def motivation(arr: Arrangement) -> Figure | None:
    """Figure 1 of the IFCA-MIR paper: attack accuracy on IFCA's two models over the fraction of minority clients.

    Hollow points are published values; they are shown only for the data set of the paper.
    """
    trials = [trial for trial in arr.trials if text(arr.results.value(trial, "clustering.name")) == "ifca"]
    names = {group: f"mia_accuracy_{group}" for group in GROUP_COLORS}
    ratios = {text(trial.get(RATIO)) for trial in trials} - {""}
    if len(ratios) < 2 or not any(trial.get(name) is not None for trial in trials for name in names.values()):
        return None
    axis_keys = {"clustering.name", *(arr.axis if RATIO in arr.axis else (RATIO,))}
    facets = tuple(key for key in (arr.hue, *arr.axis, *arr.facets) if key and key not in axis_keys)
    panels = points(trials, facets)
    printed = published_points({text(arr.results.value(trial, "data.name")) for trial in trials})
    extra = (*([_hollow()] if printed else []), dashed_handle("guessing (0.5)"))
    sheet = Sheet("Membership inference against the two models of IFCA", mean_note(arr), extra, RATES)
    figure, axes = blank(arr, sheet, 1, len(panels), 4.2)
    for ax, panel in zip(axes[0], panels, strict=True):
        here = [trial for trial in trials if all(text(trial[k]) == text(v) for k, v in zip(facets, panel, strict=True))]
        _motivation_panel(ax, here, names, printed)
    same_scale(axes, ["attack"], sheet.within)
    label_row(axes[0], "attack accuracy (fraction)")
    label_columns(axes, [setting_label(facets, panel) for panel in panels], "minority ratio (fraction of clients)")
    legend(figure, [_model_handle(group) for group in names], sheet)
    return figure


def published_points(datasets: set[str]) -> list[Printed]:
    """The group, minority ratio and printed attack accuracy of IFCA on the data sets (our names)."""
    found = []
    for record in records():
        counterpart = rules()["ifca_mir"](record) if record.paper == "ifca_mir" else None
        if counterpart and RATIO in counterpart.where and counterpart.where["data.name"] in datasets:
            for group in GROUP_COLORS:
                if f"mia_accuracy_{group}" in counterpart.metrics:
                    found.append((group, float(counterpart.where[RATIO]), record.value))
    return found


def curves(ax: Axes, arr: Arrangement, panel: Point, position: Point, name: str, bands: bool = True) -> None:
    """Draw a metric over the rounds for each color: the mean over seeds, with a band for the interval.

    Args:
        ax: the panel to draw into.
        arr: the layout of the trials.
        panel: the values of the facets.
        position: the values along the axis.
        name: the metric.
        bands: whether to draw the bands.
    """
    for hue in arr.hues:
        trials = arr.cell(panel, (hue,) if arr.axis == (arr.hue,) else position, hue)
        curve(ax, arr, trials, name, bands, color=arr.palette[text(hue)])


def curve(ax: Axes, arr: Arrangement, trials: Sequence[Row], name: str, band: bool = True, **style: Any) -> None:
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
    if band:
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


def _motivation_panel(ax: Axes, trials: list[Row], names: dict[str, str], printed: list[Printed]) -> None:
    ax.axhline(0.5, **REFERENCE)
    for group, name in names.items():
        by_ratio: dict[float, list[float]] = {}
        for trial in trials:
            if trial.get(RATIO) is not None and trial.get(name) is not None:
                by_ratio.setdefault(float(trial[RATIO]), []).append(float(trial[name]))
        style: dict[str, Any] = {"color": GROUP_COLORS[group], "marker": MODEL_MARKERS[group]}
        means_with_intervals(ax, [(ratio, by_ratio[ratio]) for ratio in sorted(by_ratio)], **style)
        hollow: dict[str, Any] = style | {"markerfacecolor": "none", "markeredgewidth": 1.8, "markersize": 11}
        theirs = [(ratio, value) for of, ratio, value in printed if of == group]
        ax.plot([ratio for ratio, _ in theirs], [value for _, value in theirs], linestyle="none", **hollow)
    ticks = sorted({float(t[RATIO]) for t in trials if t.get(RATIO) is not None} | {ratio for _, ratio, _ in printed})
    ax.margins(x=0.08)
    ax.set_xticks(ticks, [text(tick) for tick in ticks], fontsize=BODY)


def _model_handle(group: str) -> Any:
    from matplotlib.lines import Line2D

    style: dict[str, Any] = {"color": GROUP_COLORS[group], "marker": MODEL_MARKERS[group]}
    return Line2D([], [], linewidth=1.8, markersize=7, label=f"{group} model", **style)


def _hollow() -> Any:
    from matplotlib.lines import Line2D

    style: dict[str, Any] = {"linestyle": "none", "marker": "o", "color": "black", "markerfacecolor": "none"}
    return Line2D([], [], markersize=10, markeredgewidth=1.6, label="published (Jung et al., Figure 1)", **style)
