"""What a run does about damaged results: the trials run again, with the same numbers, and nothing else is touched."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator import commands, dry_run, execution
from orchestrator.config.errors import ConfigError
from orchestrator.config.sweep_file import Sweep
from orchestrator.preparation import Choices
from orchestrator.report.verified import used_damages
from orchestrator.results.folder import Folder, WriteError
from orchestrator.results.integrity import sealed
from orchestrator.results.mark import copy_of
from orchestrator.results.record import read_record
from orchestrator.results.tables import write_trials
from orchestrator.results.trial_files import check_trials
from orchestrator.scheduling import repairs
from orchestrator.scheduling.repairs import Repairs, find_repairs
from orchestrator.scheduling.trials import trial_specs
from tests.support.saved_sweep import SWEEP, contents, made_older, repairs_of, run_missing, sweep_in, work_on

EXACT = ("config.yaml", "model.safetensors", "clients.parquet", "roc.parquet")  # the others contain times


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    return sweep_in(tmp_path)


def test_nothing_is_done_about_what_is_whole(saved_folder: Folder, sweep: Sweep) -> None:
    before = contents(saved_folder)
    found = repairs_of(saved_folder, sweep)
    assert (found.planned(), found.again, found.mend()) == ([], [], [])
    assert contents(saved_folder) == before
    assert find_repairs(Folder(saved_folder.path / "none"), trial_specs(sweep)).again == []


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("rounds.parquet", b"PAR1", "is not what was saved: its checksum differs"),
        ("model.safetensors", None, "is missing"),
        ("result.json", b'{"metrics": 3}', "is not what was saved: its status is null, not one of"),
        ("result.json", b"", "is empty"),
        ("result.json", None, "is missing"),
        ("scores.parquet", b"PAR1", "is not of this trial"),
    ],
)
def test_a_damaged_trial_runs_again_with_the_same_bytes(
    saved_folder: Folder, sweep: Sweep, tmp_path: Path, name: str, content: bytes | None, problem: str
) -> None:
    before = contents(saved_folder)
    trial = saved_folder.trials()[0]
    trial.tracking.write_text('{"there": "here"}')
    path = trial.path / name
    path.write_bytes(content) if content is not None else path.unlink()
    damaged = contents(saved_folder)
    found = repairs_of(saved_folder, sweep)
    aside = f"set aside as {name}.damaged, and " if content is not None else ""
    (planned,), again = found.planned(), found.again
    assert planned.startswith(f"{path} {problem}") and planned.endswith(
        ": a run would set it aside, and the trial runs again"
    )
    assert again == [trial.id] and contents(saved_folder) == damaged
    (said,) = found.mend()
    assert said.startswith(f"{path} {problem}") and said.endswith(f": {aside}the trial runs again")
    assert read_record(trial) is None and trial.tracking.read_text() == '{"there": "here"}'
    assert run_missing(sweep, saved_folder, tmp_path / "work") == [trial.id]
    after = contents(saved_folder)
    kept = after.pop(f"trials/{trial.id}/{name}.damaged", None)
    assert kept == content and after.keys() == before.keys() | {f"trials/{trial.id}/tracking.json"}
    assert all(after[path] == before[path] for path in before if path.endswith(EXACT))
    assert [one.damages for one in check_trials(saved_folder.trials())] == [(), ()]
    assert repairs_of(saved_folder, sweep) == Repairs()


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("gone", [False, True])
def test_a_damaged_configuration_alone_is_written_again(
    saved_folder: Folder, sweep: Sweep, older: bool, gone: bool
) -> None:
    if older:
        made_older(saved_folder)
    trial, before = saved_folder.trials()[1], contents(saved_folder)
    trial.config.unlink() if gone else trial.config.write_text("seed: 4\n")
    found = repairs_of(saved_folder, sweep)
    assert found.again == []
    (said,) = found.mend()
    assert said.endswith(": written again" if gone else ": set aside as config.yaml.damaged, and written again")
    after = contents(saved_folder)
    assert after.pop(f"trials/{trial.id}/config.yaml.damaged", None) == (None if gone else b"seed: 4\n")
    assert after == before


def test_a_configuration_that_cannot_be_written_as_it_was_makes_the_trial_run_again(
    saved_folder: Folder, sweep: Sweep
) -> None:
    trial = saved_folder.trials()[0]
    held = json.loads(trial.result.read_text())
    held["checksums"]["config.yaml"] = "that of another version"
    trial.result.write_text(json.dumps(sealed(held)))
    assert repairs_of(saved_folder, sweep).again == [trial.id]


def test_damaged_trials_with_secret_noise_are_refused(saved_folder: Folder, tmp_path: Path) -> None:
    secret = sweep_in(
        tmp_path, SWEEP + "  privacy: {grid_search: [{name: global_dp, noise: secret, noise_multiplier: 1.0}]}\n"
    )
    specs = trial_specs(secret)
    trial = saved_folder.trial(specs[0].id)
    shutil.copytree(saved_folder.trials()[0].path, trial.path)
    damaged = contents(saved_folder)
    with pytest.raises(ConfigError) as refused:  # the record is that of another trial
        find_repairs(saved_folder, specs)
    assert str(refused.value).startswith(
        f"--results: {trial.result} is not what was saved: it is the record of another"
    )
    assert str(refused.value).endswith(
        "and its trial drew secret noise, so it cannot be restored by running it again: restore the file from a copy, or "
        f"delete the folder {trial.path} to draw new noise"
    )
    assert contents(saved_folder) == damaged
    trial.state.mkdir()
    (trial.state / "state.safetensors").write_bytes(
        b"the noise until then"
    )  # it is resumed, and draws none of it again
    assert find_repairs(saved_folder, specs).again == [trial.id]
    shutil.rmtree(trial.path)
    assert find_repairs(saved_folder, specs).again == []


def test_what_is_no_longer_of_the_sweep_is_only_named(saved_folder: Folder, tmp_path: Path) -> None:
    smaller = sweep_in(tmp_path, SWEEP.replace("[0.05, 0.1]", "[0.05]"))
    (spec,) = trial_specs(smaller)
    (other,) = [one for one in saved_folder.trials() if one.id != spec.id]
    other.model.write_bytes(b"")
    before = contents(saved_folder)
    found = find_repairs(saved_folder, [spec])
    assert found.again == [] and found.mend() == [
        f"{other.model} is empty: left as it is, for the trial is not of this sweep any more"
    ]
    assert contents(saved_folder) == before
    drawing = find_repairs(saved_folder, [spec], drawing=True)  # a search may still draw it, and would believe it
    assert drawing.again == [other.id]
    assert drawing.planned() == [
        f"{other.model} is empty: a run would set its trial aside, and runs again if the search draws it"
    ]
    whole = {path.name: path.read_bytes() for path in other.path.iterdir()}
    aside = other.path.with_name(f"{other.id}.damaged")
    assert drawing.mend() == [
        f"{other.model} is empty: its trial is set aside as {aside.name}, and runs again if the search draws it"
    ]
    assert {path.name: path.read_bytes() for path in aside.iterdir()} == whole


def test_many_damaged_files_are_counted(saved_folder: Folder, sweep: Sweep) -> None:
    for trial in saved_folder.trials():
        for path in (*trial.path.glob("*.parquet"), trial.model, trial.config):
            path.write_bytes(b"")
        for name in ("scores", "attacks"):
            trial.table(name).write_bytes(b"")
    said = repairs_of(saved_folder, sweep).planned()
    assert len(said) == 11 and said[-1] == "... and 4 more damaged files; `fedpriv check` names them all"


def test_files_that_follow_from_others_are_written_again(saved_folder: Folder, sweep: Sweep) -> None:
    mark = copy_of(saved_folder.record)
    for path in (saved_folder.table, saved_folder.sweep, mark):
        path.write_bytes(b"")
    found = repairs_of(saved_folder, sweep)
    assert found.again == []
    assert found.planned() == [
        f"{path} is empty: a run would write it again" for path in (mark, saved_folder.sweep, saved_folder.table)
    ]


def test_a_run_mends_before_it_trains(saved_folder: Folder, sweep: Sweep, tmp_path: Path) -> None:
    trial, whole = saved_folder.trials()
    before = saved_folder.table.read_bytes()
    trial.model.unlink()
    whole.config.unlink()
    saved_folder.sweep.write_bytes(b"")
    work, said = work_on(saved_folder, sweep), list[str]()
    assert [one.id for one in work.missing()] == [trial.id]
    with execution.claim_folder(saved_folder, sweep):
        execution._mend(work, SimpleNamespace(say=said.append))
    assert sorted(said) == sorted(
        [
            f"{trial.model} is missing: the trial runs again",
            f"{whole.config} is missing: written again",
            f"{saved_folder.sweep} is empty: written again",
        ]
    )
    run_missing(sweep, saved_folder, tmp_path / "work")
    assert used_damages(saved_folder.path) == [] and saved_folder.table.read_bytes() != before  # it has times
    assert work_on(saved_folder, sweep).missing() == []


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("moment", range(5))
def test_a_kill_while_it_mends_is_no_further_damage(
    saved_folder: Folder, sweep: Sweep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, moment: int, older: bool
) -> None:
    trial, left = saved_folder.trials()[0], moment
    whole = contents(saved_folder)
    if older:
        made_older(saved_folder)
    trial.table("clients").write_bytes(b"")

    def until_killed(step: Any) -> Any:
        def may_be_killed(path: Path) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            return step(path)

        return may_be_killed

    work = work_on(saved_folder, sweep)
    with monkeypatch.context() as patched:
        for name in ("remove", "set_aside"):
            patched.setattr(repairs, name, until_killed(getattr(repairs, name)))
        with pytest.raises(KeyboardInterrupt):
            execution._mend(work, SimpleNamespace(say=print))
    assert {one.path for one in used_damages(saved_folder.path)} <= {trial.table("clients")}
    work_on(saved_folder, sweep).earlier.repairs.mend()
    assert run_missing(sweep, saved_folder, tmp_path / "work") == [trial.id]
    assert trial.table("clients").read_bytes() == whole[f"trials/{trial.id}/clients.parquet"]
    assert used_damages(saved_folder.path) == []


def test_trials_that_run_again_with_other_code_are_gone_as_a_whole(
    saved_folder: Folder, sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    for trial in saved_folder.trials():
        held = json.loads(trial.result.read_text())
        trial.result.write_text(json.dumps(sealed(held | {"files": {"algorithms/models/mlp.py": "other"}})))
    work = work_on(saved_folder, sweep, repeat_changed=True)
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)  # it was killed there
    execution._mend(work, SimpleNamespace(say=print))
    assert used_damages(saved_folder.path) == []
    assert not any(one.result.exists() for one in saved_folder.trials())


def test_a_damaged_trial_that_runs_with_other_code_begins_anew_in_mlflow(saved_folder: Folder, sweep: Sweep) -> None:
    for trial in saved_folder.trials():
        held = json.loads(trial.result.read_text())
        trial.result.write_text(json.dumps(sealed(held | {"files": {"algorithms/models/mlp.py": "other"}})))
        trial.tracking.write_text("{}")
    trial, whole = saved_folder.trials()
    trial.model.unlink()
    earlier = work_on(saved_folder, sweep).earlier
    earlier.repairs.mend()
    assert earlier.set_back(saved_folder) == [trial.id]
    assert not trial.tracking.exists() and whole.tracking.exists() and whole.result.exists()


def test_a_dry_run_says_what_would_happen(
    saved_folder: Folder, sweep: Sweep, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dry_run, "plan", lambda sweep, trials, missing, place: f"{len(missing)} to run")
    trial = saved_folder.trials()[0]
    trial.table("clients").write_bytes(b"")
    before = contents(saved_folder)
    assert commands.run_sweep(sweep, Choices(saved_folder.path.parent, dry=True)) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"{trial.table('clients').name} is empty: a run would set it aside, and the trial runs again" in said
    assert "1 to run" in said and contents(saved_folder) == before


def test_a_file_that_cannot_be_set_aside_is_named(
    saved_folder: Folder, sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved_folder.trials()[0].model
    path.write_bytes(b"")
    found = repairs_of(saved_folder, sweep)

    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.rename", refused)
    with pytest.raises(WriteError) as error:
        found.mend()
    assert str(error.value) == f"{path} is damaged and cannot be set aside: permission denied"


def test_a_stopped_trial_begins_anew_and_a_failed_one_runs_anyway(saved_folder: Folder, tmp_path: Path) -> None:
    rule = "tune: {metric: accuracy, mode: max, scheduler: {name: asha, grace_period: 1}}\n"
    tuned = sweep_in(tmp_path, SWEEP + rule)
    stopped, failed = saved_folder.trials()
    assert tuned.tune is not None
    ends = {"status": "stopped", "stopped": {"by": tuned.tune.rule, "round": 1, "value": 0.5}}, {"status": "failed"}
    for trial, end in zip((stopped, failed), ends, strict=True):
        held = json.loads(trial.result.read_text())
        trial.result.write_text(json.dumps(sealed(held | end | {"metrics": {}})))
        trial.state.mkdir()
        trial.table("rounds").write_bytes(b"")
    write_trials(saved_folder, [{"id": one.id, "status": read_record(one)["status"]} for one in (stopped, failed)])  # type: ignore[index]
    found = find_repairs(saved_folder, trial_specs(tuned), tuned.tune)
    assert found.again == [stopped.id]
    found.mend()
    assert not stopped.state.exists() and failed.state.exists() and read_record(failed) is not None
