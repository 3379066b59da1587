"""The command line of ``fedpriv``: it finds the subcommand and turns errors into sentences and exit codes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from orchestrator.cluster.ray_session import StallError
from orchestrator.config.errors import ConfigError
from orchestrator.exit_codes import INTERRUPTED, REFUSED, SOME_FAILED
from orchestrator.results.folder import WriteError
from orchestrator.subcommands import subcommands


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: the arguments after the program's name; None for those of this process.

    Returns:
        The exit code: 0 if all trials finished, 1 if some did not, 2 if the input was refused, 130 if interrupted.
    """
    options = _parser().parse_args(arguments)
    try:
        return options.command(options)
    except ConfigError as refusal:
        print("\n".join(str(problem) for problem in refusal.problems), file=sys.stderr)
        count = len(refusal.problems)
        print(f"{count} problem{'s' if count > 1 else ''}; nothing was started, nothing was written", file=sys.stderr)
        return REFUSED
    except WriteError as error:
        print(f"{error}; everything saved before is intact, and the same command resumes from there", file=sys.stderr)
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
        description="Measure which clients are exposed to which inference attacks, under which defenses, and at what cost.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, module in subcommands().items():
        command = commands.add_parser(name, help=module.HELP, add_help=not getattr(module, "OWN_HELP", False))
        module.arguments(command)
        command.set_defaults(command=module.execute)
    return parser


if __name__ == "__main__":
    sys.exit(main())
