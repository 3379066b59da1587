"""The address of MLflow: what can be none is refused, and a server that is away is named while the sweep goes on."""

from __future__ import annotations

import socket

import pytest

from orchestrator.cli import main
from orchestrator.tracking.store import server_note, server_problem
from tests.support.command import SWEEP
from tests.support.local_cluster import free_port

WRONG = {
    "htp://host:5000": "'htp' is no scheme of an MLflow address (htp://host:5000). Did you mean 'http'?",
    "ftp://host": "'ftp' is no scheme",
    "host:5000": "Did you mean http://host:5000?",
    "127.0.0.1:5000/": "Did you mean http://127.0.0.1:5000/?",
    "http://host:port": "http://host:port is no MLflow address, which looks like http://HOST:5000",
    "http://host:99999": "is no MLflow address",
    "http://": "is no MLflow address",
    "http://[::1": "is no MLflow address",
}


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.mark.parametrize("uri", WRONG)
def test_what_can_be_no_address_is_refused(uri):
    assert WRONG[uri] in (server_problem(uri) or "")


RIGHT = [None, "http://host", "https://me:secret@host:5000/mlflow", "sqlite:////var/mlflow.db", "file:///runs"]
RIGHT += ["postgresql+psycopg2://me@host/runs", "/shared/runs", "databricks"]


@pytest.mark.parametrize("uri", RIGHT)
def test_what_mlflow_can_write_to_is_accepted(uri):
    assert server_problem(uri) is None


def test_the_variable_counts_as_the_option_does(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "htp://host")
    assert "Did you mean 'http'?" in (server_problem(None) or "")
    assert server_problem("http://host") is None


def test_a_server_that_is_away_is_named_at_once_and_without_a_password():
    said = server_note(f"http://me:secret@127.0.0.1:{free_port()}") or ""
    assert "does not answer now (connection refused); the sweep runs all the same" in said
    assert "secret" not in said + (server_problem("htp://me:secret@host") or "secret")


def test_a_server_that_is_there_needs_no_word():
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert server_note(f"http://127.0.0.1:{server.getsockname()[1]}") is None
    assert server_note(None) is None
    assert server_note("sqlite:///runs.db") is None


def test_the_command_refuses_it_before_anything_starts(tmp_path, capsys):
    (tmp_path / "tiny.yaml").write_text(SWEEP)
    options = ["--results", str(tmp_path / "results"), "--tracking-uri", "htp://host"]
    assert main(["run", str(tmp_path / "tiny.yaml"), *options]) == 2
    said = capsys.readouterr()
    assert said.err.splitlines()[0].startswith("--tracking-uri: 'htp' is no scheme of an MLflow address (htp://host).")
    assert "nothing was started, nothing was written" in said.err
    assert said.out == ""
    assert not (tmp_path / "results").exists()
