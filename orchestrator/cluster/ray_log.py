"""Ray's own log lines: they go to a file and not over the live table.

Ray's library writes warnings to file descriptor 2 itself, past Python's ``sys.stderr``. For the length of a session the
descriptor leads to a file, and ``sys.stderr`` to what was descriptor 2 before, so our own messages stay visible. (What
Ray's other processes log is in the folder of their session, /tmp/ray/session_latest/logs.)
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

STDERR = 2


@dataclass
class RayLog:
    """The file of one session; ``is_kept``: it stays after the session."""

    path: Path
    is_kept: bool = False

    def keep(self) -> str:
        """Keep the file after the session, because something went wrong.

        Returns:
            Where to read what Ray itself says, to be put after a sentence; empty if it has said nothing.
        """
        with suppress(OSError):  # it is gone, as where old files are deleted
            self.is_kept = self.path.stat().st_size > 0
        return f" (Ray's own messages are in {self.path})" if self.is_kept else ""


@contextmanager
def ray_log() -> Iterator[RayLog]:
    """Send descriptor 2 to a file for as long as the ``with`` lasts.

    Yields:
        The file, which is deleted at the end unless it is to be kept.
    """
    handle, name = tempfile.mkstemp(prefix="fedpriv-ray-", suffix=".log")
    log, before, stream = RayLog(Path(name)), os.dup(STDERR), sys.stderr
    if direct := _is_stderr(stream):
        stream.flush()
        sys.stderr = os.fdopen(os.dup(before), "w", buffering=1, encoding=stream.encoding, errors=stream.errors)
    os.dup2(handle, STDERR)
    try:
        yield log
    finally:
        os.dup2(before, STDERR)
        if direct:
            with suppress(OSError):
                sys.stderr.close()
            sys.stderr = stream
        os.close(before)
        os.close(handle)
        if not log.is_kept:
            with suppress(OSError):
                log.path.unlink()


def _is_stderr(stream: object) -> bool:
    """Whether what is printed to ``stream`` goes to descriptor 2; notebooks and tests have streams of their own."""
    with suppress(OSError, ValueError, AttributeError):
        return bool(stream.fileno() == STDERR)  # type: ignore[attr-defined]
    return False
