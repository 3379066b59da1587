"""One small sweep, from the command to MLflow: complete, repeated, continued after a kill, with other numbers of actors."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from safetensors.numpy import load_file

from orchestrator.cluster.orphans import ray_processes
from orchestrator.config.own_code import install
from tests.support.command import SWEEP, fedpriv, signalled_after, trials
from tests.support.complete import mlflow_holds_all, nothing_left, the_same
from tests.support.own_code import AGGREGATION, written
from tests.support.random_kills import ACTOR, DRIVER, HEAD, TASK, Kill, Killed, Run
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
def sweep(tmp_path_factory) -> Iterator[Path]:
    """The sweep with an aggregation of one's own beside it, which real workers must have, too."""
    path = tmp_path_factory.mktemp("sweep") / "tiny.yaml"
    path.write_text(SWEEP.replace("base:\n", "code: scaled.py\nbase:\n  aggregation: scaled\n"))
    written(path.parent, {"scaled.py": AGGREGATION.replace("LABEL =", 'SLOT = "aggregation"\nLABEL =')})
    assert install([path.parent / "scaled.py"]) == []  # whose metric has a heading of its own in MLflow
    yield path
    install(())


# In this order: a shadow task as soon as there is one, and the others once so many rounds were told.
KILLS = [(TASK, "driver", 0), (ACTOR, "rounds", 1), (DRIVER, "rounds", 3), (HEAD, "rounds", 6)]


@dataclass
class Story:
    """The sweep, killed and given again: in the second session Ctrl-C, and the third comes to its end on three actors.

    Attributes:
        results: the results folder.
        killed: the kills of the first session, and what it said.
        number: its number; ``left`` is how many of its processes were still there when it had been killed.
        stopped: exit code and output of the second session, and the statuses of the trials after it.
        said: the output of the third session.
    """

    results: Path
    killed: Killed
    number: str
    left: int
    stopped: tuple[int, str, list[str]]
    said: str


@pytest.fixture(scope="module")
def story(own_ray, sweep, tmp_path_factory) -> Story:
    results = tmp_path_factory.mktemp("story") / "results"
    run = Run(sweep, results, [Kill(who, moment, rounds, 0) for who, moment, rounds in KILLS], trials=4, soon=60)
    assert run.session(), run.came
    number = (results / "tiny" / ".fedpriv.lock").read_text().partition(" ")[0]
    left = left_by(number)
    code, printed = signalled_after(signal.SIGINT, "finished in", sweep, results)
    statuses = [row["status"] for row in trials(results)]
    done = fedpriv(sweep, results, "--set", "resources.client_actors=3")
    assert done.returncode == 0, done.stdout + done.stderr
    return Story(results, run.came, number, left, (code, printed, statuses), done.stdout)


@pytest.fixture(scope="module")
def finished(story) -> tuple[Path, str]:
    """The results of the complete sweep, and what the terminal showed."""
    return story.results, story.said


def left_by(number: str) -> int:
    """How many processes of the Ray of the command with this number there are."""
    return sum(len(processes) for mark, processes in ray_processes().items() if mark.startswith(f"{number} "))


def test_a_shadow_task_an_actor_the_trial_and_the_head_are_killed_and_no_round_is_done_twice(story):
    kills = story.killed.kills
    assert all(kill.done.endswith(kill.who) for kill in kills), story.killed
    told = [line for text in (*story.killed.logs, story.stopped[1], story.said) for line in text.splitlines()]
    rounds = [line.partition("  accuracy")[0].partition("  ")[2] for line in told if "  round " in line]
    assert len(rounds) >= 16 and len(rounds) == len(set(rounds)), f"a complete round was done again: {told}"
    mlflow_holds_all(story.results, "tiny")
    nothing_left(story.results)


def test_control_c_keeps_what_is_done_and_says_how_to_go_on(story):
    code, printed, statuses = story.stopped
    assert code == 130, printed
    assert "the same command resumes from there" in printed
    assert set(statuses) == {"finished", "unfinished"}
    assert f"{statuses.count('finished')} of 4 trials are complete and are not repeated" in story.said


def test_interrupted_and_resumed_it_ends_with_the_bytes_of_one_process(story, sweep, tmp_path):
    the_same(undisturbed(sweep, tmp_path), story.results, "tiny")


def test_what_the_killed_command_outputs_was_ended_by_the_next(story):
    assert story.left >= 2  # two of Ray's agents would stay for a minute
    assert f"that an earlier run (process {story.number}, killed) left behind" in story.stopped[1]
    assert not left_by(story.number)


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
        assert (row["data.name"], row["aggregation.name"]) == ("digits", "scaled") and row["step_length"] > 0
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


def test_mlflow_shows_the_children_below_the_sweep_with_their_final_values(finished):
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{finished[0] / 'mlflow.db'}")
    (experiment,) = [one for one in client.search_experiments() if one.name == "tiny"]
    runs = {run.data.tags.get("fedpriv.trial", ""): run for run in client.search_runs([experiment.experiment_id])}
    parent = runs.pop("").info.run_id
    for row in trials(finished[0]):
        assert runs[row["id"]].data.tags["mlflow.parentRunId"] == parent
        assert runs[row["id"]].data.metrics["accuracy/accuracy"] == row["accuracy"]


def test_running_again_trains_nothing(finished, sweep):
    results = finished[0]
    before = {path: path.stat().st_mtime_ns for path in (results / "tiny" / "trials").rglob("*") if path.is_file()}
    again = fedpriv(sweep, results)
    assert again.returncode == 0, again.stderr
    assert "nothing was trained" in again.stdout
    after = {path: path.stat().st_mtime_ns for path in (results / "tiny" / "trials").rglob("*") if path.is_file()}
    assert after == before


def odd(tmp_path: Path) -> Path:
    """A sweep of which one trial diverges: a step multiplies the weights by 1 - 1e6 lr, by 0 or by -1e5 until they overflow."""
    held = yaml.safe_load(SWEEP)
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


def test_a_diverging_trial_has_no_metrics(tmp_path):
    one_diverged(undisturbed(odd(tmp_path), tmp_path))


@pytest.mark.slow
def test_a_diverging_trial_is_marked_and_the_others_go_on(tmp_path):
    done = fedpriv(odd(tmp_path), tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    one_diverged(tmp_path)
