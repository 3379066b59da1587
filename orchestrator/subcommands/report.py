"""``fedpriv report``: write the page, the tables and the figures of a sweep again."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator import FINISHED

if TYPE_CHECKING:
    from orchestrator.report.figures.drawing import Format

HELP = "write the page, the tables and the figures of a sweep, with the published numbers for comparison"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("folder", type=Path, help="RESULTS/<sweep>")
    parser.add_argument(
        "--figures",
        metavar="FORMATS",
        type=_formats,
        default=("png",),
        help="formats of the figures, such as svg,pdf for a paper; default: png",
    )


def execute(options: argparse.Namespace) -> int:
    """Write the report and print the paths of its files; return the exit code."""
    from datasets.federation import printable
    from orchestrator.report import write_report

    say = partial(print, file=sys.stderr)
    files = write_report(options.folder, formats=options.figures, say=say)
    print("\n".join(printable(str(file)) for file in files))
    return FINISHED


def _formats(listed: str) -> tuple[Format, ...]:
    """The formats in a list with commas; raises ArgumentTypeError for one that does not exist."""
    from orchestrator.report.figures.drawing import FORMATS

    words = [word.strip().lower() for word in listed.split(",")]
    for word in words:
        if word not in FORMATS:
            raise argparse.ArgumentTypeError(f"{word!r} is none of {', '.join(FORMATS)}")
    return tuple(form for form in FORMATS if form in words)
