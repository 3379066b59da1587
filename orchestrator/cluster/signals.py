"""Being asked to end: SIGTERM (`kill`, a job scheduler) and SIGHUP (a closed terminal) interrupt
the command as Ctrl-C does.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

ASKED = (signal.SIGTERM, signal.SIGHUP)
SIGNALED = (
    128  # a shell's exit code for a command that a signal has ended, less the signal's number
)


@contextmanager
def heeded() -> Iterator[list[int]]:
    """Be interrupted by SIGTERM and SIGHUP, but for those that are ignored already (``nohup``).

    Yields:
        A list to which the number of the one that comes is added. Outside of the main thread none
        is heeded.
    """
    asked = list[int]()

    def interrupt(number: int, _frame: FrameType | None) -> NoReturn:
        """Interrupt the main thread as Ctrl-C would, once: schedulers and terminals may ask
        again meanwhile.
        """
        asked.append(number)
        for other in ASKED:
            signal.signal(other, signal.SIG_IGN)
        if (
            number == signal.SIGHUP
        ):  # the terminal is gone, and there is work to save: print to nowhere from here on
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for output in (1, 2):
                os.dup2(nowhere, output)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.getsignal(number) for number in ASKED}
    for number, handler in before.items():
        if handler == signal.SIG_DFL:
            signal.signal(number, interrupt)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def own_signals() -> Iterator[None]:
    """Keep this process's handling of signals while Ray is started, which puts its own in place
    of it.

    Ray's processes inherit that SIGHUP is blocked here, as Ray does with SIGINT: when a terminal is
    closed, they do not end before the command has saved its work.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: handler
        for number in ASKED
        if (handler := signal.getsignal(number)) != signal.SIG_DFL
    }
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    except SystemExit:  # Ray's answer to SIGTERM
        handler = before.get(signal.SIGTERM)
        if callable(handler):
            handler(signal.SIGTERM, None)
        raise
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
