"""A sweep whose MLflow server is killed in the middle and comes back: nothing is missing there,
and nothing is doubled.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from orchestrator.tracking import store
from tests.support.command import arguments, fedpriv, mlflow_holds_all, same_results, watched
from tests.support.local_cluster import free_port


class Server:
    """A real MLflow server in ``folder``, on a free port of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        store.configure_environment()
        self.start()

    def start(self, _: object = None) -> None:
        command = [
            sys.executable,
            "-m",
            "mlflow",
            "server",
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
        ]
        command += ["--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db", "--workers", "1"]
        command += ["--artifacts-destination", str(self.folder / "artifacts")]
        variables = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with open(self.folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                command, env=variables, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + 120
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"{self.uri}/health", timeout=5).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        pytest.fail(f"no server: {(self.folder / 'server.log').read_text()[-2000:]}")

    def kill(self, _: object = None) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.mark.slow
def test_a_server_that_goes_away_in_the_middle(tiny, expected, tmp_path):
    (tmp_path / "server").mkdir()
    server, results = Server(tmp_path / "server"), tmp_path / "results"
    try:
        command = arguments(tiny, results, "--tracking-uri", server.uri)
        code, printed = watched(command, ("round 3/", server.kill), ("finished in", server.start))
        assert code == 0, printed
        assert "MLflow cannot be used now" in printed
        if (
            "MLflow does not hold everything yet" in printed
        ):  # a server that needs minutes to start gets the rest from
            again = fedpriv(
                tiny, results, "--tracking-uri", server.uri
            )  # the same command, which trains nothing
            assert "nothing was trained" in again.stdout, again.stderr
        same_results(expected, results)
        mlflow_holds_all(results, uri=server.uri)
        assert not (results / "mlflow.db").exists()
    finally:
        server.kill()
