"""Damaged files of a finished sweep are named, those and no others."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
import yaml

from orchestrator.results.folder import Folder, TrialFolder
from orchestrator.results.integrity import DamageError
from orchestrator.results.mark import copy_of, read_mark
from orchestrator.results.sweep_files import read_trials_table, row_damages, sweep_damages
from orchestrator.results.tables import write_trials
from orchestrator.results.trial_files import check_trial, check_trials
from tests.support.saved_sweep import made_older


def problems(trial: TrialFolder) -> dict[str, str]:
    """What is wrong with a trial's files, by their names."""
    return {one.path.name: one.problem for one in check_trial(trial).damages}


def files(trial: TrialFolder) -> list[Path]:
    return sorted(path for path in trial.path.iterdir() if path.is_file())


def changed(content: bytes, how: random.Random) -> bytes:
    """A content that was truncated, or in which one byte is another."""
    at = how.randrange(len(content))
    if how.random() < 0.3:
        return content[:at]
    return content[:at] + bytes([content[at] ^ how.randrange(1, 256)]) + content[at + 1 :]


def test_what_was_just_written_is_not_damaged(saved_folder: Folder) -> None:
    folder = saved_folder
    checks = check_trials(folder.trials())
    assert [one.damages for one in checks] == [(), ()] and all(one.compared for one in checks)
    assert [path.name for path in checks[0].files] == [
        "result.json",
        "config.yaml",
        "model.safetensors",
        "rounds.parquet",
        "clients.parquet",
        "roc.parquet",
    ]
    assert [path.name for path in check_trial(checks[0].folder, models=False).files] == [
        "result.json",
        "config.yaml",
        "rounds.parquet",
        "clients.parquet",
        "roc.parquet",
    ]
    rows, whole = read_trials_table(folder.table)
    assert whole and row_damages(folder, rows, True, checks) == [] and sweep_damages(folder) == []


@pytest.mark.parametrize("seed", range(60))
def test_any_byte_that_is_another_is_noticed(saved_sweep: Path, seed: int, tmp_path: Path) -> None:
    how = random.Random(seed)
    source = Folder(saved_sweep / "saved").trials()[0]
    trial = TrialFolder(shutil.copytree(source.path, tmp_path / source.id))
    path = files(trial)[seed % len(files(trial))]
    before = path.read_bytes()
    path.write_bytes(changed(before, how))
    if path == trial.result and _same_json(before, path.read_bytes()):
        assert problems(trial) == {}  # a space that is another kind of space
    else:
        assert list(problems(trial)) == [path.name]


def _same_json(one: bytes, other: bytes) -> bool:
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False


def test_missing_empty_and_foreign_files_are_named(saved_folder: Folder) -> None:
    folder = saved_folder
    trial = folder.trials()[0]
    trial.model.unlink()
    trial.table("rounds").write_bytes(b"")
    trial.table("scores").write_bytes(trial.table("clients").read_bytes())
    trial.config.unlink()
    trial.config.mkdir()
    assert problems(trial) == {
        "config.yaml": "cannot be read: is a directory",
        "model.safetensors": "is missing",
        "rounds.parquet": "is empty",
        "scores.parquet": "is not of this trial, which ended without such a file",
    }
    trial.result.unlink()
    assert problems(trial) == {}  # it has not ended


def test_files_of_an_earlier_version_are_read(saved_folder: Folder) -> None:
    folder = saved_folder
    made_older(folder)
    trial = folder.trials()[0]
    check = check_trial(trial)
    assert check.damages == () and not check.compared and sweep_damages(folder) == []
    for path in (trial.model, trial.table("rounds"), trial.table("clients")):
        path.write_bytes(path.read_bytes()[:-20])
    held = yaml.safe_load(trial.config.read_text())
    trial.config.write_text(yaml.safe_dump({**held, "rounds": 3}))
    assert problems(trial) == {
        "config.yaml": f"is not what was saved: it is not the configuration of trial {trial.id}",
        "model.safetensors": "is not what was saved: it is no model",
        "rounds.parquet": "is not what was saved: it is no table",
        "clients.parquet": "is not what was saved: it is no table",
    }
    trial.config.write_text("rounds: [")
    for path in (trial.model, trial.table("rounds"), trial.table("clients")):
        path.unlink()
    assert problems(trial) == {
        "config.yaml": "is not what was saved: it is no YAML",
        "model.safetensors": "is missing",
        "rounds.parquet": "is missing",
    }


def test_a_table_of_trials_says_what_the_records_say(saved_folder: Folder) -> None:
    folder = saved_folder
    rows, _ = read_trials_table(folder.table)
    checks = check_trials(folder.trials())
    better = [{**rows[0], "accuracy": 0.99}, rows[1]]
    (found,) = row_damages(folder, better, True, checks)
    assert str(found) == (
        f"{folder.table} is not what was saved: the value 'accuracy' of trial {rows[0]['id']} is not that of its record"
    )
    (found,) = row_damages(folder, [{**rows[0], "status": "diverged"}], True, checks)
    assert "the status of trial" in str(found)
    for status in ("unfinished", "failed", "stopped"):  # a row is older than the record of a trial that ran again
        assert row_damages(folder, [{**better[0], "status": status}], True, checks) == []
    gone = [one for one in checks if one.folder.id != rows[0]["id"]]
    (found,) = row_damages(folder, rows, True, gone)
    assert str(found) == f"{folder.trial(rows[0]['id']).result} is missing"
    assert row_damages(folder, rows, False, gone, needed=False) == []
    made_older(folder)  # then only the table has a checksum
    (found,) = row_damages(folder, better, True, check_trials(folder.trials()))
    assert str(found) == (
        f"{folder.trial(rows[0]['id']).result} is not what was saved: the value 'accuracy' is not that of trials.parquet"
    )
    (found,) = row_damages(folder, better, False, check_trials(folder.trials()))  # neither has: nothing is lost then
    assert found.path == folder.table


def test_another_row_in_the_table_of_trials_is_noticed(saved_folder: Folder) -> None:
    folder = saved_folder
    rows, _ = read_trials_table(folder.table)
    before = folder.table.read_bytes()
    write_trials(folder, rows)
    assert folder.table.read_bytes() == before
    how, noticed = random.Random(0), 0
    for _ in range(100):
        folder.table.write_bytes(changed(before, how))
        try:
            found = read_trials_table(folder.table)[0]
        except DamageError:
            noticed += 1
            continue
        assert found == rows  # the byte stands for nothing
    assert noticed > 60


def test_the_mark_is_restored_from_its_second_file(saved_folder: Folder) -> None:
    folder = saved_folder
    mark, identity = read_mark(folder.record), folder.identity()
    how, before = random.Random(0), folder.record.read_bytes()
    for _ in range(30):
        folder.record.write_bytes(changed(before, how))
        assert read_mark(folder.record) == mark and folder.identity() == identity
        assert [one.path for one in sweep_damages(folder)] == [folder.record]
    folder.record.write_bytes(before)
    copy_of(folder.record).write_text("[]")
    assert [str(one) for one in sweep_damages(folder)] == [
        f"{copy_of(folder.record)} is not what was saved: it is no mapping"
    ]


def test_the_sweep_file_is_one_that_was_written(saved_folder: Folder) -> None:
    folder = saved_folder
    before = folder.sweep.read_text()
    folder.sweep.write_text(before.replace("rounds: 2", "rounds: 3"))
    assert [str(one) for one in sweep_damages(folder)] == [
        f"{folder.sweep} is not what was saved: its checksum differs"
    ]
    folder.sweep.unlink()
    assert [one.problem for one in sweep_damages(folder)] == ["is missing"]
    made_older(folder)
    folder.sweep.write_text(before.replace("rounds: 2", "rounds: 3"))
    assert sweep_damages(folder) == []
    folder.sweep.write_text("- a\n")
    assert [one.problem for one in sweep_damages(folder)] == ["is not what was saved: it is no mapping"]
