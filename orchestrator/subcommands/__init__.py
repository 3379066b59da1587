"""What can be written after ``fedpriv``: one file for each subcommand, with its arguments and what it calls.

A subcommand is a module with ``HELP`` (one line), ``arguments(parser)``, which declares its arguments, and
``execute(options)``, which returns the exit code. ``ORDER`` is the order of ``fedpriv --help``. Such a module imports
what it needs in ``execute``, so that ``fedpriv --help`` answers at once.
"""

from __future__ import annotations

import importlib
from types import ModuleType

ORDER = ("run", "report", "list", "check", "ui")


def subcommands() -> dict[str, ModuleType]:
    """The subcommands by name, in the order of the help."""
    return {name: importlib.import_module(f"{__name__}.{name}") for name in ORDER}
