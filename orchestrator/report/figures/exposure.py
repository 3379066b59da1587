"""The figures of FinP: source inference over the rounds, and the weights and curvatures of the clients.

Clients are identified by number. If each seed partitions the data differently, the same number is a different client in
every trial; then clients are averaged by rank.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.metric_names import metric
from orchestrator.report.data import Floats
from orchestrator.report.figures.arrangement import Arrangement, Point, by_method
from orchestrator.report.figures.curves import by_round, curves, in_rounds
from orchestrator.report.figures.drawing import (
    BODY,
    GRAY,
    HEADING,
    REFERENCE,
    Sheet,
    algorithm_handles,
    blank,
    dashed_handle,
    label_columns,
    label_row,
    legend,
    marker,
    same_scale,
    stroke,
    wrap,
)
from orchestrator.report.figures.marks import mean_note, means_with_intervals
from orchestrator.report.values import Value, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Columns = dict[str, Floats]

BY_ROUND = {
    "sia_mean": "attack accuracy, all clients (fraction)",
    "eod": "EOD: most minus least exposed (fraction)",
    "sia_cov": "CoV of the clients' attack accuracies",
    "sia_fi": "FI = 1 / (1 + CoV²); equal clients: 1",
}
WEIGHT = ("round", "client", "examples", "weight")
CURVATURE = ("lambda_max", "hessian_trace")
CHOSEN = ("finp_pca", "finp_ala")  # aggregations whose weights are worth a figure
SHARE: dict[str, Any] = {"color": GRAY, "linewidth": 1.4}
MOST_BANDS = 3  # with more curves, their bands would cover one another
MOST_NAMED = 16  # with so many clients, a panel has no room for their numbers


def exposure(arr: Arrangement) -> Figure | None:
    """Mean exposure to source inference and its disparity over the rounds, with a curve for each method.

    The metrics of a single panel are arranged in two columns; several panels have a row each.
    """
    from matplotlib.ticker import MaxNLocator

    arr = by_method(arr)
    shown = [name for name in BY_ROUND if in_rounds(arr, name)]
    if "sia_mean" not in shown:
        return None
    bands = len(arr.hues) <= MOST_BANDS
    spread = mean_note(arr, "lines", "bands") if bands else "lines: mean over seeds"
    note = f"{spread}; by chance: 1 / clients, or what equally exposed clients show"
    sheet = Sheet("Source inference over the rounds", note, (dashed_handle("by chance"),))
    single = len(arr.panels) == 1
    columns = 2 if single else len(shown)
    places = [(panel, name) for panel in arr.panels for name in shown]
    figure, axes = blank(arr, sheet, -(-len(places) // columns), columns, 3.9, shared="none" if single else "col")
    for ax, (panel, name) in zip(axes.flat, places, strict=False):
        _chance(ax, arr, panel, str(metric(name).chance or ""))
        curves(ax, arr, panel, (), name, bands)
        if panel == arr.panels[0]:
            ax.set_title(BY_ROUND[name], fontsize=HEADING)
        ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    for ax in axes.flat:  # at the end, because setting a limit fixes it for all panels that share the axis
        ax.set_ylim(bottom=max(0.0, ax.get_ylim()[0]))
    for line, panel in zip(axes, arr.panels, strict=False):
        label_row(line, "", arr.panel_label(panel))
    for ax in axes[-1]:
        ax.set_xlabel("round", fontsize=BODY)
    legend(figure, algorithm_handles(arr, "line"), sheet)
    return figure


def weights(arr: Arrangement) -> Figure | None:
    """The weight of each client in the average, and how far its curvature deviates (rho), by method."""
    arr = by_method(arr)
    held, rhos = _tables(arr, WEIGHT), _tables(arr, ("client", "rho"))
    chosen = any(text(arr.results.value(trial, "aggregation.name")) in CHOSEN for trial in arr.trials)
    if not held or not (rhos or chosen):
        return None
    shown = [
        [held[t["id"]] for hue in arr.hues for t in arr.cell(panel, (), hue) if t["id"] in held] for panel in arr.panels
    ]
    alike = all(same_clients([last_measured(table, "weight") for table in tables]) for tables in shown)
    first = "marks (mean over the rounds): first seed only, because each seed partitions the data anew"
    note = mean_note(arr, "marks (mean over the rounds)") if alike else first
    sheet = Sheet(
        "Weights of the clients, and deviation of their curvature (rho)",
        note,
        (stroke("fraction of all examples", **SHARE),),
    )
    kinds = {"weight": "weight in the average\n(fraction)"} | ({"rho": "rho"} if rhos else {})
    rows = [(panel, name) for panel in arr.panels for name in kinds]
    clients = max(len(last_measured(table, "weight")["client"]) for table in held.values())
    figure, axes = blank(arr, sheet, len(rows), 1, min(max(6.3, 0.13 * clients * len(arr.hues) + 1), 11.0))
    for line, (panel, name) in zip(axes, rows, strict=True):
        _draw_weights(line[0], arr, panel, name, held if name == "weight" else rhos, held, alike)
        label_row(line, kinds[name], arr.panel_label(panel))
    same_scale(axes, [name for _, name in rows], (0, 1))
    for (ax,) in axes:
        ax.set_ylim(bottom=-0.03 * ax.get_ylim()[1])  # so that a mark at 0 is not cut off
    label_columns(axes, [""], "client, with its number of examples below")
    legend(figure, algorithm_handles(arr), sheet)
    return figure


def curvature(arr: Arrangement) -> Figure | None:
    """Largest eigenvalue over trace of the clients' Hessians, with a panel for each method that measures them."""
    from matplotlib.ticker import NullFormatter

    arr = by_method(arr)
    held = _tables(arr, CURVATURE)
    panels = _places(arr, held)
    points = [_curvatures(held, [trial["id"] for trial in arr.cell(panel, (), hue)]) for panel, hue in panels]
    shown = [(trace[kept], top[kept]) for trace, top in points if (kept := (trace > 0) & (top > 0)).any()]
    if not shown or len(shown) < len(points):
        return None
    measured, positive = (sum(len(trace) for trace, _ in found) for found in (points, shown))
    lost = (
        f"; {measured - positive} of {measured} points are not shown because a value is not positive"
        if positive < measured
        else ""
    )
    note = f"points: one client after its training in one round, for all rounds and seeds{lost}; axes are logarithmic"
    sheet = Sheet("Two measures of the curvature of the clients' losses", note)
    headings = [method_heading(arr, panel, hue) for panel, hue in panels]
    figure, axes = wrap(arr, sheet, headings, "trace of the Hessian", "largest eigenvalue of the Hessian")
    limits = [_limits([place[i] for place in shown]) for i in (0, 1)]
    for ax, (_, hue), (trace, top) in zip(axes, panels, shown, strict=True):
        ax.set(xscale="log", yscale="log", xlim=limits[0], ylim=limits[1])
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_minor_formatter(NullFormatter())
        _scatter(ax, trace, top, arr.palette[text(hue)])
    legend(figure, [], sheet)
    return figure


def _chance(ax: Axes, arr: Arrangement, panel: Point, name: str) -> None:
    """Draw the value by chance, averaged over all methods of the panel, because it hardly depends on the method."""
    trials = [trial for hue in arr.hues for trial in arr.cell(panel, (), hue)]
    found = by_round([arr.results.rounds[trial["id"]] for trial in trials], name)
    if found:
        ax.plot(list(found), [e.mean for e in found.values()], **REFERENCE)


def _draw_weights(
    ax: Axes,
    arr: Arrangement,
    panel: Point,
    name: str,
    held: dict[str, Columns],
    sizes: dict[str, Columns],
    alike: bool,
) -> None:
    """Draw the column ``name`` of ``held`` for each client.

    ``sizes`` has the clients' numbers of examples by trial; ``alike`` says whether clients are the same in all trials.
    """
    import numpy as np

    trials = [trial for hue in arr.hues for trial in arr.cell(panel, (), hue) if trial["id"] in sizes]
    if not trials:
        return
    first = min(text(trial.get("seed")) for trial in trials)
    shown = [t["id"] for t in trials if t["id"] in held and (alike or text(t.get("seed")) == first)]
    leader = next((trial for trial in trials if text(trial.get("seed")) == first), trials[0])
    examples = last_measured(sizes[leader["id"]], "weight")["examples"]
    order = examples.argsort(kind="stable")
    at = np.arange(len(order))
    if name == "weight":
        ax.hlines(examples[order] / examples.sum(), at - 0.42, at + 0.42, zorder=1, **SHARE)
    for j, hue in enumerate(arr.hues):
        means = [_over_rounds(held[t["id"]], name)[order] for t in arr.cell(panel, (), hue) if t["id"] in shown]
        if means:
            places = at + (j - (len(arr.hues) - 1) / 2) * 0.8 / len(arr.hues)
            marks = [(float(x), values) for x, values in zip(places, zip(*means, strict=True), strict=True)]
            style: dict[str, Any] = {"color": arr.palette[text(hue)], "marker": marker(arr, hue), "linestyle": "none"}
            means_with_intervals(ax, marks, **style | {"markersize": 5, "capsize": 0})
    labels = [f"{client}\n{examples[client]:.0f}" for client in order] if len(order) < MOST_NAMED else [""] * len(order)
    ax.set_xticks(at, labels, fontsize=BODY - 1)
    ax.set_xlim(-0.6, len(order) - 0.4)


def _scatter(ax: Axes, trace: Floats, top: Floats, color: str) -> None:
    from algorithms.core.ranks import spearman

    ax.scatter(trace, top, s=14, color=color, alpha=0.35, linewidths=0)
    rank = spearman(trace, top)
    if not math.isnan(rank):
        place: dict[str, Any] = {
            "xycoords": "axes fraction",
            "ha": "left",
            "va": "top",
            "color": GRAY,
            "fontsize": BODY,
        }
        ax.annotate(f"rank correlation {rank:.2f}", (0.04, 0.97), **place)


def _curvatures(held: dict[str, Columns], idents: Sequence[str]) -> tuple[Floats, Floats]:
    """The measured traces and largest eigenvalues of all clients and rounds of these trials."""
    import numpy as np

    tables = [held[ident] for ident in idents if ident in held]
    trace, top = (np.concatenate([table[name] for table in tables]) for name in ("hessian_trace", "lambda_max"))
    finite = np.isfinite(trace) & np.isfinite(top)
    return trace[finite], top[finite]


def _tables(arr: Arrangement, columns: Sequence[str]) -> dict[str, Columns]:
    """These columns of the clients' tables, by id, for the trials with a number in the last of the columns."""
    import numpy as np

    found = {trial["id"]: arr.results.columns(trial, "clients", columns) for trial in arr.trials}
    return {ident: table for ident, table in found.items() if table and np.isfinite(table[columns[-1]]).any()}


def _places(arr: Arrangement, held: dict[str, Columns]) -> list[tuple[Point, Value]]:
    """The panels and methods that have a trial in ``held``."""
    places = [(panel, hue) for panel in arr.panels for hue in arr.hues]
    return [place for place in places if any(trial["id"] in held for trial in arr.cell(place[0], (), place[1]))]


def method_heading(arr: Arrangement, panel: Point, hue: Value) -> str:
    """A method and a panel in words."""
    return ", ".join(filter(None, (arr.hue_label(hue), arr.panel_label(panel))))


def last_measured(table: Columns, name: str) -> Columns:
    """The rows of the last round in which ``name`` was measured, sorted by client."""
    import numpy as np

    measured = np.isfinite(table[name])
    rows = np.flatnonzero(measured & (table["round"] == table["round"][measured].max()))
    rows = rows[table["client"][rows].argsort(kind="stable")]
    return {column: values[rows] for column, values in table.items()}


def same_clients(tables: Sequence[Columns]) -> bool:
    """Whether all tables have the same clients, judged by their number and their numbers of examples."""
    return all(text(table["examples"].tolist()) == text(tables[0]["examples"].tolist()) for table in tables)


def _over_rounds(table: Columns, name: str) -> Floats:
    """The mean of a column over the rounds, by client."""
    import numpy as np

    return np.array([np.nanmean(table[name][table["client"] == client]) for client in np.unique(table["client"])])


def _limits(parts: Sequence[Floats]) -> tuple[float, float]:
    """The powers of ten that enclose all values."""
    low, high = min(part.min() for part in parts), max(part.max() for part in parts)
    return 10.0 ** math.floor(math.log10(low) - 0.05), 10.0 ** math.ceil(math.log10(high) + 0.05)
