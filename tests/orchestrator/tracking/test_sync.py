"""`sync` on a real store: MLflow holds what the results folder says, once, however it was
killed, altered or moved.
"""

from __future__ import annotations

import argparse
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow.protos.databricks_pb2 import PERMISSION_DENIED

from orchestrator.results import sweeps
from orchestrator.results.paths import Folder
from orchestrator.results.tables import read_table
from orchestrator.subcommands.ui import execute
from orchestrator.tracking import labels
from orchestrator.tracking.labels import metric_key
from orchestrator.tracking.store import artifacts, connect
from orchestrator.tracking.sync import MlflowSweep
from orchestrator.tracking.tracker import fill
from tests.support.killed import Killed
from tests.support.tracked import (
    ENDED,
    NAME,
    SWEEP,
    TRIALS,
    Held,
    empty_store,
    finished_sweep,
    folder,
    write_sweep,
    write_trial,
)

__all__ = ["empty_store", "folder"]


def synced(folder: Folder, **options) -> int:
    results = folder.path.parent
    return MlflowSweep(folder, connect(results), artifacts(results)).sync(**options)


def in_the_store(folder: Folder, *statements: str) -> None:
    with closing(sqlite3.connect(folder.path.parent / "mlflow.db")) as base:
        for statement in statements:
            base.execute(statement)
        base.commit()


def test_the_command_prints_the_address_of_the_latest_sweeps_own_run(folder, monkeypatch, capsys):
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("subprocess.Popen", stopped)
    with pytest.raises(KeyboardInterrupt):
        execute(argparse.Namespace(results=folder.path.parent, host="127.0.0.1", port=0))
    run = Held(folder).runs[""]
    place = f"#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}   what {NAME} found\n"
    assert f"open http://127.0.0.1:0/{place}" in capsys.readouterr().out


def test_a_sweep_is_a_run_with_a_run_for_each_trial_below_it(folder):
    beside = list(folder.path.parents[1].iterdir())
    assert synced(folder) == 5
    assert (
        list(folder.path.parents[1].iterdir()) == beside == [folder.path.parent]
    )  # whose name has special letters
    held = Held(folder)
    assert held.runs.keys() == {"", *TRIALS}
    assert {run.data.tags.get("mlflow.parentRunId") for run in held.runs.values()} == {
        None,
        held.ids[""],
    }
    run = held.runs["ifca_mir1"]
    assert (run.info.run_name, run.info.status) == ("ifca_mir seed=1", "FINISHED")
    assert (run.info.start_time, run.info.end_time) == (1000 * ENDED - 2000, 1000 * ENDED)
    assert run.data.params == {"clustering.name": "ifca_mir", "seed": "1"}
    expected = {
        "setting": "ifca_mir",
        "model": "mlp",
        "status": "finished",
        "guarantee": "none: no noise",
    }
    assert (
        expected.items() <= run.data.tags.items()
        and run.data.tags["mlflow.source.git.commit"] == "c0ffee"
    )
    assert [one.dataset.digest for one in run.inputs.dataset_inputs] == ["abc"]
    files = {"config.yaml", "rounds.parquet", "clients.parquet"}
    assert held.files("ifca_mir1") == files
    files = {
        "sweep.yaml",
        "report/trade_off.png",
        "report/manifest.json",
        "description/trade_off.png",
        "trials.parquet",
    }
    assert held.files("") == files


def test_rounds_and_final_values_share_no_step(folder):
    synced(folder)
    points = Held(folder).points("ifca1")
    assert points["run/round"] == [(1, 1.0), (2, 2.0), (3, 3.0)]
    assert points["accuracy/accuracy"] == [(1, 1 / 7), (2, 2 / 7), (3, 3 / 7), (4, 0.81)]
    assert points["accuracy/loss"] == [(1, 1.0), (2, 0.5)]
    assert points["attack/sia_mean"] == [(3, 0.52), (4, 0.25)]
    assert points["attack/calibrated_auc"] == [(3, 0.7)]


def test_what_the_plan_has_of_a_trial_is_among_its_final_values(folder):
    """The epsilon of a search is that of the sweep and not of the trial, which knows of no other
    one.
    """
    plan = [{"id": trial, "rounds": 3, **swept} for trial, swept in TRIALS.items()]
    sweeps.write_sweep(
        folder,
        NAME,
        SWEEP,
        [plan[0] | {"epsilon_search": 4.8203}, *plan[1:]],
        ["clustering.name", "seed"],
    )
    synced(folder)
    held = Held(folder)
    (first, *others) = [{**held.points(trial)} for trial in TRIALS]
    assert first[metric_key("epsilon_search")] == [(3, 4.8203)]
    assert not any(
        {metric_key(name) for name in ("epsilon_search", "rounds", "seed")} & other.keys()
        for other in others
    )


def test_notes_tell_of_the_sweep(folder):
    synced(folder)
    held = Held(folder)
    note = held.runs[""].data.tags["mlflow.note.content"]
    assert "Does B protect better than A?" in note
    assert f"description%2Ftrade_off.png&run_uuid={held.ids['']}" in note
    assert "AUC" in held.runs["ifca0"].data.tags["mlflow.note.content"]


def test_the_second_sync_does_nothing(folder):
    synced(folder)
    before = (folder.path.parent / "mlflow.db").read_bytes()
    assert synced(folder) == 0
    assert (folder.path.parent / "mlflow.db").read_bytes() == before


@pytest.mark.parametrize(
    "altered",
    [
        ("delete from metrics", "update runs set status = 'RUNNING', end_time = null"),
        ("update runs set status = 'RUNNING'",),
        ("delete from tags where key = 'fedpriv.manifest'", "delete from metrics where step = 2"),
    ],
)
def test_a_run_without_its_last_tag_or_end_is_logged_again(folder, altered):
    synced(folder)
    before = Held(folder).everything()
    in_the_store(folder, *altered)
    assert synced(folder) == 5
    assert Held(folder).everything() == before
    assert synced(folder) == 0


def test_a_changed_trial_replaces_its_run_and_no_other(folder):
    write_trial(folder, "ifca0", "failed")
    write_sweep(folder)
    synced(folder)
    failed = Held(folder)
    assert failed.runs["ifca0"].info.status == failed.runs[""].info.status == "FAILED"
    assert (
        "error.txt" in failed.files("ifca0")
        and failed.runs["ifca0"].data.tags["reason"] == "the disk is full"
    )
    write_trial(folder, "ifca0")  # its folder keeps the error of before
    write_sweep(folder)
    assert synced(folder) == 2
    held = Held(folder)
    assert {trial for trial in held.ids if held.ids[trial] != failed.ids[trial]} == {"ifca0"}
    assert "error.txt" not in held.files("ifca0") and "reason" not in held.runs["ifca0"].data.tags
    assert held.runs[""].info.status == "FINISHED"
    assert {run.data.tags.get("mlflow.parentRunId") for run in held.runs.values()} == {
        None,
        held.ids[""],
    }
    table = read_table(Path(held.client.download_artifacts(held.ids[""], "trials.parquet")))
    assert sorted(table["id"].to_pylist()) == sorted(TRIALS)


def test_what_is_swept_only_later_is_told_of_earlier_trials_too(folder):
    plan = [{"id": trial, "data.name": "digits", **swept} for trial, swept in TRIALS.items()]
    sweeps.write_sweep(folder, NAME, SWEEP, plan, ["seed"])
    synced(folder)
    write_sweep(folder)
    assert (synced(folder), synced(folder)) == (4, 0)
    assert {run.data.tags["setting"] for trial, run in Held(folder).runs.items() if trial} == {
        "ifca",
        "ifca_mir",
    }


def test_what_is_not_ours_is_left_alone(folder):
    client = connect(folder.path.parent)
    place = "file:///data/team/mlartifacts/other"
    other = client.create_experiment("other", artifact_location=place)
    theirs = client.create_run(other, tags={"fedpriv.trial": "ifca0"})
    mine = MlflowSweep(folder, client, artifacts(folder.path.parent)).experiment
    beside = client.create_run(mine, run_name="a run of the user in our experiment")
    for move in (False, True):
        if move:
            moved = folder.path.parents[1] / "moved"
            shutil.move(folder.path.parent, moved)
            folder = Folder(moved / NAME)
        synced(folder)
        client = connect(folder.path.parent)
        assert client.get_experiment(other).artifact_location == place
        assert client.get_run(theirs.info.run_id).info.artifact_uri == theirs.info.artifact_uri
        assert client.get_run(beside.info.run_id).info.run_name == beside.info.run_name


def on_a_server(folder: Folder, base: Path) -> MlflowSweep:
    """The sweep in a store that it shares with other results folders."""
    uri = f"sqlite:///{base}"
    sweep = MlflowSweep(folder, connect(folder.path.parent, uri))
    sweep.sync()
    return sweep


def test_two_folders_with_a_sweep_of_one_name_are_not_mixed(folder, tmp_path):
    base = tmp_path / "shared.db"
    shutil.copy(folder.path.parent / "mlflow.db", base)
    (tmp_path / "others").mkdir()
    other = finished_sweep(tmp_path / "others")
    client = connect(tmp_path, f"sqlite:///{base}")
    first, second = (on_a_server(each, base).experiment for each in (folder, other))
    assert first != second and client.get_experiment(first).name == NAME
    for each, experiment in ((folder, first), (other, second)):
        sweep = on_a_server(each, base)
        assert sweep.experiment == experiment and sweep.sync() == 0
        assert {run.data.tags["fedpriv.sweep"] for run in client.search_runs([experiment])} == {
            *sweep.identity.values()
        }
        assert len(client.search_runs([experiment])) == 5
    client.delete_experiment(first)  # whose name stays taken
    assert on_a_server(other, base).experiment == second
    assert client.get_experiment(first).lifecycle_stage == "deleted"
    assert (
        on_a_server(folder, base).experiment == first
        and client.get_experiment(first).lifecycle_stage == "active"
    )


@pytest.mark.parametrize("is_used", [False, True])
def test_an_experiment_that_a_user_has_made_is_taken_if_it_is_empty(folder, tmp_path, is_used):
    client = connect(folder.path.parent)
    theirs = client.create_experiment(NAME)
    if is_used:
        client.create_run(theirs)
    own = MlflowSweep(folder, client).experiment
    assert (own == theirs) == (not is_used) and MlflowSweep(folder, client).experiment == own
    assert client.get_experiment(theirs).name == NAME


@pytest.mark.parametrize("was_deleted", [False, True])
def test_a_sweep_that_was_deleted_and_run_again_has_its_name(folder, was_deleted):
    """Beside the results nobody else has this name; what MLflow has of the sweep before is kept
    under another one.
    """
    synced(folder)
    before = Held(folder)
    former = before.experiment.experiment_id
    if was_deleted:
        before.client.delete_experiment(former)
    shutil.rmtree(folder.path)
    finished_sweep(folder.path.parent)
    assert synced(folder) == 5 and synced(folder) == 0
    assert Held(folder).runs.keys() == {"", *TRIALS} and Held(folder).ids.items().isdisjoint(
        before.ids.items()
    )
    kept = before.client.get_experiment(former)
    assert (
        kept.name == f"{NAME} (earlier, {former})"
        and (kept.lifecycle_stage == "deleted") == was_deleted
    )


def test_an_experiment_that_this_user_may_not_see_is_left_to_others(folder, monkeypatch):
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    real, names = MlflowClient.get_experiment_by_name, []

    def get(client: MlflowClient, name: str) -> object:
        names.append(name)
        if name == NAME:
            raise MlflowException("Permission denied", error_code=PERMISSION_DENIED)
        return real(client, name)

    monkeypatch.setattr(MlflowClient, "get_experiment_by_name", get)
    client = connect(folder.path.parent)
    client.create_experiment(NAME)
    sweep = MlflowSweep(folder, client)
    assert names == [NAME, client.get_experiment(sweep.experiment).name] and sweep.sync() == 5


@pytest.mark.parametrize("copied", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_moved_folder_has_its_artifacts_where_it_is(folder, copied):
    synced(folder)
    before, former = Held(folder).everything(), folder.path.parent
    new = former.parent / "archive, größer"
    if not copied:  # and somebody has deleted the experiment
        client = Held(folder).client
        client.delete_experiment(client.get_experiment_by_name(NAME).experiment_id)
    (shutil.copytree if copied else shutil.move)(former, new)
    moved = Folder(new / NAME)
    assert synced(moved) == 5 and synced(moved) == 0
    held = Held(moved)
    assert held.everything() == before
    for run in held.ids.values():
        assert Path(held.client.download_artifacts(run, "")).is_relative_to(new)
    if copied:
        assert synced(folder) == 0


def test_a_metric_of_an_own_family_has_a_name_that_mlflow_takes(monkeypatch):
    own = replace(labels.metric("accuracy"), family="Norms (L2), per client")
    monkeypatch.setattr(labels, "metric", lambda _: own)
    assert metric_key.__wrapped__("norm_größe (mean)") == "norms l2 per client/norm_größe mean"


REQUESTS = (
    "create_experiment",
    "create_run",
    "log_batch",
    "set_tag",
    "log_artifacts",
    "set_terminated",
    "delete_run",
)


@pytest.mark.parametrize(
    "kill", [9, *(pytest.param(kill, marks=pytest.mark.slow) for kill in (0, 2, 40))]
)
def test_killed_at_some_request_the_next_sync_makes_it_right(folder, monkeypatch, kill):
    """Of a first sync, and of one after the store was altered."""
    from mlflow import MlflowClient

    for name in REQUESTS:
        real = getattr(MlflowClient, name)

        def counted(*given, _real=real, **named):
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return _real(*given, **named)

        monkeypatch.setattr(MlflowClient, name, counted)
    for first in (True, False):
        if not first:
            in_the_store(
                folder, "delete from tags where key = 'fedpriv.manifest'", "delete from metrics"
            )
        left = kill
        with pytest.raises(Killed):
            synced(folder)
        left = 10**9
        synced(folder)
        if first:
            expected = Held(folder).everything()
            assert expected.keys() == {"", *TRIALS} and synced(folder) == 0
            assert all(
                points[5]["run/round"][-1] == (3, 3.0)
                for trial, points in expected.items()
                if trial
            )
        assert Held(folder).everything() == expected


def test_another_store_is_filled_with_all_sweeps(folder):
    synced(folder)
    before = Held(folder).everything()
    (folder.path.parent / "mlflow.db").rename(folder.path.parent / "mlflow.db.damaged")
    (folder.path.parent / "mlflow.db-journal").write_bytes(b"of the store that was renamed")
    assert fill(folder.path.parent) == [f"MLflow holds {NAME}, too"]
    assert Held(folder).everything() == before


def test_what_a_user_adds_to_a_run_stays(folder):
    synced(folder)
    held = Held(folder)
    held.client.log_metric(held.ids["ifca0"], "mine", 1.0)
    held.client.set_tag(held.ids["ifca0"], "mlflow.note.content", "my own words")
    assert synced(folder) == 0


@pytest.mark.slow
def test_trained_models_are_sent_once_where_they_are_asked_for(folder):
    import torch
    from mlflow.pytorch import load_model
    from safetensors.torch import save

    from datasets.components import Component, components
    from orchestrator.results.log import read_manifest
    from orchestrator.results.record import write_record
    from orchestrator.results.saved_models import MODELS
    from tests.support.tracked import RUN

    trial = folder.trial("ifca0")
    fields = components(MODELS)["mlp"].Config(hidden=(4,))
    module = Component("mlp", fields, MODELS).module.build(fields, (3,), 2)
    arrays = {
        f"{group}.{name}": array.clone()
        for group in ("all", "few")
        for name, array in module.state_dict().items()
    }
    run = {**RUN, "model": {"name": "mlp", "hidden": [4]}, "seed": 0}
    record = {**read_manifest(trial.path).facts, "model": {"shape": [3], "classes": 2}}
    write_record(trial, record, run, {trial.model.name: save(arrays)})
    synced(folder)
    said: list[str] = []
    assert [synced(folder, models=said.append) for _ in range(2)] == [0, 0] and not said
    held = Held(folder)
    found = {
        one.name: one for one in held.client.search_logged_models([held.experiment.experiment_id])
    }
    assert found.keys() == {"all", "few"} and len(held.runs["ifca0"].outputs.model_outputs) == 2
    loaded = load_model(found["few"].artifact_location)
    assert torch.equal(loaded(torch.ones(5, 3)), module.eval()(torch.ones(5, 3)))
