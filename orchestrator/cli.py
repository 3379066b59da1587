"""The command line of ``fedpriv`` with its subcommands run, report, list and ui."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from orchestrator.cluster.ray_session import StallError
from orchestrator.config.errors import ConfigError, ConfigProblem
from orchestrator.exit_codes import FINISHED, INTERRUPTED, REFUSED, SOME_FAILED
from orchestrator.results.folder import WriteError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: the arguments after the program's name; None for those of this process.

    Returns:
        The exit code: 0 if all trials finished, 1 if some did not, 2 if the input was refused, 130 if interrupted.
    """
    options = _parser().parse_args(arguments)
    try:
        return options.command(options)
    except ConfigError as refusal:
        print("\n".join(str(problem) for problem in refusal.problems), file=sys.stderr)
        count = len(refusal.problems)
        print(f"{count} problem{'s' if count > 1 else ''}; nothing was started, nothing was written", file=sys.stderr)
        return REFUSED
    except WriteError as error:
        print(f"{error}; everything saved before is intact, and the same command resumes from there", file=sys.stderr)
        return SOME_FAILED
    except StallError as error:
        print(error, file=sys.stderr)
        return SOME_FAILED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fedpriv",
        description="Measure which clients are exposed to which inference attacks, under which defenses, and at what cost.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands)
    report = commands.add_parser(
        "report", help="write the tables and figures of a sweep, with the published numbers for comparison"
    )
    report.add_argument("folder", type=Path, help="RESULTS/<sweep>")
    report.set_defaults(command=_report)
    listing = commands.add_parser(
        "list", add_help=False, help="list the data sets, models, attacks and other components"
    )
    listing.add_argument("name", nargs="?", help="a component whose fields to show")
    listing.add_argument(
        "--help", "-h", nargs="?", const="", dest="asked", help="--help NAME shows the fields of the component, too"
    )
    listing.set_defaults(command=_list)
    ui = commands.add_parser("ui", help="open the results in the MLflow UI")
    ui.add_argument(
        "results", nargs="?", type=Path, default=Path("results"), help="the results folder (default: results)"
    )
    ui.add_argument("--host", default="127.0.0.1")
    ui.add_argument("--port", type=int, default=5000)
    ui.set_defaults(command=_ui)
    return parser


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = commands.add_parser("run", help="run a sweep, or resume it where it stopped")
    run.add_argument("sweep", type=Path, metavar="SWEEP.yaml")
    run.add_argument("--results", type=Path, default=Path("results"), help="folder for the results (default: results)")
    run.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="sets",
        help="override a value of the sweep file",
    )
    run.add_argument("--address", help="address of a running Ray cluster (default: RAY_ADDRESS, else this machine)")
    run.add_argument(
        "--tracking-uri", help="an MLflow server (default: MLFLOW_TRACKING_URI, else a file beside the results)"
    )
    run.add_argument(
        "--dry-run", action="store_true", help="show the trials, resources and estimated time without starting anything"
    )
    run.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from orchestrator.commands import run

    return run(options.sweep, options.sets, options.results, options.address, options.tracking_uri, dry=options.dry_run)


def _report(options: argparse.Namespace) -> int:
    from orchestrator.commands import report

    return report(options.folder)


def _list(options: argparse.Namespace) -> int:
    from orchestrator.config.listing import listing

    print(listing(options.asked or options.name))
    return FINISHED


def _ui(options: argparse.Namespace) -> int:
    from orchestrator.tracking.mlflow_store import TrackingError, ui

    try:
        argv, environment = ui(options.results, options.port, options.host)
    except TrackingError as error:
        raise ConfigError([ConfigProblem(str(error), file="ui")]) from error
    # MLflow's start page shows its features for language models; this address opens the list of experiments.
    print(f"open http://{options.host}:{options.port}/#/experiments?workflowType=machine_learning", flush=True)
    os.execvpe(argv[0], argv, environment)


if __name__ == "__main__":
    sys.exit(main())
