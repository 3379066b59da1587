"""The command ``fedpriv``: run, report, list, ui."""

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
    """Run the command line; returns the exit code: 0 all finished, 1 some trial did not, 2 refused, 130 interrupted."""
    options = _parser().parse_args(arguments)
    try:
        return options.command(options)
    except ConfigError as refusal:
        print("\n".join(str(problem) for problem in refusal.problems), file=sys.stderr)
        count = len(refusal.problems)
        print(f"{count} problem{'s' if count > 1 else ''}; nothing was started, nothing was written", file=sys.stderr)
        return REFUSED
    except WriteError as error:
        print(f"{error}; what was saved before is whole, and the same command goes on from there", file=sys.stderr)
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
        description="Who in a federation is exposed to which inference attack, under which defense, at what cost in accuracy.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands)
    report = commands.add_parser("report", help="tables and figures of a sweep, published numbers beside measured ones")
    report.add_argument("folder", type=Path, help="RESULTS/<sweep>")
    report.set_defaults(command=_report)
    listing = commands.add_parser("list", add_help=False, help="data sets, models, slots, attacks: one line each")
    listing.add_argument("name", nargs="?", help="a component, to see its fields")
    listing.add_argument("--help", "-h", nargs="?", const="", dest="asked", help="the same: --help NAME")
    listing.set_defaults(command=_list)
    ui = commands.add_parser("ui", help="the MLflow UI on what was run")
    ui.add_argument("results", nargs="?", type=Path, default=Path("results"), help="the results folder (results)")
    ui.add_argument("--host", default="127.0.0.1")
    ui.add_argument("--port", type=int, default=5000)
    ui.set_defaults(command=_ui)
    return parser


def _add_run(commands: argparse._SubParsersAction) -> None:
    run = commands.add_parser("run", help="run a sweep, or go on with it where it stopped")
    run.add_argument("sweep", type=Path, metavar="SWEEP.yaml")
    run.add_argument("--results", type=Path, default=Path("results"), help="where results are kept (results)")
    run.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="sets", help="change the sweep")
    run.add_argument("--address", help="a running Ray cluster; without it, RAY_ADDRESS or this machine")
    run.add_argument(
        "--tracking-uri", help="an MLflow server; without it, MLFLOW_TRACKING_URI or a file beside the results"
    )
    run.add_argument("--dry-run", action="store_true", help="show trials, resources and an estimate, and start nothing")
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
    # MLflow's own address opens on its pages for language models.
    print(f"open http://{options.host}:{options.port}/#/experiments?workflowType=machine_learning", flush=True)
    os.execvpe(argv[0], argv, environment)


if __name__ == "__main__":
    sys.exit(main())
