"""A head that is killed at any step between the end of the last trial and its own: the next run makes all of it good."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from orchestrator import execution
from orchestrator.config.sweep_file import parse_sweep
from orchestrator.preparation import Choices, Work, prepare
from orchestrator.tracking import mlflow_store
from orchestrator.tracking import tracker as tracking
from tests.support.last_second import held, in_a_process, last_second, moved, next_run, write_short_report
from tests.support.tracked import empty_store
from tests.support.undisturbed import undisturbed

__all__ = ["empty_store"]

TINY = """
name: tiny
base: {rounds: 2, data: {name: digits, clients: 4, examples_per_client: 10, split: dirichlet}, model: mlp}
sweep: {seed: {grid_search: [0, 1]}}
"""
EVERY = range(1, 400)


class Ended:
    """A sweep whose trials have ended, and what MLflow holds if nobody disturbs the rest."""

    def __init__(self, work: Work, store: Path, folder: Path) -> None:
        self.work, self.store, self.folder = work, store, folder
        self.trials = folder / "undisturbed" / "tiny" / "trials"
        whole = self.fresh("whole")
        last_second(
            moved(work, whole), self.trials
        )  # here, so that the processes of the tests have all that it imports
        self.expected, self.files = held(whole), _names(whole)

    def fresh(self, name: str) -> Path:
        results = self.folder / name / "results with ü"
        results.mkdir(parents=True)
        shutil.copy(self.store, results / "mlflow.db")
        return results

    def killed(self, name: str, kill: int, interrupted: bool = False, again: int = 0) -> bool:
        """Kill the head at a step, then run again; True if it came so far."""
        results = self.fresh(name)
        work = moved(self.work, results)
        came = in_a_process(partial(last_second, work, self.trials, interrupted), results, kill)
        if again:
            came = in_a_process(partial(next_run, work), results, again)
        assert not in_a_process(partial(next_run, work), results)
        if came:
            found = held(results)
            for kind, expected in self.expected.items():
                assert found[kind] == expected, (name, kind)
            assert _names(results) == self.files, name
        shutil.rmtree(results.parent)
        return came


def _names(results: Path) -> list[str]:
    return sorted(str(path.relative_to(results)) for path in (results / "tiny").rglob("*"))


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory, empty_store: Path, one_thread: None) -> Ended:
    folder = tmp_path_factory.mktemp("ended")
    (folder / "tiny.yaml").write_text(TINY)
    undisturbed(folder / "tiny.yaml", folder / "undisturbed")
    work = prepare(parse_sweep(TINY, Path("tiny.yaml")), Choices(folder / "results"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution, "write_report", write_short_report)
        patch.setattr(tracking, "GATHER_SECONDS", 0.01)
        return Ended(work, empty_store, folder)


@pytest.mark.parametrize("step", [3, 40])
def test_the_next_run_sends_what_is_missing(ended: Ended, step: int) -> None:
    assert ended.killed(f"step {step}", step)


def test_the_next_run_may_be_killed_as_well(ended: Ended) -> None:
    assert ended.killed("twice", 2, again=12)


def test_a_damaged_store_is_filled_again_and_a_locked_one_is_named(ended: Ended) -> None:
    results = ended.fresh("damaged")
    work, store = moved(ended.work, results), results / "mlflow.db"
    assert not in_a_process(partial(last_second, work, ended.trials), results)
    os.truncate(store, 5000)

    def with_a_new_store() -> None:
        mlflow_store.create = lambda _: shutil.copy(ended.store, store)
        next_run(replace(work, choices=replace(work.choices, new_store=True)))

    assert not in_a_process(with_a_new_store, results)
    assert held(results) == ended.expected
    assert (results / "mlflow.db.damaged").stat().st_size == 5000

    work.folder.tracking.unlink()
    with closing(sqlite3.connect(store, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert not in_a_process(partial(next_run, work), results)
    said = " ".join((results.parent / "log").read_text().split())
    why = f"({store} is locked by another program); the next run of this sweep sends the rest"
    assert f"MLflow does not hold everything yet {why}" in said
    assert not in_a_process(partial(next_run, work), results)
    assert held(results) == ended.expected


@pytest.mark.slow
@pytest.mark.parametrize("interrupted", [False, True])
def test_at_every_step_of_the_end(ended: Ended, interrupted: bool) -> None:
    came = [step for step in EVERY if _so_far(ended, f"{interrupted} {step}", step, interrupted)]
    assert len(came) > 40


@pytest.mark.slow
def test_at_every_step_of_the_next_run(ended: Ended) -> None:
    came = [step for step in EVERY if _so_far(ended, f"again {step}", 2, False, step)]
    assert len(came) > 40


def _so_far(ended: Ended, name: str, step: int, interrupted: bool, again: int = 0) -> bool:
    """Whether the step was reached; once one was not, no later one is tried."""
    if getattr(ended, f"over {interrupted} {bool(again)}", False):
        return False
    came = ended.killed(name, step, interrupted, again)
    if not came:
        setattr(ended, f"over {interrupted} {bool(again)}", True)
    return came
