"""Risk against accuracy, for every sweep with an attack: what a method costs and what it buys,
in one picture.

Which risk is shown depends on what the sweep measured, and on what the attacks declare
(`orchestrator.report.context`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from algorithms.metrics.statistics import FEWEST
from orchestrator.config.metric_names import metric
from orchestrator.report.context import accuracy_of, full_label, risks
from orchestrator.report.data import Setting
from orchestrator.report.figures import drawing
from orchestrator.report.figures.arrangement import MARKERS, Arrangement, Point, by_method
from orchestrator.report.front import Front, fronts, repetitions
from orchestrator.report.vocabulary import PAIR, key_labels

RING: dict[str, Any] = {"marker": "o", "markersize": 17, "linestyle": "none"}
RING |= {"markerfacecolor": "none", "color": drawing.GRAY}
PATCH: dict[str, Any] = {
    "linewidth": 9,
    "solid_capstyle": "butt",
}  # in the legend: a color of marks, or an area
BAND: dict[str, Any] = PATCH | {
    "label": "by chance, from run to run",
    "color": drawing.GRAY,
    "alpha": 0.12,
}
CONSTANT: dict[str, Any] = {
    "color": drawing.GRAY,
    "linestyle": ":",
    "linewidth": 1.2,
    "label": "a constant answer",
}
# Around a mean: the settings on the front, what their ring looks like, and which they are.
RINGS: tuple[tuple[str, dict[str, Any], Callable[[Front], list[Setting]]], ...] = (
    ("dominated by none (95 %)", {"markeredgewidth": 2.4}, lambda front: front.sure),
    (
        "perhaps dominated by none",
        {"markeredgewidth": 0.7, "markersize": 14},
        lambda front: front.possible,
    ),
)
# sizes of marks: of marks at the same place, the later is smaller and lies above
LARGEST = 11
SMALLEST = 7
STEP = 2


def trade_off(arr: Arrangement) -> Figure | None:
    """Risk over accuracy: a point for each setting (mean over its seeds, with intervals), a pale
    point for each seed.
    """
    rows = risks(arr.results)
    if not rows:
        return None
    arr = told_apart(arr)
    panels = [(panel, risk, row[0]) for row in rows for panel in arr.panels for risk in row]
    across = max(map(len, rows)) if len(set(map(len, rows))) == 1 else 1
    width = 3.7 if across > 1 else 6.0
    headings = [arr.panel_label(panel) for panel, *_ in panels]
    figure, axes = drawing.grid(
        arr, "Risk against accuracy of the final models", headings, across, width
    )
    names = [risk for row in rows for risk in row]
    band = False
    constant = False
    attacked = [risk for risk in names if not metric(risk).protects]
    undominated = {
        risk: fronts(arr.results, (risk, accuracy_of(arr.results, risk))) for risk in attacked
    }
    for ax, (panel, risk, _) in zip(axes, panels, strict=True):
        band |= _panel(ax, arr, panel, risk)
        constant |= _constant(ax, arr, panel, risk)
        _front(ax, arr, panel, undominated.get(risk, []))
    drawing.same_scale(axes, [row for *_, row in panels])
    every = [front for of_risk in undominated.values() for front in of_risk]
    rings = [
        drawing.stroke(words, **RING | style) for words, style, of in RINGS if any(map(of, every))
    ]
    chance = drawing.chance_handles(arr, names) + [drawing.stroke(**BAND)] * band
    chance += [drawing.stroke(**CONSTANT)] if constant else []
    return drawing.legend(figure, [*_handles(arr), *rings, *chance], _note(arr, names))


def told_apart(arr: Arrangement) -> Arrangement:
    """The layout in which each setting of a panel has a color and a marker of its own."""
    methods = by_method(arr)
    if set(PAIR) <= set(
        methods.hue
    ):  # the literature has a name and this project a color for each pair
        return methods
    if arr.axis != arr.hue and len(arr.positions) > len(MARKERS):
        return replace(arr, axis=(), facets=(*arr.facets, *arr.axis))
    return arr


def _panel(ax: Axes, arr: Arrangement, panel: Point, risk: str) -> bool:
    """Draw the settings of a panel; return whether the value by chance differs between its runs,
    so that it is a band.
    """
    accuracy = accuracy_of(arr.results, risk)
    cells = [
        (at, hue, cell)
        for of, at, hue, cell in arr.cells()
        if of == panel and repetitions(cell, accuracy, risk)
    ]
    guessed = drawing.chances([trial for *_, cell in cells for trial in cell.trials], risk)
    if guessed:
        ax.axhline(sum(guessed) / len(guessed), **drawing.REFERENCE)
        ax.axhspan(
            min(guessed),
            max(guessed),
            color=BAND["color"],
            alpha=BAND["alpha"],
            linewidth=0,
            zorder=0,
        )
    cells.sort(key=lambda place: arr.hues.index(place[1]))  # as marks lie above each other
    for (at, hue, cell), larger in zip(
        cells, _around([cell for *_, cell in cells], accuracy, risk), strict=True
    ):
        points = list(repetitions(cell, accuracy, risk).values())
        place = arr.hues.index(hue)
        style: dict[str, Any] = arr.look(hue) | {"linestyle": "none", "zorder": 4 + place / 10}
        style |= {"marker": MARKERS[arr.positions.index(at)]} if _by_shape(arr) else {}
        edge: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.5}
        if min(len(points), cell.repetitions) < FEWEST:
            ax.plot(
                *zip(*points, strict=True),
                markersize=7 + larger,
                alpha=0.9,
                clip_on=False,
                **style | edge,
            )
            continue
        pale = style | {"markersize": 4, "alpha": 0.3, "markeredgewidth": 0, "zorder": 2}
        ax.plot(*zip(*points, strict=True), **pale)
        x = cell.estimate(accuracy)
        y = cell.estimate(risk)
        style |= {
            "xerr": [[x.mean - x.low], [x.high - x.mean]],
            "yerr": [[y.mean - y.low], [y.high - y.mean]],
        }
        style |= {"markersize": max(LARGEST - STEP * place, SMALLEST) + larger}
        ax.errorbar([x.mean], [y.mean], elinewidth=1, capsize=2, **style | edge)
    if arr.ordered and len(arr.positions) > 1:
        for hue in arr.hues:
            line = [cell for _, of, cell in cells if of == hue if cell.repetitions != 2]
            means = [[cell.estimate(name).mean for cell in line] for name in (accuracy, risk)]
            ax.plot(*means, color=arr.look(hue)["color"], linewidth=1, alpha=0.6, zorder=1)
    if metric(risk).protects:
        ax.set_yscale("log")
    ax.margins(x=0.08, y=0.12)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=5))
    label = metric(risk).label + ("" if metric(risk).protects else " (fraction)")
    ax.set_xlabel(f"{full_label(accuracy)} (fraction), better →", fontsize=drawing.BODY)
    ax.set_ylabel(
        textwrap.fill(f"← better, {label}", int(drawing.HEIGHT * drawing.PER_INCH)),
        fontsize=drawing.BODY,
    )
    return bool(guessed) and max(guessed) - min(guessed) > 1e-9


def _constant(ax: Axes, arr: Arrangement, panel: Point, risk: str) -> bool:
    """Draw the accuracy of a constant answer if it lies near the settings of a panel; return
    whether it does.
    """
    accuracy = accuracy_of(arr.results, risk)
    trials = [trial for of, *_, cell in arr.cells() if of == panel for trial in cell.trials]
    reached = drawing.chances(trials, accuracy)
    if not reached:
        return False
    level = sum(reached) / len(reached)
    left, right = ax.get_xlim()
    near = left - (right - left) < level < right
    if near:
        ax.axvline(level, **CONSTANT)
    return near


def _around(cells: list[Setting], accuracy: str, risk: str) -> list[int]:
    """By how many points the mark of each setting is larger, so that it is seen around those at
    its place that lie above.
    """
    spots = [
        {(round(x, 9), round(y, 9)) for x, y in repetitions(cell, accuracy, risk).values()}
        for cell in cells
    ]
    return [
        3 * sum(not spot.isdisjoint(above) for above in spots[i + 1 :])
        for i, spot in enumerate(spots)
    ]


def _front(ax: Axes, arr: Arrangement, panel: Point, undominated: list[Front]) -> None:
    """Put a ring around the settings of which none is better in both, and join those of which
    that is sure.
    """
    here = {trial["id"] for of, *_, cell in arr.cells() if of == panel for trial in cell.trials}
    for front in undominated:
        for _, style, of in RINGS:
            settings = [
                setting
                for setting in of(front)
                if here & {trial["id"] for trial in setting.finished}
            ]
            means = [
                (s.estimate(front.accuracy).mean, s.estimate(front.risk).mean) for s in settings
            ]
            for mean in means:
                ax.plot(*mean, **RING | style | {"zorder": 3})
            if of(front) == front.sure and len(means) > 1:
                ax.plot(
                    *zip(*sorted(means), strict=True), color=drawing.GRAY, linewidth=1, zorder=1.5
                )


def _by_shape(arr: Arrangement) -> bool:
    """Whether positions are told apart by their marker."""
    return arr.axis != arr.hue and len(arr.positions) > 1


def _handles(arr: Arrangement) -> list[Any]:
    """A color for each method and, if markers tell positions apart, a marker for each position."""
    mark = PATCH | {"marker": ""} if _by_shape(arr) else {"linestyle": "none"}
    methods = [drawing.stroke(arr.hue_label(hue), **arr.look(hue) | mark) for hue in arr.hues]
    positions = arr.positions if _by_shape(arr) else ()
    look: dict[str, Any] = {"color": drawing.GRAY, "linestyle": "none"}
    return methods + [
        drawing.stroke(arr.heading((), at), marker=MARKERS[i], **look)
        for i, at in enumerate(positions)
    ]


def _note(arr: Arrangement, names: list[str]) -> str:
    counted = [cell.repetitions for *_, cell in arr.cells()]
    words = drawing.mean_note(counted, "large points", "crosses")
    words += "; pale points: single seeds" * (max(counted) >= FEWEST)
    colored = (
        f"; color{' and line' * arr.ordered}: method, shape: {', '.join(key_labels(arr.axis))}"
    )
    words += colored if _by_shape(arr) else ""
    if drawing.chance_handles(arr, names):
        words += "; a risk below the value by chance is no better than chance"
    pairs = [(accuracy_of(arr.results, risk), risk) for risk in names]
    without = [
        place for *place, cell in arr.cells() if not any(repetitions(cell, *pair) for pair in pairs)
    ]
    lacking = [arr.heading(panel, at if _by_shape(arr) else (), hue) for panel, at, hue in without]
    return words + (
        f"; without such a value: {'; '.join(dict.fromkeys(lacking))}" if lacking else ""
    )
