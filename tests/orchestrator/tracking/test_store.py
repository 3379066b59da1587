"""What needs no MLflow: names, addresses that can be none, a server that is away, and the command of the user interface."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest

from orchestrator.tracking import labels, store
from orchestrator.tracking.store import server_problem

WRONG = {
    "htp://host:5000": "Did you mean 'http'?",
    "ftp://host": "'ftp' is no scheme",
    "host:5000": "Did you mean http://host:5000?",
    "http://host:port": "is no MLflow address",
    "http://host:99999": "is no MLflow address",
    "http://": "is no MLflow address",
    "http://[::1": "is no MLflow address",
}
RIGHT = [None, "http://host", "https://me:secret@host:5000/mlflow", "sqlite:////var/mlflow.db", "file:///runs"]
RIGHT += ["postgresql+psycopg2://me@host/runs", "/shared/runs", "databricks"]


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def test_what_can_be_no_address_is_refused_and_what_mlflow_can_write_to_is_not(monkeypatch):
    assert {uri: said for uri, said in WRONG.items() if said not in (server_problem(uri) or "")} == {}
    assert [uri for uri in RIGHT if server_problem(uri)] == []
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "host:5000")
    assert "Did you mean http://host:5000?" in (server_problem(None) or "")
    assert server_problem("http://host") is None


def test_no_sentence_has_a_password():
    assert "secret" not in (server_problem("http://me:secret@host:port") or "secret")
    assert "secret" not in store.reason(ValueError("POST http://me:secret@host/api failed"))


def test_a_trial_is_called_after_what_was_swept():
    twins = {"data.split.minority": [0, 25], "data.seed": 1, "training.seed": 2}
    assert labels.trial_name(twins) == "minority=[0, 25] data.seed=1 training.seed=2"
    swept = [{"a.ratio": a, "b.clip": b, "seed": seed} for a in (0.1, 0.100001) for b in (1, 2) for seed in (0, 1)]
    assert len({labels.setting_name(one) for one in swept}) == 4


def test_metrics_are_finite_numbers():
    row = {"a": 1, "b": np.float32(0.5), "c": True, "d": None, "e": "text", "f": math.nan, "g": -math.inf, "h": [1]}
    assert labels.scalar_metrics(row) == {"a": 1.0, "b": 0.5, "c": 1.0}


def test_the_named_server_comes_first_and_the_path_is_absolute(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://two")
    assert [store.address(tmp_path, uri) for uri in ("http://one", None)] == ["http://one", "http://two"]
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    monkeypatch.chdir(tmp_path)
    assert store.address(Path("results"), None) == f"sqlite:///{tmp_path}/results/mlflow.db"
    command, environment = store.server(tmp_path, 5001, "127.0.0.1")
    assert command[1:4] == ["-m", "mlflow", "ui"] and command[command.index("--port") + 1] == "5001"
    assert f"sqlite:///{tmp_path}/mlflow.db" in command and environment["MLFLOW_DISABLE_TELEMETRY"] == "true"


@pytest.mark.parametrize("name", ["a b", "a#b", "a%20b", "ä漢", "a&b=c+d;e,f:g@h", "a'b\"c\\d", "a[b]{c}$d"])
def test_any_path_is_understood(tmp_path, name):
    from sqlalchemy import make_url

    assert make_url(store.address(tmp_path / name, None)).database == str(tmp_path / name / "mlflow.db")


def test_nothing_phones_home(monkeypatch):
    for name in store.SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "3")
    store.configure_environment()
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == os.environ["DO_NOT_TRACK"] == "true"
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "3"
