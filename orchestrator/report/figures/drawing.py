"""Drawing tools of the figures: one grid of panels, one rule for marks, one legend below, and
files.

They use Matplotlib's object interface on the Agg canvas: no window, no global figure, no global
settings. One rule for all figures: an interval needs three values (`FEWEST`). Fewer values are
drawn themselves, without a mean.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Iterable, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal

from algorithms.metrics.statistics import FEWEST, Estimate
from orchestrator.config.metric_names import metric
from orchestrator.report.context import full_label
from orchestrator.report.data import Row, text
from orchestrator.report.figures.arrangement import Arrangement, Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Format = Literal["png", "svg", "pdf"]
FORMATS: tuple[Format, ...] = ("png", "svg", "pdf")
# Ids in an SVG are made from this and the content instead of a random number; fonts are text.
SETTINGS: Any = {
    "svg.hashsalt": "fedpriv",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "pdf.compression": 6,
}
# No date, and not Matplotlib's version, of which the picture does not depend.
UNDATED = {
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
}

GRAY = "#6B6B6B"
REFERENCE: dict[str, Any] = {"color": GRAY, "linestyle": "--", "linewidth": 1.2, "zorder": 1}
# points; 10 points are 17 pixels at the resolution below
BODY = 10
HEADING = 11
TITLE = 13
RESOLUTION = 120  # dots per inch
# of a panel, in inches; narrow where more than three are side by side
WIDTH = 3.4
NARROW = 2.75
HEIGHT = 2.5
IN_A_ROW = 3  # at most so many panels are side by side
LEGEND_LINES = 3  # a figure has room for so many lines below its panels; more make it taller
PER_INCH = 11  # characters of body text in an inch, on average
FREE = (-math.inf, math.inf)
RATES = (-0.02, 1.02)  # the limits of the vertical axis of a rate, even if an interval is wider


def picture(figure: Figure, form: Format = "png") -> bytes:
    """The file of a figure.

    The first call computes the layout, which then stays, so that all forms of a figure look the
    same.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    _take_literally(figure)
    canvas = FigureCanvasAgg(figure)
    file = BytesIO()
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")
    if (
        form == "png"
    ):  # not savefig, which would draw everything a second time to compute the layout
        canvas.print_png(file, metadata={"Software": None})
    else:
        with rc_context(SETTINGS):
            figure.savefig(file, format=form, metadata=UNDATED[form], dpi=figure.dpi)
    return file.getvalue()


def _take_literally(figure: Figure) -> None:
    """Let a ``$`` in a text be one: formulas are only what Matplotlib itself writes, the ticks
    of logarithmic axes.
    """
    from matplotlib.text import Text
    from matplotlib.ticker import LogFormatter

    axes = [axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)]
    powers = [axis for axis in axes if isinstance(axis.get_major_formatter(), LogFormatter)]
    formulas = {label for axis in powers for label in axis.findobj(Text)}
    for text_ in set(figure.findobj(Text)) - formulas:
        text_.set_parse_math(False)


def grid(
    arr: Arrangement,
    title: str,
    headings: Sequence[str],
    across: int = IN_A_ROW,
    width: float | None = None,
) -> tuple[Figure, list[Axes]]:
    """A figure with a title and a panel of ``width`` inches for each heading, at most ``across``
    of them side by side.
    """
    from matplotlib.figure import Figure

    width = width or (WIDTH if across <= IN_A_ROW else NARROW)
    rows = -(-len(headings) // across)
    columns = -(-len(headings) // rows)  # rows are as full as possible
    size = (max(7.2, columns * width + 0.9), rows * (HEIGHT + 0.2) + 1.5)
    figure = Figure(figsize=size, dpi=RESOLUTION, layout="constrained", facecolor="white")
    lines = (title, f"{arr.datasets}, sweep {arr.results.name}")
    figure.suptitle(
        "\n".join(textwrap.fill(line, int(size[0] * PER_INCH * 0.9)) for line in lines),
        fontsize=TITLE,
    )
    figure._suptitle.set(x=0.01, ha="left")  # type: ignore[attr-defined]
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    characters = int((size[0] / columns - 0.5) * PER_INCH * BODY / HEADING)
    for ax, heading in zip(panels, headings, strict=False):
        wrapped = [textwrap.fill(line, characters) for line in heading.split("\n")]
        ax.set_title("\n".join(wrapped), fontsize=HEADING)
        ax.grid(axis="y", color="#E3E3E3", linewidth=0.8)
        ax.set_axisbelow(True)
        ax.margins(y=0.08)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=BODY)
    for ax in panels[len(headings) :]:
        ax.remove()
    return figure, panels[: len(headings)]


def label_axes(axes: Sequence[Axes], x: str, y: str) -> None:
    """Label the horizontal axes of the lowest panels of a grid and the vertical axes of the
    leftmost ones.
    """
    grid: Any = axes[0].get_gridspec()
    for at, ax in enumerate(axes):
        if at + grid.ncols >= len(axes):
            ax.set_xlabel(x, fontsize=BODY)
        if at % grid.ncols == 0:
            ax.set_ylabel(textwrap.fill(y, int(HEIGHT * PER_INCH)), fontsize=BODY)


def legend(figure: Figure, handles: Sequence[Any], note: str) -> Figure:
    """Add one legend below the panels; its title, the note, says how to read the marks."""
    widest = max((len(str(handle.get_label())) for handle in handles), default=1)
    columns = max(1, min(len(handles), int(figure.get_figwidth() / (widest / PER_INCH + 0.55))))
    wrapped = textwrap.wrap(note, int(figure.get_figwidth() * PER_INCH))
    lines = len(wrapped) + -(-len(handles) // columns)
    figure.set_figheight(figure.get_figheight() + 0.21 * max(0, lines - LEGEND_LINES))
    look: dict[str, Any] = {
        "loc": "outside lower center",
        "ncols": columns,
        "frameon": False,
        "fontsize": BODY,
    }
    box = figure.legend(handles=handles, title="\n".join(wrapped), title_fontsize=BODY, **look)
    box.get_title().set(color=GRAY, multialignment="center")
    return figure


def same_scale(
    axes: Sequence[Axes], kinds: Sequence[str], within: tuple[float, float] = FREE
) -> None:
    """Give panels of one kind the same vertical limits, so that they can be compared."""
    for kind in set(kinds):
        alike = [ax for ax, of in zip(axes, kinds, strict=True) if of == kind]
        low = min(ax.get_ylim()[0] for ax in alike)
        high = max(ax.get_ylim()[1] for ax in alike)
        for ax in alike:
            ax.set_ylim(max(within[0], low), min(within[1], high))


def scale(name: str) -> str:
    """What the metrics that share a vertical axis have in common."""
    entry = metric(name)
    chance = name if isinstance(entry.chance, str) else entry.chance
    return text([entry.family, entry.unit or name, entry.direction, chance])


def described(name: str) -> str:
    """A metric with its unit."""
    entry = metric(name)
    return (
        f"{full_label(name)} ({entry.unit})"
        if entry.unit and entry.unit not in entry.label
        else full_label(name)
    )


def stroke(label: str, **style: Any) -> Any:
    """The legend entry of a line with this style."""
    from matplotlib.lines import Line2D

    look: dict[str, Any] = {"color": "black", "linewidth": 1.6, "markersize": 7} | style
    return Line2D([], [], label=label, **look)


def handles(arr: Arrangement, **style: Any) -> list[Any]:
    """The legend entries of the algorithms, with their marks."""
    return [stroke(arr.hue_label(hue), **arr.look(hue) | style) for hue in arr.hues]


def chances(trials: Iterable[Row], name: str) -> list[float]:
    """The value by chance of the metric ``name`` in each of the trials that know it."""
    chance = metric(name).chance
    values = (trial.get(chance) if isinstance(chance, str) else chance for trial in trials)
    return [float(value) for value in values if value is not None]


def chance_handles(arr: Arrangement, names: Iterable[str]) -> list[Any]:
    """The legend entry of the values by chance, with the value if there is only one; nothing if
    none is known.
    """
    values = {round(value, 9) for name in names for value in chances(arr.trials, name)}
    return (
        [stroke(f"by chance ({values.pop():g})" if len(values) == 1 else "by chance", **REFERENCE)]
        if values
        else []
    )


def marks(
    ax: Axes, at: Iterable[tuple[float, Estimate]], connected: bool = False, **style: Any
) -> None:
    """Draw the mean of three or more values with its interval, fewer values as points;
    ``connected`` joins the means.
    """
    places = [(x, mark) for x, mark in at if mark.n]
    many = [(x, mark) for x, mark in places if mark.n >= FEWEST]
    look: dict[str, Any] = {"linewidth": 1.6, "markersize": 6.5, "capsize": 3} | style
    if many:
        spans = [
            [mark.mean - mark.low for _, mark in many],
            [mark.high - mark.mean for _, mark in many],
        ]
        line = "-" if connected and len(many) == len(places) else "none"
        ax.errorbar(
            [x for x, _ in many],
            [mark.mean for _, mark in many],
            yerr=spans,
            linestyle=line,
            **look,
        )
    few = [(x, value) for x, mark in places if mark.n < FEWEST for value in mark.values]
    if few:
        del look["capsize"]
        ax.plot(*zip(*few, strict=True), linestyle="none", alpha=0.85, clip_on=False, **look)


def mean_note(counts: Collection[int], mean: str = "marks", spread: str = "bars") -> str:
    """How to read the marks of means and of their spread, by the numbers of values of all
    places.
    """
    counted = [count for count in counts if count] or [1]
    single = "lines" if mean == "lines" else "points"
    if max(counted) < FEWEST:
        return (
            f"{single}: one seed"
            if max(counted) == 1
            else f"{single}: single seeds (too few for an interval)"
        )
    few = f"; fewer than three seeds: {single} of single seeds" if min(counted) < FEWEST else ""
    return f"{mean}: mean over seeds; {spread}: 95 % interval{few}"


def categories(ax: Axes, arr: Arrangement, width: float) -> None:
    """Set the tick labels at the positions of the axis of a panel of this width, rotated if they
    would overlap.
    """
    labels = [arr.position_label(position) for position in arr.positions]
    ax.set_xticks(range(len(labels)), labels, fontsize=BODY)
    ax.set_xlim(-0.6, len(labels) - 0.4)
    longest = max(len(line) for label in labels for line in label.split("\n"))
    if (longest + 1) / PER_INCH * len(labels) > width - 0.5:
        ax.tick_params(axis="x", labelrotation=90)


def by_chance(ax: Axes, arr: Arrangement, panel: Point, name: str) -> None:
    """Draw the value by chance: one line if it is the same everywhere, else a short line at each
    place.
    """
    places = [(x, chances(arr.cell(panel, at, hue).trials, name)) for x, at, hue in arr.places()]
    means = [(x, sum(values) / len(values)) for x, values in places if values]
    if len({round(mean, 9) for _, mean in means}) == 1:
        ax.axhline(means[0][1], **REFERENCE)
        return
    half = 0.2 if arr.axis == arr.hue else 0.18 / len(arr.hues)
    for x, mean in means:
        ax.hlines(mean, x - half, x + half, **REFERENCE)
