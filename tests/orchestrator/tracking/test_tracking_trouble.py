"""Tracking when things go wrong: bad lines, silence, refusals, full memory. Training never notices."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from orchestrator.tracking import mlflow_lookup, mlflow_store
from orchestrator.tracking import tracker as tracking
from orchestrator.tracking.tracker import Tracker
from tests.support.tracked import CONFIG, NAME, Seen, empty_store, expected, results, rows, run_trial, save

__all__ = ["empty_store", "results"]


class Lossy:
    """MLflow's client over a bad line: some operations are lost on the way there, and of some the answer is."""

    rng = np.random.default_rng(0)
    chance = 0.3
    lost = 0

    def __init__(self, client) -> None:
        self._client = client

    def __getattr__(self, name: str):
        operation = getattr(self._client, name)

        def over_the_line(*args, **kwargs):
            draw = Lossy.rng.random()
            if draw > 2 * Lossy.chance:
                return operation(*args, **kwargs)
            if draw > Lossy.chance:
                operation(*args, **kwargs)
            Lossy.lost += 1
            raise ConnectionResetError(104, "Connection reset by peer")

        return over_the_line


@pytest.mark.parametrize("seed", range(3))
def test_a_bad_line_loses_nothing_and_doubles_nothing(results, monkeypatch, seed):
    connect = mlflow_store.Store._connect

    def badly(self, uri, local):
        connect(self, uri, local)
        self._client = Lossy(self._client)

    monkeypatch.setattr(mlflow_store.Store, "_connect", badly)
    monkeypatch.setattr(tracking, "LONGEST_PAUSE", 0.001)
    monkeypatch.setattr(Lossy, "rng", np.random.default_rng(seed))
    monkeypatch.setattr(Lossy, "lost", 0)
    monkeypatch.setattr(Lossy, "chance", 0.15)
    warnings: list[str] = []
    tracker = Tracker(results, NAME, None, warnings.append)
    tracker.sweep_started()
    trials = {"a": rows(8), "b": rows(5, scale=2.0)}
    for trial_id, trial_rows in trials.items():
        run_trial(tracker, trial_id, trial_rows, {"violations": 2.0})
    tracker.sweep_finished([], "finished")
    for _ in range(2000):
        if not tracker._pending():
            break
        tracker._closing.wait(0.05)
    monkeypatch.setattr(Lossy, "chance", 0.0)
    assert tracker.close(60)
    assert Lossy.lost > 5
    assert len(warnings) == 1
    assert "MLflow cannot be used now" in warnings[0]
    assert "connection reset by peer" in warnings[0]
    seen = Seen(results)
    assert len(seen.runs) == 3
    for trial_id, trial_rows in trials.items():
        assert seen.metrics(trial_id) == expected(trial_rows, {"violations": 2.0})
        assert seen.artifacts(trial_id) == ["clients.parquet", "config.yaml", "rounds.parquet", "tables"]
        assert seen.trial(trial_id).info.status == "FINISHED"


def test_a_store_that_does_not_answer_delays_nobody(results, monkeypatch):
    answer = threading.Event()
    opened = mlflow_store.Store.open

    def slowly(self, *args):
        assert answer.wait(60)
        return opened(self, *args)

    monkeypatch.setattr(mlflow_store.Store, "open", slowly)
    tracker = Tracker(results, NAME)
    tracker.sweep_started()
    run_trial(tracker, "a", rows(50), {})
    tracker.sweep_finished([], "finished")
    assert not tracker.close(0.1)  # all of these came back although nothing could be sent
    answer.set()
    tracker._thread.join(60)
    assert tracker.close(1)
    assert Seen(results).metrics("a") == expected(rows(50))


def test_many_rounds_are_kept_on_disk_and_not_in_memory(results, monkeypatch):
    monkeypatch.setattr(tracking, "ROWS_IN_MEMORY", 10)
    monkeypatch.setattr(tracking, "GATHER_SECONDS", 60)
    tracker = Tracker(results, NAME)
    tracker.trial_started("a", CONFIG, {}, "ifca")
    for row in rows(45):
        tracker.rounds("a", [row])
        assert len(tracker._trials["a"].rows) <= 10
    tracker.trial_finished("a", "finished", {}, save(tracker.folder, "a", rows(45)))
    assert tracker.close(60)
    assert Seen(results).metrics("a") == expected(rows(45))


def test_a_run_that_mlflow_refuses_does_not_stop_the_others(results, monkeypatch):
    from mlflow.exceptions import MlflowException

    describe = mlflow_store.Store.describe

    def refuses(self, held, name, params, tags):
        if "bad" in name:
            raise MlflowException.invalid_parameter_value("no such thing")
        describe(self, held, name, params, tags)

    monkeypatch.setattr(mlflow_store.Store, "describe", refuses)
    warnings: list[str] = []
    tracker = Tracker(results, NAME, None, warnings.append)
    tracker.trial_started("bad", CONFIG, {}, "bad")
    run_trial(tracker, "a", rows(3), {})
    assert not tracker.close(60)
    assert len(warnings) == 1
    assert "MLflow refuses a run" in warnings[0]
    assert "'bad'" in warnings[0]
    assert Seen(results).metrics("a") == expected(rows(3))


def test_a_trial_that_always_fails_does_not_starve_the_others(results, monkeypatch):
    sent = mlflow_store.Store.send

    def fails(self, held, rounds):
        if held.name == "bad":
            raise TimeoutError("timed out")
        sent(self, held, rounds)

    monkeypatch.setattr(mlflow_store.Store, "send", fails)
    warnings: list[str] = []
    tracker = Tracker(results, NAME, None, warnings.append)
    tracker.trial_started("bad", CONFIG, {}, "bad")
    run_trial(tracker, "a", rows(3), {})
    while any(wanted.trial != "bad" for wanted in tracker._pending()):
        tracker._closing.wait(0.05)
    assert not tracker.close(60)
    assert len(warnings) == 1
    assert "it does not answer in time" in warnings[0]
    assert Seen(results).metrics("a") == expected(rows(3))


def test_no_exception_escapes(tmp_path, monkeypatch):
    def fails(sentence):
        raise RuntimeError

    monkeypatch.setattr(tracking, "GATHER_SECONDS", 0.01)
    (tmp_path / "file").write_text("")
    tracker = Tracker(tmp_path / "file", NAME, None, fails)
    tracker.sweep_started()
    run = tmp_path / "trial"
    tracker.rounds("unknown", rows(1))
    tracker.trial_finished("unknown", "finished", {}, run)
    tracker.trial_started("a", CONFIG, {}, "ifca")
    tracker.rounds("a", [{"accuracy": 1.0}, {"round": None}])
    tracker.trial_finished("a", "finished", None, run)
    tracker.reconcile(tmp_path / "nowhere")
    tracker.sweep_finished([Path("relative.png")], "finished")
    assert not tracker.close(60)


def test_a_store_is_whole_or_not_there(tmp_path, monkeypatch):
    def killed(tracking_uri):
        Path(tracking_uri.removeprefix("sqlite:///")).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("mlflow.MlflowClient", killed)
    with pytest.raises(KeyboardInterrupt):
        mlflow_lookup.create(tmp_path)
    assert os.listdir(tmp_path) == []
