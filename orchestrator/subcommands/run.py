"""``fedpriv run``: run a sweep, resume it, or only show what would run."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "run a sweep, or resume it where it stopped"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("sweep", type=Path, metavar="SWEEP.yaml")
    parser.add_argument(
        "--results", type=Path, default=Path("results"), help="folder for the results (default: results)"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="sets",
        help="override a value of the sweep file",
    )
    parser.add_argument("--address", help="address of a running Ray cluster (default: RAY_ADDRESS, else this machine)")
    parser.add_argument(
        "--tracking-uri", help="an MLflow server (default: MLFLOW_TRACKING_URI, else a file beside the results)"
    )
    parser.add_argument(
        "--log-models", action="store_true", help="also send each trial's trained models to MLflow, one for each group"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show the trials, resources and estimated time without starting anything"
    )


def execute(options: argparse.Namespace) -> int:
    """Run the sweep; return the exit code."""
    from orchestrator.commands import run

    return run(
        options.sweep,
        options.sets,
        options.results,
        options.address,
        options.tracking_uri,
        dry=options.dry_run,
        with_models=options.log_models,
    )
