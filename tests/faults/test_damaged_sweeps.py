"""Folders of results in which something besides the trials is damaged, and the commands on them; no trial runs again."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from tests.support.command import TIMES
from tests.support.damage import trees_equal
from tests.support.damaged_folders import CASES, NAME, Case, held_outside, letters, target
from tests.support.damaged_sweep import BASE
from tests.support.tracked_sweep import tracked
from tests.support.warm import Process, fedpriv

pytestmark = pytest.mark.slow
SEEDS = 2
REFUSED = "nothing was started, nothing was written"


@dataclass(frozen=True)
class Finished:
    """A finished sweep: its file, the place of its results, and a copy of them; what MLflow holds of it."""

    sweep: Path
    results: Path
    copy: Path
    held: dict[str, Any]

    def reset(self) -> None:
        """Put everything back as it was, in the same place."""
        if self.results.is_symlink() or self.results.is_file():
            self.results.unlink()
        shutil.rmtree(self.results, ignore_errors=True)
        shutil.copytree(self.copy, self.results)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Finished:
    folder = tmp_path_factory.mktemp("sweep")
    sweep, results, copy = folder / f"{NAME}.yaml", folder / "results", folder / "copy"
    grid = {"seed": {"grid_search": list(range(SEEDS))}}
    sweep.write_text(yaml.safe_dump({"name": NAME, "base": BASE, "sweep": grid}))
    tracked(sweep, results)
    shutil.copytree(results, copy)
    first = fedpriv(("run", sweep, "--results", results), folder=folder / "printed", held=(results, NAME))
    assert first.printed[0].code == 0 and first.held, first.printed
    shutil.rmtree(copy)
    shutil.copytree(results, copy)
    return Finished(sweep, results, copy, first.held)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_damaged_folder_is_restored_or_named(finished: Finished, tmp_path: Path, case: Case) -> None:
    finished.reset()
    outside, path = tmp_path / "outside", target(finished.results, case)
    letters(outside)
    case.change(path, outside)
    before = held_outside(outside) if case.then not in ("restored", "deleted") else None
    run = ("run", finished.sweep, "--results", finished.results)
    done = fedpriv(("check", finished.results), run, folder=tmp_path / "printed", held=(finished.results, NAME))
    checked, ran = done.printed
    for one in done.printed:
        assert one.code is not None, f"it does not end, or with an exception: {one.text}"
        assert "Traceback" not in one.text, one.text
    if ran.code == 2 and case.then in ("refused", "renewed", "either"):
        assert str(path) in ran.text, ran.text
        assert REFUSED in ran.text, ran.text
    else:
        assert case.then in ("restored", "either", "deleted"), ran.text
        held = {} if case.then == "deleted" else finished.held
        assert_restored(replace(finished, held=held), ran.code, ran.text, done)
    assert before is None or held_outside(outside) == before
    if case.then == "renewed":
        again = fedpriv((*run, "--new-store"), folder=tmp_path / "again", held=(finished.results, NAME))
        assert_restored(finished, again.printed[0].code, again.printed[0].text, again)
    if case.checked is not None:
        assert checked.code == case.checked, checked.text
    if case.checked == 1:
        assert str(path) in checked.text, checked.text


def assert_restored(finished: Finished, code: int | None, text: str, process: Process) -> None:
    """Assert that trials, table, report and MLflow are as in the undamaged folder."""
    assert code == 0, text
    mine, expected = finished.results / NAME, finished.copy / NAME
    for trial in sorted((expected / "trials").iterdir()):
        assert trees_equal(mine / "trials" / trial.name, trial, without=("tracking.json",))
    tables = [pq.read_table(folder / "trials.parquet") for folder in (mine, expected)]
    kept = [name for name in tables[1].column_names if name not in TIMES]
    assert tables[0].select(kept).equals(tables[1].select(kept))
    for file in sorted((expected / "report").iterdir()):
        assert (mine / "report" / file.name).read_bytes() == file.read_bytes(), file.name
    assert (mine / "sweep.yaml").read_bytes() == (expected / "sweep.yaml").read_bytes()
    assert process.held is not None, f"MLflow cannot be asked any more: {text}"
    for trial, values in finished.held.items():
        for what, value in values.items():
            assert process.held.get(trial, {}).get(what) == value, (trial, what, text)
    assert process.held.keys() == finished.held.keys(), text


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_report_on_a_damaged_folder_is_written_or_refused(finished: Finished, tmp_path: Path, case: Case) -> None:
    finished.reset()
    outside = tmp_path / "outside"
    before = letters(outside)
    case.change(target(finished.results, case), outside)
    (printed,) = fedpriv(("report", "--html", finished.results / NAME), folder=tmp_path / "printed").printed
    assert printed.code in (0, 1, 2), f"it does not end, or with an exception: {printed.text}"
    assert "Traceback" not in printed.text, printed.text
    assert {name: text for name, text in held_outside(outside).items() if name in before} == before
