"""A real MLflow server that tests start and kill."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from orchestrator.tracking import store


class Server:
    """An MLflow server of its own in ``folder``, on a free port of this machine."""

    def __init__(
        self, folder: Path, command: list[str] | None = None, environment: dict[str, str] | None = None
    ) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"
        self.folder, self.command, self.environment = folder, command, environment
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        store.configure_environment()
        ours = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db"]
        ours += ["--artifacts-destination", str(self.folder / "artifacts"), "--workers", "1"]
        command = [*(self.command or ours), "--host", "127.0.0.1", "--port", str(self.port)]
        environment = {**(self.environment or os.environ), "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with open(self.folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, cwd=self.folder, start_new_session=True
            )
        deadline = time.monotonic() + 120
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"{self.uri}/health", timeout=5).close()
            except (OSError, urllib.error.URLError):
                time.sleep(0.1)
            else:
                return
        pytest.fail(f"no server: {(self.folder / 'server.log').read_text()[-2000:]}")

    def kill(self) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None
