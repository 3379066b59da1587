"""``fedpriv run``: run a sweep, resume it, or only show what would run."""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator import FINISHED
from orchestrator.subcommands.report import FAIL_IF

HELP = "run a sweep, or resume it where it stopped"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("sweep", type=Path, metavar="SWEEP.yaml")
    add(
        "--results",
        type=Path,
        default=Path("results"),
        help="folder for the results (default: results)",
    )
    add(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="sets",
        help="override a value of the sweep file",
    )
    add(
        "--address",
        help=(
            "a Ray cluster: HOST:PORT, auto or local (default: RAY_ADDRESS, else the cluster that "
            "`ray start` has started on this machine, else a Ray of its own)"
        ),
    )
    add(
        "--tracking-uri",
        help="an MLflow server (default: MLFLOW_TRACKING_URI, else a file beside the results)",
    )
    add(
        "--print-config",
        action="store_true",
        help="print every trial with all defaults as a sweep file; start nothing",
    )
    add(
        "--log-models",
        action="store_true",
        help="also send each trial's trained models to MLflow, one for each group",
    )
    add(
        "--dry-run",
        action="store_true",
        help="show the trials, resources and estimated time without starting anything",
    )
    add("--fail-if", action="append", default=[], metavar="CONDITION", help=FAIL_IF)
    add(
        "--repeat-changed",
        action="store_true",
        help="run trials again that ran with other code or data than today's",
    )


def execute(options: argparse.Namespace) -> int:
    """Run the sweep; return the exit code."""
    from orchestrator.config.sweep_file import load_sweep, resolved_trials
    from orchestrator.report.gate import conditions

    asked = conditions(options.fail_if)
    sweep = load_sweep(options.sweep, options.sets)
    if options.print_config:
        print(resolved_trials(sweep), end="")
        return FINISHED
    from orchestrator.commands import Choices, run_sweep

    flags = options.dry_run, options.repeat_changed, options.log_models, asked
    return run_sweep(sweep, Choices(options.results, options.address, options.tracking_uri, *flags))
