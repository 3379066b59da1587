"""What is asked of other nodes, without nodes: what one answers, and how answers are judged."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator.cluster import nodes
from orchestrator.cluster.address import StallError
from orchestrator.results.paths import Folder
from orchestrator.results.provenance import versions
from orchestrator.results.writing import WriteError
from orchestrator.scheduling.tuner import WORTH_SAYING, TuneCallback
from orchestrator.tracking.events import TrialEvents

TRIAL = SimpleNamespace(config={"trial": {"identity": {"id": "a"}}})


def judged(answered: object, monkeypatch: pytest.MonkeyPatch) -> str:
    import ray

    monkeypatch.setattr(ray, "get", lambda ref: ref)
    return nodes.judge(answered, "node b (1f03aa77)", Path("results"))


def test_a_node_sees_the_folder_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / ".fedpriv-1234.tmp"
    token.write_text(token.name)
    assert judged(nodes.answer(str(token)), monkeypatch) == ""
    assert judged(nodes.answer(str(tmp_path / "elsewhere")), monkeypatch).startswith(
        "node b (1f03aa77) cannot use the results folder results (it does not see files"
    )
    token.write_text("another")
    assert nodes.answer(str(token)) == (False, versions())


def test_a_node_with_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = judged((True, versions() | {"torch": "0.1"}), monkeypatch)
    assert sentence.startswith("node b (1f03aa77) has torch 0.1, unlike this process")


class Notes:
    """A `Progress` that keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def on_note(self, trial: str, note: str) -> None:
        self.notes.append(f"{trial} {note}")


def test_a_cluster_without_room_is_told_and_given_up(monkeypatch) -> None:
    progress, now = Notes(), [0.0]
    callback = TuneCallback(progress, "2 client actors", patience=100, retries=0)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    waiting = SimpleNamespace(config=TRIAL.config, status="PENDING")
    for now[0] in (0.0, WORTH_SAYING + 1, WORTH_SAYING + 2):
        callback.on_step_end(0, [waiting])
    assert progress.notes == ["a waiting for resources on the cluster: 2 client actors"]
    now[0] = 90.0
    callback.on_step_end(0, [waiting, SimpleNamespace(config=TRIAL.config, status="RUNNING")])  # there was room again
    for now[0] in (91.0, 190.0):
        callback.on_step_end(0, [waiting])
    now[0] = 192.0
    with pytest.raises(StallError, match="no trial could be placed for 100 s: one trial needs 2 client actors"):
        callback.on_step_end(0, [waiting])


def test_what_a_driver_has_repaired_is_told_before_its_rounds() -> None:
    told: list[tuple[str, ...]] = []
    progress = SimpleNamespace(
        on_note=lambda *said, lasting: told.append((*said, lasting)),
        on_rounds=lambda *said: told.append(said),
        statuses={},
    )
    for report in ({"rows": [], "repaired": "x is empty: set aside"}, {"rows": []}):
        TuneCallback(progress, "2 client actors", 100, 0).on_trial_result(1, [], TRIAL, report)
    assert told == [("a", "x is empty: set aside", True), ("a", []), ("a", [])]


def test_a_trial_that_cannot_write_ends_the_sweep() -> None:
    with pytest.raises(WriteError, match="x could not be written"):
        TuneCallback(Notes(), "", 1, 0).on_trial_result(0, [], TRIAL, {"unwritable": (28, "x could not be written")})


def test_a_trial_that_is_started_again_after_its_end_is_told_once(tmp_path) -> None:
    told: list[str] = []
    listener = SimpleNamespace(
        on_started=lambda trial: told.append(f"{trial} started"), on_ended=lambda trial, record: told.append("ended")
    )
    callback = TuneCallback(TrialEvents(Folder(tmp_path), [listener]), "", 1, 0)  # type: ignore[list-item]
    for _ in range(2):
        callback.on_trial_start(0, [], TRIAL)
        callback.on_trial_result(0, [], TRIAL, {"rows": [], "done": True, "summary": {"status": "finished"}})
    assert told == ["a started", "ended"]
