"""What MLflow's pages tell: descriptions, the ready-made view, data sets and tables; sent once, however often a sweep is."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from PIL import Image

from orchestrator.report.figures import catalog
from orchestrator.results.folder import Folder
from orchestrator.tracking import mlflow_store, pages, places, previews
from orchestrator.tracking.pending import FORM
from orchestrator.tracking.pictures import FIGURES
from orchestrator.tracking.recorded import views
from orchestrator.tracking.tracker import Tracker
from tests.support.told_sweep import copied, experiment, table, tell, told
from tests.support.tracked import NAME, Seen, empty_store, forget, results, rewritten, rows, save

__all__ = ["copied", "empty_store", "results", "told"]


def test_the_pages_of_a_sweep_and_its_trials(told):
    seen = Seen(told)
    (parent,) = seen.parents
    tags = experiment(seen).tags
    assert tags["mlflow.experimentKind"] == "custom_model_development"
    assert tags[pages.PRIMARY].startswith("accuracy/")
    for note in (parent.data.tags[mlflow_store.NOTE_TAG], tags[mlflow_store.NOTE_TAG]):
        assert note.splitlines()[0] == "Does B protect better than A?"
        assert "| IFCA-MIR |" in note
        assert "fedpriv run sweep.yaml" in note
        assert f"get-artifact?path=description%2Ftrade_off.png&run_uuid={parent.info.run_id}" in note
    assert seen.artifacts("", "description") == ["description/trade_off.png"]
    assert parent.data.metrics["lowest mean/calibrated_auc"] == pytest.approx(0.6)
    assert parent.data.metrics["highest mean/calibrated_auc"] == pytest.approx(0.7)
    assert {(one.dataset.name, one.dataset.digest) for one in parent.inputs.dataset_inputs} == {
        ("digits", "abcifca"),
        ("digits", "abcifca_mir"),
    }
    child = seen.trial("ifca_mir1")
    assert child.info.run_name == "ifca_mir, seed 1"
    assert child.data.params == {"clustering.name": "ifca_mir", "seed": "1"}
    assert (child.data.tags["clustering"], child.data.tags["data"]) == ("ifca_mir", "digits")
    note = child.data.tags[mlflow_store.NOTE_TAG]
    assert note.startswith("ifca_mir, seed 1: the trial finished after 3 rounds in 2 s: ")
    assert f"#/experiments/{child.info.experiment_id}/runs/{parent.info.run_id}?" in note
    (used,) = child.inputs.dataset_inputs
    assert [(tag.key, tag.value) for tag in used.tags] == [("mlflow.data.context", "train")]
    assert json.loads(child.data.tags[previews.TAG])[0] == {"path": "tables/rounds.json", "type": "table"}
    shown = table(seen, child.info.run_id, "rounds.json")
    assert [row[shown["columns"].index("round")] for row in shown["data"]] == [0, 1, 2]
    assert len(table(seen, parent.info.run_id, "trials.json")["data"]) == 4


def test_pages_that_are_sent_again_stay_as_they_are(copied):
    results, folder = copied, Folder(copied / NAME)
    before = {run.info.run_id: run.to_dictionary() for run in Seen(results).runs}
    tags = experiment(Seen(results)).tags
    forget(folder)
    rewritten(folder.tracking, there="")
    seen = Seen(results)
    for run in seen.runs:
        seen.client.delete_tag(run.info.run_id, mlflow_store.SENT_TAG)
    again = Tracker(results, NAME)
    again.reconcile(again.folder.path)
    assert again.close(60)
    assert {run.info.run_id: run.to_dictionary() for run in Seen(results).runs} == before
    assert experiment(Seen(results)).tags == tags


def test_a_report_that_was_written_again_is_sent_if_it_has_changed(results):
    folder = Folder(results / NAME)
    figure = folder.report / "trade_off.png"
    first = Tracker(results, NAME)
    tell(first, ("ifca",))
    assert first.close(60)
    (before,) = Seen(results).parents

    def written(status: str = "finished") -> bool:
        """Whether anything is sent."""
        again = Tracker(results, NAME)
        again.reconcile(folder.path)
        again.report_written([figure], status)
        behind = again.behind
        assert again.close(60)
        return behind

    assert not written()
    Image.new("RGB", (1600, 200)).save(figure)
    assert written() and not written()
    (after,) = Seen(results).parents
    client = Seen(results).client
    with Image.open(client.download_artifacts(after.info.run_id, "report/trade_off.png")) as there:
        assert there.size == (1600, 200)
    assert (after.info.run_id, after.info.end_time) == (before.info.run_id, before.info.end_time)
    assert written("failed") and Seen(results).parents[0].info.status == "FAILED"


def test_pictures_are_figures_that_a_report_can_have():
    assert set(FIGURES) <= catalog.FIGURES.keys()


def test_one_setting_has_its_means(results):
    tracker = Tracker(results, NAME)
    tell(tracker, ("ifca",))
    assert tracker.close(60)
    found = Seen(results).parents[0].data.metrics
    assert found["mean/accuracy"] == pytest.approx(0.805)
    assert not [name for name in found if name.startswith(("lowest", "highest"))]


def test_a_failed_trial_says_why(results):
    tracker = Tracker(results, NAME)
    tell(tracker, failed=("ifca1",))
    assert tracker.close(60)
    seen = Seen(results)
    run = seen.trial("ifca1")
    assert run.data.tags["reason"] == "the disk is full"
    assert "**Why there is no result:** the disk is full." in run.data.tags[mlflow_store.NOTE_TAG]
    assert "error.txt" in seen.artifacts("ifca1")
    assert "1 of 2" in seen.parents[0].data.tags[mlflow_store.NOTE_TAG]


@pytest.mark.parametrize("trouble", ["refused", "unmade", "older"])
def test_without_its_pages_a_sweep_is_complete(results, monkeypatch, trouble):
    from mlflow.exceptions import MlflowException

    def fails(*_, **__):
        raise MlflowException.invalid_parameter_value("too long")

    if trouble == "refused":
        for name in ("note", "tag_experiment", "log_input"):
            monkeypatch.setattr(mlflow_store.Store, name, fails)
    elif trouble == "unmade":
        for name in ("trial_description", "sweep_description", "read_results"):
            monkeypatch.setattr(pages, name, fails)
    else:
        monkeypatch.setattr(mlflow_store.Store, "log_input", lambda *_: mlflow_store.Store.absent)
    warnings: list[str] = []
    tracker = Tracker(results, NAME, None, warnings.append)
    tell(tracker)
    assert tracker.close(60)
    assert warnings == []
    seen = Seen(results)
    assert {run.info.status for run in seen.runs} == {"FINISHED"}
    assert seen.trial("ifca0").data.metrics["attack/calibrated_auc"] == 0.7


def test_a_run_of_an_earlier_version_is_made_anew(copied):
    results = copied
    seen, trial = Seen(results), Folder(results / NAME).trial("ifca0")
    old = seen.trial("ifca0")
    for name in ("round", "accuracy"):  # as it was: names without sections, all settings as parameters
        seen.client.log_metric(old.info.run_id, name, 1.0, step=2)
    seen.client.set_tag(old.info.run_id, mlflow_store.SENT_TAG, "finished 1")
    kept = json.loads(trial.tracking.read_text())
    assert kept.pop("form") == FORM
    everything = {"clustering.name": "ifca", "seed": "0", "training.lr": "0.1", "data.name": "digits"}
    del kept["checksum"]  # as that version wrote it
    trial.tracking.write_text(json.dumps({**kept, "params": everything, "name": "ifca seed=0"}))

    again = Tracker(results, NAME)
    again.reconcile(again.folder.path)
    assert again.behind
    assert again.close(60)
    seen = Seen(results)
    new = seen.trial("ifca0")
    assert len(seen.runs) == 5
    assert new.info.run_id != old.info.run_id
    assert not [name for name in new.data.metrics if "/" not in name]
    assert new.data.params == {"clustering.name": "ifca", "seed": "0"}
    assert new.info.run_name == "ifca, seed 0"
    assert seen.client.get_run(old.info.run_id).info.lifecycle_stage == "deleted"


def test_a_results_folder_that_was_moved_has_its_artifacts(told, tmp_path):
    there = tmp_path / "elsewhere"
    shutil.copytree(told, there)
    places.ui(there, 5000, "127.0.0.1")
    seen = Seen(there)
    assert "rounds.parquet" in seen.artifacts("ifca0")
    assert seen.trial("ifca0").info.artifact_uri.startswith((there / "mlartifacts").as_uri())
    assert experiment(seen).artifact_location.startswith((there / "mlartifacts").as_uri())


def test_the_address_of_the_view_is_known_when_mlflow_holds_the_sweep(told):
    results, tracker = told, Tracker(told, NAME)
    number = experiment(Seen(results)).experiment_id
    view = f"/#/experiments/{number}/runs?workflowType=machine_learning&viewStateShareKey=fedpriv"
    assert tracker.link() == f"http://127.0.0.1:5000{view}"
    assert views(results, "http://host:1") == [(NAME, f"http://host:1{view}")]
    elsewhere = Tracker(results, NAME, "http://127.0.0.1:9", lambda _: None)
    assert elsewhere.link() == ""


def test_a_long_table_is_shown_by_its_end(tmp_path):
    folder = Folder(tmp_path).trial("a")
    save(Folder(tmp_path), "a", rows(previews.MOST_ROWS + 5))
    shown = json.loads(previews.trial_tables(folder)["rounds.json"])
    assert len(shown["data"]) == previews.MOST_ROWS
    assert shown["data"][-1][shown["columns"].index("round")] == previews.MOST_ROWS + 4
    assert shown["data"][0][shown["columns"].index("purity")] is None  # infinity is no number in JSON


def test_ui_prints_the_view_of_the_latest_sweep_first(told, monkeypatch, capsys):
    from orchestrator.cli import main

    monkeypatch.setattr(os, "execvpe", lambda *_: None)
    main(["ui", str(told), "--port", "5003"])
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("open http://127.0.0.1:5003/#/experiments/")
    assert first.endswith(f"viewStateShareKey=fedpriv   {NAME}")
    assert last == "open http://127.0.0.1:5003/#/experiments?workflowType=machine_learning   all sweeps"
