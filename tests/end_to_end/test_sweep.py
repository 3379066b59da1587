"""One small sweep, from the command to MLflow: killed wherever it hurts, resumed with more
actors, complete, and repeated.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from safetensors.numpy import load_file

from orchestrator.cli import main
from orchestrator.cluster.orphans import ray_processes
from orchestrator.config.own_code import install
from tests.support.command import (
    SWEEP,
    Head,
    arguments,
    fedpriv,
    mlflow_holds_all,
    nothing_left,
    same_results,
    trials,
    watched,
)
from tests.support.inline_sweep import undisturbed
from tests.support.local_cluster import named
from tests.support.own_code import AGGREGATION, written
from tests.support.random_kills import ACTOR, DRIVER, NAMES, TASK

pytestmark = pytest.mark.usefixtures("own_ray")

FINAL = [
    "accuracy",
    *(
        f"{metric}_{group}"
        for metric in ("accuracy", "model_accuracy")
        for group in ("majority", "minority")
    ),
    *(
        "mia_accuracy_majority",
        "mia_accuracy_minority",
        "violations",
        "violations_majority",
        "violations_minority",
    ),
    *(
        "risk_majority",
        "risk_minority",
        "risk_worst_client",
        "violations_null",
        "moved_majority",
        "moved_minority",
    ),
    *(
        "migrated",
        "purity",
        "demographic_parity",
        "equal_opportunity",
        "equalized_odds",
        "seconds_per_round",
    ),
]
SHADOW_MIA = {"shadow_mia", "loss_threshold", "confidence", "gap", "risk"}


@pytest.fixture(scope="module")
def sweep(tmp_path_factory) -> Iterator[Path]:
    """The sweep with an aggregation of one's own beside it, which real workers must have, too."""
    path = tmp_path_factory.mktemp("sweep") / "tiny.yaml"
    path.write_text(SWEEP.replace("base:\n", "code: scaled.py\nbase:\n  aggregation: scaled\n"))
    written(
        path.parent, {"scaled.py": AGGREGATION.replace("LABEL =", 'SLOT = "aggregation"\nLABEL =')}
    )
    assert (
        install([path.parent / "scaled.py"]) == []
    )  # whose metric has a heading of its own in MLflow
    yield path
    install(())


def killing(who: str) -> Callable[[Head], None]:
    """Kill somebody of a session as soon as there is one."""

    def kill(head: Head) -> None:
        deadline = time.monotonic() + 120
        while not (victims := named(head.pid, NAMES[who])) and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(victims[0], signal.SIGKILL)

    return kill


@dataclass
class Story:
    """The sweep, killed and given again: the second session comes to its end on two actors.

    Attributes:
        results: the results folder.
        printed: what the two sessions said.
        number: the number of the first; ``left`` is how many of its processes were still there when
            it had been killed.
    """

    results: Path
    printed: tuple[str, str]
    number: str
    left: int


@pytest.fixture(scope="module")
def story(own_ray, sweep, tmp_path_factory) -> Story:
    results = tmp_path_factory.mktemp("story") / "results"
    events = [
        ("round 1/4", killing(TASK)),
        ("round 2/4", killing(ACTOR)),
        ("round 3/4", killing(DRIVER)),
    ]
    code, killed = watched(arguments(sweep, results), *events, ("lr=0.2  round 2/4", Head.kill))
    assert code == -signal.SIGKILL, killed
    number = (results / "tiny" / ".fedpriv.lock").read_text().partition(" ")[0]
    left = left_by(number)
    done = fedpriv(sweep, results, "--set", "resources.client_actors=2")
    assert done.returncode == 0, done.stdout + done.stderr
    return Story(results, (killed, done.stdout), number, left)


def left_by(number: str) -> int:
    """How many processes of the Ray of the command with this number there are."""
    return sum(
        len(processes)
        for mark, processes in ray_processes().items()
        if mark.startswith(f"{number} ")
    )


def test_a_shadow_task_an_actor_the_trial_and_the_head_are_killed_and_no_round_is_done_twice(story):
    lines = [line for text in story.printed for line in text.splitlines() if "  round " in line]
    rounds = [line.partition("  accuracy")[0].partition("  ")[2] for line in lines]
    # The second trial may have gone on between the line of its second round and the kill, unseen.
    assert re.search("[12] of 4 trials are complete and are not repeated", story.printed[1])
    every = {
        f"{kind} lr={lr}  round {k}/4"
        for kind in ("ifca", "ifca_mir")
        for lr in (0.1, 0.2)
        for k in range(1, 5)
    }
    assert every - set(rounds) <= {"ifca lr=0.2  round 3/4", "ifca lr=0.2  round 4/4"}
    assert len(rounds) == len(set(rounds)), f"a complete round was done again: {lines}"


def test_what_the_killed_command_left_was_ended_by_the_next(story):
    assert story.left >= 2  # two of Ray's agents would stay for a minute
    assert f"that an earlier run (process {story.number}, killed) left behind" in story.printed[1]
    assert not left_by(story.number)
    nothing_left(story.results)


def test_interrupted_and_resumed_it_ends_with_the_bytes_of_one_process(story, sweep, tmp_path):
    same_results(undisturbed(sweep, tmp_path), story.results)


def test_tables_hold_what_is_promised(story):
    rows = trials(story.results)
    settings = [(row["status"], row["clustering.name"], row["training.lr"]) for row in rows]
    assert settings == [
        ("finished", kind, lr) for kind in ("ifca", "ifca_mir") for lr in (0.1, 0.2)
    ]
    for row in rows:
        assert set(FINAL) <= row.keys()
        assert (row["data.name"], row["aggregation.name"]) == ("digits", "scaled") and row[
            "step_length"
        ] > 0
        assert 0 <= row["accuracy"] <= 1
        assert row["violations"] == row["violations_majority"] + row["violations_minority"]
    folder = story.results / "tiny" / "trials" / rows[0]["id"]
    tables = {path.stem: pq.read_table(path).to_pylist() for path in folder.glob("*.parquet")}
    assert [row["round"] for row in tables["rounds"]] == [0, 1, 2, 3]
    assert {name: tables["rounds"][-1][name] for name in FINAL[:-1]} == {
        name: rows[0][name] for name in FINAL[:-1]
    }
    assert [(row["round"], row["client"]) for row in tables["clients"]] == [
        (t, i) for t in range(4) for i in range(8)
    ]
    assert [row["group"] for row in tables["clients"][:8]].count("minority") == 2
    assert {row["attack"] for row in tables["attacks"]} >= SHADOW_MIA
    assert {row["round"] for row in tables["attacks"]} == {2, 4}
    arrays = load_file(folder / "model.safetensors")
    assert sum(array.size for array in arrays.values()) == 2 * (64 * 16 + 16 + 16 * 10 + 10)


def test_mlflow_holds_it_all(story):
    mlflow_holds_all(story.results)


def test_running_again_trains_nothing(story, sweep, capsys, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    files = [path for path in (story.results / "tiny" / "trials").rglob("*") if path.is_file()]
    before = [path.stat().st_mtime_ns for path in files]
    assert main(arguments(sweep, story.results)[3:]) == 0
    assert "nothing was trained" in capsys.readouterr().out
    assert [path.stat().st_mtime_ns for path in files] == before


def odd(tmp_path: Path) -> Path:
    """A sweep of which one trial diverges: a step multiplies the weights by 1 - 1e6 lr, by 0 or
    by -1e5 until they overflow.
    """
    sweep = yaml.safe_load(SWEEP)
    sweep["base"] |= {"objective": {"name": "finp", "beta": 0.5}, "attacks": [{"name": "sia"}]}
    sweep["base"]["training"]["weight_decay"] = 1e6
    grids = {
        "clustering.name": {"grid_search": ["ifca"]},
        "training.lr": {"grid_search": [1e-6, 0.1]},
    }
    path = tmp_path / "odd.yaml"
    path.write_text(yaml.safe_dump(sweep | {"name": "odd", "sweep": grids}))
    return path


def one_diverged(results: Path) -> None:
    """A trial without numbers has empty metrics, not zeros: of accuracy, of fairness, of who is
    exposed.
    """
    rows = trials(results, "odd")
    assert [row["status"] for row in rows] == ["finished", "diverged"]
    for name in (
        "accuracy",
        "purity",
        "sia_mean",
        "sia_cov",
        "eod",
        "eod_null",
        "loss_cov",
        "loss_fi",
    ):
        assert (rows[0][name] is None, rows[1][name] is None) == (False, True), name


def test_a_diverging_trial_has_no_metrics(tmp_path):
    one_diverged(undisturbed(odd(tmp_path), tmp_path))


@pytest.mark.slow
def test_a_diverging_trial_is_marked_and_the_others_go_on(tmp_path):
    done = fedpriv(odd(tmp_path), tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    one_diverged(tmp_path)
