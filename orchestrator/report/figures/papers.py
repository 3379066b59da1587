"""Figures that the papers have: attacks over minority ratios, weights and curvatures of clients, the classifiers' ROC."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.report.data import Setting, independent, repeat, text
from orchestrator.report.figures.arrangement import Arrangement, Point, by_method, points
from orchestrator.report.figures.drawing import (
    BODY,
    GRAY,
    RATES,
    REFERENCE,
    grid,
    handles,
    label_axes,
    legend,
    marks,
    mean_note,
    same_scale,
    stroke,
    write_areas,
)
from orchestrator.report.published import counterpart, records
from orchestrator.report.statistics import estimate
from orchestrator.report.vocabulary import GROUP_COLORS, setting_label

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Printed = tuple[str, float, float]  # group of the model, minority ratio, attack accuracy

RATIO = "data.split.minority_ratio"
MODELS: dict[str, dict[str, Any]] = {"majority": {"color": GROUP_COLORS["majority"], "marker": "o"}}
MODELS |= {"minority": {"color": GROUP_COLORS["minority"], "marker": "s"}}
HOLLOW: dict[str, Any] = {"linestyle": "none", "markerfacecolor": "none", "markeredgewidth": 1.8, "markersize": 11}
WEIGHT = ("round", "client", "examples", "weight")
SHARE: dict[str, Any] = {"color": GRAY, "linewidth": 1.4}
CURVATURE = ("lambda_max", "hessian_trace")
ROC = ("false_positive_rate", "true_positive_rate")
ROC_POINTS = 200  # false positive rates at which ROC curves are averaged


def motivation(arr: Arrangement) -> Figure | None:
    """Figure 1 of the IFCA-MIR paper: attack accuracy on IFCA's two models over the fraction of minority clients.

    Hollow points are published values; they are shown only for the data set of the paper.
    """
    trials = [trial for trial in arr.trials if text(arr.results.value(trial, "clustering.name")) == "ifca"]
    names = {group: f"mia_accuracy_{group}" for group in MODELS}
    trials = [
        one for one in trials if one.get(RATIO) is not None and any(one.get(it) is not None for it in names.values())
    ]
    ratios = sorted({float(trial[RATIO]) for trial in trials})
    if len(ratios) < 2:
        return None
    keys = {"clustering.name", *(arr.axis if RATIO in arr.axis else (RATIO,))}
    facets = tuple(key for key in (*arr.hue, *arr.axis, *arr.facets) if key not in keys)
    panels = points(trials, facets)
    printed = published_points({text(arr.results.value(trial, "data.name")) for trial in trials})
    headings = [setting_label(facets, panel) for panel in panels]
    figure, axes = grid(arr, "Membership inference against the two models of IFCA", headings, width=4.2)
    counts = []
    for ax, panel in zip(axes, panels, strict=True):
        here = [trial for trial in trials if [text(trial[k]) for k in facets] == list(map(text, panel))]
        ax.axhline(0.5, **REFERENCE)
        for group, name in names.items():
            cells = [(at, Setting((), tuple(t for t in here if float(t[RATIO]) == at))) for at in ratios]
            marks(ax, [(at, cell.estimate(name)) for at, cell in cells], connected=True, **MODELS[group])
            theirs = [(at, value) for of, at, value in printed if of == group]
            ax.plot([at for at, _ in theirs], [value for _, value in theirs], **MODELS[group], **HOLLOW)
            counts += [len(cell.measured(name)) for _, cell in cells]
        ticks = sorted({*ratios, *(at for _, at, _ in printed)})
        ax.margins(x=0.08)
        ax.set_xticks(ticks, list(map(text, ticks)), fontsize=BODY)
    same_scale(axes, [""] * len(axes), RATES)
    label_axes(axes, "minority ratio (fraction of clients)", "attack accuracy (fraction)")
    entries = [stroke(f"{group} model", **style) for group, style in MODELS.items()]
    if printed:
        entries.append(stroke("published (Jung et al., Figure 1)", marker="o", **HOLLOW))
    return legend(figure, [*entries, stroke("guessing (0.5)", **REFERENCE)], mean_note(counts))


def published_points(datasets: set[str]) -> list[Printed]:
    """The group, minority ratio and printed attack accuracy of IFCA on the data sets (our names)."""
    printed = [(record, counterpart(record)) for record in records() if record.paper == "ifca_mir"]
    return [
        (group, float(one.where[RATIO]), record.value)
        for record, one in printed
        if one and RATIO in one.where and one.where["data.name"] in datasets
        for group in MODELS
        if f"mia_accuracy_{group}" in one.metrics
    ]


def weights(arr: Arrangement) -> Figure | None:
    """The weight of each client in the average, and how far its curvature deviates (rho), by method.

    Clients stand in the order of their numbers of examples, so that those of one rank are compared where each seed
    partitions the data anew.
    """
    import numpy as np

    arr = by_method(arr)
    tables = _tables(arr, WEIGHT)
    shares = {ident: table.groupby("client")["examples"].last() for ident, table in tables.items()}
    names = ["weight", *(["rho"] if _tables(arr, ("client", "rho")) else [])]
    last = [table[table["round"] == table["round"].max()] for table in tables.values()]
    sizes = all(np.allclose(one["weight"], one["examples"] / one["examples"].sum(), atol=1e-6) for one in last)
    if not tables or (len(names) == 1 and sizes):
        return None
    panels = [(panel, name) for panel in arr.panels for name in names]
    titles = {"weight": "weight in the average (fraction)", "rho": "rho: deviation of the curvature (fraction)"}
    headings = ["\n".join(filter(None, (titles[name], arr.panel_label(panel)))) for panel, name in panels]
    clients = max(map(len, shares.values()))
    width = min(max(6.3, 0.13 * clients * len(arr.hues) + 1), 11.0)
    figure, axes = grid(arr, "Weights of the clients, and deviation of their curvature (rho)", headings, 1, width)
    for ax, (panel, name) in zip(axes, panels, strict=True):
        for place, hue in enumerate(arr.hues):
            cell = arr.cell(panel, (), hue)
            ranked = _ranked(arr, cell, name, shares)
            aside = (place - (len(arr.hues) - 1) / 2) * 0.8 / len(arr.hues)
            marks(
                ax, [(rank + aside, one) for rank, one in enumerate(ranked)], markersize=5, capsize=0, **arr.look(hue)
            )
            if name == "weight" and ranked:
                sorted_ = [
                    np.sort(shares[trial["id"]])[: len(ranked)] for trial in cell.trials if trial["id"] in shares
                ]
                at = np.arange(len(ranked))
                ax.hlines(
                    np.mean([one / one.sum() for one in sorted_], axis=0), at - 0.42, at + 0.42, zorder=1, **SHARE
                )
        ax.set_xticks(range(clients), map(str, range(1, clients + 1)) if clients <= 30 else [""] * clients)
        ax.set_xlim(-0.6, clients - 0.4)
    same_scale(axes, [name for _, name in panels], (0, 1))
    for ax in axes:
        ax.set_ylim(bottom=-0.03 * ax.get_ylim()[1])  # so that a mark at 0 is not cut off
    label_axes(axes, "client, by its number of examples (1: the fewest)", "", 1)
    entries = [*handles(arr, linestyle="none"), stroke("fraction of all examples", **SHARE)]
    return legend(
        figure, entries, mean_note([len(cell.trials) for *_, cell in arr.cells()], "marks (mean over the rounds)")
    )


def _ranked(arr: Arrangement, cell: Setting, name: str, shares: dict[str, pd.Series]) -> list[Any]:
    """The estimates of a column's mean over the rounds, by the rank of clients in their number of examples."""
    tables = _tables(arr, ("client", name))
    rows = []
    for trial in cell.trials:
        if trial["id"] in tables and trial["id"] in shares:
            order = shares[trial["id"]].sort_values(kind="stable").index
            rows.append((repeat(trial), tables[trial["id"]].groupby("client")[name].mean().reindex(order).tolist()))
    ranks = min((len(values) for _, values in rows), default=0)
    return [estimate(independent([(of, values[rank]) for of, values in rows])) for rank in range(ranks)]


def curvature(arr: Arrangement) -> Figure | None:
    """Largest eigenvalue over trace of the clients' Hessians, with a panel for each method that measures them."""
    import numpy as np
    import pandas as pd

    arr = by_method(arr)
    tables = _tables(arr, CURVATURE)
    cells = [
        (arr.heading(panel, (), hue) or arr.hue_label(hue), hue, pd.concat(own))
        for panel in arr.panels
        for hue in arr.hues
        if (own := [tables[trial["id"]] for trial in arr.cell(panel, (), hue).trials if trial["id"] in tables])
    ]
    finite = [whole[np.isfinite(whole).all(axis=1)] for *_, whole in cells]
    shown = [whole[(whole > 0).all(axis=1)] for whole in finite]
    if not shown or not all(map(len, shown)):
        return None
    title = "Two measures of the curvature of the clients' losses"
    figure, axes = grid(arr, title, [heading for heading, *_ in cells])
    together = np.log10(pd.concat(shown))
    low, high = 10.0 ** np.floor(together.min() - 0.05), 10.0 ** np.ceil(together.max() + 0.05)  # powers of ten
    top, trace = CURVATURE
    for ax, (_, hue, _), spots in zip(axes, cells, shown, strict=True):
        ax.set(xscale="log", yscale="log", xlim=(low[trace], high[trace]), ylim=(low[top], high[top]))
        ax.minorticks_off()
        ax.scatter(spots[trace], spots[top], s=14, color=arr.look(hue)["color"], alpha=0.35, linewidths=0)
        rank = spots[trace].corr(spots[top], method="spearman")
        if not math.isnan(rank):
            place: dict[str, Any] = {"xycoords": "axes fraction", "ha": "left", "va": "top", "color": GRAY}
            ax.annotate(f"rank correlation {rank:.2f}", (0.04, 0.97), fontsize=BODY, **place)
    label_axes(axes, "trace of the Hessian", "largest eigenvalue of the Hessian")
    measured, positive = sum(map(len, finite)), sum(map(len, shown))
    lost = f"; {measured - positive} of {measured} points are not shown because a value is not positive"
    note = "points: one client after its training in one round, for all rounds and seeds"
    return legend(figure, [], f"{note}{lost if positive < measured else ''}; axes are logarithmic")


def classifier_roc(arr: Arrangement) -> Figure | None:
    """Micro-averaged ROC curves of the final models on the server's test data, a panel for each position and facet."""
    import numpy as np

    from algorithms.metrics.classification import area

    if arr.has("accuracy_majority"):
        return None  # sweeps with groups have several models and other figures
    tables = {trial["id"]: table for trial in arr.trials if (table := arr.results.frame(trial, "roc", ROC)) is not None}

    def curves(panel: Point, position: Point, hue: Point) -> list[list[Any]]:
        held = [tables[trial["id"]] for trial in arr.cell(panel, position, hue).trials if trial["id"] in tables]
        return [[table[name].to_numpy(float) for name in ROC] for table in held]

    panels = [
        (place, [curves(*place, hue) for hue in arr.hues]) for place in itertools.product(arr.panels, arr.columns)
    ]
    panels = [(place, found) for place, found in panels if any(found)]
    if not panels:
        return None
    title = "ROC curves of the classifier on the server's test data, one class against the rest"
    figure, axes = grid(arr, title, [arr.heading(*place) for place, _ in panels])
    at = np.linspace(0, 1, ROC_POINTS)
    for ax, (_, by_hue) in zip(axes, panels, strict=True):
        ax.plot([0, 1], [0, 1], **REFERENCE)
        ax.set(xlim=RATES, ylim=RATES)
        colored = [(arr.look(hue)["color"], own) for hue, own in zip(arr.hues, by_hue, strict=True) if own]
        for color, own in colored:
            ax.plot(at, np.mean([np.interp(at, *curve) for curve in own], axis=0), color=color, linewidth=1.8)
        write_areas(ax, {color: float(np.mean([area(*curve) for curve in own])) for color, own in colored})
    label_axes(axes, "false positive rate (fraction)", "true positive rate (fraction)")
    several = any(len(own) > 1 for _, by_hue in panels for own in by_hue)
    note = (
        "lines: mean over seeds at equal false positive rates; " if several else ""
    ) + "numbers: area under the curve"
    return legend(figure, [*handles(arr, marker=""), stroke("guessing", **REFERENCE)], note)


def _tables(arr: Arrangement, columns: Sequence[str]) -> dict[str, pd.DataFrame]:
    """These columns of the clients' tables as floats, by id, for the trials with a number in the last of the columns."""
    frames = {trial["id"]: arr.results.frame(trial, "clients", columns) for trial in arr.trials}
    found = {ident: table[list(columns)].astype(float) for ident, table in frames.items() if table is not None}
    return {
        ident: table[table[columns[-1]].notna()] for ident, table in found.items() if table[columns[-1]].notna().any()
    }
