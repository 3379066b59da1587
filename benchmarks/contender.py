"""A contender: a process of its own that trains a round whenever it is asked
(`contenders/protocol.py`), else waits.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import psutil
from environments import bare_environment

CHECKOUT = Path(__file__).resolve().parent.parent
SCRIPTS = CHECKOUT / "benchmarks" / "contenders"
PATIENCE_SECONDS = 1800.0  # no round of any workload takes nearly as long
SETTLING_SECONDS = 0.5  # in which timers that ran out while a contender was halted have rung


class Failed(Exception):
    """A contender did not answer. The message ends with what it printed last."""


class Contender:
    """A script of ``contenders/``.

    ``python`` is a peer's interpreter; without, ours and our packages. Prints go to ``log``.
    """

    def __init__(
        self,
        name: str,
        script: str,
        arguments: Sequence[str],
        log: Path,
        python: Path | None = None,
    ) -> None:
        self.name, self.log = name, log
        ours = {} if python else {"PYTHONPATH": str(CHECKOUT)}  # Ray's workers inherit it
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as stderr:
            self.process = subprocess.Popen(
                [str(python or sys.executable), str(SCRIPTS / script), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=bare_environment(**ours),
                start_new_session=True,  # Ctrl-C is for the coordinator, which then ends them all
            )
        self.started: set[psutil.Process] = set()
        self._heard = b""

    def ready(self) -> Self:
        """Wait until it is started. Raises Failed."""
        self._answer()
        self.started = self._family()
        return self

    def ask(self, request: str) -> tuple[float, dict[str, Any]]:
        """Send one line and wait for the answer: how long that took, and what it was.

        Raises Failed.
        """
        began = time.perf_counter()
        with suppress(BrokenPipeError):
            self.process.stdin.write(f"{request}\n".encode())
            self.process.stdin.flush()
        answer = self._answer()
        return time.perf_counter() - began, answer

    def halt(self) -> None:
        """Stop it where it is, with all that it started: while others are measured it takes
        nothing of the machine.
        """
        self._each("suspend")

    def wake(self) -> None:
        """Let it go on, and wait until it has come to rest."""
        self._each("resume")
        time.sleep(SETTLING_SECONDS)

    def pids(self) -> list[int]:
        """Its processes, with all that they started."""
        return [process.pid for process in self._family()]

    def stop(self) -> None:
        """Let it end by itself, and end what is left of it."""
        self.started = self._family()
        self._each("resume")
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=20)
        self._each("kill")
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _family(self) -> set[psutil.Process]:
        """Its processes, those included that have lost their parent since they were started."""
        family = set(self.started)
        with suppress(psutil.NoSuchProcess):
            head = psutil.Process(self.process.pid)
            family |= {head, *head.children(recursive=True)}
        return family

    def _each(self, what: str) -> None:
        """Suspend, resume or kill those that are still there."""
        for process in self._family():
            with suppress(psutil.NoSuchProcess):
                getattr(process, what)()

    def _answer(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._heard:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise Failed(
                        f"{self.name} said nothing for {PATIENCE_SECONDS:g} s; {self._last_words()}"
                    )
                piece = os.read(self.process.stdout.fileno(), 65536)
                if not piece:
                    raise Failed(f"{self.name} ended; {self._last_words()}")
                self._heard += piece
        line, _, self._heard = self._heard.partition(b"\n")
        return json.loads(line)

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return f"last in {self.log}: {lines[-1] if lines else 'nothing'}"
