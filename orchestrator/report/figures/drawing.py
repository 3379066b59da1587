"""Drawing tools of the figures: panels with a common legend, means with intervals, values by chance, and files.

They use Matplotlib's object interface on the Agg canvas: no window, no global figure, no global settings. One rule for all
figures: an interval needs three values (`FEWEST`). Fewer values are drawn themselves, without a mean.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any, Literal

from orchestrator.metric_names import metric
from orchestrator.report.data import Row, Value, text
from orchestrator.report.figures.arrangement import Arrangement, Point
from orchestrator.report.statistics import FEWEST, UNLIMITED, estimate, limits
from orchestrator.report.vocabulary import setting_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Format = Literal["png", "svg", "pdf"]
FORMATS: tuple[Format, ...] = ("png", "svg", "pdf")
# Ids in an SVG are made from this and the content instead of a random number; fonts are text.
SETTINGS: Any = {"svg.hashsalt": "fedpriv", "svg.fonttype": "none", "pdf.fonttype": 42, "pdf.compression": 6}
# No date, and not Matplotlib's version, of which the picture does not depend.
UNDATED = {
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
}


def save(figure: Figure, file: IO[bytes], form: Format = "png") -> None:
    """Write a figure.

    The first call computes the layout, which then stays, so that all forms of a figure look the same.

    Args:
        figure: the figure.
        file: where to write.
        form: the format.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")
    if form == "png":  # not savefig, which would draw everything a second time to compute the layout
        canvas.print_png(file, metadata={"Software": None})
        return
    with rc_context(SETTINGS):
        figure.savefig(file, format=form, metadata=UNDATED[form], dpi=figure.dpi)


def svg(figure: Figure) -> str:
    """The figure as the text of an SVG file."""
    buffer = BytesIO()
    save(figure, buffer, "svg")
    return buffer.getvalue().decode()


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


def place_label(arr: Arrangement, panel: Point, position: Point) -> str:
    """A position and a panel in words, such as "minority ratio 0.1"."""
    words = arr.position_label(position).replace("\n", ", ") if position and not is_ordered(arr) else ""
    if position and is_ordered(arr):
        words = setting_label(arr.axis, position)
    return ", ".join(filter(None, (words, arr.panel_label(panel))))


def method_heading(arr: Arrangement, panel: Point, hue: Value) -> str:
    """A method and a panel in words."""
    return ", ".join(filter(None, (arr.hue_label(hue), arr.panel_label(panel))))
