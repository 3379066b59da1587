"""The command line of ``fedpriv``: it finds the subcommand and turns errors into sentences and
exit codes.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import os
import platform
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from orchestrator import INTERRUPTED, REFUSED, SOME_FAILED
from orchestrator.cluster.signals import SIGNALED, heeded

# In the order of ``fedpriv --help``.
ORDER = ("new", "run", "report", "verdict", "list", "check", "ui", "clean")


class Version(argparse.Action):
    """``--version`` prints fedpriv's version and commit, and the versions of Python and of what
    can change a result.
    """

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from orchestrator.results.provenance import commit, versions

        numbers = dict(versions())
        print(
            f"fedpriv {numbers.pop('fedpriv')} "
            f"({f'commit {commit()}' if commit() else 'no commit known'})"
        )
        numbers = {
            "python": platform.python_version(),
            **{name: numbers[name] for name in sorted(numbers)},
        }
        print(", ".join(f"{name} {number}" for name, number in numbers.items()))
        parser.exit()


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line; a subcommand's ``execute`` is in its ``command``."""
    whole = argparse.ArgumentParser(
        prog="fedpriv",
        description=(
            "Measure which clients are exposed to which inference attacks, under which "
            "defenses, and at what cost."
        ),
    )
    whole.add_argument(
        "--version",
        action=Version,
        nargs=0,
        help="show the versions of fedpriv and of what it runs on",
    )
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    for name in ORDER:
        module = importlib.import_module(f"orchestrator.subcommands.{name}")
        command = commands.add_parser(name, help=module.HELP)
        module.arguments(command)
        command.set_defaults(command=module.execute)
    return whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, by default that of this process.

    Returns:
        The exit code, see `orchestrator`; of what interrupts a run, SIGTERM gives 143 and SIGHUP
        129.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="replace")  # a terminal in ASCII lacks some letters
    warnings.simplefilter(
        "ignore", append=True
    )  # of NumPy and torch; PYTHONWARNINGS=default shows them
    options = parser().parse_args(arguments)
    with heeded() as asked:
        code = _run(options)
        return SIGNALED + asked[0] if code == INTERRUPTED and asked else code


def _run(options: argparse.Namespace) -> int:
    from datasets.federation import printed
    from datasets.guard import ComponentError
    from orchestrator.cluster.address import StallError
    from orchestrator.config.errors import ConfigError, amount
    from orchestrator.results.paths import FolderError, require_working_folder
    from orchestrator.results.writing import REFUSALS, WriteError

    try:
        require_working_folder()
        code: int = options.command(options)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except (ConfigError, FolderError, ComponentError) as refusal:
        print(printed(str(refusal)), file=sys.stderr)
        count = len(refusal.problems) if isinstance(refusal, ConfigError) else 1
        print(
            f"{amount(count, 'problem')}; nothing was started, nothing was written", file=sys.stderr
        )
        return REFUSED
    except WriteError as error:
        print(
            f"{error}; everything saved before is intact, and the same command resumes from there",
            file=sys.stderr,
        )
        return SOME_FAILED
    except OSError as error:
        if error.errno not in {*REFUSALS, errno.EPIPE, errno.ENAMETOOLONG}:
            raise
        sentence = os.strerror(error.errno or 0).lower()
        if error.filename is not None:
            sentence = f"{os.fsdecode(error.filename)[:200]}: {sentence}"
        # standard output, which Python would try again at the end; of a pipe, nobody reads on
        else:
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), 1)
            sentence = f"what is printed could not be written: {sentence}"
        print(sentence, file=sys.stderr)
        return REFUSED if error.errno == errno.ENAMETOOLONG else SOME_FAILED
    except StallError as error:
        print(error, file=sys.stderr)
        return SOME_FAILED
    except KeyboardInterrupt:
        with suppress(OSError):  # the terminal may be gone
            print("interrupted", file=sys.stderr)
        return INTERRUPTED
