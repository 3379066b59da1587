"""``fedpriv check RESULTS`` names every damaged file of every sweep, and what repairs it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import yaml

import fedpriv
from orchestrator.cli import main
from orchestrator.folder_checks import check_sweep, results_folder
from orchestrator.results.folder import Folder, TrialFolder
from orchestrator.results.integrity import Damage
from orchestrator.results.mark import copy_of
from orchestrator.results.trial_files import TrialCheck, check_trials
from tests.support.saved_sweep import contents, made_older


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_whole_results_have_no_damage(saved_results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(Folder(saved_results))
    for given in (saved_results, saved_results / "saved"):
        assert main(["check", str(given)]) == 0
        assert said(capsys) == ["saved  2 trials, 16 files: no damage"]
    assert contents(Folder(saved_results)) == before


def test_every_damage_has_a_sentence(saved_folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(saved_folder.path, saved_folder.path.with_name("a whole one"))
    one, other = saved_folder.trials()
    one.model.write_bytes(b"")
    other.config.write_text("a: 1\n")
    held = yaml.safe_load(one.config.read_text())
    former = saved_folder.trial("0123456789")
    shutil.copytree(other.path, former.path)
    saved_folder.sweep.unlink()
    saved_folder.table.write_bytes(saved_folder.table.read_bytes()[:-3])
    assert main(["check", str(saved_folder.path.parent)]) == 1
    first, *lines = said(capsys)
    assert first.endswith(" 2 trials, 16 files: no damage") and lines[0].endswith("damaged")
    assert sorted(lines[1:]) == sorted(
        [
            f"  {saved_folder.sweep} is missing; the same `fedpriv run` writes it again",
            f"  {saved_folder.table} is not what was saved: it is no Parquet table; the same `fedpriv run` writes it again",
            f"  {one.model} is empty; the same `fedpriv run` runs the trial again",
            f"  {other.config} is not what was saved: its checksum differs; "
            "the same `fedpriv run` writes it again, or runs the trial again",
            f"  {former.result} is not what was saved: it is the record of another trial, '{other.id}'; "
            "the same `fedpriv run` runs the trial again",
        ]
    )
    held["privacy"] = {"name": "global_dp", "noise": "secret"}
    one.config.write_text(yaml.safe_dump(held))
    made_older(saved_folder)  # a record of this version says so itself
    (repair,) = {repair for damage, repair in check_sweep(saved_folder).damages if damage.path == one.model}
    assert repair.startswith("its noise was secret: restore the file from a copy")


def test_a_trial_that_is_not_in_the_table_is_left_to_the_user(saved_folder: Folder) -> None:
    other = saved_folder.trials()[1]
    other.model.unlink()
    former = other.path.rename(other.path.with_name("0123456789"))
    found = dict(check_sweep(saved_folder).damages)
    assert found[Damage(other.result, "is missing")] == "the same `fedpriv run` runs the trial again"
    (repair,) = {repair for damage, repair in found.items() if damage.path.parent == former}
    assert repair.startswith("the trial is not of the sweep any more: restore the file from a copy, or delete")


def test_results_of_an_earlier_version_are_read(saved_folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    made_older(saved_folder)
    assert main(["check", str(saved_folder.path)]) == 0
    assert said(capsys) == [
        "saved  2 trials, 15 files: no damage",
        "  written by an earlier version, without checksums: 14 files could only be read, not compared",
    ]
    saved_folder.trials()[0].table("rounds").write_bytes(b"PAR1PAR1")
    assert main(["check", str(saved_folder.path)]) == 1


def test_the_mark_can_be_restored_unless_both_files_are_damaged(saved_folder: Folder) -> None:
    saved_folder.record.unlink()
    (found,) = check_sweep(saved_folder).damages
    assert found == (Damage(saved_folder.record, "is missing"), "the same `fedpriv run` writes it again")
    copy_of(saved_folder.record).write_bytes(b"")
    (first, *_) = check_sweep(saved_folder).damages
    assert first[0].path == saved_folder.record and first[1].startswith(
        "restore it from a copy, or move the folder away"
    )


def test_what_is_no_result_yet_is_checked_too(saved_folder: Folder) -> None:
    ended, unfinished = saved_folder.trials()
    for path in (ended.state / "state.safetensors", unfinished.state / "state.safetensors"):
        path.parent.mkdir()
        path.write_bytes(b"")
    unfinished.result.unlink()
    cached = saved_folder.shadows / "replica-0.json"
    cached.parent.mkdir(exist_ok=True)
    cached.write_text("{")
    found = dict(check_sweep(saved_folder).damages)
    anew = "the same `fedpriv run` begins the trial anew"
    assert found[Damage(unfinished.state / "state.safetensors", "is empty")] == anew
    assert ended.state / "state.safetensors" not in {damage.path for damage in found}
    (repair,) = {repair for damage, repair in found.items() if damage.path == cached}
    assert repair == "the next run that needs it trains it again"


def test_what_is_no_folder_of_results_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for given, sentence in ((tmp_path, "holds no results of fedpriv"), (tmp_path / "none", "does not exist")):
        assert main(["check", str(given)]) == 2
        assert capsys.readouterr().err.startswith(f"check: {given} {sentence}; give RESULTS or RESULTS/<sweep>\n")


def test_a_component_has_its_name_unless_there_are_results(
    saved_folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(saved_folder.path.parent)
    for name in ("mlp", "model/mlp", "data.split/groups", "splits/groups", "saved1"):
        assert results_folder(name) is None
    for name in ("saved", "saved/", "./mlp", "../results", ".", "..", "~/results", "/tmp", "results/mlp", "mlp/"):
        assert results_folder(name) is not None, name
    Path("mlp").mkdir()
    assert results_folder("mlp") is None
    shutil.copytree("saved", "model/mlp")
    assert results_folder("model/mlp") == Path("model/mlp")


def test_a_report_and_loaded_results_refuse_what_is_damaged(
    saved_folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = saved_folder.trials()[0]
    results = fedpriv.load(saved_folder.path)
    trial.model.write_bytes(b"")  # which reports do not use
    assert len(fedpriv.load(saved_folder.path).rounds) == 4
    sentence = f"{trial.model} is empty; the same `fedpriv run` repairs it"
    with pytest.raises(fedpriv.ConfigError) as refused:
        results.model(trial.id)
    assert str(refused.value) == sentence
    trial.table("rounds").unlink()
    saved_folder.sweep.write_text("")
    sentences = [
        f"{saved_folder.sweep} is empty; the same `fedpriv run` repairs it",
        f"{trial.table('rounds')} is missing; the same `fedpriv run` repairs it",
    ]
    with pytest.raises(fedpriv.ConfigError) as refused:
        fedpriv.load(saved_folder.path)
    assert str(refused.value).splitlines() == sentences
    assert main(["report", str(saved_folder.path)]) == 2
    assert capsys.readouterr().err.splitlines()[:2] == sentences
    assert not saved_folder.report.exists()
    trial.result.unlink()
    with pytest.raises(fedpriv.ConfigError, match=f"{trial.result} is missing; the same"):
        fedpriv.load(saved_folder.path)


def test_a_trial_that_a_search_may_draw_is_not_called_a_former_one(saved_folder: Folder) -> None:
    other = saved_folder.trials()[1]
    other.model.unlink()
    former = other.path.rename(other.path.with_name("0123456789"))
    saved_folder.sweep.write_text("name: saved\ntune: {metric: accuracy, search: optuna}\n")
    (repair,) = {repair for damage, repair in check_sweep(saved_folder).damages if damage.path.parent == former}
    assert repair == "the same `fedpriv run` runs the trial again if its search draws it"


def test_what_a_run_has_just_replaced_is_no_damage(saved_folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    trial, came = saved_folder.trials()[0], 0
    aside = trial.result.rename(trial.result.with_name("later"))

    def ends_meanwhile(folders: list[TrialFolder]) -> list[TrialCheck]:
        nonlocal came
        found, came = check_trials(folders), came + 1
        if came == 1:
            aside.rename(trial.result)
        return found

    monkeypatch.setattr("orchestrator.folder_checks.check_trials", ends_meanwhile)
    assert check_sweep(saved_folder).damages == () and came == 2


def test_a_pipe_in_place_of_the_table_is_not_waited_for(saved_folder: Folder) -> None:
    saved_folder.table.unlink()
    os.mkfifo(saved_folder.table)
    ((damage, _),) = check_sweep(saved_folder).damages
    assert damage.path == saved_folder.table
