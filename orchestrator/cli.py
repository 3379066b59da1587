"""The command line of ``fedpriv``: it finds the subcommand and turns errors into sentences and exit codes."""

from __future__ import annotations

import errno
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress

from orchestrator import INTERRUPTED, REFUSED, SOME_FAILED
from orchestrator.cluster.signals import heeded
from orchestrator.subcommands import parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, by default that of this process.

    Returns:
        The exit code, see `orchestrator`; of what interrupts a run, SIGTERM gives 143 and SIGHUP 129.
    """
    options = parser().parse_args(arguments)
    with heeded() as asked:
        code = _run(options)
        return asked.code(code) if code == INTERRUPTED else code


def _run(options: Namespace) -> int:
    from orchestrator.cluster.address import StallError
    from orchestrator.config.errors import ConfigError
    from orchestrator.results.paths import FolderError
    from orchestrator.results.writing import REFUSALS, WriteError

    try:
        code: int = options.command(options)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except (ConfigError, FolderError) as refusal:
        print(refusal, file=sys.stderr)
        count = len(refusal.problems) if isinstance(refusal, ConfigError) else 1
        print(f"{count} problem{'s' if count > 1 else ''}; nothing was started, nothing was written", file=sys.stderr)
        return REFUSED
    except WriteError as error:
        print(f"{error}; everything saved before is intact, and the same command resumes from there", file=sys.stderr)
        return SOME_FAILED
    except OSError as error:
        if error.errno not in {*REFUSALS, errno.EPIPE, errno.ENAMETOOLONG}:
            raise
        sentence = os.strerror(error.errno or 0).lower()
        if error.filename is not None:
            sentence = f"{os.fsdecode(error.filename)[:200]}: {sentence}"
        else:  # standard output, which Python would try again at the end; of a pipe, nobody reads on
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


if __name__ == "__main__":
    sys.exit(main())
