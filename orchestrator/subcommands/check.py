"""``fedpriv check``: the conformance suite on one component."""

from __future__ import annotations

import argparse

HELP = "check that a component, your own or ours, does what its slot requires"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "name", help="a component; SLOT/NAME, such as model/mlp, if several slots have one of that name"
    )
    parser.add_argument("--code", action="append", default=[], help="a folder or file of own components")


def execute(options: argparse.Namespace) -> int:
    """Make all checks and print a line for each; return the exit code."""
    from orchestrator.checks import check
    from orchestrator.config.own_code import install_named

    install_named(options.code)
    return check(options.name)
