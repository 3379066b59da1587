"""``fedpriv check``: the conformance suite on one component, or whether the files of results are what was written."""

from __future__ import annotations

import argparse

from orchestrator.subcommands import file_name

HELP = "check that a component does what its slot requires, or that no file of results is damaged"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "what",
        type=file_name,
        metavar="NAME|RESULTS[/SWEEP]",
        help="a component, your own or ours; SLOT/NAME, such as model/mlp, if several slots have one of that name; or a "
        "folder with results, whose files are all compared with what was written",
    )
    parser.add_argument("--code", action="append", default=[], help="a folder or file of own components")


def execute(options: argparse.Namespace) -> int:
    """Make all checks and print a line for each; return the exit code."""
    from orchestrator.config.own_code import install_named
    from orchestrator.results.folder_checks import check_folder, results_folder

    if (folder := results_folder(options.what)) is not None:
        return check_folder(folder)
    from orchestrator.checks import check

    install_named(options.code)
    return check(options.what)
