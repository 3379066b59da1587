"""Drawing tools for the figures: a grid of panels with a common legend; what is drawn in a panel is in `marks`.

They use Matplotlib's object interface on the Agg canvas: no window, no global figure, no global settings.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from orchestrator.report.figures.arrangement import Arrangement, Point
from orchestrator.report.values import Value, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
GRAY = "#6B6B6B"
REFERENCE: dict[str, Any] = {"color": GRAY, "linestyle": "--", "linewidth": 1.2, "zorder": 1}
BODY, HEADING, TITLE = 10, 11, 13  # points; 10 points are 17 pixels at the resolution below
RESOLUTION = 120  # dots per inch
PANEL_HEIGHT = 2.5  # inches
IN_A_ROW = 3  # at most so many panels of one kind are side by side
LEGEND_LINES = 3  # a figure has room for so many lines below its panels; more make it taller
PER_INCH = 11  # characters of body text in an inch, on average
TITLE_PER_INCH = 10  # characters of a title in an inch
MOST_NAMED = 16  # with so many clients, a panel has no room for their names
RATES = (-0.02, 1.02)  # the limits of the vertical axis of a rate, even if an interval is wider

Shared = Literal["row", "col", "all", "none"]
Kind = Literal["marker", "line"]
Draw = Callable[["Axes", Arrangement, Point, str], None]


@dataclass(frozen=True)
class PanelRow:
    """A panel with a metric, which has a row of its own.

    Attributes:
        panel: the values of the facets that it shows.
        metric: the metric.
        ylabel: the label of the vertical axis.
        scale: what rows with the same vertical axis have in common.
        label: the facets in words, shown on the right.
    """

    panel: Point
    metric: str
    ylabel: str
    scale: str
    label: str = ""


@dataclass(frozen=True)
class Sheet:
    """The texts of a figure, and the limits of its axes.

    Attributes:
        what: the first line of the title.
        note: how to read the marks; the title of the legend.
        extra: further entries of the legend.
        within: the widest limits of the vertical axes.
    """

    what: str
    note: str
    extra: tuple[Any, ...] = ()
    within: tuple[float, float] = (-math.inf, math.inf)


def grid(arr: Arrangement, sheet: Sheet, rows: Sequence[PanelRow], draw: Draw) -> Figure:
    """A figure with a row for each metric; rows with equal ``scale`` have equal scales.

    Args:
        arr: the layout of the trials.
        sheet: the texts of the figure.
        rows: the rows.
        draw: draws a metric into a panel, such as `marks.intervals`.
    """
    figure, axes = blank(arr, sheet, len(rows), 1, panel_width(arr))
    for (ax,), row in zip(axes, rows, strict=True):
        draw(ax, arr, row.panel, row.metric)
        categories(ax, arr)
        label_row([ax], row.ylabel, row.label)
    same_scale(axes, [row.scale for row in rows], sheet.within)
    label_columns(axes, [""], arr.axis_label)
    legend(figure, algorithm_handles(arr), sheet)
    return figure


def blank(
    arr: Arrangement, sheet: Sheet, rows: int, columns: int, width: float, shared: Shared = "row"
) -> tuple[Figure, Any]:
    """An empty figure with a title, and its axes [rows, columns].

    Args:
        arr: the layout, for the title.
        sheet: the texts of the figure.
        rows: number of rows of panels.
        columns: number of columns of panels.
        width: width of a panel in inches.
        shared: which panels share their vertical axis, as in Matplotlib.
    """
    from matplotlib.figure import Figure

    size = (max(7.2, columns * width + 0.9), rows * PANEL_HEIGHT + 1.6)
    figure = Figure(figsize=size, dpi=RESOLUTION, layout="constrained", facecolor="white")
    title = (sheet.what, f"{arr.datasets}, sweep {arr.results.name}")
    lines = [textwrap.fill(line, int(size[0] * TITLE_PER_INCH)) for line in title]
    figure.suptitle("\n".join(lines), fontsize=TITLE, x=0.01, ha="left")
    axes = figure.subplots(rows, columns, sharey=shared, squeeze=False)
    for ax in axes.flat:
        ax.grid(axis="y", color="#E3E3E3", linewidth=0.8)
        ax.set_axisbelow(True)
        ax.margins(y=0.08)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=BODY)
    return figure, axes


def wrap(
    arr: Arrangement, sheet: Sheet, headings: Sequence[str], xlabel: str, ylabel: str, in_a_row: int = IN_A_ROW
) -> tuple[Figure, Any]:
    """A figure of similar panels, at most ``in_a_row`` side by side, and the panels in order [len(headings)]."""
    columns = min(len(headings), in_a_row)
    rows = -(-len(headings) // columns)
    width = 3.4 if columns <= IN_A_ROW else 2.75
    figure, axes = blank(arr, sheet, rows, columns, width, shared="all")
    for ax, heading in zip(axes.flat, headings, strict=False):
        ax.set_title(textwrap.fill(heading, int((width - 0.5) * PER_INCH)), fontsize=HEADING)
    for i, ax in enumerate(axes.flat):
        ax.set_visible(i < len(headings))
        if i < len(headings) <= i + columns:
            ax.set_xlabel(xlabel, fontsize=BODY)
    for line in axes:
        line[0].set_ylabel(ylabel, fontsize=BODY)
    return figure, axes.flat[: len(headings)]


def panel_width(arr: Arrangement) -> float:
    """The width in inches that a panel needs for its positions, boxes and tick labels."""
    each = 0.5 if arr.axis == (arr.hue,) else 0.3 * len(arr.hues)
    return min(max(3.1, 0.6 + max(each, longest(arr) / PER_INCH + 0.1, 0.55) * len(arr.positions)), 9.0)


def longest(arr: Arrangement) -> int:
    """The number of characters in the longest line of the tick labels."""
    return max(len(line) for position in arr.positions for line in arr.position_label(position).split("\n"))


def categories(ax: Axes, arr: Arrangement) -> None:
    """Set the tick labels at the positions of the axis, rotated if they would overlap."""
    labels = [arr.position_label(position) for position in arr.positions]
    ax.set_xticks(range(len(labels)), labels, fontsize=BODY)
    ax.set_xlim(-0.6, len(labels) - 0.4)
    if (longest(arr) + 1) / PER_INCH * len(labels) > panel_width(arr):
        ax.tick_params(axis="x", labelrotation=35)
        for tick in ax.get_xticklabels():
            tick.set_horizontalalignment("right")


def label_columns(axes: Any, headings: Sequence[str], xlabel: str) -> None:
    """Write headings above the columns and the label of the horizontal axis below them."""
    for column, heading in zip(axes.T, headings, strict=True):
        drawn = [ax for ax in column if ax.get_visible()] or list(column)
        width = drawn[0].get_figure().get_figwidth() / len(headings) - 0.5
        drawn[0].set_title(textwrap.fill(heading, int(width * PER_INCH * BODY / HEADING)), fontsize=HEADING)
        drawn[-1].set_xlabel(xlabel, fontsize=BODY)


def label_row(line: Sequence[Axes], ylabel: str, label: str = "") -> None:
    """Write the label of the vertical axis on the left, and what the row has in common on the right."""
    line[0].set_ylabel(ylabel, fontsize=BODY)
    if label:
        wrapped = textwrap.fill(label, int(PANEL_HEIGHT * PER_INCH * 0.9))
        place: dict[str, Any] = {"xycoords": "axes fraction", "rotation": 270, "ha": "left", "va": "center"}
        place["multialignment"] = "center"
        [ax for ax in line if ax.get_visible()][-1].annotate(wrapped, (1.02, 0.5), fontsize=BODY, **place)


def legend(figure: Figure, handles: Sequence[Any], sheet: Sheet) -> None:
    """Add one legend below the panels; its title says how to read the marks."""
    entries = [*handles, *sheet.extra]
    widest = max((len(str(handle.get_label())) for handle in entries), default=1)
    room = int(figure.get_figwidth() / (widest / PER_INCH + 0.55))
    columns = max(1, min(len(entries), room))
    note = textwrap.wrap(sheet.note, int(figure.get_figwidth() * PER_INCH))
    lines = len(note) + -(-len(entries) // columns)
    figure.set_figheight(figure.get_figheight() + 0.21 * max(0, lines - LEGEND_LINES))
    found = figure.legend(
        handles=entries,
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=BODY,
        title="\n".join(note),
        title_fontsize=BODY,
    )
    found.get_title().set_color(GRAY)
    found.get_title().set_multialignment("center")


def same_scale(axes: Any, kinds: Sequence[str], within: tuple[float, float]) -> None:
    """Give rows of one kind the same vertical limits, so that their panels can be compared."""
    for kind in set(kinds):
        lines = [line for line, of in zip(axes, kinds, strict=True) if of == kind]
        limits = [ax.get_ylim() for line in lines for ax in line if ax.get_visible()]
        for line in lines:
            line[0].set_ylim(
                max(within[0], min(low for low, _ in limits)), min(within[1], max(high for _, high in limits))
            )


def algorithm_handles(arr: Arrangement, kind: Kind = "marker") -> list[Any]:
    """The legend entries of the algorithms, with their marks."""
    shapes = {text(hue): marker(arr, hue) if kind == "marker" else "" for hue in arr.hues}
    look: dict[str, Any] = {"linewidth": 2, "markersize": 7}
    return [
        stroke(arr.hue_label(hue), color=arr.palette[text(hue)], marker=shapes[text(hue)], **look) for hue in arr.hues
    ]


def dashed_handle(label: str) -> Any:
    """The legend entry of a reference line."""
    return stroke(label, **REFERENCE)


def stroke(label: str, **style: Any) -> Any:
    """The legend entry of a line with this style."""
    from matplotlib.lines import Line2D

    look: dict[str, Any] = {"color": "black", "linewidth": 1.6} | style
    return Line2D([], [], label=label, **look)


def marker(arr: Arrangement, hue: Value) -> str:
    """The marker of a color, a second way to distinguish algorithms."""
    return MARKERS[[text(h) for h in arr.hues].index(text(hue)) % len(MARKERS)]
