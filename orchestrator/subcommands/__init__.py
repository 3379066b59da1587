"""What can be written after ``fedpriv``: one file for each subcommand, with its arguments and what it calls.

A subcommand is a module with ``HELP`` (one line), ``arguments(parser)``, which declares its arguments, and
``execute(options)``, which returns the exit code. ``ORDER`` is the order of ``fedpriv --help``. Such a module imports
what it needs in ``execute``, so that ``fedpriv --help`` answers at once.
"""

from __future__ import annotations

import argparse
import importlib
import platform
from typing import Any

ORDER = ("new", "run", "report", "verdict", "list", "check", "ui", "clean")


class Version(argparse.Action):
    """The option ``--version``, which prints the versions and ends. Nothing is imported or asked before it is given."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print fedpriv's version and commit, then those of Python and of the packages that can change a result."""
        from orchestrator.results.provenance import commit, versions

        numbers = dict(versions())
        print(f"fedpriv {numbers.pop('fedpriv')} ({f'commit {commit()}' if commit() else 'no commit known'})")
        numbers = {"python": platform.python_version(), **{name: numbers[name] for name in sorted(numbers)}}
        print(", ".join(f"{name} {number}" for name, number in numbers.items()))
        parser.exit()


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line; a subcommand's ``execute`` is in its ``command``."""
    whole = argparse.ArgumentParser(
        prog="fedpriv",
        description="Measure which clients are exposed to which inference attacks, under which defenses, and at what cost.",
    )
    whole.add_argument("--version", action=Version, nargs=0, help="show the versions of fedpriv and of what it runs on")
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    for name in ORDER:
        module = importlib.import_module(f"{__name__}.{name}")
        command = commands.add_parser(name, help=module.HELP)
        module.arguments(command)
        command.set_defaults(command=module.execute)
    return whole
