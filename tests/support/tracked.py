"""A finished sweep of four trials as it lies on the disk, made in a second, and what MLflow
holds of it.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from orchestrator.results import sweeps
from orchestrator.results.log import Log
from orchestrator.results.paths import Folder
from orchestrator.results.record import write_record
from orchestrator.results.tables import table_bytes
from orchestrator.tracking import store

NAME = "my sweep"
RUN = {
    "data": {"name": "digits"},
    "model": {"name": "mlp"},
    "training": {"name": "local_sgd", "device": "cpu"},
}
SWEEP = """
name: my sweep
description: Does B protect better than A?
base: {data: {name: digits}}
sweep:
  clustering.name: {grid_search: [ifca, ifca_mir]}
  seed: {grid_search: [0, 1]}
"""
TRIALS = {
    f"{kind}{seed}": {"clustering.name": kind, "seed": seed}
    for kind in ("ifca", "ifca_mir")
    for seed in (0, 1)
}
CLIENT = {"round": 0, "client": 0, "loss": 0.5}
ENDED = 1_700_000_000  # when every trial ended, in seconds since 1970


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory) -> Path:
    """A store without runs, made once for all files of tests, because making it takes seconds."""
    folder = tmp_path_factory.getbasetemp() / "empty-store"
    folder.mkdir(exist_ok=True)
    store.connect(folder)
    return folder / "mlflow.db"


@pytest.fixture
def folder(tmp_path, empty_store, monkeypatch) -> Folder:
    """The results of a finished sweep, beside a store that knows nothing of it."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    results = tmp_path / "results of mine #1, 50 % größer"
    results.mkdir()
    shutil.copy(empty_store, results / "mlflow.db")
    return finished_sweep(results)


def rows(rounds: int) -> list[dict[str, Any]]:
    """Rounds as a trial reports them: metrics that are there always, at times, and never."""
    return [
        {
            "round": r,
            "accuracy": (r + 1) / 7,
            "loss": math.nan if r % 3 == 2 else np.float32(1 / (r + 1)),
            "sia_mean": 0.5 + r / 100 if r == rounds - 1 else None,
            "purity": math.inf,
            "seconds": 0.25,
        }
        for r in range(rounds)
    ]


def finals(trial: str) -> dict[str, Any]:
    seed = TRIALS[trial]["seed"]
    risk = 0.7 if TRIALS[trial]["clustering.name"] == "ifca" else 0.6
    return {
        "accuracy": 0.8 + seed / 100,
        "calibrated_auc": risk,
        "sia_mean": 0.25,
        "guarantee": "none: no noise",
    }


def write_trial(folder: Folder, trial: str, status: str = "finished", rounds: int = 3) -> None:
    """Leave what a trial leaves when it ends."""
    own, swept = folder.trial(trial), TRIALS[trial]
    run = {**RUN, "clustering": {"name": swept["clustering.name"]}, "seed": swept["seed"]}
    files = {"rounds.parquet": table_bytes(rows(rounds)), "clients.parquet": table_bytes([CLIENT])}
    record: dict[str, Any] = {"status": status, "reason": None, "seconds": 2.0, "metrics": {}}
    record |= {"origin": {"data": "abc", "commit": "c0ffee", "device": "cpu"}}
    if status == "finished":
        record["metrics"] = finals(trial)
    else:
        record["reason"] = "the disk is full"
        own.path.mkdir(parents=True, exist_ok=True)
        own.error.write_text("Traceback")
    write_record(own, record, run, files)
    os.utime(own.manifest, (ENDED, ENDED))


def write_sweep(folder: Folder) -> None:
    """Leave the manifest of the sweep, the table of trials, and a report of one figure."""
    plan = [{"id": trial, "data.name": "digits", **swept} for trial, swept in TRIALS.items()]
    sweeps.write_sweep(folder, NAME, SWEEP, plan, ["clustering.name", "seed"])
    picture, report = BytesIO(), Log(folder.report, NAME)
    Image.new("RGB", (1600, 100)).save(picture, "png")
    report.append("trade_off.png", picture.getvalue())
    report.finish({})


def finished_sweep(results: Path) -> Folder:
    folder = Folder(results / NAME)
    for trial in TRIALS:
        write_trial(folder, trial)
    write_sweep(folder)
    return folder


class Held:
    """What MLflow holds of the sweep, asked anew: its runs that are not deleted, by trial; the
    sweep's own is "".
    """

    def __init__(self, folder: Folder, uri: str | None = None) -> None:
        self.client = store.connect(folder.path.parent, uri)
        self.experiment = self.client.get_experiment_by_name(folder.name)
        self.runs = {
            run.data.tags.get("fedpriv.trial", ""): run
            for run in self.client.search_runs([self.experiment.experiment_id])
        }

    @property
    def ids(self) -> dict[str, str]:
        return {trial: run.info.run_id for trial, run in self.runs.items()}

    def points(self, trial: str) -> dict[str, list[tuple[int, float]]]:
        """Steps and values by metric."""
        run = self.runs[trial]
        found = {
            key: self.client.get_metric_history(run.info.run_id, key) for key in run.data.metrics
        }
        return {
            key: sorted((point.step, point.value) for point in points)
            for key, points in found.items()
        }

    def files(self, trial: str, below: str | None = None) -> set[str]:
        return set(self._files(self.ids[trial], below))

    def _files(self, run: str, below: str | None) -> Iterator[str]:
        for file in self.client.list_artifacts(run, below):
            yield from self._files(run, file.path) if file.is_dir else [file.path]

    def everything(self) -> dict[str, Any]:
        """All that is the same whenever and however often it was logged."""
        return {
            trial: (
                run.info.status,
                run.info.run_name,
                run.info.end_time,
                run.data.params,
                {
                    tag: text
                    for tag, text in run.data.tags.items()
                    if tag not in ("mlflow.parentRunId", "mlflow.note.content")
                },
                self.points(trial),
                self.files(trial),
                [one.dataset.digest for one in run.inputs.dataset_inputs],
            )
            for trial, run in self.runs.items()
        }
