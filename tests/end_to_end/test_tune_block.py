"""A sweep that is searched and stopped early, from the command to MLflow: real Tune, real Optuna."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.command import fedpriv, trials

pytest.importorskip("optuna")
pytestmark = pytest.mark.slow

SWEEP = """
name: tuned
base:
  rounds: 6
  data: {name: digits, clients: 8, examples_per_client: 20, split: {minority_ratio: 0.25}}
  model: {name: mlp, hidden: [16]}
  training: {epochs: 2, batch_size: 10, clients_per_job: 4}
sweep:
  training.lr: {loguniform: [0.00001, 1]}
samples: 6
tune:
  metric: accuracy
  mode: max
  scheduler: {name: asha, grace_period: 2, reduction_factor: 2}
  search: {name: optuna, parallel: 1, startup: 3}
resources: {client_actors: 1}
"""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("sweep") / "tuned.yaml"
    path.write_text(SWEEP)
    return path


@pytest.fixture(scope="module")
def results(sweep, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    done = fedpriv(sweep, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "best accuracy" in done.stdout
    assert "stopped: asha in round 2 of 6, accuracy" in done.stdout
    return folder


def test_hopeless_trials_are_stopped_and_have_no_final_metrics(results):
    rows = trials(results, "tuned")
    assert len(rows) == 6
    assert {row["status"] for row in rows} == {"finished", "stopped"}
    for row in rows:
        rounds = pq.read_table(results / "tuned" / "trials" / row["id"] / "rounds.parquet").num_rows
        assert (row["accuracy"] is None) == (row["status"] == "stopped") == (rounds < 6)
    assert rows[0]["status"] == "finished"  # of the first nothing is known to be better
    best = max(rows, key=lambda row: row["accuracy"] or 0)
    assert best["training.lr"] > 0.01


def test_mlflow_knows_who_was_stopped(results):
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{results / 'mlflow.db'}")
    (experiment,) = [one for one in client.search_experiments() if one.name == "tuned"]
    runs = [run for run in client.search_runs([experiment.experiment_id]) if "fedpriv.trial" in run.data.tags]
    told = {run.data.tags["fedpriv.trial"]: run.data.tags["status"] for run in runs}
    assert told == {row["id"]: row["status"] for row in trials(results, "tuned")}


def test_a_further_run_trains_nothing_and_a_longer_one_goes_on(results, sweep):
    before = [row["id"] for row in trials(results, "tuned")]
    again = fedpriv(sweep, results)
    assert again.returncode == 0, again.stderr
    assert "all 6 trials are complete; nothing was trained" in again.stdout
    planned = fedpriv(sweep, results, "--dry-run", "--set", "samples=8")
    assert planned.returncode == 0, planned.stderr
    assert "8 trials, 2 to run" in planned.stdout
    assert all(trial in planned.stdout for trial in before)


@pytest.mark.slow
def test_without_the_scheduler_stopped_trials_go_on_from_where_they_were(results, sweep):
    stopped = [row["id"] for row in trials(results, "tuned") if row["status"] == "stopped"]
    done = fedpriv(sweep, results, "--set", "tune.scheduler=null")
    assert done.returncode == 0, done.stdout + done.stderr
    for trial in stopped:
        folder = results / "tuned" / "trials" / trial
        if json.loads((folder / "manifest.json").read_text())["facts"]["status"] == "finished":
            assert "round 1/6" not in "".join(line for line in done.stdout.splitlines() if trial in line)
            assert pq.read_table(folder / "rounds.parquet").column("round").to_pylist() == list(range(6))
    assert {row["status"] for row in trials(results, "tuned")} == {"finished"}
