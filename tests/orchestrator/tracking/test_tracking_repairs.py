"""A trial that runs again because its files were damaged is the same run in MLflow, and lost rounds are sent again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.results.folder import Folder
from orchestrator.results.record import save_record
from orchestrator.scheduling.repairs import find_repairs
from orchestrator.scheduling.trials import trial_specs
from orchestrator.tracking.labels import SENT_TAG, SWEEP_TAG, TRIAL_TAG
from orchestrator.tracking.tracker import Tracker
from tests.support.saved_sweep import sweep_in
from tests.support.tracked import NAME, Seen, empty_store, expected, results, rows, run_trial

__all__ = ["empty_store", "results"]  # fixtures
FINALS = {"accuracy": 0.75}


def test_a_trial_that_was_damaged_has_one_run(results: Path, tmp_path: Path) -> None:
    spec = replace(trial_specs(sweep_in(tmp_path))[0], id="a")
    trial = Folder(results / NAME).trial("a")
    for session in range(2):
        if session:
            trial.table("rounds").write_bytes(b"PAR1")
            repairs = find_repairs(Folder(results / NAME), [spec])
            assert repairs.again == ["a"] and len(repairs.mend()) == 1
        tracker = Tracker(results, NAME)
        tracker.sweep_started()
        run_trial(tracker, "a", rows(3), FINALS)
        save_record(trial, {"id": "a", "status": "finished", "metrics": FINALS})
        tracker.sweep_finished([], "finished")
        assert tracker.close(60)
    seen = Seen(results)
    assert len(seen.runs) == 2 and len(seen.parents) == 1
    assert seen.metrics("a") == expected(rows(3), FINALS)
    assert trial.path.joinpath("rounds.parquet.damaged").read_bytes() == b"PAR1"
    files = [file for folder in seen.artifacts("a") for file in (folder, *seen.artifacts("a", folder))]
    assert any("rounds.parquet" in file for file in files) and not any("damaged" in file for file in files)


def sent_and_lost(results: Path, lost: str) -> None:
    """A sweep of one trial that MLflow held; its store then lost the metrics for which ``lost`` holds."""
    tracker = Tracker(results, NAME)
    tracker.sweep_started()
    run_trial(tracker, "a", rows(3), FINALS)
    tracker.sweep_finished([], "finished")
    assert tracker.close(60)
    with closing(sqlite3.connect(results / "mlflow.db")) as base:
        assert bool(base.execute(f"delete from metrics where {lost}").rowcount) == (lost != "0")
        base.commit()


def test_results_that_were_renamed_are_not_made_again(results: Path, tmp_path: Path) -> None:
    tracker = Tracker(results, NAME, None, list[str]().append)
    tracker.sweep_started()
    tracker.trial_started("a", {"rounds": 3}, {}, "a")
    results.rename(tmp_path / "elsewhere")
    tracker.rounds("a", rows(1))
    assert not tracker.close(20) and tracker.trouble == f"{results} was deleted or renamed"
    assert not results.exists()


@pytest.mark.parametrize("lost", ["1", "step = 2", "0"])
def test_rounds_that_the_store_lost_are_sent_again(results: Path, lost: str) -> None:
    sent_and_lost(results, lost)
    again = Tracker(results, NAME)
    again.reconcile(results / NAME)
    assert again.behind == (lost != "0") and again.close(60)
    seen = Seen(results)
    assert len(seen.runs) == 2 and seen.metrics("a") == expected(rows(3), FINALS)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("step", ["MlflowClient.delete_run", "MlflowClient.create_run", "Store.end"])
def test_a_run_that_is_made_anew_may_be_killed_meanwhile(
    results: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    sent_and_lost(results, "1")

    def killed(*_: object, **__: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(f"{'mlflow' if 'Mlflow' in step else 'orchestrator.tracking.mlflow_store'}.{step}", killed)
        tracker = Tracker(results, NAME)
        tracker.reconcile(results / NAME)
        tracker._thread.join(60)
        assert not tracker._thread.is_alive()
    for behind in (True, False):
        again = Tracker(results, NAME)
        again.reconcile(results / NAME)
        assert again.behind == behind and again.close(60)
    seen = Seen(results)
    assert {run.info.status for run in seen.runs} == {"FINISHED"} and len(seen.runs) == 2
    assert seen.metrics("a") == expected(rows(3), FINALS)


def test_of_two_runs_of_a_trial_the_one_in_the_bin_does_not_count(results: Path) -> None:
    sent_and_lost(results, "0")
    seen = Seen(results)
    run = seen.trial("a")
    tags = {key: run.data.tags[key] for key in (SWEEP_TAG, TRIAL_TAG, SENT_TAG)}
    other = seen.client.create_run(run.info.experiment_id, tags=tags)
    seen.client.delete_run(other.info.run_id)
    seen.client.delete_tag(run.info.run_id, SENT_TAG)
    again = Tracker(results, NAME)
    again.reconcile(results / NAME)
    assert again.behind and again.close(60)
    assert Seen(results).metrics("a") == expected(rows(3), FINALS)
