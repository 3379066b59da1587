"""Tracking into a store on disk: what MLflow holds is what was reported, once, however often a sweep is resumed."""

import json
import math
import os
import shutil
import threading
from pathlib import Path

import pytest

from orchestrator.results.folder import Folder
from orchestrator.tracking import labels, mlflow_store
from orchestrator.tracking import tracker as tracking
from orchestrator.tracking.tracker import Tracker
from tests.support.tracked import CONFIG, NAME, Seen, empty_store, expected, forget, results, rows, run_trial, save

__all__ = ["empty_store", "results"]


def test_a_sweep_and_its_trials(results, capfd):
    warnings: list[str] = []
    tracker = Tracker(results, NAME, None, warnings.append)
    tracker.sweep_started({"version.torch": "2"})
    finals = {"accuracy": 7 / 7, "violations": 3.0, "purity": None, "migrated": math.nan}
    run_trial(tracker, "a", rows(7), finals)
    run_trial(tracker, "b", rows(3), {}, status="diverged")
    run_trial(tracker, "c", rows(2), {}, status="failed")
    figure = tracker.folder.report / "figures" / "accuracy.png"
    figure.parent.mkdir(parents=True)
    figure.write_bytes(b"png")
    tracker.sweep_finished([figure, tracker.folder.report / "absent.csv"], "finished")
    assert tracker.close(60)
    assert warnings == []
    assert capfd.readouterr().out == ""

    seen = Seen(results)
    (parent,) = seen.parents
    assert len(seen.runs) == 4
    assert (parent.info.run_name, parent.info.status) == (NAME, "FINISHED")
    assert parent.data.tags["version.torch"] == "2"
    assert seen.artifacts("") == ["report", "sweep.yaml"]
    assert seen.artifacts("", "report/figures") == ["report/figures/accuracy.png"]
    for trial_id, n, status, word in (
        ("a", 7, "FINISHED", "finished"),
        ("b", 3, "FINISHED", "diverged"),
        ("c", 2, "FAILED", "failed"),
    ):
        run = seen.trial(trial_id)
        assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
        assert (run.info.run_name, run.info.status) == (f"ifca seed={trial_id}", status)
        assert (run.data.tags["status"], run.data.tags["device"]) == (word, "cpu")
        assert run.data.params == labels.flatten(CONFIG)
        assert seen.metrics(trial_id) == expected(rows(n), finals if trial_id == "a" else None)
        assert seen.artifacts(trial_id) == ["clients.parquet", "config.yaml", "rounds.parquet", "tables"]
        assert run.info.end_time >= run.info.start_time


def test_a_resumed_sweep_has_each_run_once(results):
    everything = rows(9)
    for n in (4, 6, 9):  # each process does the last rounds before it again
        tracker = Tracker(results, NAME)
        tracker.reconcile(tracker.folder.path)
        tracker.sweep_started()
        tracker.trial_started("a", CONFIG, {}, "ifca seed=1")
        tracker.rounds("a", everything[max(0, n - 5) : n])
        if n == 9:
            tracker.trial_finished("a", "finished", {"violations": 1.0}, save(tracker.folder, "a", everything))
        tracker.sweep_finished([], "finished" if n == 9 else "unfinished")
        assert tracker.close(60)
        seen = Seen(results)
        assert len(seen.runs) == 2
        assert seen.trial("a").info.status == ("FINISHED" if n == 9 else "KILLED")
        assert seen.metrics("a") == expected(everything[:n], {"violations": 1.0} if n == 9 else {})


def test_a_process_that_was_killed_between_two_batches(results, monkeypatch):
    class Killed(BaseException):
        pass

    sent = mlflow_store.Store.send
    monkeypatch.setattr(threading, "excepthook", lambda _: None)

    def dies(self, held, rounds):
        sent(self, held, {round_: row for round_, row in rounds.items() if round_ < 3})
        raise Killed

    monkeypatch.setattr(mlflow_store.Store, "send", dies)
    first = Tracker(results, NAME)
    run_trial(first, "a", rows(6), {"violations": 2.0})
    first._thread.join(60)
    assert not first._thread.is_alive()
    assert sorted(Seen(results).metrics("a")["accuracy/accuracy"]) == expected(rows(6))["accuracy/accuracy"][:3]

    monkeypatch.setattr(mlflow_store.Store, "send", sent)
    second = Tracker(results, NAME)
    second.reconcile(second.folder.path)
    assert second.close(60)
    seen = Seen(results)
    assert len(seen.runs) == 2
    assert seen.metrics("a") == expected(rows(6), {"violations": 2.0})
    assert seen.trial("a").info.status == "FINISHED"
    assert seen.artifacts("a") == ["clients.parquet", "config.yaml", "rounds.parquet", "tables"]


def test_times_of_rounds_that_are_sent_later_are_those_of_the_trial(results):
    folder = Folder(results / NAME)
    save(folder, "a", rows(4))
    record = {
        "name": "a",
        "tags": {},
        "params": {},
        "started": 10**12,
        "ended": 10**12 + 5000,
        "status": "finished",
    }
    folder.trial("a").tracking.write_text(json.dumps({**record, "finals": {}}))
    tracker = Tracker(results, NAME)
    tracker.reconcile(folder.path)
    assert tracker.close(60)
    seen = Seen(results)
    run = seen.trial("a")
    history = seen.client.get_metric_history(run.info.run_id, "accuracy/accuracy")
    assert [metric.timestamp - 10**12 for metric in history] == [250, 500, 750, 1000]
    assert (run.info.start_time, run.info.end_time) == (10**12, 10**12 + 5000)


def test_a_complete_sweep_is_not_looked_at_again(results, monkeypatch):
    first = Tracker(results, NAME)
    first.sweep_started()
    run_trial(first, "a", rows(3), {})
    first.sweep_finished([first.folder.sweep], "finished")
    assert first.behind
    assert first.close(60)
    assert not first.behind

    with monkeypatch.context() as patch:
        patch.setattr(mlflow_store.Store, "open", lambda *_: pytest.fail("looked at"))
        again = Tracker(results, NAME)
        again.reconcile(again.folder.path)
        assert not again.behind
        assert again.close(60)


@pytest.mark.parametrize("uri", [None, "http://127.0.0.1:9"])
def test_another_store_or_a_new_one_lacks_everything(results, monkeypatch, uri):
    first = Tracker(results, NAME)
    first.sweep_started()
    run_trial(first, "a", rows(3), {})
    first.sweep_finished([], "finished")
    assert first.close(60)
    monkeypatch.setattr(tracking, "GATHER_SECONDS", 60)
    if uri is None:
        (results / "mlflow.db").rename(results / "away")
    other = Tracker(results, NAME, uri, lambda _: None)
    other.reconcile(other.folder.path)
    assert other.behind
    assert {wanted.trial for wanted in other._pending()} == {"", "a"}
    if uri is None:
        (results / "away").rename(results / "mlflow.db")
    assert other.close(60) == (uri is None)


def test_what_was_sent_but_not_noted_is_looked_at_and_not_changed(results, monkeypatch):
    tracker = Tracker(results, NAME)
    run_trial(tracker, "a", rows(3), {})
    tracker.sweep_finished([], "finished")
    assert tracker.close(60)
    before = Seen(results).trial("a")
    kept = json.loads(tracker.folder.trial("a").tracking.read_text())
    forget(tracker.folder)
    monkeypatch.setattr(mlflow_store.Store, "send", lambda *_: pytest.fail("sent again"))
    again = Tracker(results, NAME)
    again.reconcile(again.folder.path)
    assert again.behind
    assert again.close(60)
    assert Seen(results).trial("a").to_dictionary() == before.to_dictionary()
    assert json.loads(tracker.folder.trial("a").tracking.read_text()) == kept


def test_a_report_that_was_missed_is_sent_later(results, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(mlflow_store.Store, "open", lambda *_: (_ for _ in ()).throw(ConnectionError("away")))
        first = Tracker(results, NAME, None, lambda _: None)
        first.sweep_started({"device": "cpu"})
        figure = first.folder.report / "accuracy.png"
        figure.parent.mkdir()
        figure.write_bytes(b"png")
        first.sweep_finished([figure], "finished")
        assert not first.close(60)
    second = Tracker(results, NAME)
    second.reconcile(second.folder.path)
    assert second.close(60)
    seen = Seen(results)
    assert seen.artifacts("", "report") == ["report/accuracy.png"]
    assert (seen.parents[0].info.status, seen.parents[0].data.tags["device"]) == ("FINISHED", "cpu")


def test_artifacts_that_are_missing_or_cut_short_are_sent_again(results):
    tracker = Tracker(results, NAME)
    run_trial(tracker, "a", rows(3), {})
    assert tracker.close(60)
    seen = Seen(results)
    run = seen.trial("a")
    place = Path(seen.client.download_artifacts(run.info.run_id, ""))
    (place / "rounds.parquet").write_bytes(b"half")
    (place / "config.yaml").unlink()
    seen.client.delete_tag(run.info.run_id, mlflow_store.SENT_TAG)
    forget(tracker.folder)
    again = Tracker(results, NAME)
    again.reconcile(again.folder.path)
    assert again.close(60)
    trial = again.folder.trial("a")
    for name in ("rounds.parquet", "config.yaml", "clients.parquet"):
        assert (place / name).read_bytes() == (trial.path / name).read_bytes()


def test_a_run_that_was_made_twice_is_one_again(results):
    tracker = Tracker(results, NAME)
    run_trial(tracker, "a", rows(3), {})
    assert tracker.close(60)
    seen = Seen(results)
    run = seen.trial("a")
    seen.client.create_run(run.info.experiment_id, tags=run.data.tags, start_time=0)
    again = Tracker(results, NAME)
    run_trial(again, "a", rows(5), {})
    assert again.close(60)
    seen = Seen(results)
    assert seen.trial("a").info.run_id == run.info.run_id
    assert seen.metrics("a") == expected(rows(5))


def test_an_experiment_in_the_bin_is_taken_out(results):
    for n in (1, 2):
        tracker = Tracker(results, NAME)
        run_trial(tracker, "a", rows(n), {})
        assert tracker.close(60)
        seen = Seen(results)
        if n == 1:
            seen.client.delete_experiment(seen.runs[0].info.experiment_id)
    assert seen.metrics("a")["accuracy/accuracy"] == expected(rows(2))["accuracy/accuracy"]


def test_a_path_that_needs_escapes_leaves_no_folder_behind(tmp_path, empty_store):
    results = tmp_path / "100%25 a%20b" / "results"
    results.mkdir(parents=True)
    shutil.copy(empty_store, results / "mlflow.db")
    tracker = Tracker(results, NAME)
    run_trial(tracker, "a", rows(1), {})
    assert tracker.close(60)
    assert Seen(results).artifacts("a") == ["clients.parquet", "config.yaml", "rounds.parquet", "tables"]
    assert os.listdir(tmp_path) == ["100%25 a%20b"]


def test_long_texts_and_odd_names_are_taken(results):
    warnings: list[str] = []
    tracker = Tracker(results, NAME, None, warnings.append)
    config = {f"slot{i}.field": "x" * 9000 for i in range(150)}
    tracker.trial_started("a", config, {"text": "y" * 9000}, "n" * 900)
    tracker.rounds("a", [{"round": 0, "tpr@1%": 0.5, **{f"m{i}": i for i in range(1100)}}])
    tracker.trial_finished("a", "finished", {}, save(tracker.folder, "a", rows(1)))
    assert tracker.close(60)
    assert warnings == []
    run = Seen(results).trial("a")
    assert len(run.data.params) == 150
    assert run.data.metrics["other/tpr_1_"] == 0.5
    assert len(run.data.metrics) == 1102
