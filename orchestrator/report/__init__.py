"""The report of a sweep: a page (HTML), tables (CSV, Markdown), figures (PNG), and a comparison
with published numbers.

Everything is derived from ``RESULTS/<sweep>`` and can be written again at any time; the same input
gives the same bytes. The summary table on the terminal at the end of a run is also made here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datasets.federation import printable
from orchestrator.config.errors import spared
from orchestrator.config.metric_names import metrics
from orchestrator.report.data import Results, read_results, text
from orchestrator.results.log import DIGEST_BYTES, DamageError, Log, damage_of, read_manifest
from orchestrator.results.paths import Folder
from orchestrator.results.writing import refusals, remove

if TYPE_CHECKING:
    from orchestrator.report.figures.drawing import Format

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # begin what a spreadsheet computes
# What a report depends on besides results: these files of these folders.
CODE = (".py", ".jinja", ".css", ".yaml")
ROOMS = (Path(__file__).parent, Path(__file__).parents[1] / "papers")


def page_path(folder: Path) -> Path:
    """The file of a sweep's page, which has the sweep's name, because it is sent to others."""
    return Folder(Path(folder)).report / f"{printable(Path(folder).name)}.html"


def write_report(
    folder: Path,
    formats: Sequence[Format] = ("png",),
    results: Results | None = None,
    say: Callable[[str], object] = print,
) -> list[Path]:
    """Write the report of a sweep to ``folder``/report/, unless it is there and nothing has
    changed.

    Trials that did not finish are counted and listed. A figure is written only if its data exist, a
    table of differences only if there are any, and the comparison with published numbers only if
    one of them has a counterpart in the sweep; what an earlier report had is removed. The report's
    manifest has a digest of all that it was made from. A figure that cannot be drawn is left out
    and named on the page, and the next report tries it again.

    Args:
        folder: the results folder of the sweep.
        formats: the formats of the figures.
        results: what was read from the folder just now; None: it is read.
        say: is given a sentence for each figure that cannot be drawn.

    Returns:
        The files: tables, figures, and at last the page.

    Raises:
        FolderError: there are no results.
        WriteError: the report cannot be written.
    """
    folder = Path(folder)
    target = Folder(folder).report
    with refusals(target, "could not be written"):
        results = results or read_results(folder)
        formats = sorted(formats)
        inputs = {"inputs": _digest(results), "formats": formats}
        try:
            earlier = read_manifest(target, folder.name)
            if earlier.facts == inputs and damage_of(target, folder.name) is None:
                return [target / name for name in earlier.parts]
        except (FileNotFoundError, DamageError):
            earlier = None
        log = Log(target, folder.name)
        lost: list[str] = []
        for name, content in _contents(results, formats, lost):
            log.append(name, content)
        log.finish({} if lost else inputs)
        for stale in () if earlier is None else earlier.parts.keys() - log.parts.keys():
            remove(target / stale)
        for sentence in lost:
            say(sentence)
        return [target / name for name in log.parts]


def _digest(results: Results) -> str:
    """A digest of all that a report is made from: the sweep, its trials, declared metrics, and
    the report's own code.
    """
    digest = hashlib.blake2b(
        repr((results.name, results.trials, metrics())).encode(), digest_size=DIGEST_BYTES
    )
    for folder in (
        results.folder,
        *(Folder(results.folder).trial(trial["id"]).path for trial in results.trials),
    ):
        with suppress(FileNotFoundError, DamageError):
            digest.update(read_manifest(folder).digest.encode())
    files = [path for room in ROOMS for path in room.rglob("*.*") if path.suffix in CODE]
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _cell(value: Any) -> str:
    """A value as a cell of a table for spreadsheets, where a text that begins like a formula is
    quoted.

    >>> _cell("=1+1"), _cell(-0.5), _cell("ifca")
    ("'=1+1", '-0.5', 'ifca')
    """
    cell = text(value)
    return f"'{cell}" if isinstance(value, str) and cell.startswith(FORMULA) else cell


def _contents(
    results: Results, formats: Sequence[Format], lost: list[str]
) -> Iterator[tuple[str, bytes]]:
    """Names and contents of tables, figures (those of the page without formats) and at last the
    page.

    Tables without a line are left out, except for the summary. ``lost`` gets a sentence for each
    figure that fails.
    """
    from orchestrator.papers.numbers import compare
    from orchestrator.report import summary
    from orchestrator.report.figures.catalog import catalog, figures
    from orchestrator.report.figures.drawing import picture
    from orchestrator.report.frame import contrasts, tidy
    from orchestrator.report.front import fronts
    from orchestrator.report.page import is_shown, page
    from orchestrator.report.published import published_markdown

    paired = contrasts(results)
    compared = compare(results)
    undominated = fronts(results)
    tables = {
        "summary.csv": tidy(results, paired).map(_cell).to_csv(index=False, lineterminator="\n"),
        "summary.md": summary.summary_markdown(results, bool(paired)),
        "attacks.md": summary.attacks_markdown(results),
        "front.md": summary.front_markdown(results, undominated) if undominated else "",
        "differences.md": summary.differences_markdown(results, paired) if paired else "",
        "published.md": published_markdown(results, compared) if compared else "",
    }
    yield from ((name, content.encode()) for name, content in tables.items() if content)
    drawings = {}
    names = [name for name in catalog() if formats or is_shown(name)]
    for name, figure in figures(results, lost.append, names):
        pictures: dict[str, bytes] = {}
        with spared(f"Figure {name}", lost.append):
            pictures = {f"{name}.{form}": picture(figure, form) for form in formats}
            if is_shown(name):
                drawings[name] = picture(figure, "svg").decode()
        yield from pictures.items()
    yield page_path(results.folder).name, page(results, drawings, paired, compared, lost).encode()
