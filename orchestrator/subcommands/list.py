"""``fedpriv list``: all components by slot, or the fields of one of them; for people, programs
and editors.
"""

from __future__ import annotations

import argparse

from orchestrator import FINISHED

HELP = "list the data sets, models, attacks and other components, and their fields"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add(
        "name",
        nargs="?",
        help=(
            "a component, slot, base, resources, tune, file, or a table: metrics, attacks, "
            "defenses, guarantees"
        ),
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON, for programs")
    form.add_argument(
        "--schema", action="store_true", help="print a JSON schema of sweep files, for editors"
    )
    add(
        "--code",
        action="append",
        default=[],
        help="a folder or file of own components to list, too",
    )


def execute(options: argparse.Namespace) -> int:
    """Print the list; return the exit code."""
    import json

    from orchestrator.config.listing import TABLES, as_data, listing, sweep_schema, table
    from orchestrator.config.own_code import install_named

    install_named(options.code)
    if options.schema or options.json:
        content = sweep_schema() if options.schema else as_data(options.name)
        print(json.dumps(content, indent=2))  # in ASCII, which every terminal has
    elif options.name == "metrics":
        from orchestrator.config.metric_names import page

        print(page())
    elif options.name in TABLES:
        print(table(options.name))
    else:
        print(listing(options.name))
    return FINISHED
