"""Figures that the papers have: attacks over minority ratios, weights and curvatures of clients, the classifiers' ROC.

Clients are identified by number. If each seed partitions the data differently, the same number is a different client in
every trial; then only the first seed is shown.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.report.data import Row, text
from orchestrator.report.figures.arrangement import Arrangement, Point, by_method, points
from orchestrator.report.figures.drawing import (
    BODY,
    GRAY,
    MOST_NAMED,
    RATES,
    REFERENCE,
    Sheet,
    algorithm_handles,
    blank,
    dashed_handle,
    label_columns,
    label_row,
    legend,
    marker,
    mean_note,
    means_with_intervals,
    method_heading,
    place_label,
    same_scale,
    stroke,
    wrap,
)
from orchestrator.report.published import counterpart, records
from orchestrator.report.vocabulary import GROUP_COLORS, setting_label

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Printed = tuple[str, float, float]  # group of the model, minority ratio, attack accuracy

RATIO = "data.split.minority_ratio"
MODEL_MARKERS = {"majority": "o", "minority": "s"}
WEIGHT = ("round", "client", "examples", "weight")
CURVATURE = ("lambda_max", "hessian_trace")
ROC = ("false_positive_rate", "true_positive_rate")
SHARE: dict[str, Any] = {"color": GRAY, "linewidth": 1.4}
ROC_POINTS = 200  # false positive rates at which ROC curves are averaged


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
        printed = counterpart(record) if record.paper == "ifca_mir" else None
        if printed and RATIO in printed.where and printed.where["data.name"] in datasets:
            for group in GROUP_COLORS:
                if f"mia_accuracy_{group}" in printed.metrics:
                    found.append((group, float(printed.where[RATIO]), record.value))
    return found


def weights(arr: Arrangement) -> Figure | None:
    """The weight of each client in the average, and how far its curvature deviates (rho), by method."""
    import numpy as np

    arr = by_method(arr)
    held, rhos = _tables(arr, WEIGHT), _tables(arr, ("client", "rho"))
    last = {ident: _last(table) for ident, table in held.items()}
    sizes = (np.allclose(it["weight"], it["examples"] / it["examples"].sum(), atol=1e-6) for it in last.values())
    if not held or (not rhos and all(sizes)):
        return None
    alike = True  # whether clients are the same in all trials, judged by their number and their numbers of examples
    for panel in arr.panels:
        ids = [trial["id"] for hue in arr.hues for trial in arr.cell(panel, (), hue) if trial["id"] in last]
        alike = alike and len({text(last[ident]["examples"].tolist()) for ident in ids}) <= 1
    first = "marks (mean over the rounds): first seed only, because each seed partitions the data anew"
    note = mean_note(arr, mean="marks (mean over the rounds)") if alike else first
    sheet = Sheet(
        "Weights of the clients, and deviation of their curvature (rho)",
        note,
        (stroke("fraction of all examples", **SHARE),),
    )
    kinds = {"weight": "weight in the average\n(fraction)"} | ({"rho": "rho"} if rhos else {})
    rows = [(panel, name) for panel in arr.panels for name in kinds]
    clients = max(map(len, last.values()))
    figure, axes = blank(arr, sheet, len(rows), 1, min(max(6.3, 0.13 * clients * len(arr.hues) + 1), 11.0))
    for line, (panel, name) in zip(axes, rows, strict=True):
        _draw_weights(line[0], arr, panel, name, held if name == "weight" else rhos, last, alike)
        label_row(line, kinds[name], arr.panel_label(panel))
    same_scale(axes, [name for _, name in rows], (0, 1))
    for (ax,) in axes:
        ax.set_ylim(bottom=-0.03 * ax.get_ylim()[1])  # so that a mark at 0 is not cut off
    label_columns(axes, [""], "client, with its number of examples below")
    legend(figure, algorithm_handles(arr), sheet)
    return figure


def curvature(arr: Arrangement) -> Figure | None:
    """Largest eigenvalue over trace of the clients' Hessians, with a panel for each method that measures them."""
    import numpy as np
    import pandas as pd
    from matplotlib.ticker import NullFormatter

    arr = by_method(arr)
    held = _tables(arr, CURVATURE)
    cells = []
    for panel, hue in itertools.product(arr.panels, arr.hues):
        if tables := [held[trial["id"]] for trial in arr.cell(panel, (), hue) if trial["id"] in held]:
            whole = pd.concat(tables)
            cells.append((panel, hue, whole[np.isfinite(whole).all(axis=1)]))
    shown = [whole[(whole > 0).all(axis=1)] for *_, whole in cells]
    if not shown or not all(map(len, shown)):
        return None
    measured, positive = sum(len(whole) for *_, whole in cells), sum(map(len, shown))
    lost = f"; {measured - positive} of {measured} points are not shown because a value is not positive"
    note = "points: one client after its training in one round, for all rounds and seeds"
    note += f"{lost if positive < measured else ''}; axes are logarithmic"
    sheet = Sheet("Two measures of the curvature of the clients' losses", note)
    headings = [method_heading(arr, panel, hue) for panel, hue, _ in cells]
    figure, axes = wrap(arr, sheet, headings, "trace of the Hessian", "largest eigenvalue of the Hessian")
    together = np.log10(pd.concat(shown))
    low, high = 10.0 ** np.floor(together.min() - 0.05), 10.0 ** np.ceil(together.max() + 0.05)  # powers of ten
    trace, top = "hessian_trace", "lambda_max"
    for ax, (_, hue, _), spots in zip(axes, cells, shown, strict=True):
        ax.set(xscale="log", yscale="log", xlim=(low[trace], high[trace]), ylim=(low[top], high[top]))
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_minor_formatter(NullFormatter())
        ax.scatter(spots[trace], spots[top], s=14, color=arr.palette[text(hue)], alpha=0.35, linewidths=0)
        rank = spots[trace].corr(spots[top], method="spearman")
        if not math.isnan(rank):
            place: dict[str, Any] = {"xycoords": "axes fraction", "ha": "left", "va": "top", "color": GRAY}
            ax.annotate(f"rank correlation {rank:.2f}", (0.04, 0.97), fontsize=BODY, **place)
    legend(figure, [], sheet)
    return figure


def classifier_roc(arr: Arrangement) -> Figure | None:
    """Micro-averaged ROC curves of the final models on the server's test data, a panel for each position and facet."""
    if any(trial.get("accuracy_majority") is not None for trial in arr.trials):
        return None  # sweeps with groups have several models and other figures
    held = {trial["id"]: table for trial in arr.trials if (table := arr.results.frame(trial, "roc", ROC)) is not None}
    panels = [(panel, position) for panel in arr.panels for position in arr.columns]
    panels = [place for place in panels if any(t["id"] in held for hue in arr.hues for t in arr.cell(*place, hue))]
    if not panels:
        return None
    several = any(len(arr.cell(*place, hue)) > 1 for place in panels for hue in arr.hues)
    note = "lines: mean over seeds at equal false positive rates; " if several else ""
    note += "numbers: area under the curve"
    sheet = Sheet(
        "ROC curves of the classifier on the server's test data, one class against the rest",
        note,
        (dashed_handle("guessing"),),
    )
    headings = [place_label(arr, *place) for place in panels]
    figure, axes = wrap(arr, sheet, headings, "false positive rate (fraction)", "true positive rate\n(fraction)")
    for ax, place in zip(axes, panels, strict=True):
        ax.plot([0, 1], [0, 1], **REFERENCE)
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        for j, hue in enumerate(arr.hues):
            trials = [trial for trial in arr.cell(*place, hue) if trial["id"] in held]
            _roc_curve(ax, [held[trial["id"]] for trial in trials], arr.palette[text(hue)], len(arr.hues) - 1 - j)
    legend(figure, algorithm_handles(arr, "line"), sheet)
    return figure


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


def _roc_curve(ax: Axes, tables: list[pd.DataFrame], color: str, line: int) -> None:
    """Draw the mean of the curves, and write their mean area as the ``line``-th number from the bottom."""
    import numpy as np

    from algorithms.metrics.classification import area

    if not tables:
        return
    at = np.linspace(0, 1, ROC_POINTS)
    curves = [[table[name].to_numpy(float) for name in ROC] for table in tables]
    rates = [np.interp(at, *curve) for curve in curves]
    areas = [area(*curve) for curve in curves]
    ax.plot(at, np.mean(rates, axis=0), color=color, linewidth=1.8)
    place: dict[str, Any] = {"xycoords": "axes fraction", "ha": "right", "va": "bottom", "fontsize": BODY}
    ax.annotate(f"{np.mean(areas):.3f}", (0.97, 0.05 + 0.1 * line), color=color, **place)


def _draw_weights(
    ax: Axes,
    arr: Arrangement,
    panel: Point,
    name: str,
    held: dict[str, pd.DataFrame],
    last: dict[str, pd.DataFrame],
    alike: bool,
) -> None:
    """Draw the column ``name`` of ``held`` for each client; ``last`` has the clients' numbers of examples."""
    import numpy as np

    trials = [trial for hue in arr.hues for trial in arr.cell(panel, (), hue) if trial["id"] in last]
    if not trials:
        return
    first = min(text(trial.get("seed")) for trial in trials)
    shown = [t["id"] for t in trials if t["id"] in held and (alike or text(t.get("seed")) == first)]
    leader = next((trial for trial in trials if text(trial.get("seed")) == first), trials[0])
    examples = last[leader["id"]]["examples"].to_numpy()
    order = examples.argsort(kind="stable")
    at = np.arange(len(order))
    if name == "weight":
        ax.hlines(examples[order] / examples.sum(), at - 0.42, at + 0.42, zorder=1, **SHARE)
    for j, hue in enumerate(arr.hues):
        own = [held[t["id"]].groupby("client")[name].mean() for t in arr.cell(panel, (), hue) if t["id"] in shown]
        means = [one.to_numpy()[order] for one in own]
        if means:
            places = at + (j - (len(arr.hues) - 1) / 2) * 0.8 / len(arr.hues)
            marks = [(float(x), values) for x, values in zip(places, zip(*means, strict=True), strict=True)]
            style: dict[str, Any] = {"color": arr.palette[text(hue)], "marker": marker(arr, hue), "linestyle": "none"}
            means_with_intervals(ax, marks, **style | {"markersize": 5, "capsize": 0})
    labels = [f"{client}\n{examples[client]:.0f}" for client in order] if len(order) < MOST_NAMED else [""] * len(order)
    ax.set_xticks(at, labels, fontsize=BODY - 1)
    ax.set_xlim(-0.6, len(order) - 0.4)


def _tables(arr: Arrangement, columns: Sequence[str]) -> dict[str, pd.DataFrame]:
    """These columns of the clients' tables as floats, by id, for the trials with a number in the last of the columns."""
    found = {}
    for trial in arr.trials:
        table = arr.results.frame(trial, "clients", columns)
        if table is not None and table[columns[-1]].notna().any():
            found[trial["id"]] = table[list(columns)].astype(float)
    return found


def _last(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the last round in which clients had a weight, sorted by client."""
    weighed = table[table["weight"].notna()]
    last = weighed[weighed["round"] == weighed["round"].max()]
    return last.sort_values("client", kind="stable", ignore_index=True)
