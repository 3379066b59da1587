"""A sweep of four trials as MLflow is told of it: for tests of what its pages show."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from orchestrator.results.folder import Folder, claim
from orchestrator.results.tables import write_trials
from orchestrator.tracking import previews
from orchestrator.tracking import tracker as tracking
from orchestrator.tracking.events import MlflowListener
from orchestrator.tracking.moved import follow
from orchestrator.tracking.tracker import Tracker
from tests.support.tracked import NAME, Seen, empty_store, results, rows, save

__all__ = ["empty_store", "results"]

RUN = {"data": {"name": "digits"}, "clustering": {"name": "ifca"}, "training": {"name": "local_sgd", "device": "cpu"}}
SWEEP = """
name: my sweep
description: Does B protect better than A?
base: {data: {name: digits}}
sweep:
  clustering.name: {grid_search: [ifca, ifca_mir]}
  seed: {grid_search: [0, 1]}
"""


def finals(kind: str, seed: int) -> dict[str, float]:
    return {"accuracy": 0.8 + seed / 100, "calibrated_auc": 0.7 if kind == "ifca" else 0.6, "loss": 1.0}


def tell(tracker: Tracker, kinds: tuple[str, ...] = ("ifca", "ifca_mir"), failed: tuple[str, ...] = ()) -> None:
    """A sweep of two seeds for each of ``kinds``, as its driver and the command report it."""
    folder, listener = tracker.folder, MlflowListener(tracker, tracker.folder)
    claim(folder, folder.name, SWEEP, "digest").release()
    tracker.sweep_started({"device": "cpu"})
    table = []
    for kind in kinds:
        for seed in (0, 1):
            trial, run = f"{kind}{seed}", {**RUN, "clustering": {"name": kind}, "seed": seed}
            swept = {"clustering.name": kind, "seed": seed}
            listener.on_planned(trial, "title", run, swept)
            listener.on_started(trial)
            listener.on_rounds(trial, rows(3))
            save(folder, trial, rows(3))
            bad = trial in failed
            record = {"id": trial, "status": "failed" if bad else "finished", "seconds": 2.0, "metrics": {}}
            record |= {"reason": "the disk is full"} if bad else {"metrics": finals(kind, seed)}
            record |= {"origin": {"data": "abc" + kind}}
            if bad:
                (folder.trial(trial).path / "error.txt").write_text("Traceback")
            folder.trial(trial).result.write_text(json.dumps(record))
            folder.trial(trial).config.write_text(json.dumps(run))
            listener.on_ended(trial, record)
            table.append({"id": trial, "status": record["status"], "data.name": "digits", **swept, **record["metrics"]})
    write_trials(folder, table)
    figure = folder.report / "trade_off.png"
    figure.parent.mkdir(exist_ok=True)
    Image.new("RGB", (1600, 100)).save(figure)
    tracker.sweep_finished([figure], "failed" if failed else "finished")


def experiment(seen: Seen):
    return seen.client.get_experiment_by_name(NAME)


def table(seen: Seen, run_id: str, name: str) -> dict:
    place = Path(seen.client.download_artifacts(run_id, f"{previews.FOLDER}/{name}"))
    return json.loads(place.read_text())


@pytest.fixture(scope="module")
def told(tmp_path_factory, empty_store) -> Path:
    """The results folder of a sweep that MLflow holds."""
    folder = tmp_path_factory.mktemp("told") / "results"
    claim(Folder(folder / NAME), NAME, SWEEP, "digest").release()
    shutil.copy(empty_store, folder / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracking, "GATHER_SECONDS", 0.01)
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        tracker = Tracker(folder, NAME)
        assert tracker.link() == ""
        tell(tracker)
        assert tracker.close(60)
    return folder


@pytest.fixture
def copied(told, tmp_path, monkeypatch) -> Path:
    """A copy of ``told``, as after a move, that a test may change."""
    monkeypatch.setattr(tracking, "GATHER_SECONDS", 0.01)
    shutil.copytree(told, tmp_path / "results")
    follow(tmp_path / "results")
    return tmp_path / "results"
