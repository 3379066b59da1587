"""What can be written after ``fedpriv``: a module for each subcommand, with ``HELP``, ``arguments(parser)`` and ``execute``.

``execute(options)`` returns the exit code. It imports what it needs, so that ``fedpriv --help`` answers at once.
"""

from __future__ import annotations

import argparse
import importlib
import platform
from typing import Any

# In the order of ``fedpriv --help``.
ORDER = ("new", "run", "report", "verdict", "list", "check", "ui", "clean")


class Version(argparse.Action):
    """``--version`` prints fedpriv's version and commit, and the versions of Python and of what can change a result."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
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
