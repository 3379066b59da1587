"""The report of a sweep: tables (CSV, Markdown), figures (PNG), and a comparison with published numbers.

Everything is derived from ``RESULTS/<sweep>`` and can be written again at any time; the same input gives the same
bytes. The summary table on the terminal at the end of a run is also made here.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from orchestrator.report.data import NoResultsError, read_results, read_trials
from orchestrator.report.tables.terminal import summary_table
from orchestrator.results.folder import Folder, write_atomically

# Tables that a report has only if there is something to compare.
OPTIONAL = ("attacks.md", "differences.csv", "differences.md", "published.csv", "published.md")

__all__ = ["NoResultsError", "read_trials", "summary_table", "write_report"]


def write_report(folder: Path, published: bool = True) -> list[Path]:
    """Write the report of a sweep to ``folder``/report/.

    Trials that did not finish are counted and listed. A figure is written only if its data exist, a table of differences
    only if there are any, and the comparison with published numbers only if one of them has a counterpart in the sweep;
    what an earlier report had is removed.

    Args:
        folder: the results folder of the sweep.
        published: also compare the measured numbers with the published ones.

    Returns:
        The files, tables first.

    Raises:
        NoResultsError: there are no results.
        WriteError: the report cannot be written.
    """
    from orchestrator.report.figures.catalog import FIGURES, FORMER, figures
    from orchestrator.report.figures.drawing import save
    from orchestrator.report.tables.attacks import attacks_markdown
    from orchestrator.report.tables.comparison import compare, published_csv, published_markdown
    from orchestrator.report.tables.differences import contrasts, differences_csv, differences_markdown
    from orchestrator.report.tables.summary import summary_csv, summary_markdown

    results = read_results(Path(folder))
    paired = contrasts(results)
    texts = {"summary.csv": summary_csv(results), "summary.md": summary_markdown(results, bool(paired))}
    if attacks := attacks_markdown(results):
        texts["attacks.md"] = attacks
    if paired:
        texts |= {"differences.csv": differences_csv(paired), "differences.md": differences_markdown(results, paired)}
    comparison = compare(results) if published else None
    if comparison and comparison.lines:
        texts |= {"published.csv": published_csv(comparison), "published.md": published_markdown(results, comparison)}
    target = Folder(results.folder).report
    for name, content in texts.items():
        write_atomically(target / name, content.encode())
    written = [target / name for name in texts]
    for name, figure in figures(results):
        written.append(target / f"{name}.png")
        write_atomically(written[-1], partial(save, figure))
    figure_files = (f"{name}.png" for name in (*FIGURES, *FORMER))
    for stale in {target / name for name in (*OPTIONAL, *figure_files)}:
        if stale not in written:
            stale.unlink(missing_ok=True)
    return written
