"""Real Ray Tune on a planted sweep: the best on the two test images is not the best on the validation images.

The learning rate 0.05 teaches the model to answer always the same class, which is that of one of the two test images;
0.5 teaches it more, but neither of the two.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support.command import fedpriv, trials

pytestmark = pytest.mark.slow

SWEEP = """
name: planted
base:
  rounds: 4
  data:
    name: digits
    clients: 8
    examples_per_client: 20
    split_seed: 60
    test_size: 2
    nonmember_size: 0
    validation_size: 150
    split: {minority_ratio: 0.25}
  model: {name: mlp, hidden: [16]}
  training: {epochs: 2, batch_size: 10, clients_per_job: 4}
sweep:
  training.lr: {grid_search: [0.5, 0.05]}
tune:
  scheduler: {name: asha, grace_period: 2, reduction_factor: 2}
resources: {client_actors: 1, concurrent_trials: 1}
"""
LEARNS, REPEATS = 0.5, 0.05
OPTIMISTIC = "on the reported test set over 2 trials: accuracy is optimistic"


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: Any) -> Path:
    path: Path = tmp_path_factory.mktemp("sweep") / "planted.yaml"
    path.write_text(SWEEP)
    return path


def rounds(results: Path, lr: float) -> dict[str, list[Any]]:
    (ident,) = [row["id"] for row in trials(results, "planted") if row["training.lr"] == lr]
    table: dict[str, list[Any]] = pq.read_table(results / "planted" / "trials" / ident / "rounds.parquet").to_pydict()
    return table


def statuses(results: Path) -> dict[float, str]:
    return {row["training.lr"]: row["status"] for row in trials(results, "planted")}


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_a_scheduler_follows_validation(sweep: Path, tmp_path: Path) -> None:
    done = fedpriv(sweep, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    learnt, repeated = rounds(tmp_path, LEARNS), rounds(tmp_path, REPEATS)
    assert repeated["accuracy"][1] > learnt["accuracy"][1] + 0.2  # the plant: on the test set it is the other way round
    assert learnt["validation_accuracy"][1] > repeated["validation_accuracy"][1] + 0.05
    assert statuses(tmp_path) == {LEARNS: "finished", REPEATS: "stopped"}
    assert "tuned: hyperparameters chosen on validation accuracy over 2 trials" in one_line(done.stdout)
    assert "best validation_accuracy" in done.stdout


def test_on_the_test_set_the_other_trial_wins_and_the_table_says_so(sweep: Path, tmp_path: Path) -> None:
    done = fedpriv(sweep, tmp_path, "--set", "tune.metric=accuracy")
    assert done.returncode == 0, done.stdout + done.stderr
    assert statuses(tmp_path) == {LEARNS: "finished", REPEATS: "finished"}
    assert OPTIMISTIC in one_line(done.stdout)
    assert OPTIMISTIC in (tmp_path / "planted" / "report" / "summary.md").read_text()
    assert f"lr={REPEATS}" in next(line for line in done.stdout.splitlines() if line.startswith("best accuracy"))


def test_a_search_follows_validation(sweep: Path, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    done = fedpriv(
        sweep,
        tmp_path,
        *("--set", "sweep={training.lr: {choice: [0.05, 0.5]}}"),
        *("--set", "samples=2"),
        *("--set", "tune={search: {name: optuna, parallel: 1, startup: 1}}"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    accuracy, validated = ({row["training.lr"]: row[name] for row in trials(tmp_path, "planted")} for name in (
        "accuracy", "validation_accuracy"))  # fmt: skip
    assert accuracy[REPEATS] > accuracy[LEARNS] and validated[REPEATS] < validated[LEARNS]
    assert f"lr={LEARNS}" in next(line for line in done.stdout.splitlines() if line.startswith("best validation"))
