"""A sweep whose MLflow server is killed in the middle and comes back: nothing is missing there, and nothing is doubled."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.command import arguments, environment, fedpriv, same_results
from tests.support.complete import mlflow_holds_all
from tests.support.mlflow_server import Server


@pytest.mark.slow
def test_a_server_that_goes_away_in_the_middle(tiny, expected, tmp_path):
    folder, results = tmp_path / "server", tmp_path / "results"
    folder.mkdir()
    server = Server(folder)
    server.start()
    command = arguments(tiny, results, "--tracking-uri", server.uri)
    try:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1, env=environment()
        ) as head:
            assert head.stdout is not None
            printed = ""
            for line in head.stdout:
                printed += line
                if "round 3/" in line and server.process is not None:
                    server.kill()
                if "finished in" in line and server.process is None:
                    server.start()
            code = head.wait()
        print(printed)
        assert code == 0, printed
        assert "MLflow cannot be used now" in printed
        if "MLflow does not hold everything yet" in printed:  # a server that needs minutes to start gets the rest from
            again = fedpriv(tiny, results, "--tracking-uri", server.uri)  # the same command, which trains nothing
            assert "nothing was trained" in again.stdout, again.stderr
        same_results(expected, results)
        mlflow_holds_all(results, uri=server.uri)
        assert not (results / "mlflow.db").exists()
    finally:
        server.kill()
