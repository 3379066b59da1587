"""The thread beside a running sweep: live rounds, a server that is away, an interruption, and
the next run.
"""

from __future__ import annotations

import time

import pytest

from orchestrator.tracking import projection
from orchestrator.tracking import tracker as tracking
from orchestrator.tracking.tracker import Tracker
from tests.support.tracked import (
    NAME,
    RUN,
    TRIALS,
    Held,
    empty_store,
    finals,
    folder,
    rows,
    write_sweep,
    write_trial,
)

__all__ = ["empty_store", "folder"]
SECONDS = 120


@pytest.fixture(autouse=True)
def prompt(monkeypatch):
    monkeypatch.setattr(tracking, "GATHER_SECONDS", 0.01)
    monkeypatch.setattr(tracking, "LONGEST_PAUSE", 0.05)


def tracker(folder, **options) -> Tracker:
    begun = Tracker(folder.path.parent, NAME, say=options.pop("say", print), **options)
    begun.begin()
    return begun


def waited(what) -> None:
    end = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


def run(folder, own: Tracker, trials=tuple(TRIALS), ends: bool = True) -> None:
    """What the events of a sweep tell the tracker."""
    for trial in trials:
        own.on_planned(trial, "title", RUN, TRIALS[trial])
        own.on_started(trial)
        for row in rows(3):
            own.on_rounds(trial, [row])
        if ends:
            own.on_ended(trial, {"id": trial, "metrics": finals(trial)})


def test_live_runs_are_completed_and_not_logged_twice(folder):
    own = tracker(folder)
    run(folder, own)
    assert own.finish(SECONDS)
    live = Held(folder)
    everyone = live.client.search_runs([live.experiment.experiment_id], run_view_type=3)
    assert len(everyone) == 5
    assert live.points("ifca1")["run/round"] == [(1, 1.0), (2, 2.0), (3, 3.0)]
    assert live.points("ifca1")["attack/sia_mean"] == [(3, 0.52), (4, 0.25)]
    assert own.is_local and own.link() == ""
    own.where = "http://host:5000"
    assert own.link().endswith(
        f"#/experiments/{live.experiment.experiment_id}/runs?workflowType=machine_learning"
    )


def test_an_interrupted_trial_is_killed_and_then_resumed_in_a_run_of_its_own(folder):
    folder.trial("ifca0").manifest.unlink()
    write_sweep(folder)
    own = tracker(folder)
    run(folder, own, ("ifca0",), ends=False)
    assert own.finish(SECONDS)
    before = Held(folder)
    assert before.runs["ifca0"].info.status == before.runs[""].info.status == "KILLED"
    assert before.points("ifca0")["run/round"] == [(1, 1.0), (2, 2.0), (3, 3.0)]
    own = tracker(folder)
    write_trial(folder, "ifca0")
    write_sweep(folder)
    run(folder, own, ("ifca0",))
    assert own.finish(SECONDS)
    after = Held(folder)
    assert {run.info.status for run in after.runs.values()} == {"FINISHED"}
    changed = {trial for trial in after.ids if after.ids[trial] != before.ids[trial]}
    assert changed == {"ifca0"}
    assert after.points("ifca0")["run/round"] == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_a_server_that_is_away_stops_nothing_and_is_told_all_later(folder, monkeypatch):
    said: list[str] = []
    real, away = tracking.connect, [True]

    def connect(*given):
        if away[0]:
            raise OSError("[Errno 111] Connection refused")
        return real(*given)

    monkeypatch.setattr(tracking, "connect", connect)
    own = tracker(folder, say=said.append)
    run(folder, own)
    assert not own.finish(SECONDS) and own.trouble == "connection refused"
    assert len(said) == 1 and said[0].startswith("MLflow cannot be used now")
    own = tracker(folder, say=said.append)
    run(folder, own, ("ifca0",))
    waited(lambda: own.trouble)
    away[0] = False  # what ended meanwhile is sent without a further event
    waited(lambda: not own.trouble)
    assert Held(folder).points("ifca0")["run/round"] == [(1, 1.0), (2, 2.0), (3, 3.0)]
    assert tracker(folder).finish(SECONDS) and Held(folder).runs.keys() == {"", *TRIALS}


def test_a_trial_that_mlflow_does_not_take_holds_up_no_other_for_long(folder, monkeypatch):
    real = projection.project_trial
    monkeypatch.setattr(
        projection, "project_trial", lambda *given: {}[0] if given[2] == "ifca0" else real(*given)
    )
    own = tracker(folder)
    run(folder, own, ("ifca0",))
    waited(lambda: own.trouble)
    time.sleep(0.5)  # three attempts
    run(folder, own, ("ifca1",))
    waited(
        lambda: (
            "ifca1" in Held(folder).runs
            and "attack/sia_mean" in Held(folder).runs["ifca1"].data.metrics
        )
    )


def test_a_store_that_is_none_is_named_with_the_remedy(folder):
    (folder.path.parent / "mlflow.db").write_bytes(b"damaged by somebody")
    own = tracker(folder)
    assert not own.finish(SECONDS)
    assert own.trouble.endswith("mlflow.db is no SQLite data base")


def test_what_a_sync_has_seen_is_not_asked_again_until_something_has_changed(folder, monkeypatch):
    own = tracker(folder)
    assert own.finish(SECONDS)

    def synced(results=folder.path.parent) -> bool:
        """Whether the next run of the complete sweep asks MLflow."""
        calls: list[None] = []
        with monkeypatch.context() as patch:
            patch.setattr(Tracker, "begin", lambda self: calls.append(self._done.set()))
            Tracker(results, NAME, **options).finish(0)
        return bool(calls)

    options = {}
    assert not synced()
    options = {"with_models": True}
    assert synced()
    options = {"tracking_uri": "http://127.0.0.1:1"}
    assert synced()
    options = {}
    live = Held(folder)
    live.client.delete_run(live.runs["ifca0"].info.run_id)
    assert synced()
    own = tracker(folder)
    assert own.finish(SECONDS) and "ifca0" in Held(folder).runs
    assert not synced()
    moved = folder.path.parent.rename(folder.path.parent.with_name("moved"))
    assert synced(moved)
    moved.rename(folder.path.parent)
    for file in (folder.table, folder.trial("ifca0").manifest):
        content = file.read_bytes()
        file.write_bytes(content + b" ")
        assert synced()
        file.write_bytes(content)
        assert not synced()
