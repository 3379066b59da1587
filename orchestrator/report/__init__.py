"""The report of a sweep: a page (HTML), tables (CSV, Markdown), figures (PNG), and a comparison with published numbers.

Everything is derived from ``RESULTS/<sweep>`` and can be written again at any time; the same input gives the same
bytes. The summary table on the terminal at the end of a run is also made here.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.report.data import NoResultsError, Results, read_results, read_trials
from orchestrator.report.tables.terminal import summary_table
from orchestrator.results.folder import Folder, WriteError, write_atomically
from orchestrator.results.obstacles import report_in_the_way
from orchestrator.results.writing import refusals, remove

if TYPE_CHECKING:
    from orchestrator.report.figures.formats import Format
    from orchestrator.report.tables.comparison import Comparison
    from orchestrator.report.tables.differences import Contrast

# Tables that a report has only if there is something to compare.
OPTIONAL = ("attacks.md", "differences.csv", "differences.md", "published.csv", "published.md")

__all__ = ["NoResultsError", "page_path", "read_trials", "summary_table", "write_page", "write_report"]


def page_path(folder: Path) -> Path:
    """The file of a sweep's page, which has the sweep's name, because it is sent to others."""
    return Folder(Path(folder)).report / f"{Path(folder).name}.html"


def write_report(folder: Path, published: bool = True, formats: Sequence[Format] = ("png",)) -> list[Path]:
    """Write the report of a sweep to ``folder``/report/.

    Trials that did not finish are counted and listed. A figure is written only if its data exist, a table of differences
    only if there are any, and the comparison with published numbers only if one of them has a counterpart in the sweep;
    what an earlier report had is removed.

    Args:
        folder: the results folder of the sweep.
        published: also compare the measured numbers with the published ones.
        formats: the formats of the figures.

    Returns:
        The files: tables, figures, and at last the page.

    Raises:
        NoResultsError: there are no results.
        WriteError: the report cannot be written.
    """
    with _below(Path(folder)) as target:
        return _write_files(read_results(Path(folder)), target, published, formats)


@contextmanager
def _below(folder: Path) -> Iterator[Path]:
    """The folder of a sweep's report, and WriteError for whatever the system refuses there."""
    if problems := report_in_the_way(Folder(folder)):
        raise WriteError(errno.EEXIST, "; ".join(problems))
    with refusals(Folder(folder).report, "could not be written"):
        yield Folder(folder).report


def _write_files(results: Results, target: Path, published: bool, formats: Sequence[Format]) -> list[Path]:
    from orchestrator.report.figures.catalog import FIGURES, FORMER, figures
    from orchestrator.report.figures.formats import FORMATS, save, svg
    from orchestrator.report.page import page
    from orchestrator.report.page_figures import READINGS
    from orchestrator.report.tables.comparison import Comparison, compare
    from orchestrator.report.tables.differences import contrasts

    paired = contrasts(results)
    comparison = compare(results) if published else Comparison((), ())
    texts = _tables(results, paired, comparison)
    for name, content in texts.items():
        write_atomically(target / name, content.encode())
    written, drawings = [target / name for name in texts], {}
    for name, figure in figures(results):
        for form in formats:
            written.append(target / f"{name}.{form}")
            write_atomically(written[-1], partial(save, figure, form=form))
        if name in READINGS:
            drawings[name] = svg(figure)
    write_atomically(page_path(results.folder), page(results, drawings, paired, comparison).encode())
    figure_files = (f"{name}.{form}" for name in (*FIGURES, *FORMER) for form in FORMATS)
    for stale in {target / name for name in (*OPTIONAL, *figure_files)}:
        if stale not in written:
            remove(stale)
    return [*written, page_path(results.folder)]


def write_page(folder: Path) -> Path:
    """Write only the page of a sweep, and return its file. Raises like `write_report`."""
    from orchestrator.report.figures.catalog import figures
    from orchestrator.report.figures.formats import svg
    from orchestrator.report.page import page
    from orchestrator.report.page_figures import READINGS
    from orchestrator.report.tables.comparison import compare
    from orchestrator.report.tables.differences import contrasts

    with _below(Path(folder)):
        results = read_results(Path(folder))
        drawings = {name: svg(figure) for name, figure in figures(results, READINGS)}
        content = page(results, drawings, contrasts(results), compare(results))
        write_atomically(page_path(folder), content.encode())
    return page_path(folder)


def _tables(results: Results, paired: list[Contrast], comparison: Comparison) -> dict[str, str]:
    """The contents of the tables by file name; those without a line are left out, except for the summary."""
    from orchestrator.report.tables.attacks import attacks_markdown
    from orchestrator.report.tables.comparison import published_csv, published_markdown
    from orchestrator.report.tables.differences import differences_csv, differences_markdown
    from orchestrator.report.tables.summary import summary_csv, summary_markdown

    texts = {"summary.csv": summary_csv(results), "summary.md": summary_markdown(results, bool(paired))}
    if attacks := attacks_markdown(results):
        texts["attacks.md"] = attacks
    if paired:
        texts |= {"differences.csv": differences_csv(paired), "differences.md": differences_markdown(results, paired)}
    if comparison.lines:
        texts |= {"published.csv": published_csv(comparison), "published.md": published_markdown(results, comparison)}
    return texts
