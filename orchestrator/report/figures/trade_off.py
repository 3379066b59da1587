"""Risk against accuracy, for every sweep with an attack: what a method costs and what it buys, in one picture.

Which risk is shown depends on what the sweep measured, and on what the attacks declare (`Metric.risk`).
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from algorithms.core.metric import CLIENT, MEMBERSHIP, SOURCE, Metric, Risk
from orchestrator.metric_names import metric, metrics
from orchestrator.report.context import full_label
from orchestrator.report.data import Row, text
from orchestrator.report.figures.arrangement import Arrangement, Point, by_method
from orchestrator.report.figures.drawing import (
    BODY,
    GRAY,
    MARKERS,
    PANEL_HEIGHT,
    PER_INCH,
    REFERENCE,
    Sheet,
    blank,
    chances,
    dashed_handle,
    ends_of,
    is_ordered,
    label_row,
    legend,
    marker,
    measured,
    places,
    same_scale,
    seeds,
    stroke,
)
from orchestrator.report.statistics import FEWEST, estimate
from orchestrator.report.vocabulary import PAIR, setting_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Areas of the marks in square points, by color: of marks at the same place, the later is smaller and lies above.
SIZES = (190, 85, 30)
ROOM_FOR_BETTER = 0.22  # the share of a panel's height that is kept free below the points


# Without any attack, the budget of the guarantee, if several settings state one.
EPSILON = "epsilon"
FAMILIES = (MEMBERSHIP, SOURCE, CLIENT)


def trade_off(arr: Arrangement) -> Figure | None:
    """Risk over accuracy: a point for each setting (mean over its seeds, with intervals), a pale point for each seed."""
    from matplotlib.ticker import MaxNLocator

    rows = risks(arr)
    if not rows:
        return None
    arr = _told_apart(arr)
    shown = [risk for row in rows for risk in row]
    sheet = Sheet("Risk against accuracy of the final models", _note(arr, shown), _extra(arr, shown))
    columns = max(map(len, rows))
    lines = [(panel, row) for row in rows for panel in arr.panels]
    figure, axes = blank(arr, sheet, len(lines), columns, 3.9, shared="row" if columns > 1 else "none")
    for line, (panel, row) in zip(axes, lines, strict=True):
        for ax, risk in zip(line, row, strict=False):
            _panel(ax, arr, panel, risk)
            ax.xaxis.set_major_locator(MaxNLocator(nbins=5))
        for ax in line[len(row) :]:
            ax.set_visible(False)
        label_row(line[: len(row)], line[0].get_ylabel(), arr.panel_label(panel))
    same_scale(axes, [row[0] for _, row in lines], (-math.inf, math.inf))
    for line, (_, row) in zip(axes, lines, strict=True):
        _better(line[: len(row)], row[0] == EPSILON)
    legend(figure, _handles(arr), sheet)
    return figure


def risks(arr: Arrangement) -> list[tuple[str, ...]]:
    """The risks that a sweep measured, the strongest kind of attack first; those of one kind are side by side.

    Of each kind the first counts that was measured, in the order that the attacks declare. In a family of attacks without
    any declared risk, it is the first fraction of which less is better.
    """
    known = [one for one in metrics().values() if one.risk and one.risk.rank is not None and measured(arr, one.name)]
    first: dict[str, Metric] = {}
    for one in sorted(known, key=lambda one: one.risk.rank if one.risk and one.risk.rank else 0):
        first.setdefault(one.risk.kind if one.risk and one.risk.kind else one.name, one)
    rows: list[tuple[str, ...]] = []
    for one in first.values():
        own = dict.fromkeys((one.name, *(one.risk.beside if one.risk else ())))
        new = [name for name in own if not any(name in row for row in rows)]
        rows.append(tuple(name for name in new if measured(arr, name) and accuracy_of(arr, name)))
    seen = {metric(row[0]).family for row in rows if row}
    for family in FAMILIES:
        other = [metric(name) for name in arr.results.metrics if metric(name).family == family and family not in seen]
        bad = [one.name for one in other if (one.direction, one.unit) == ("lower", "fraction")]
        rows.append(tuple([name for name in bad if measured(arr, name) and accuracy_of(arr, name)][:1]))
    if not any(rows) and accuracy_of(arr, EPSILON):
        stating = [trials for *_, trials in _settings(arr) if any(t.get(EPSILON) is not None for t in trials)]
        rows = [(EPSILON,)] if len(stating) > 1 else []
    return [row for row in rows if row]


def accuracy_of(arr: Arrangement, name: str) -> str:
    """The metric of the accuracy that belongs to a risk: the first measured one; empty if there is none."""
    return next((one for one in accuracies(name) if measured(arr, one)), "")


def accuracies(name: str) -> tuple[str, ...]:
    """The metrics of accuracy that may belong to the risk ``name``."""
    return (metric(name).risk or Risk("", accuracies=("aggregated_accuracy", "accuracy"))).accuracies


def _told_apart(arr: Arrangement) -> Arrangement:
    """The layout in which each setting of a panel has a color and a shape of its own."""
    alone = by_method(arr)
    if set(PAIR) <= set(alone.joined):  # the literature has a name and this project a color for each pair
        return alone
    if arr.axis != (arr.hue,) and len(arr.positions) > len(MARKERS):
        return replace(arr, axis=(), facets=(*arr.facets, *arr.axis))
    return arr


def _settings(arr: Arrangement) -> list[tuple[Point, Point, Any, list[Row]]]:
    """Panel, position, hue and trials of each setting."""
    return [(panel, at, hue, arr.cell(panel, at, hue)) for panel in arr.panels for _, _, at, hue in places(arr)]


def _pairs(arr: Arrangement, risk: str, trials: list[Row]) -> list[tuple[float, float]]:
    """Accuracy and risk of each trial that has both."""
    name = accuracy_of(arr, risk)
    found = [(trial.get(name), trial.get(risk)) for trial in trials]
    return [(float(x), float(y)) for x, y in found if x is not None and y is not None]


def _panel(ax: Axes, arr: Arrangement, panel: Point, risk: str) -> None:
    _chance(ax, [trial for at, _, _, trials in _settings(arr) if at == panel for trial in trials], risk)
    middles: dict[str, list[tuple[float, float]]] = {}
    for at, position, hue, trials in _settings(arr):
        found = _pairs(arr, risk, trials) if at == panel else []
        if not found:
            continue
        x, y = [x for x, _ in found], [y for _, y in found]
        mean = (sum(x) / len(x), sum(y) / len(y))
        middles.setdefault(text(hue), []).append(mean if len(found) >= FEWEST or len(found) == 1 else (math.nan,) * 2)
        style: dict[str, Any] = {"color": arr.palette[text(hue)], "marker": _shape(arr, position, hue), "linewidths": 0}
        place = [text(one) for one in arr.hues].index(text(hue))
        size, above = SIZES[min(place, len(SIZES) - 1)], place / (10 * len(arr.hues))
        if len(found) < FEWEST:
            ax.scatter(x, y, s=0.6 * size, alpha=0.9, zorder=4 + above, **style)
        else:
            ax.scatter(x, y, s=22, alpha=0.3, zorder=2, **style)
            _interval(ax, (x, y), (accuracy_of(arr, risk), risk), arr.palette[text(hue)])
            white = {"linewidths": 0.8, "edgecolors": "white"}
            ax.scatter([mean[0]], [mean[1]], s=size, zorder=5 + above, **style | white)
    if is_ordered(arr) and len(arr.positions) > 1:
        for hue, line in middles.items():
            ax.plot(*zip(*line, strict=True), color=arr.palette[hue], linewidth=1, alpha=0.6, zorder=1)
    if risk == EPSILON:
        ax.set_yscale("log")
    ax.margins(x=0.08, y=0.08)
    ax.set_xlabel(f"{full_label(accuracy_of(arr, risk))} (fraction)", fontsize=BODY)
    ax.set_ylabel(
        textwrap.fill(metric(risk).label + ("" if risk == EPSILON else " (fraction)"), int(PANEL_HEIGHT * PER_INCH)),
        fontsize=BODY,
    )


def _interval(ax: Axes, values: tuple[list[float], list[float]], names: tuple[str, str], color: str) -> None:
    """Draw the 95 % intervals of accuracy and risk as a cross at their means."""
    both = [estimate(own, ends_of(name)) for own, name in zip(values, names, strict=True)]
    spans = [[[one.mean - one.low], [one.high - one.mean]] for one in both]
    where: dict[str, Any] = {"xerr": spans[0], "yerr": spans[1], "zorder": 3, "linestyle": "none"}
    ax.errorbar([both[0].mean], [both[1].mean], color=color, elinewidth=1, alpha=0.7, capsize=2, **where)


def _chance(ax: Axes, trials: list[Row], risk: str) -> None:
    """Draw the value by chance: a line at its mean, and a band if it depends on the setting."""
    found = chances(trials, risk)
    if found:
        ax.axhline(sum(found) / len(found), **REFERENCE)
        if max(found) - min(found) > 0.002:
            ax.axhspan(min(found), max(found), color=GRAY, alpha=0.12, linewidth=0, zorder=0)


def _better(line: Any, logarithmic: bool) -> None:
    """Keep the lower edge of a row of panels free, and write there where the good settings are: below, on the right."""
    low, high = line[0].get_ylim()
    if logarithmic:
        line[0].set_ylim(low * (low / high) ** ROOM_FOR_BETTER, high)
    else:
        line[0].set_ylim(low - ROOM_FOR_BETTER * (high - low), high)
    for ax in line:
        arrow = {"arrowstyle": "-|>", "color": GRAY, "linewidth": 1.4, "shrinkA": 1, "shrinkB": 0}
        style: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "axes fraction", "arrowprops": arrow}
        ax.annotate("better", (0.995, 0.015), (0.86, 0.13), ha="right", va="center", color=GRAY, fontsize=BODY, **style)


def _by_shape(arr: Arrangement) -> bool:
    """Whether positions are told apart by shape."""
    return arr.axis != (arr.hue,) and len(arr.positions) > 1


def _shape(arr: Arrangement, position: Point, hue: Any) -> str:
    if not _by_shape(arr):
        return marker(arr, hue)
    return MARKERS[[text(list(at)) for at in arr.positions].index(text(list(position)))]


def _handles(arr: Arrangement) -> list[Any]:
    """The legend entries: a color for each method and, if shape tells positions apart, a shape for each position."""
    shaped = _by_shape(arr)
    look: dict[str, Any] = {"linestyle": "none"}
    found = [
        stroke(
            arr.hue_label(hue),
            color=arr.palette[text(hue)],
            marker="s" if shaped else marker(arr, hue),
            markersize=11 if shaped else 8,
            **look,
        )
        for hue in arr.hues
    ]
    return found + [
        stroke(_words(arr, at), color=GRAY, marker=_shape(arr, at, None), markersize=7, **look)
        for at in (arr.positions if shaped else ())
    ]


def _words(arr: Arrangement, position: Point) -> str:
    """A position in words: components by their label, other values with the name of their key."""
    if all(key.endswith(".name") for key in arr.axis):
        return arr.position_label(position).replace("\n", ", ")
    return setting_label(arr.axis, position)


def _note(arr: Arrangement, shown: list[str]) -> str:
    fewest, most = seeds(arr)
    if most < FEWEST:
        words = "points: one seed" if most == 1 else "points: single seeds (too few for a mean)"
    else:
        words = "large points with crosses: mean over seeds and 95 % intervals; pale points: single seeds"
        words += "; fewer than three seeds: each seed" if fewest < FEWEST else ""
    words += "; a risk below the value by chance is no better than chance" if _extra(arr, shown) else ""
    lacking = []
    for _, at, hue, trials in _settings(arr):
        if trials and not any(_pairs(arr, risk, trials) for risk in shown):
            lacking.append(", ".join(filter(None, (arr.hue_label(hue), _words(arr, at) if _by_shape(arr) else ""))))
    return words + (f"; without such a value: {'; '.join(dict.fromkeys(lacking))}" if lacking else "")


def _extra(arr: Arrangement, shown: list[str]) -> tuple[Any, ...]:
    found = {round(value, 9) for risk in shown for value in chances(arr.trials, risk)}
    return (dashed_handle(f"by chance ({found.pop():g})" if len(found) == 1 else "by chance"),) if found else ()
