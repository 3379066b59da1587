"""What ``fedpriv --version`` prints."""

from __future__ import annotations

import argparse
import platform
from typing import Any


class Version(argparse.Action):
    """The option ``--version``, which prints the versions and ends. Nothing is imported or asked before it is given."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print the versions and exit with code 0."""
        print(version_text())
        parser.exit()


def version_text() -> str:
    """fedpriv's version and commit, then those of Python and of the packages that can change a result."""
    from orchestrator.results.provenance import commit, versions

    found = dict(versions())
    first = f"fedpriv {found.pop('fedpriv')} ({f'commit {commit()}' if commit() else 'no commit known'})"
    others = {"python": platform.python_version(), **{name: found[name] for name in sorted(found)}}
    return f"{first}\n{', '.join(f'{name} {number}' for name, number in others.items())}"
