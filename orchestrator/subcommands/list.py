"""``fedpriv list``: all components by slot, or the fields of one of them."""

from __future__ import annotations

import argparse

from orchestrator.exit_codes import FINISHED

HELP = "list the data sets, models, attacks and other components"
OWN_HELP = True  # --help NAME shows a component's fields


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", nargs="?", help="a component whose fields to show")
    parser.add_argument(
        "--help", "-h", nargs="?", const="", dest="asked", help="--help NAME shows the fields of the component, too"
    )
    parser.add_argument("--code", action="append", default=[], help="a folder or file of own components to list, too")


def execute(options: argparse.Namespace) -> int:
    """Print the list; return the exit code."""
    from orchestrator.config.listing import listing
    from orchestrator.config.own_code import install_named

    install_named(options.code)
    print(listing(options.asked or options.name))
    return FINISHED
