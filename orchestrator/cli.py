"""The command line of ``fedpriv``: it finds the subcommand and turns errors into sentences and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from orchestrator.cluster.ray_session import StallError
from orchestrator.config.errors import ConfigError
from orchestrator.exit_codes import INTERRUPTED, REFUSED, SOME_FAILED
from orchestrator.results.folder import WriteError
from orchestrator.subcommands import parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: the arguments after the program's name; None for those of this process.

    Returns:
        The exit code: 0 if all trials finished, 1 if some did not, 2 if the input was refused, 130 if interrupted.
    """
    options = parser().parse_args(arguments)
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


if __name__ == "__main__":
    sys.exit(main())
