"""Marks in a panel: boxes, means with intervals, bars, and the value by chance.

One rule for all figures: an interval needs three values (`FEWEST`), a box five (`FEWEST_IN_BOX`). With fewer values, the
values themselves are drawn as points, without a mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.metric_names import metric
from orchestrator.report.estimate import FEWEST, UNLIMITED, estimate, limits
from orchestrator.report.figures.arrangement import Arrangement, Point
from orchestrator.report.figures.drawing import REFERENCE, marker
from orchestrator.report.values import Row, Value, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Marks = Sequence[tuple[float, Sequence[float]]]  # horizontal coordinates, each with the values of its seeds

FEWEST_IN_BOX = 5  # a box of fewer values has quartiles that are interpolated between two or three points
SINGLE: dict[str, Any] = {"linewidths": 0, "zorder": 3, "alpha": 0.75}


def measured(arr: Arrangement, name: str) -> bool:
    """Whether a final metric has something to show: a value that is not 0 in at least one trial."""
    return any(not is_nothing(trial.get(name)) for trial in arr.trials)


def plain_ticks(ax: Axes, factor: float) -> None:
    """Label two logarithmic axes with plain numbers such as 20 and 50 instead of powers of ten.

    Args:
        ax: the axes.
        factor: how many times the upper limit is the lower one; over many powers of ten, only these have a tick.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    steps = (1, 2, 3, 5) if factor < 100 else (1, 3) if factor < 10_000 else (1,)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(subs=steps, numticks=12))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        axis.set_minor_formatter(NullFormatter())


def is_nothing(value: Value) -> bool:
    """Whether a value is missing or 0, apart from rounding errors. A panel of such values alone is left out."""
    return value is None or abs(float(value)) < 1e-12


def chances(trials: Sequence[Row], name: str) -> list[float]:
    """The value by chance of the metric ``name`` in each of the trials that know it."""
    chance = metric(name).chance
    if not isinstance(chance, str):
        return [] if chance is None else [chance] * len(trials)
    return [float(trial[chance]) for trial in trials if trial.get(chance) is not None]


def by_chance(ax: Axes, arr: Arrangement, panel: Point, name: str, spread: float = 0.3) -> None:
    """Draw the value by chance: one line if it is the same everywhere, else a short line at each place."""
    found = [(x, room, chances(arr.cell(panel, at, hue), name)) for x, room, at, hue in places(arr, spread)]
    means = [(x, room, sum(values) / len(values)) for x, room, values in found if values]
    if len({round(mean, 9) for _, _, mean in means}) == 1:
        ax.axhline(means[0][2], **REFERENCE)
        return
    for x, room, mean in means:
        ax.hlines(mean, x - 0.6 * room, x + 0.6 * room, **REFERENCE)


def places(arr: Arrangement, spread: float = 0.8) -> Iterator[tuple[float, float, Point, Value]]:
    """Yield the horizontal coordinate, available width, position and hue of each algorithm at each position."""
    room = spread / len(arr.hues)
    for i, position in enumerate(arr.positions):
        if arr.axis == (arr.hue,):
            yield float(i), 0.5, position, position[0]
            continue
        for j, hue in enumerate(arr.hues):
            yield i + (j - (len(arr.hues) - 1) / 2) * room, min(room * 0.8, 0.4), position, hue


def boxes(ax: Axes, arr: Arrangement, panel: Point, metric: str) -> None:
    """Draw each seed as a point and, for five or more seeds, a box with their quartiles, range and median."""
    for x, room, position, hue in places(arr):
        values, color = arr.measured(panel, position, hue, metric), arr.palette[text(hue)]
        line = {"color": color, "linewidth": 1.4}
        if len(values) >= FEWEST_IN_BOX:
            ax.boxplot(
                [values],
                positions=[x],
                widths=[room],
                whis=(0, 100),
                manage_ticks=False,
                patch_artist=True,
                boxprops={"facecolor": f"{color}33", "edgecolor": color, "linewidth": 1.4},
                medianprops=line | {"linewidth": 2.4},
                whiskerprops=line,
                capprops=line,
            )
        size = 18 if len(values) >= FEWEST_IN_BOX else 40
        ax.scatter([x] * len(values), values, s=size, color=color, marker=marker(arr, hue), **SINGLE)


def intervals(ax: Axes, arr: Arrangement, panel: Point, metric: str) -> None:
    """Draw the value by chance, and means over seeds with 95 % intervals, connected if the axis is ordered."""
    by_chance(ax, arr, panel, metric)
    found: dict[str, list[tuple[float, list[float]]]] = {text(hue): [] for hue in arr.hues}
    for x, _, position, hue in places(arr, spread=0.3):
        found[text(hue)].append((x, arr.measured(panel, position, hue, metric)))
    for hue in arr.hues:
        style: dict[str, Any] = {"color": arr.palette[text(hue)], "marker": marker(arr, hue)}
        means_with_intervals(
            ax, found[text(hue)], ends_of(metric), linestyle="-" if is_ordered(arr) else "none", **style
        )


def bars(ax: Axes, arr: Arrangement, panel: Point, metric: str) -> None:
    """Draw the value by chance, and means over seeds as bars from 0 with 95 % intervals; few seeds are points."""
    by_chance(ax, arr, panel, metric, spread=0.8)
    lowest = 0.0
    for x, room, position, hue in places(arr):
        values, color = arr.measured(panel, position, hue, metric), arr.palette[text(hue)]
        if len(values) >= FEWEST:
            ax.bar([x], [estimate(values).mean], width=room, color=f"{color}66", edgecolor=color, linewidth=1.4)
        mark = marker(arr, hue) if len(values) < FEWEST else ""
        means_with_intervals(ax, [(x, values)], ends_of(metric), color=color, marker=mark)
        lowest = min([lowest, *values])
    if lowest == 0:
        ax.set_ylim(bottom=0)


def ends_of(name: str) -> tuple[float, float]:
    """The smallest and the largest possible value of a metric, at which its intervals end."""
    return limits(metric(name))


def means_with_intervals(ax: Axes, marks: Marks, ends: tuple[float, float] = UNLIMITED, **style: Any) -> None:
    """Draw the mean of three or more values with its interval, and fewer values as points of their own.

    Args:
        ax: the panel to draw into.
        marks: horizontal coordinates with their values; a coordinate without a value is left out.
        ends: the smallest and the largest possible value, at which intervals end.
        style: of Matplotlib's ``errorbar``. A line style connects the means, or each seed's values where there are few.
    """
    look = {"linewidth": 1.6, "markersize": 6.5} | style
    capsize, connect = look.pop("capsize", 3), look.pop("linestyle", "-")
    marks = [(x, values) for x, values in marks if values]
    many = [(x, estimate(values, ends)) for x, values in marks if len(values) >= FEWEST]
    if many:
        means, spans = (
            [e.mean for _, e in many],
            [[e.mean - e.low for _, e in many], [e.high - e.mean for _, e in many]],
        )
        ax.errorbar([x for x, _ in many], means, yerr=spans, capsize=capsize, linestyle="none", **look)
    few = [(x, value) for x, values in marks if len(values) < FEWEST for value in values]
    if few:
        shape = {"marker": look.get("marker") or "o", "markersize": look["markersize"] - 0.5}
        ax.plot(*zip(*few, strict=True), linestyle="none", alpha=0.85, clip_on=False, **look | shape)
    if connect != "none" and len(marks) > 1:
        line = {"color": look.get("color"), "linestyle": connect, "marker": ""}
        if few and len({len(values) for _, values in marks}) == 1:
            for own in zip(*(values for _, values in marks), strict=True):
                ax.plot([x for x, _ in marks], own, linewidth=1, alpha=0.6, **line)
        elif not few:
            ax.plot([x for x, _ in marks], [e.mean for _, e in many], linewidth=look["linewidth"], **line)


def is_ordered(arr: Arrangement) -> bool:
    """Whether the axis has numbers or ranges and not names, so that a line between positions is meaningful."""
    return bool(arr.axis) and not any(isinstance(value, str) or value is None for p in arr.positions for value in p)


def box_note(arr: Arrangement) -> str:
    """How to read `boxes`, depending on the number of seeds."""
    fewest, most = seeds(arr)
    if most < FEWEST_IN_BOX:
        return "points: single seeds"
    few = " (no box below five seeds)" if fewest < FEWEST_IN_BOX else ""
    return f"boxes: quartiles and range over seeds; thick line: median; points: single seeds{few}"


def mean_note(arr: Arrangement, mean: str = "marks", spread: str = "bars") -> str:
    """How to read means and intervals, depending on the number of seeds; ``mean`` and ``spread`` name their marks."""
    fewest, most = seeds(arr)
    single = "lines" if mean == "lines" else "points"
    if most < FEWEST:
        return f"{single}: one seed" if most == 1 else f"{single}: single seeds (too few for an interval)"
    few = f"; fewer than three seeds: {single} of single seeds" if fewest < FEWEST else ""
    return f"{mean}: mean over seeds; {spread}: 95 % interval{few}"


def seeds(arr: Arrangement) -> tuple[int, int]:
    """The smallest and the largest number of trials at a place that has any."""
    found = [len(arr.cell(panel, at, hue)) for panel in arr.panels for _, _, at, hue in places(arr)]
    return min((n for n in found if n), default=1), max(found)
