"""``fedpriv report`` while a sweep is at work, or after it was killed: what is there so far, and nothing of it is touched."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

import fedpriv
from orchestrator.cli import main
from orchestrator.config.sweep_file import load_sweep
from orchestrator.execution import claim_folder
from orchestrator.results.folder import Folder
from orchestrator.results.record import TrialIdentity
from orchestrator.results.tables import write_trials
from orchestrator.scheduling.trials import trial_rows, trial_specs
from orchestrator.trial.outcome import finish, give_up
from tests.support.inline import inline_trial

pytestmark = pytest.mark.usefixtures("one_thread")

SWEEP = """
name: tiny
base:
  rounds: 2
  data: {name: digits, clients: 4, examples_per_client: 10, split: {minority_ratio: 0.25}}
  model: {name: mlp, hidden: [4]}
  training: {lr: 0.1, epochs: 1, batch_size: 10}
sweep: {training.lr: {grid_search: [0.1, 0.2]}}
"""


@pytest.fixture(scope="module")
def moments(tmp_path_factory, one_thread) -> dict[str, Path]:
    """The sweep's folder at each moment, the table as the run wrote it when it started; ``finished`` is the end."""
    root = tmp_path_factory.mktemp("moments")
    (root / "tiny.yaml").write_text(SWEEP)
    sweep = load_sweep(root / "tiny.yaml")
    folder, specs = Folder(root / "at work" / "tiny"), trial_specs(sweep)
    found: dict[str, Path] = {}

    def keep(name: str) -> None:
        found[name] = root / name / "tiny"
        shutil.copytree(folder.path, found[name])

    with claim_folder(folder, sweep):
        keep("claimed")
        write_trials(folder, trial_rows(folder, specs))
        keep("begun")
        for spec in specs:
            identity = TrialIdentity(spec.id, spec.run.to_dict(), None)
            trial = inline_trial(spec.run, folder.path / "trials" / spec.id, root=root)
            trial.advance()
            if spec == specs[0]:
                keep("half a trial")
            trial.advance()
            finish(folder.trial(spec.id), trial, identity, time.time())
            if spec == specs[0]:
                keep("one trial")
        keep("all trials")
        shutil.copytree(folder.path, root / "failed" / "tiny")
        failed = Folder(root / "failed" / "tiny")
        give_up(failed.trial(specs[1].id), None, "failed", "it broke", identity, time.time())
        write_trials(folder, trial_rows(folder, specs))
        keep("finished")
    return found | {"failed": failed.path}


def content(folder: Path) -> dict[Path, bytes]:
    """All files but those of the report."""
    files = (path for path in folder.rglob("*") if path.is_file() and "report" not in path.parts)
    return {path.relative_to(folder): path.read_bytes() for path in files}


def reported(folder: Path, *options: str) -> tuple[int, dict[str, bytes]]:
    """The exit code of ``fedpriv report`` on a copy, and the report's files; all else must be as it was."""
    before = content(folder)
    code = main(["report", str(folder), *options])
    assert content(folder) == before
    return code, {path.name: path.read_bytes() for path in (folder / "report").glob("*.*")}


def test_before_the_run_has_begun_there_is_nothing_yet(moments, capsys):
    assert reported(moments["claimed"]) == (2, {})
    said = capsys.readouterr().err
    assert "contains no results: there is no trials.parquet in it" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("moment", "ended"), [("begun", 0), ("half a trial", 0), ("one trial", 1), ("all trials", 2), ("failed", 2)]
)
def test_the_trials_that_have_ended_are_in_it(moment, ended, moments):
    code, files = reported(moments[moment], "--html")
    assert code == 0
    trials = fedpriv.load(moments[moment]).trials
    assert [status == "unfinished" for status in trials["status"]] == [False] * ended + [True] * (2 - ended)
    assert files["tiny.html"]


def test_a_trial_that_failed_is_in_it_with_its_reason(moments):
    row = fedpriv.load(moments["failed"]).trials.iloc[1]
    assert (row["status"], row["reason"]) == ("failed", "it broke")


def test_once_all_have_ended_the_report_is_that_of_the_end(moments):
    assert reported(moments["all trials"]) == reported(moments["finished"])
