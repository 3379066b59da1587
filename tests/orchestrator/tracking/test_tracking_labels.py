"""What needs no MLflow: names, parameters, batches, addresses and the command of the user interface."""

import math
import os
from pathlib import Path

import numpy as np
import pytest

from orchestrator.tracking import labels, store


def test_a_trial_is_called_after_what_was_swept():
    swept = {"clustering.name": "ifca_mir", "data.split.minority_ratio": 0.2, "seed": 1}
    assert labels.trial_name(swept) == "ifca_mir minority_ratio=0.2 seed=1"
    twins = {"data.split.minority": [0, 25], "data.seed": 1, "training.seed": 2}
    assert labels.trial_name(twins) == "minority=[0, 25] data.seed=1 training.seed=2"
    swept = [{"a.ratio": a, "b.clip": b, "seed": seed} for a in (0.1, 0.100001) for b in (1, 2) for seed in (0, 1)]
    assert len({labels.setting_name(one) for one in swept}) == 4


def test_metrics_are_finite_numbers():
    row = {"a": 1, "b": np.float32(0.5), "c": True, "d": None, "e": "text", "f": math.nan, "g": -math.inf, "h": [1]}
    assert labels.scalar_metrics(row) == {"a": 1.0, "b": 0.5, "c": 1.0}


def test_reasons_hold_no_password():
    assert "secret" not in store.reason(ValueError("POST http://me:secret@host/api failed"))
    assert store.reason(ValueError()) == "ValueError"


def test_the_named_server_comes_first_and_the_path_is_absolute(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://two")
    assert store.address(tmp_path, "http://one") == "http://one"
    assert store.address(tmp_path, None) == "http://two"
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    monkeypatch.chdir(tmp_path)
    assert store.address(Path("results"), None) == f"sqlite:///{tmp_path}/results/mlflow.db"
    command, environment = store.server(tmp_path, 5001, "127.0.0.1")
    assert command[1:4] == ["-m", "mlflow", "ui"] and command[command.index("--port") + 1] == "5001"
    assert f"sqlite:///{tmp_path}/mlflow.db" in command and environment["MLFLOW_DISABLE_TELEMETRY"] == "true"


PATHS = ["a b", "a#b", "a%b", "a%20b", "ä漢", "a&b=c+d;e,f:g@h", "a'b\"c\\d", "a[b]{c}$d", "a?b"]


@pytest.mark.parametrize("name", PATHS)
def test_any_path_is_understood_or_a_question_mark_refused(tmp_path, name):
    from sqlalchemy import make_url

    if "?" in name and make_url("sqlite:///a%3Fb").database != "a?b":  # SQLAlchemy before 2.1 has no way to write it
        with pytest.raises(store.TrackingError, match="question mark"):
            store.address(tmp_path / name, None)
    else:
        assert make_url(store.address(tmp_path / name, None)).database == str(tmp_path / name / "mlflow.db")


def test_nothing_phones_home(monkeypatch):
    for name in store.SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "3")
    store.configure_environment()
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == os.environ["DO_NOT_TRACK"] == "true"
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "3"
