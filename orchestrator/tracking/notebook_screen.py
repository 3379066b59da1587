"""The display of a running sweep in a notebook: the live table of `orchestrator.tracking.screen`, as an HTML output.

Rich's own live display needs ipywidgets in a notebook. This one needs nothing but IPython, which every notebook has: one
output is replaced by a newer one every second, and the last one stays in the saved notebook.
"""

from __future__ import annotations

import importlib
import io
import sys
import threading
from collections.abc import Callable
from typing import Any

from rich.console import Console, RenderableType

from orchestrator.tracking.screen import PLAIN_WIDTH, Screen

EVERY = 1.0  # seconds from one output to the next
HEIGHT = 40  # lines that the table may have
# What rich puts around the table; without a background of our own, it follows the notebook's light or dark theme.
FRAME = '<pre style="line-height:1.25;font-family:Menlo,Consolas,monospace;overflow-x:auto">{code}</pre>'


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook; IPython on a terminal is none."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None


def screen_of(total: int) -> Screen:
    """The display for this process: that of a notebook, of a terminal, or plain lines.

    Args:
        total: number of trials that will run.
    """
    return NotebookScreen(total) if in_notebook() else Screen(total)


class NotebookScreen(Screen):
    """A screen whose live table is an output of the notebook's cell; sentences are printed above it."""

    def __init__(self, total: int) -> None:
        """Make a screen for ``total`` trials."""
        # A terminal without colors and cursor: what is printed is plain text, and trials report to the live table alone.
        console = Console(
            width=PLAIN_WIDTH,
            height=HEIGHT,
            force_terminal=True,
            force_jupyter=False,
            color_system=None,
            highlight=False,
        )
        super().__init__(total, console)
        self.cell = CellOutput(self.table)

    def __enter__(self) -> Screen:
        self.cell.start()
        return self

    def stop(self) -> None:
        """End refreshing; the last table stays in the notebook. Again, it does nothing."""
        self.cell.stop()


class CellOutput:
    """An output of a cell that shows what a function returns, drawn anew every second in a thread of its own."""

    def __init__(self, drawn: Callable[[], RenderableType]) -> None:
        """Make an output; nothing is shown before `start`.

        Args:
            drawn: returns what is to be shown now.
        """
        self.drawn = drawn
        self.handle: Any = None  # IPython's, once something is shown
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._refresh, daemon=True)

    def start(self) -> None:
        """Show the first picture and begin to refresh it."""
        display: Any = importlib.import_module("IPython.display").display
        self.handle = display({"text/html": self.html()}, raw=True, display_id=True)
        self.thread.start()

    def stop(self) -> None:
        """End refreshing; the last picture stays. Again, it does nothing."""
        if self.over.is_set():
            return
        self.over.set()
        self.thread.join()
        self.handle.update({"text/html": self.html()}, raw=True)

    def html(self) -> str:
        """What is shown now, as HTML."""
        console = Console(record=True, file=io.StringIO(), width=PLAIN_WIDTH, height=HEIGHT, force_jupyter=False)
        console.print(self.drawn())
        return console.export_html(inline_styles=True, code_format=FRAME)

    def _refresh(self) -> None:
        while not self.over.wait(EVERY):
            self.handle.update({"text/html": self.html()}, raw=True)


__all__ = ["CellOutput", "NotebookScreen", "in_notebook", "screen_of"]
