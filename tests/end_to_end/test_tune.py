"""Sweeps that are searched and stopped early, from the command to MLflow: real Tune, real
Optuna.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support.command import fedpriv, trials

pytest.importorskip("optuna")
pytestmark = pytest.mark.slow

TUNED = """
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
# The best on the two test images is not the best on the validation images: the learning rate 0.05
# teaches the model to answer always the same class, which is that of one of the two test images;
# 0.5 teaches it more, but neither of the two.
SPLIT = "split_seed: 60, test_size: 2, nonmember_size: 0, validation_size: 150, split:"
PLANTED = f"""
{TUNED.partition("sweep:")[0].replace("tuned", "planted").replace("split:", SPLIT).replace("rounds: 6", "rounds: 4")}
sweep:
  training.lr: {{grid_search: [0.5, 0.05]}}
tune:
  scheduler: {{name: asha, grace_period: 2, reduction_factor: 2}}
resources: {{client_actors: 1, concurrent_trials: 1}}
"""
LEARNS, REPEATS = 0.5, 0.05
OPTIMISTIC = "on the reported test set over 2 trials: accuracy is optimistic"


def ran(sweep: Path, results: Path, *sets: str) -> str:
    """Run a sweep; what it printed."""
    done = fedpriv(sweep, results, *(word for text in sets for word in ("--set", text)))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rounds(results: Path, name: str, trial: str) -> dict[str, list[Any]]:
    return pq.read_table(results / name / "trials" / trial / "rounds.parquet").to_pydict()


def test_hopeless_trials_are_stopped_and_go_on_without_the_scheduler(tmp_path):
    from mlflow import MlflowClient

    sweep, results = tmp_path / "tuned.yaml", tmp_path / "results"
    sweep.write_text(TUNED)
    printed = ran(sweep, results)
    assert "best accuracy" in printed and "stopped: asha in round 2 of 6, accuracy" in printed
    assert "best accuracy" in (results / "tuned" / "report" / "summary.md").read_text()
    rows = trials(results, "tuned")
    assert len(rows) == 6 and {row["status"] for row in rows} == {"finished", "stopped"}
    for row in rows:
        complete = len(rounds(results, "tuned", row["id"])["round"]) == 6
        assert (row["accuracy"] is not None) == (row["status"] == "finished") == complete
    assert rows[0]["status"] == "finished"  # of the first nothing is known to be better
    assert max(rows, key=lambda row: row["accuracy"] or 0)["training.lr"] > 0.01
    client = MlflowClient(f"sqlite:///{results / 'mlflow.db'}")
    runs = client.search_runs([client.get_experiment_by_name("tuned").experiment_id])
    statuses = {
        run.data.tags["fedpriv.trial"]: run.data.tags["status"]
        for run in runs
        if "fedpriv.trial" in run.data.tags
    }
    assert statuses == {row["id"]: row["status"] for row in rows}

    assert "all 6 trials are complete; nothing was trained" in ran(sweep, results)
    planned = fedpriv(sweep, results, "--dry-run", "--set", "samples=8").stdout
    assert "8 trials, 2 to run" in planned and all(row["id"] in planned for row in rows)

    printed = ran(sweep, results, "tune.scheduler=null")
    for trial in [row["id"] for row in rows if row["status"] == "stopped"]:
        assert "round 1/6" not in "".join(line for line in printed.splitlines() if trial in line)
        assert rounds(results, "tuned", trial)["round"] == list(range(6))
    assert {row["status"] for row in trials(results, "tuned")} == {"finished"}


@pytest.fixture
def planted(tmp_path) -> Path:
    (tmp_path / "planted.yaml").write_text(PLANTED)
    return tmp_path / "planted.yaml"


def by_rate(results: Path, column: str) -> dict[float, Any]:
    return {row["training.lr"]: row[column] for row in trials(results, "planted")}


def test_a_scheduler_follows_validation(planted, tmp_path):
    printed = ran(planted, tmp_path)
    learned, repeated = (
        rounds(tmp_path, "planted", by_rate(tmp_path, "id")[lr]) for lr in (LEARNS, REPEATS)
    )
    assert repeated["accuracy"][1] > learned["accuracy"][1] + 0.2  # the plant: the other way round
    assert learned["validation_accuracy"][1] > repeated["validation_accuracy"][1] + 0.05
    assert by_rate(tmp_path, "status") == {LEARNS: "finished", REPEATS: "stopped"}
    assert "tuned: hyperparameters chosen on validation accuracy over 2 trials" in " ".join(
        printed.split()
    )
    assert "best validation_accuracy" in printed


def test_on_the_test_set_the_other_trial_wins_and_the_table_says_so(planted, tmp_path):
    printed = ran(planted, tmp_path, "tune.metric=accuracy")
    assert by_rate(tmp_path, "status") == {LEARNS: "finished", REPEATS: "finished"}
    assert OPTIMISTIC in " ".join(printed.split())
    assert OPTIMISTIC in (tmp_path / "planted" / "report" / "summary.md").read_text()
    assert f"lr={REPEATS}" in next(
        line for line in printed.splitlines() if line.startswith("best accuracy")
    )


def test_a_search_follows_validation(planted, tmp_path):
    search = "tune={search: {name: optuna, parallel: 1, startup: 1}}"
    printed = ran(
        planted, tmp_path, "sweep={training.lr: {choice: [0.05, 0.5]}}", "samples=2", search
    )
    accuracy, validated = (by_rate(tmp_path, name) for name in ("accuracy", "validation_accuracy"))
    assert accuracy[REPEATS] > accuracy[LEARNS] and validated[REPEATS] < validated[LEARNS]
    assert f"lr={LEARNS}" in next(
        line for line in printed.splitlines() if line.startswith("best validation")
    )
