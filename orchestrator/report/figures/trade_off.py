"""Risk against accuracy, for every sweep with an attack: what a method costs and what it buys, in one picture.

Which risk is shown depends on what the sweep measured: see `RISKS`. A metric that is not listed there is shown if its
component declares it as a fraction of an attack's family of which less is better.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from algorithms.core.metric import CLIENT, MEMBERSHIP, SOURCE
from orchestrator.metric_names import metric
from orchestrator.report.estimate import FEWEST
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
    dashed_handle,
    label_row,
    legend,
    marker,
    same_scale,
    stroke,
)
from orchestrator.report.figures.marks import chances, is_ordered, measured, places, seeds
from orchestrator.report.values import Row, text
from orchestrator.report.vocabulary import PAIR, setting_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROOM_FOR_BETTER = 0.22  # the share of a panel's height that is kept free below the points


@dataclass(frozen=True)
class Risk:
    """A metric of risk and the accuracy that belongs to it.

    Attributes:
        name: the metric of risk.
        label: the label of the vertical axis.
        accuracies: the metrics of accuracy, of which the first that was measured is the horizontal axis.
        logarithmic: whether the vertical axis is.
    """

    name: str
    label: str
    accuracies: tuple[str, ...] = ("accuracy", "aggregated_accuracy")
    logarithmic: bool = False


FEDMIA = Risk("fedmia_auc", "FedMIA on the updates, AUC")
# By kind of attack, with its family of metrics: the risks shown side by side are the first line whose first was measured.
# Calibrated attacks come first, because those without calibration find less.
RISKS: tuple[tuple[str, tuple[tuple[Risk, ...], ...]], ...] = (
    (
        MEMBERSHIP,
        (
            (
                Risk("calibrated_auc_minority", "calibrated attack, AUC, minority clients", ("accuracy_minority",)),
                Risk("calibrated_auc_majority", "calibrated attack, AUC, majority clients", ("accuracy_majority",)),
                FEDMIA,
            ),
            (Risk("calibrated_auc", "calibrated attack on the models, AUC"), FEDMIA),
            (
                Risk("risk_minority", "attack accuracy, minority clients", ("accuracy_minority",)),
                Risk("risk_majority", "attack accuracy, majority clients", ("accuracy_majority",)),
                Risk("risk_worst_client", "attack accuracy, worst client"),
            ),
            (
                Risk("mia_accuracy_minority", "attack accuracy, minority model", ("model_accuracy_minority",)),
                Risk("mia_accuracy_majority", "attack accuracy, majority model", ("model_accuracy_majority",)),
            ),
            (
                Risk("mia_accuracy_worst", "attack accuracy, worst model"),
                Risk("mia_auc_worst", "attack AUC, worst model"),
            ),
            (Risk("mia_accuracy_global", "attack accuracy, global model"),),
        ),
    ),
    (MEMBERSHIP, ((FEDMIA,),)),
    (MEMBERSHIP, ((Risk("whitebox_accuracy", "white-box attack, mean accuracy"),),)),
    (
        SOURCE,
        (
            (
                Risk("sia_mean", "source inference, mean accuracy"),
                Risk("eod", "source inference, most minus least exposed client"),
            ),
        ),
    ),
    (CLIENT, ((Risk("cia_advantage", "client inference, |2 AUC - 1|", ("aggregated_accuracy", "accuracy")),),)),
)
# Without any attack, the budget of the guarantee, if several settings state one.
EPSILON = Risk("epsilon", "epsilon of the guarantee", ("aggregated_accuracy", "accuracy"), logarithmic=True)


def trade_off(arr: Arrangement) -> Figure | None:
    """Risk over accuracy: a point for each setting (mean over its seeds), a pale point for each seed."""
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
    same_scale(axes, [row[0].name for _, row in lines], (-math.inf, math.inf))
    for line, (_, row) in zip(axes, lines, strict=True):
        _better(line[: len(row)], row[0].logarithmic)
    legend(figure, [*_colors(arr), *_shapes(arr)], sheet)
    return figure


def risks(arr: Arrangement) -> list[tuple[Risk, ...]]:
    """The risks that a sweep measured, side by side for each kind of attack; empty if it measured none."""
    rows, seen = list[tuple[Risk, ...]](), set()
    for family, lines in RISKS:
        line = next((line for line in lines if measured(arr, line[0].name)), ())
        new = [risk for risk in line if not any(risk in row for row in rows)]
        rows.append(tuple(risk for risk in new if measured(arr, risk.name) and _accuracy(arr, risk)))
        seen |= {family} if rows[-1] else set()
    for family in dict.fromkeys(family for family, _ in RISKS if family not in seen):
        other = [metric(name) for name in arr.results.metrics if metric(name).family == family and measured(arr, name)]
        bad = [Risk(one.name, one.label) for one in other if (one.direction, one.unit) == ("lower", "fraction")]
        rows.append(tuple(risk for risk in bad[:1] if _accuracy(arr, risk)))
    if not any(rows) and _accuracy(arr, EPSILON):
        stating = [trials for *_, trials in _settings(arr) if any(t.get("epsilon") is not None for t in trials)]
        rows = [(EPSILON,)] if len(stating) > 1 else []
    return [row for row in rows if row]


def _accuracy(arr: Arrangement, risk: Risk) -> str:
    return next((name for name in risk.accuracies if measured(arr, name)), "")


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


def _pairs(arr: Arrangement, risk: Risk, trials: list[Row]) -> list[tuple[float, float]]:
    """Accuracy and risk of each trial that has both."""
    name = _accuracy(arr, risk)
    found = [(trial.get(name), trial.get(risk.name)) for trial in trials]
    return [(float(x), float(y)) for x, y in found if x is not None and y is not None]


def _panel(ax: Axes, arr: Arrangement, panel: Point, risk: Risk) -> None:
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
        if len(found) < FEWEST:
            ax.scatter(x, y, s=48, alpha=0.9, zorder=4, **style)
        else:
            ax.scatter(x, y, s=22, alpha=0.3, zorder=2, **style)
            ax.scatter([mean[0]], [mean[1]], s=80, zorder=5, **style | {"linewidths": 0.8, "edgecolors": "white"})
    if is_ordered(arr) and len(arr.positions) > 1:
        for hue, line in middles.items():
            ax.plot(*zip(*line, strict=True), color=arr.palette[hue], linewidth=1, alpha=0.6, zorder=1)
    if risk.logarithmic:
        ax.set_yscale("log")
    ax.margins(x=0.08, y=0.08)
    label = metric(_accuracy(arr, risk)).label
    ax.set_xlabel(f"{label if 'accuracy' in label else f'accuracy, {label}'} (fraction)", fontsize=BODY)
    ax.set_ylabel(_wrapped(risk.label + ("" if risk.logarithmic else " (fraction)")), fontsize=BODY)


def _chance(ax: Axes, trials: list[Row], risk: Risk) -> None:
    """Draw the value by chance: a line at its mean, and a band if it depends on the setting."""
    found = chances(trials, risk.name)
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


def _shape(arr: Arrangement, position: Point, hue: Any) -> str:
    if arr.axis == (arr.hue,) or len(arr.positions) < 2:
        return marker(arr, hue)
    return MARKERS[[text(list(at)) for at in arr.positions].index(text(list(position)))]


def _colors(arr: Arrangement) -> list[Any]:
    """The legend entries of the colors; the shape is that of the points only if all points of the color have it."""
    shapes = [marker(arr, hue) if not _shapes(arr) else "s" for hue in arr.hues]
    return [
        stroke(arr.hue_label(hue), color=arr.palette[text(hue)], marker=shape, linestyle="none", markersize=size)
        for hue, shape in zip(arr.hues, shapes, strict=True)
        for size in ([8] if not _shapes(arr) else [11])
    ]


def _shapes(arr: Arrangement) -> list[Any]:
    """The legend entries of the positions, if they are told apart by shape."""
    if arr.axis == (arr.hue,) or len(arr.positions) < 2:
        return []
    marks = [(position, _shape(arr, position, None)) for position in arr.positions]
    labels = [_words(arr, position) for position, _ in marks]
    return [
        stroke(label, color=GRAY, marker=shape, linestyle="none", markersize=7)
        for label, (_, shape) in zip(labels, marks, strict=True)
    ]


def _words(arr: Arrangement, position: Point) -> str:
    """A position in words: components by their label, other values with the name of their key."""
    if all(key.endswith(".name") for key in arr.axis):
        return arr.position_label(position).replace("\n", ", ")
    return setting_label(arr.axis, position)


def _note(arr: Arrangement, shown: list[Risk]) -> str:
    fewest, most = seeds(arr)
    if most < FEWEST:
        words = "points: one seed" if most == 1 else "points: single seeds (too few for a mean)"
    else:
        words = "large points: mean over seeds; pale points: single seeds"
        words += "; fewer than three seeds: each seed" if fewest < FEWEST else ""
    words += "; a risk below the value by chance is no better than chance" if _extra(arr, shown) else ""
    lacking = [_of(arr, at, hue) for _, at, hue, trials in _settings(arr) if trials and not _any(arr, shown, trials)]
    return words + (f"; without such a value: {'; '.join(dict.fromkeys(lacking))}" if lacking else "")


def _any(arr: Arrangement, shown: list[Risk], trials: list[Row]) -> bool:
    return any(_pairs(arr, risk, trials) for risk in shown)


def _of(arr: Arrangement, position: Point, hue: Any) -> str:
    words = "" if arr.axis == (arr.hue,) or len(arr.positions) < 2 else _words(arr, position)
    return ", ".join(filter(None, (arr.hue_label(hue), words)))


def _extra(arr: Arrangement, shown: list[Risk]) -> tuple[Any, ...]:
    found = {round(value, 9) for risk in shown for value in chances(arr.trials, risk.name)}
    return (dashed_handle(f"by chance ({found.pop():g})" if len(found) == 1 else "by chance"),) if found else ()


def _wrapped(label: str) -> str:
    return textwrap.fill(label, int(PANEL_HEIGHT * PER_INCH))
