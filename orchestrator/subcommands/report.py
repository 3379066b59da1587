"""``fedpriv report``: write the page, the tables and the figures of a sweep again."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator import FAILED_IF, FINISHED

if TYPE_CHECKING:
    from orchestrator.report.figures.drawing import Format

FAIL_IF = (
    "exit with code 3 if this holds in any setting, such as 'calibrated_auc_high > 0.6': a "
    "metric of the summary, METRIC_low or METRIC_high for an end of its 95 %% interval (over "
    "runs from three on, else within a run), "
    "METRIC_worst_client; may be repeated"
)
HELP = (
    "write the page, the tables and the figures of a sweep, with the published numbers for "
    "comparison"
)


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
    parser.add_argument("--fail-if", action="append", default=[], metavar="CONDITION", help=FAIL_IF)


def execute(options: argparse.Namespace) -> int:
    """Write the report and print the paths of its files; return the exit code."""
    from datasets.federation import printable
    from orchestrator.config.errors import ConfigError
    from orchestrator.report import write_report
    from orchestrator.report.data import read_results
    from orchestrator.report.gate import conditions, failures, unknown

    asked = conditions(options.fail_if)
    results = read_results(options.folder)
    problems = unknown(asked, results.metrics)
    if problems:
        raise ConfigError(problems)
    say = partial(print, file=sys.stderr)
    files = write_report(options.folder, options.figures, results, say)
    print("\n".join(printable(str(file)) for file in files))
    failing = failures(results, asked)
    for sentence in failing:
        print(sentence)
    return FAILED_IF if failing else FINISHED


def _formats(listed: str) -> tuple[Format, ...]:
    """The formats in a list with commas; raises ArgumentTypeError for one that does not exist."""
    from orchestrator.report.figures.drawing import FORMATS

    words = [word.strip().lower() for word in listed.split(",")]
    for word in words:
        if word not in FORMATS:
            raise argparse.ArgumentTypeError(f"{word!r} is none of {', '.join(FORMATS)}")
    return tuple(form for form in FORMATS if form in words)
