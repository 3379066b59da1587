"""What needs no MLflow: names, addresses that can be none, a server that is away, and the
command of the user interface.
"""

from __future__ import annotations

import math
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from orchestrator.results import sweeps
from orchestrator.results.paths import Folder
from orchestrator.tracking import labels, store, tracker
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
RIGHT = [
    None,
    "http://host",
    "https://me:secret@host:5000/mlflow",
    "sqlite:////var/mlflow.db",
    "sqlite:///new.db",
]
# Those at which the MLflow here keeps nothing, and the way out.
EMPTY = {
    "sqlite://": "sqlite:///FILE.db",
    "sqlite:///:memory:": "sqlite:///FILE.db",
    "sqlite:///file::memory:?uri=true": "sqlite:///FILE.db",
    "sqlite:////dev": "is no SQLite data base",
    f"sqlite:///{__file__}": "is no SQLite data base",
    f"sqlite:///{__file__}/below/it.db": "cannot be made",
    "sqlite:/single.db": "sqlite:///FILE.db",
    "sqlite+nothing:///a.db": "sqlite:///FILE.db",
    "postgresql+pg8000://me:secret@host/runs": "No module named 'pg8000'",
    "databricks-uc": "http://HOST:5000",
    "uc:/models": "http://HOST:5000",
}
FOLDERS = {
    "X/mlruns": "X/mlruns.db",
    "/shared/my runs": "/shared/my runs.db",
    "file:///a%20b": "/a b.db",
    "file:runs": "runs.db",
}


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def test_what_can_be_no_address_is_refused_and_what_mlflow_can_write_to_is_not(monkeypatch):
    assert {
        uri: said for uri, said in WRONG.items() if said not in (server_problem(uri) or "")
    } == {}
    assert [uri for uri in RIGHT if server_problem(uri)] == []
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "host:5000")
    assert "Did you mean http://host:5000?" in (server_problem(None) or "")
    assert server_problem("http://host") is None


def test_where_nothing_can_be_kept_is_refused_with_the_way_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.db").write_bytes(store.MAGIC)
    (tmp_path / "empty.db").touch()
    assert {
        uri: said for uri, said in EMPTY.items() if said not in (server_problem(uri) or "")
    } == {}
    assert [name for name in ("old.db", "empty.db") if server_problem(f"sqlite:///{name}")] == []
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".db"] == []


@pytest.mark.parametrize("allowed", [False, True])
def test_a_folder_is_refused_where_mlflow_writes_to_none(tmp_path, monkeypatch, allowed):
    from mlflow.store.tracking import file_store

    if not hasattr(file_store, "MLFLOW_ALLOW_FILE_STORE") and not allowed:
        pytest.skip("this MLflow writes to folders")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", str(allowed).lower())
    for uri, database in FOLDERS.items():
        wayout = f"give sqlite:///{Path(database).absolute()} or a server, http://HOST:5000"
        assert (server_problem(uri) is None) if allowed else (wayout in (server_problem(uri) or ""))
    assert list(tmp_path.iterdir()) == []


class Refusing(BaseHTTPRequestHandler):
    """A server that refuses everything, as MLflow's basic authentication, and its check of the
    host's name, do.
    """

    answer: ClassVar[tuple[int, bytes]]

    def do_GET(self) -> None:
        code, body = self.answer
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("code", "body", "wanted"),
    [
        (403, b"Permission denied", "the right to create and edit the experiment mine"),
        (403, b'{"error_code": "PERMISSION_DENIED", "message": "no"}', "the experiment mine"),
        (403, b"Invalid Host header - possible DNS rebinding attack detected", "--allowed-hosts"),
        (401, b"You are not authenticated.", "MLFLOW_TRACKING_USERNAME"),
        (500, b"oops", ""),
    ],
)
def test_what_a_server_refuses_is_said_once_with_its_own_remedy(
    tmp_path, monkeypatch, code, body, wanted
):
    monkeypatch.setattr(tracker, "LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(store, "SETTINGS", {})
    sweeps.write_sweep(Folder(tmp_path / "mine"), "mine", "name: mine", [], [])
    said: list[str] = []
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), type("Answer", (Refusing,), {"answer": (code, body)})
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        own = tracker.Tracker(
            tmp_path, "mine", f"http://127.0.0.1:{server.server_port}", said.append
        )
        assert not own.finish(60)
        server.shutdown()
    (sentence,) = said
    assert wanted in sentence and own.trouble in sentence
    assert ("when MLflow answers again" in sentence) == (not wanted)


def test_no_sentence_has_a_password():
    assert "secret" not in (server_problem("http://me:secret@host:port") or "secret")
    assert "secret" not in store.reason(ValueError("POST http://me:secret@host/api failed"))


def test_a_trial_is_called_after_what_was_swept():
    twins = {"data.split.minority": [0, 25], "data.seed": 1, "training.seed": 2}
    assert labels.trial_name(twins) == "minority=[0, 25] data.seed=1 training.seed=2"
    swept = [
        {"a.ratio": a, "b.clip": b, "seed": seed}
        for a in (0.1, 0.100001)
        for b in (1, 2)
        for seed in (0, 1)
    ]
    assert len({labels.setting_name(one) for one in swept}) == 4


def test_metrics_are_finite_numbers():
    row = {
        "a": 1,
        "b": np.float32(0.5),
        "c": True,
        "d": None,
        "e": "text",
        "f": math.nan,
        "g": -math.inf,
        "h": [1],
    }
    assert labels.scalar_metrics(row) == {"a": 1.0, "b": 0.5, "c": 1.0}


def test_the_named_server_comes_first_and_the_path_is_absolute(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://two")
    assert [store.address(tmp_path, uri) for uri in ("http://one", None)] == [
        "http://one",
        "http://two",
    ]
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    monkeypatch.chdir(tmp_path)
    assert store.address(Path("results"), None) == f"sqlite:///{tmp_path}/results/mlflow.db"
    command, environment = store.server(tmp_path, 5001, "127.0.0.1")
    assert command[1:4] == ["-m", "mlflow", "ui"] and command[command.index("--port") + 1] == "5001"
    assert (
        f"sqlite:///{tmp_path}/mlflow.db" in command
        and environment["MLFLOW_DISABLE_TELEMETRY"] == "true"
    )


@pytest.mark.parametrize(
    "name", ["a b", "a#b", "a%20b", "ä漢", "a&b=c+d;e,f:g@h", "a'b\"c\\d", "a[b]{c}$d"]
)
def test_any_path_is_understood(tmp_path, name):
    from sqlalchemy import make_url

    assert make_url(store.address(tmp_path / name, None)).database == str(
        tmp_path / name / "mlflow.db"
    )


def test_nothing_phones_home(monkeypatch):
    for name in store.SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "3")
    store.configure_environment()
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == os.environ["DO_NOT_TRACK"] == "true"
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "3"
