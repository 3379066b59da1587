"""Marks in a panel: means with intervals, and the value by chance.

One rule for all figures: an interval needs three values (`FEWEST`). Fewer values are drawn themselves, without a mean.
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


def intervals(ax: Axes, arr: Arrangement, panel: Point, metric: str) -> None:
    """Draw the value by chance, and means over seeds with 95 % intervals, connected if the axis is ordered."""
    by_chance(ax, arr, panel, metric)
    found: dict[str, list[tuple[float, list[float]]]] = {text(hue): [] for hue in arr.hues}
    whole = True  # a line is that of one seed, or of the mean over the same seeds
    for x, _, position, hue in places(arr, spread=0.3):
        found[text(hue)].append((x, arr.measured(panel, position, hue, metric)))
        whole = whole and len(found[text(hue)][-1][1]) == len(arr.cell(panel, position, hue))
    for hue in arr.hues:
        style: dict[str, Any] = {"color": arr.palette[text(hue)], "marker": marker(arr, hue)}
        means_with_intervals(
            ax, found[text(hue)], ends_of(metric), linestyle="-" if whole and is_ordered(arr) else "none", **style
        )


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


def mean_note(arr: Arrangement, names: Sequence[str] = (), mean: str = "marks", spread: str = "bars") -> str:
    """How to read means and intervals of the metrics ``names``, depending on how many seeds have them.

    Args:
        arr: the arrangement.
        names: the metrics that are drawn; none: every trial counts.
        mean: the name of the marks of means.
        spread: the name of the marks of intervals.
    """
    fewest, most = seeds(arr, names)
    single = "lines" if mean == "lines" else "points"
    if most < FEWEST:
        return f"{single}: one seed" if most == 1 else f"{single}: single seeds (too few for an interval)"
    few = f"; fewer than three seeds: {single} of single seeds" if fewest < FEWEST else ""
    return f"{mean}: mean over seeds; {spread}: 95 % interval{few}"


def seeds(arr: Arrangement, names: Sequence[str] = ()) -> tuple[int, int]:
    """The smallest and the largest number of trials at a place that has any; with ``names``, of values of one of them.

    Some metrics have a value in a few seeds alone, such as the risk of those who moved where somebody moved.
    """
    cells = [(panel, at, hue) for panel in arr.panels for _, _, at, hue in places(arr)]
    found = [len(arr.cell(*cell)) for cell in cells]
    if names:
        found = [len(arr.measured(*cell, name)) for cell in cells for name in names]
    return min((n for n in found if n), default=1), max(found)
