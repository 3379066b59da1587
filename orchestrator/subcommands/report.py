"""``fedpriv report``: write the page, the tables and the figures of a sweep again."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator import FINISHED

if TYPE_CHECKING:
    from orchestrator.report.figures.drawing import Format

HELP = "write the page, the tables and the figures of a sweep, with the published numbers for comparison"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("folder", type=Path, help="RESULTS/<sweep>")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--html", action="store_true", help="write only the page, one HTML file to read, print or send")
    what.add_argument(
        "--figures",
        metavar="FORMATS",
        type=_formats,
        default=("png",),
        help="formats of the figures, such as svg,pdf for a paper; default: png",
    )


def execute(options: argparse.Namespace) -> int:
    """Write the report and print the paths of its files; return the exit code."""
    from orchestrator.report import write_page, write_report

    files = [write_page(options.folder)] if options.html else write_report(options.folder, formats=options.figures)
    print("\n".join(map(str, files)))
    return FINISHED


def _formats(listed: str) -> tuple[Format, ...]:
    """The formats in a list with commas; raises ArgumentTypeError for one that does not exist."""
    from orchestrator.report.figures.drawing import FORMATS

    words = [word.strip().lower() for word in listed.split(",")]
    for word in words:
        if word not in FORMATS:
            raise argparse.ArgumentTypeError(f"{word!r} is none of {', '.join(FORMATS)}")
    return tuple(form for form in FORMATS if form in words)
