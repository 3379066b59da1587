"""What is remembered of runs in MLflow: a damaged or missing record is made again from the results, and no run is doubled."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from orchestrator.results.folder import Folder
from orchestrator.results.integrity import DamageError, read_sealed
from orchestrator.tracking import mlflow_store
from orchestrator.tracking.pending import PendingTrial
from orchestrator.tracking.recorded import recalled, record, recorded, views
from orchestrator.tracking.restored import Planned, restored
from orchestrator.tracking.tracker import Tracker
from tests.support.last_second import held
from tests.support.told_sweep import RUN, copied, told
from tests.support.tracked import NAME, Seen, empty_store, results, rewritten

__all__ = ["copied", "empty_store", "results", "told"]


def planned() -> dict[str, Planned]:
    """As the command names the trials of the told sweep."""
    return {
        f"{kind}{seed}": Planned.of(
            "title",
            {**RUN, "clustering": {"name": kind}, "seed": seed},
            {"clustering.name": kind, "seed": seed},
        )
        for kind in ("ifca", "ifca_mir")
        for seed in (0, 1)
    }


def sent_again(results: Path, said: list[str], known: dict[str, Planned] | None = None) -> bool:
    """What the next run of a complete sweep does; whether there was something to send."""
    tracker = Tracker(results, NAME, None, said.append)
    tracker.reconcile(tracker.folder.path, known)
    tracker.report_written([tracker.folder.report / "trade_off.png"], "finished", {"device": "cpu"})
    behind = tracker.behind
    assert tracker.close(60), tracker.trouble
    return behind


DAMAGES: dict[str, Any] = {
    "garbage": b"\x00\xff",
    "nothing": b"",
    "a list": b"[]",
    "deep": b"[" * 100_000,
    "other content": {"name": "another"},
    "no mapping": {"tags": ["a"]},
    "a huge time": {"started": 10**400},
    "a number as text": {"finals": {"accuracy": "high"}},
    "no finite number": {"finals": {"accuracy": float("nan")}},
    "an unknown status": {"status": "splendid"},
    "an unknown entry": {"colour": "blue"},
    "files": {"files": [["a"]]},
    "the form": {"form": "new"},
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_record_is_set_aside_and_not_believed(tmp_path: Path, kind: str) -> None:
    folder, damage, said = Folder(tmp_path / "sweep"), DAMAGES[kind], list[str]()
    assert recorded(folder) is None
    record(folder, PendingTrial("", "mine", {"a": "b"}, finals={"accuracy": 0.5}, started=7, status="finished"))
    found = recorded(folder)
    assert found is not None and (found.name, found.started, found.live) == ("mine", 7, False)
    kept = read_sealed(folder.tracking)
    if isinstance(damage, bytes):
        folder.tracking.write_bytes(damage)
    elif kind == "other content":
        folder.tracking.write_text(json.dumps({**json.loads(folder.tracking.read_text()), **damage}))
    else:
        rewritten(folder.tracking, **damage)
    with pytest.raises(DamageError):
        recorded(folder)
    assert views(tmp_path, "http://host") == []
    assert recalled(folder, said.append) is None
    assert said[0].startswith(f"{folder.tracking} is ")
    assert said[0].endswith("set aside as tracking.json.damaged, and written anew from the results")
    assert not folder.tracking.exists() and kept["form"]


def test_a_record_of_an_earlier_version_is_read_without_a_checksum(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.tracking.write_text(json.dumps({"name": "old", "tags": {}, "started": 3}))
    found = recorded(folder)
    assert found is not None and found.name == "old"


def test_artifacts_are_found_where_the_folder_is_now(tmp_path: Path) -> None:
    before, now = Folder(tmp_path / "before"), Folder(tmp_path / "now")
    files = [(str(before.sweep), ""), (str(before.report / "figures" / "a.png"), "report/figures")]
    record(before, PendingTrial("", "mine", {}, files=files))
    before.path.rename(now.path)
    found = recorded(now)
    assert found is not None
    assert found.files == [(str(now.sweep), ""), (str(now.report / "figures" / "a.png"), "report/figures")]


@pytest.mark.parametrize("known", [True, False])
def test_without_any_record_the_same_runs_come_out(copied: Path, known: bool) -> None:
    before, said = held(copied), list[str]()
    folder = Folder(copied / NAME)
    for path in (folder, *folder.trials()):
        path.tracking.unlink()
    folder.trial("ifca0").tracking.write_bytes(b"\x00")
    assert sent_again(copied, said, planned() if known else None)
    assert held(copied) == before
    assert len(said) == 1 and "set aside as tracking.json.damaged" in said[0]
    assert not sent_again(copied, said)


def test_a_trial_is_what_its_results_say_and_not_what_was_noted(copied: Path) -> None:
    before = held(copied)
    trial = Folder(copied / NAME).trial("ifca_mir1")
    rewritten(trial.tracking, status="unfinished", finals={}, there="mlflow.db")
    assert sent_again(copied, [], planned())
    assert held(copied) == before
    record = json.loads(trial.result.read_text())
    trial.result.write_text(json.dumps({**record, "status": "failed", "reason": "no room", "metrics": {}}))
    found = restored(trial, None, print)
    assert found is not None and (found.status, found.finals, found.tags["reason"]) == ("failed", {}, "no room")
    assert found.there == ""


@pytest.mark.parametrize("what", ["everything", "a report", "a table", "a folder in a file's place"])
def test_artifacts_that_were_deleted_are_sent_again(copied: Path, what: str) -> None:
    before, artifacts = held(copied), copied / "mlartifacts"
    if what == "everything":
        shutil.rmtree(artifacts)
    else:
        name = {"a report": "trade_off.png", "a table": "clients.json"}.get(what, "rounds.parquet")
        (file, *_) = [path for path in artifacts.rglob(name) if "description" not in path.parts]
        file.unlink()
    assert sent_again(copied, [])
    assert held(copied) == before
    assert not sent_again(copied, [])


def test_a_store_that_was_replaced_gets_everything_although_it_was_sent(copied: Path, empty_store: Path) -> None:
    before = held(copied)
    shutil.copy(empty_store, copied / "mlflow.db")
    assert sent_again(copied, [])
    assert held(copied) == before


def test_a_run_that_a_user_deleted_stays_deleted(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(copied)
    seen.client.delete_run(seen.trial("ifca0").info.run_id)
    monkeypatch.setattr(mlflow_store.Store, "open", lambda *_: pytest.fail("looked at"))
    assert not sent_again(copied, [])


@pytest.mark.parametrize("how", ["moved", "copied"])
def test_the_artifacts_are_those_of_the_folder_where_it_is_now(copied: Path, tmp_path: Path, how: str) -> None:
    there = tmp_path / "elsewhere, größer"
    shutil.copytree(copied, there)
    if how == "moved":
        shutil.rmtree(copied)
    tracker = Tracker(there, NAME)
    tracker.reconcile(tracker.folder.path)
    assert not tracker.behind and tracker.close(60)
    assert Seen(there).trial("ifca0").info.artifact_uri.startswith((there / "mlartifacts").as_uri())
    for file in (there / "mlartifacts").rglob("rounds.parquet"):
        file.unlink()
    tracker = Tracker(there, NAME)
    tracker.reconcile(tracker.folder.path)
    assert tracker.behind and tracker.close(60)
