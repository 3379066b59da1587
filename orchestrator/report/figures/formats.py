"""A figure as a file: PNG for screens, SVG for pages, PDF for papers; equal figures give equal bytes in each of them.

Text stays text: an SVG names its fonts, a PDF holds them as TrueType, so that both can be searched and edited.
"""

from __future__ import annotations

from io import BytesIO
from typing import IO, TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
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
