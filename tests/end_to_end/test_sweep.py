"""One small sweep, from the command to MLflow: complete, repeated, continued after a kill, with other numbers of actors."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from safetensors.numpy import load_file

from orchestrator.cluster.orphans import ray_processes
from tests.support.command import SWEEP, fedpriv, interrupted_after, killed_after, same_results, trials
from tests.support.undisturbed import undisturbed

pytestmark = pytest.mark.usefixtures("own_ray")

FINAL = [
    "accuracy",
    *(f"{metric}_{group}" for metric in ("accuracy", "model_accuracy") for group in ("majority", "minority")),
    *("mia_accuracy_majority", "mia_accuracy_minority", "violations", "violations_majority", "violations_minority"),
    *("risk_majority", "risk_minority", "risk_worst_client", "violations_null", "moved_majority", "moved_minority"),
    *("migrated", "purity", "demographic_parity", "equal_opportunity", "equalized_odds", "seconds_per_round"),
]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("sweep") / "tiny.yaml"
    path.write_text(SWEEP)
    return path


@pytest.fixture(scope="module")
def stopped(own_ray, sweep, tmp_path_factory) -> tuple[Path, int, str, list[str]]:
    """The sweep after Ctrl-C, given when a trial had ended: its results, exit code, output, and the trials' statuses."""
    results = tmp_path_factory.mktemp("results")
    code, printed = interrupted_after("finished in", sweep, results)
    return results, code, printed, [row["status"] for row in trials(results)]


@pytest.fixture(scope="module")
def killed(stopped, sweep) -> tuple[Path, str, int, str, int]:
    """The same after kill -9, when a further trial had ended.

    Its results, output, how many trials are done, its number, and how many processes it left.
    """
    printed = killed_after("finished in", sweep, stopped[0])
    number = (stopped[0] / "tiny" / ".fedpriv.lock").read_text().partition(" ")[0]
    done = len(list((stopped[0] / "tiny" / "trials").glob("*/manifest.json")))
    return stopped[0], printed, done, number, left_by(number)


def left_by(number: str) -> int:
    """How many processes of the Ray of the command with this number there are."""
    return sum(len(processes) for mark, processes in ray_processes().items() if mark.startswith(f"{number} "))


@pytest.fixture(scope="module")
def finished(killed, sweep) -> tuple[Path, str]:
    """The same after it came to its end, the last trials on three actors: its results, and what the terminal showed."""
    done = fedpriv(sweep, killed[0], "--set", "resources.client_actors=3")
    assert done.returncode == 0, done.stdout + done.stderr
    return killed[0], done.stdout


def test_control_c_keeps_what_is_done_and_says_how_to_go_on(stopped):
    _, code, printed, statuses = stopped
    assert code == 130, printed
    assert "the same command resumes from there" in printed
    assert "finished" in statuses
    assert set(statuses) == {"finished", "unfinished"}


def test_interrupted_and_resumed_it_ends_with_the_bytes_of_one_process(killed, finished, sweep, tmp_path):
    _, printed, done, *_ = killed
    assert 2 <= done < 4, printed
    assert f"{done} of 4 trials are complete and are not repeated" in finished[1]
    same_results(undisturbed(sweep, tmp_path), finished[0])


def test_what_the_killed_command_outputs_was_ended_by_the_next(killed, finished):
    *_, number, left = killed
    assert left >= 2  # two of Ray's agents would stay for a minute
    assert f"that an earlier run (process {number}, killed) left behind" in finished[1]
    assert not left_by(number)


def test_every_trial_has_its_row_and_every_final_metric(finished):
    rows = trials(finished[0])
    assert [row["status"] for row in rows] == ["finished"] * 4
    assert [(row["clustering.name"], row["training.lr"]) for row in rows] == [
        ("ifca", 0.1),
        ("ifca", 0.2),
        ("ifca_mir", 0.1),
        ("ifca_mir", 0.2),
    ]
    for row in rows:
        assert set(FINAL) <= row.keys()
        assert row["data.name"] == "digits"
        assert row["data.split.name"] == "groups"
        assert 0 <= row["accuracy"] <= 1
        assert row["violations"] == row["violations_majority"] + row["violations_minority"]


def test_tables_of_a_trial_hold_what_is_promised(finished):
    folder = finished[0] / "tiny" / "trials" / trials(finished[0])[0]["id"]
    rounds = pq.read_table(folder / "rounds.parquet").to_pylist()
    assert [row["round"] for row in rounds] == [0, 1, 2, 3]
    final = trials(finished[0])[0]
    assert {name: rounds[-1][name] for name in FINAL[:-1]} == {name: final[name] for name in FINAL[:-1]}
    clients = pq.read_table(folder / "clients.parquet").to_pylist()
    assert [(row["round"], row["client"]) for row in clients] == [(t, i) for t in range(4) for i in range(8)]
    assert [row["group"] for row in clients[:8]].count("minority") == 2
    attacks = pq.read_table(folder / "attacks.parquet").to_pylist()
    assert {row["attack"] for row in attacks} >= {
        "shadow_mia",
        "loss_threshold",
        "confidence",
        "gap",
        "risk",
        "maximum",
    }
    assert {row["round"] for row in attacks} == {2, 4}
    scores = pq.read_table(folder / "scores.parquet")
    assert set(scores.column_names) == {"attack", "round", "target", "client", "member", "left", "score"}
    arrays = load_file(folder / "model.safetensors")
    assert sum(array.size for array in arrays.values()) == 2 * (64 * 16 + 16 + 16 * 10 + 10)
    assert not (folder / "state").exists()


def test_the_terminal_shows_rounds_and_the_table(finished):
    shown = finished[1]
    assert "round 4/4" in shown
    assert "IFCA-MIR" in shown
    assert "MIA" in shown
    assert "fedpriv ui" in shown


def test_the_report_is_written(finished):
    report = finished[0] / "tiny" / "report"
    assert {"summary.csv", "summary.md", "membership_inference.png", "convergence.png"} <= {
        path.name for path in report.iterdir()
    }


def test_mlflow_holds_one_parent_with_its_children(finished):
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{finished[0] / 'mlflow.db'}")
    (experiment,) = [one for one in client.search_experiments() if one.name == "tiny"]
    runs = client.search_runs([experiment.experiment_id])
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    children = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
    assert len(parents) == 1
    assert len(children) == 4
    assert {child.data.tags["mlflow.parentRunId"] for child in children} == {parents[0].info.run_id}
    rows = {row["id"]: row for row in trials(finished[0])}
    for child in children:
        row = next(row for trial, row in rows.items() if trial in child.data.tags.values())
        assert child.data.metrics["accuracy/accuracy"] == row["accuracy"]
        history = client.get_metric_history(child.info.run_id, "accuracy/loss")
        assert sorted(point.step for point in history) == [1, 2, 3, 4]
        assert {file.path for file in client.list_artifacts(child.info.run_id)} >= {"clients.parquet", "config.yaml"}
    assert {file.path for file in client.list_artifacts(parents[0].info.run_id)} >= {"sweep.yaml", "report"}


def test_running_again_trains_nothing(finished, sweep):
    results = finished[0]
    before = {path: path.stat().st_mtime_ns for path in (results / "tiny" / "trials").rglob("*") if path.is_file()}
    again = fedpriv(sweep, results)
    assert again.returncode == 0, again.stderr
    assert "nothing was trained" in again.stdout
    after = {path: path.stat().st_mtime_ns for path in (results / "tiny" / "trials").rglob("*") if path.is_file()}
    assert after == before


def odd(sweep: Path, tmp_path: Path) -> Path:
    """A sweep of which one trial diverges: a step multiplies the weights by 1 - 1e6 lr, by 0 or by -1e5 until they overflow."""
    held = yaml.safe_load(sweep.read_text())
    held["base"] |= {"objective": {"name": "finp", "beta": 0.5}, "attacks": [{"name": "sia"}]}
    held["base"]["training"]["weight_decay"] = 1e6
    grids = {"clustering.name": {"grid_search": ["ifca"]}, "training.lr": {"grid_search": [1e-6, 0.1]}}
    path = tmp_path / "odd.yaml"
    path.write_text(yaml.safe_dump(held | {"name": "odd", "sweep": grids}))
    return path


def one_diverged(results: Path) -> None:
    """A trial without numbers has empty metrics, not zeros: of accuracy, of fairness, of who is exposed."""
    rows = trials(results, "odd")
    assert [row["status"] for row in rows] == ["finished", "diverged"]
    for name in ("accuracy", "purity", "sia_mean", "sia_cov", "eod", "eod_null", "loss_cov", "loss_fi"):
        assert (rows[0][name] is None, rows[1][name] is None) == (False, True), name


def test_a_diverging_trial_has_no_metrics(sweep, tmp_path):
    one_diverged(undisturbed(odd(sweep, tmp_path), tmp_path))


@pytest.mark.slow
def test_a_diverging_trial_is_marked_and_the_others_go_on(sweep, tmp_path):
    done = fedpriv(odd(sweep, tmp_path), tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    one_diverged(tmp_path)
