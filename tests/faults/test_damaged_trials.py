"""A sweep of which nearly every trial is damaged in another way: the next run names each file and restores all bytes."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.command import TIMES, arguments, environment
from tests.support.damage import trees_equal
from tests.support.damaged_sweep import NAME, Damaged, Undamaged, damage_sweep, needed_seeds, written_sweep
from tests.support.damaged_trials import CASES

pytestmark = pytest.mark.slow
SECONDS = 900  # longest run of the sweep


@dataclass(frozen=True)
class Runs:
    """The sweep without damage, the damaged trials, and what was said and changed when it was checked, run, and run again."""

    undamaged: Undamaged
    results: Path
    damaged: dict[str, Damaged]
    changed_before: dict[str, int]
    checked: str
    code: int
    printed: str
    again: subprocess.CompletedProcess[str]
    touched: set[Path]


def fedpriv(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        env=environment(COLUMNS="400"),
        check=False,
    )


def changes(results: Path) -> dict[Path, int]:
    """When each file of a trial was changed."""
    return {path: path.stat().st_mtime_ns for path in (results / NAME / "trials").rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Runs:
    scratch, results = tmp_path_factory.mktemp("scratch"), tmp_path_factory.mktemp("results")
    found = Undamaged.made(written_sweep(scratch / "damaged.yaml", needed_seeds(CASES)), scratch)
    damaged = {one.case.name: one for one in damage_sweep(found, CASES, results)}
    before = {
        name: one.folder.result.stat().st_mtime_ns for name, one in damaged.items() if one.folder.result.is_file()
    }
    command = arguments(found.file, results)
    checked = fedpriv(*command[: command.index("run")], "check", str(results / NAME))
    first = fedpriv(*command)
    whole = changes(results)
    again = fedpriv(*command)
    after = changes(results)
    touched = {path for path in whole.keys() | after.keys() if whole.get(path) != after.get(path)}
    return Runs(found, results, damaged, before, checked.stdout, first.returncode, first.stdout, again, touched)


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_a_damaged_trial_is_named_and_restored(runs: Runs, name: str) -> None:
    one = runs.damaged[name]
    expected = runs.undamaged.folder.trial(one.spec.id)
    assert one.folder.result.is_file(), runs.printed
    assert trees_equal(one.folder.path, expected.path)
    if one.case.then == "restored":
        assert one.case.is_named(one.folder.path, one.file, runs.printed + runs.checked), runs.printed
        assert not (one.folder.path / "state").exists()
    if one.case.then == "restored" and "state" not in one.file.parts and one.content is not None:
        held = [path.read_bytes() for path in one.file.parent.glob(f"{one.file.name}.damaged*") if path.is_file()]
        assert one.content in held, runs.printed
    if one.case.then == "kept":
        assert one.folder.result.stat().st_mtime_ns == runs.changed_before[name], runs.printed
        assert str(one.folder.path) not in runs.printed, runs.printed


def test_the_sweep_ends_without_a_traceback_and_its_table_is_as_it_was(runs: Runs) -> None:
    assert runs.code == 0, runs.printed
    assert "Traceback" not in runs.printed, runs.printed
    found, expected = (
        pq.read_table(folder / "trials.parquet") for folder in (runs.results / NAME, runs.undamaged.folder.path)
    )
    assert found.column_names == expected.column_names
    kept = [name for name in found.column_names if name not in TIMES]
    assert found.select(kept).equals(expected.select(kept)), runs.printed


def test_run_again_it_has_nothing_to_do(runs: Runs) -> None:
    assert runs.again.returncode == 0, runs.again.stdout
    count = 2 * needed_seeds(CASES)
    assert f"all {count} trials are complete; nothing was trained" in runs.again.stdout, runs.again.stdout
    assert "Traceback" not in runs.again.stdout, runs.again.stdout
    assert ".damaged" not in runs.again.stdout, runs.again.stdout
    assert {path.name for path in runs.touched} <= {"tracking.json"}
