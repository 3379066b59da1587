"""What is written on a figure, and whether it can be read."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.text import Text

from orchestrator.report.figures.drawing import picture


def texts(figure: Figure) -> str:
    """Everything that is written on a figure, without its line breaks."""
    return " | ".join(
        " ".join(artist.get_text().split())
        for artist in figure.findobj(Text)
        if isinstance(artist, Text)
    )


def shown(figure: Figure) -> list[Text]:
    """The texts that are drawn: an axis also holds labels of ticks outside of its limits."""
    hidden: set[Text] = set()
    for ax in figure.axes:
        if not ax.get_visible():
            hidden |= {text for text in ax.findobj(Text) if isinstance(text, Text)}
        for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            hidden |= {
                tick.label1 for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high
            }
    found = [text for text in figure.findobj(Text) if isinstance(text, Text) and text not in hidden]
    return [text for text in found if text.get_visible() and text.get_text().strip()]


def unreadable(figure: Figure) -> tuple[list[str], list[tuple[str, str]]]:
    """Texts that leave the figure, and pairs of texts that touch each other."""
    picture(figure)
    spots = [(artist.get_text(), artist.get_window_extent()) for artist in shown(figure)]
    edge = figure.bbox.padded(1)
    outside = [
        w for w, s in spots if s.x0 < edge.x0 or s.x1 > edge.x1 or s.y0 < edge.y0 or s.y1 > edge.y1
    ]
    touching = [
        (v, w) for i, (v, a) in enumerate(spots) for w, b in spots[:i] if a.padded(-1).overlaps(b)
    ]
    return outside, touching
