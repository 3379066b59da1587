"""``fedpriv report``: write the tables and figures of a sweep again."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "write the tables and figures of a sweep, with the published numbers for comparison"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("folder", type=Path, help="RESULTS/<sweep>")


def execute(options: argparse.Namespace) -> int:
    """Write the report; return the exit code."""
    from orchestrator.commands import report

    return report(options.folder)
