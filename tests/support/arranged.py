"""Results as the figures see them: read from a folder, or made up, and one figure drawn from
them.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from orchestrator.report.data import Results, read_results, results, rows
from orchestrator.report.figures.arrangement import Arrangement, arrange
from orchestrator.report.figures.catalog import catalog
from orchestrator.report.terminal import summary_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def printed(found: Results, width: int = 200, **given: Any) -> str:
    """The table of results as a terminal shows it."""
    console = Console(width=width, file=io.StringIO(), **given)
    with console.capture() as shown:
        console.print(summary_table(found, width))
    return shown.get()


def read(folder: Path) -> Arrangement:
    """The results in ``folder``."""
    found = arrange(read_results(folder))
    assert found is not None
    return found


def arranged(
    table: list[dict[str, Any]],
    declared: tuple[str, ...] = (),
    configs: list[dict[str, Any]] | None = None,
) -> Arrangement:
    """Finished trials with the columns of ``table``, and the resolved run of each."""
    trials = [{"id": str(i), "status": "finished", "seed": 0, **one} for i, one in enumerate(table)]
    runs = {str(i): run for i, run in enumerate(configs or [])}
    found = arrange(results(Path("made_up"), rows(trials), declared, runs))
    assert found is not None
    return found


def figure(name: str, arr: Arrangement) -> Figure:
    """A figure that there must be."""
    found = catalog()[name](arr)
    assert found is not None
    return found
