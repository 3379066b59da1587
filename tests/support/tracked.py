"""What the tests of tracking share: an empty store, trials that report, and what MLflow then holds."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from orchestrator.results.folder import Folder, claim
from orchestrator.results.integrity import read_sealed, sealed
from orchestrator.results.tables import write_table
from orchestrator.tracking import labels, mlflow_lookup, places
from orchestrator.tracking import tracker as tracking
from orchestrator.tracking.tracker import Tracker

NAME = "my sweep"
CONFIG = {"model": {"name": "mlp"}, "attacks": [{"name": "shadow_mia", "every": 5}], "seed": 1}


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory) -> Path:
    """A store without runs, made once for all files of tests, because making it takes seconds."""
    folder = tmp_path_factory.getbasetemp() / "empty-store"
    folder.mkdir(exist_ok=True)
    if not (folder / "mlflow.db").exists():
        places.configure_environment()
        mlflow_lookup.create(folder)
    return folder / "mlflow.db"


@pytest.fixture
def results(tmp_path, empty_store, monkeypatch) -> Path:
    """A results folder whose store has no runs yet, and a tracker that does not wait."""
    folder = tmp_path / "results of mine #1, 50 % größer"
    folder.mkdir()
    shutil.copy(empty_store, folder / "mlflow.db")
    monkeypatch.setattr(tracking, "GATHER_SECONDS", 0.01)
    monkeypatch.setattr(tracking, "LONGEST_PAUSE", 0.05)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    claim(Folder(folder / NAME), NAME, "name: my sweep\n", "digest").release()
    return folder


def rows(rounds: int, scale: float = 1.0) -> list[dict]:
    """Rounds as a trial reports them: metrics that are there always, at times, and never."""
    return [
        {
            "round": r,
            "accuracy": scale * (r + 1) / 7,
            "loss": math.nan if r % 3 == 2 else np.float32(scale / (r + 1)),
            "mia_accuracy_majority": 0.5 + r / 100 if r % 5 == 4 else None,
            "purity": math.inf,
            "seconds": 0.25,
        }
        for r in range(rounds)
    ]


def expected(trial_rows: list[dict], finals: dict | None = None) -> dict[str, list[tuple[int, float]]]:
    """What MLflow must hold of these rows: every finite value at its round, and finals that the last value is not."""
    found: dict[str, list[tuple[int, float]]] = {}
    for row in trial_rows:
        for name, value in row.items():
            if value is not None and math.isfinite(value):
                shown = row["round"] + 1 if name == "round" else value  # rounds count from 1 there
                found.setdefault(labels.metric_key(name), []).append((row["round"] + 1, float(shown)))
    for name, value in (finals or {}).items():
        key = labels.metric_key(name)
        if value is not None and math.isfinite(value) and (key not in found or found[key][-1][1] != value):
            found.setdefault(key, []).append((len(trial_rows), float(value)))
    return found


class Seen:
    """What MLflow holds, asked anew."""

    def __init__(self, results: Path, uri: str | None = None, name: str = NAME) -> None:
        from mlflow import MlflowClient

        self.client = MlflowClient(places.address(results, uri))
        experiment = self.client.get_experiment_by_name(name)
        self.runs = self.client.search_runs([experiment.experiment_id]) if experiment else []
        self.parents = [run for run in self.runs if "mlflow.parentRunId" not in run.data.tags]

    def trial(self, trial_id: str):
        (run,) = [run for run in self.runs if run.data.tags.get("fedpriv.trial") == trial_id]
        return run

    def metrics(self, trial_id: str) -> dict[str, list[tuple[int, float]]]:
        run = self.trial(trial_id)
        histories = {name: self.client.get_metric_history(run.info.run_id, name) for name in run.data.metrics}
        return {name: sorted((m.step, m.value) for m in history) for name, history in histories.items()}

    def artifacts(self, trial_id: str, path: str | None = None) -> list[str]:
        run = self.trial(trial_id) if trial_id else self.parents[0]
        return sorted(file.path for file in self.client.list_artifacts(run.info.run_id, path))


def save(folder: Folder, trial_id: str, trial_rows: list[dict]) -> Path:
    """Write a trial's files as its driver does."""
    trial = folder.trial(trial_id)
    write_table(trial.table("rounds"), trial_rows)
    write_table(trial.table("clients"), [{"round": 0, "client": 0, "loss": 0.5}])
    trial.config.write_text(json.dumps(CONFIG))
    return trial.path


def run_trial(tracker: Tracker, trial_id: str, trial_rows: list[dict], finals: dict, status: str = "finished") -> None:
    tracker.trial_started(trial_id, CONFIG, {"device": "cpu"}, f"ifca seed={trial_id}")
    for row in trial_rows:
        tracker.rounds(trial_id, [row])
    tracker.trial_finished(trial_id, status, finals, save(tracker.folder, trial_id, trial_rows))


def rewritten(path: Path, **changes) -> None:
    """Change entries of a sealed file, as a process that wrote others."""
    path.write_text(json.dumps(sealed({**read_sealed(path), **changes})))


def forget(folder: Folder) -> None:
    """As if the process had been killed before it noted that MLflow holds everything."""
    for trial in folder.trials():
        rewritten(trial.tracking, there="")
