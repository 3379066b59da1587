"""A Ray cluster of several nodes on this machine, as `ray start` makes one: its own ports,
folder and token, nobody else's.

It is stopped by the ids of the processes that it started; `ray stop` would stop every Ray here.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import psutil

from tests.support.command import environment

BIN = Path(
    sys.executable
).parent  # not resolved: in a virtual environment it is a link to another folder
RAY = [sys.executable, "-m", "ray.scripts.scripts"]


class LocalCluster:
    """Nodes that are started with `start` and lost with `lose`, and token authentication."""

    def __init__(self) -> None:
        self.folder = Path(
            tempfile.mkdtemp(prefix="fp", dir="/tmp")
        )  # short: a socket's path has at most 107 letters
        self.port, self.dashboard = free_port(), free_port()
        self.nodes: list[subprocess.Popen[bytes]] = []
        self.variables = environment(
            RAY_AUTH_MODE="token",
            RAY_AUTH_TOKEN=secrets.token_hex(24),
            RAY_ENABLE_UV_RUN_RUNTIME_ENV="0",
            PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}",
            # A node that died is noticed in seconds: on one machine nothing is slow to answer.
            RAY_health_check_period_ms="1000",
            RAY_health_check_failure_threshold="3",
            RAY_health_check_initial_delay_ms="1000",
            # As docs/cluster.md advises: on one core Ray would end the worker of every shadow task.
            RAY_num_workers_soft_limit="64",
            RAY_idle_worker_killing_time_threshold_ms="600000",
        )
        for name in ("RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS"):
            self.variables.pop(name, None)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """Where jobs are submitted."""
        return f"http://127.0.0.1:{self.dashboard}"

    def start(self, cpus: int, *before: str, jobs: bool = False) -> int:
        """Start a node, the first as the head; returns its number.

        ``before`` is put before the command (``unshare``).
        """
        number = len(self.nodes)
        own = ["--head", "--port", str(self.port)]
        own += ["--include-dashboard", str(jobs), "--dashboard-port", str(self.dashboard)]
        options = ["--address", self.address] if number else own
        options += ["--num-cpus", str(cpus), "--num-gpus", "0", "--node-ip-address", "127.0.0.1"]
        # Nodes that share a folder delete each other's copies of the working directory.
        options += [
            "--temp-dir",
            str(self.folder / str(number)),
            "--object-store-memory",
            str(200 * 2**20),
        ]
        options += ["--min-worker-port", "0", "--max-worker-port", "0"]
        options += [
            "--dashboard-agent-listen-port",
            str(free_port()),
            "--disable-usage-stats",
            "--block",
        ]
        command = [*before, *RAY, "start", *options]
        with open(self.folder / f"node-{number}.log", "ab") as log:
            self.nodes.append(
                subprocess.Popen(
                    command, env=self.variables, stdout=log, stderr=log, start_new_session=True
                )
            )
        self._wait(number)
        return number

    def _wait(self, number: int) -> None:
        deadline, log = time.monotonic() + 90, self.folder / f"node-{number}.log"
        while self.nodes[number].poll() is None and time.monotonic() < deadline:
            if "Ray runtime started" in log.read_text(errors="replace"):
                return
            time.sleep(0.1)
        raise RuntimeError(
            f"node {number} did not start: {log.read_text(errors='replace')[-3000:]}"
        )

    def lose(self, number: int) -> None:
        """Kill a node with all that runs on it, without any warning."""
        for process in sorted(below(self.nodes[number].pid)):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.nodes[number].wait()

    @contextmanager
    def node(self, *before: str) -> Iterator[None]:
        """A node of one CPU that is lost in the end."""
        number = self.start(1, *before)
        try:
            yield
        finally:
            self.lose(number)

    def run(
        self, *command: str, timeout: float = 300, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """A command that knows the cluster's token."""
        return subprocess.run(
            command,
            env=self.variables | variables,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        for number in reversed(range(len(self.nodes))):
            if self.nodes[number].poll() is None:
                self.lose(number)
        shutil.rmtree(self.folder, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def below(leader: int) -> set[int]:
    """All processes that come from ``leader``, itself among them."""
    with suppress(psutil.Error):
        return {
            leader,
            *(process.pid for process in psutil.Process(leader).children(recursive=True)),
        }
    return {leader}


def named(leader: int, names: tuple[str, ...]) -> list[int]:
    """The processes below ``leader`` with such a name, the youngest first: of two the one that
    has just begun.
    """
    found = []
    for pid in below(leader):
        with suppress(OSError):
            if (Path("/proc") / str(pid) / "cmdline").read_text(errors="replace").startswith(names):
                found.append(pid)
    return sorted(found, reverse=True)
