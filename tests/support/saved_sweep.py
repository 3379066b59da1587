"""A small sweep that has finished, made once, for tests that damage what it left: every test gets a copy."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from orchestrator.config.sweep_file import Sweep, load_sweep
from orchestrator.preparation import Choices, Work, prepare
from orchestrator.results.folder import Folder
from orchestrator.results.integrity import SEAL
from orchestrator.results.record import TrialIdentity
from orchestrator.results.tables import write_trials
from orchestrator.scheduling.repairs import Repairs, find_repairs, plain_run
from orchestrator.scheduling.trials import remaining_trials, trial_rows, trial_specs
from orchestrator.trial import outcome
from tests.support.inline import inline_trial
from tests.support.inline_sweep import run_sweep_inline
from tests.support.planted import finished

NAME = "saved"
SWEEP = f"""\
name: {NAME}
base:
  rounds: 2
  data: {{name: digits, clients: 2, examples_per_client: 20, split: dirichlet}}
  model: {{name: mlp, hidden: [4]}}
sweep:
  training.lr: {{grid_search: [0.05, 0.1]}}
"""


def sweep_in(folder: Path, text: str = SWEEP) -> Sweep:
    """The sweep of a text, as a file in ``folder``."""
    path = folder / "sweep.yaml"
    path.write_text(text)
    return load_sweep(path)


@pytest.fixture(scope="session")
def saved_sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results with the finished sweep, which nobody changes."""
    results = tmp_path_factory.mktemp("saved")
    run_sweep_inline(sweep_in(results), Choices(results))
    return results


@pytest.fixture
def saved_results(saved_sweep: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(saved_sweep, tmp_path / "results")
    return tmp_path / "results"


@pytest.fixture
def saved_folder(saved_results: Path) -> Folder:
    """The folder of the sweep in the copy."""
    return Folder(saved_results / NAME)


def repairs_of(folder: Folder, sweep: Sweep) -> Repairs:
    """What a run of the sweep would do about damaged results."""
    return find_repairs(folder, trial_specs(sweep), sweep.tune)


def work_on(folder: Folder, sweep: Sweep, **choices: Any) -> Work:
    """The sweep, checked, before anything starts."""
    return prepare(sweep, Choices(folder.path.parent, **choices))


def run_missing(sweep: Sweep, folder: Folder, work: Path) -> list[str]:
    """Run the trials that have no result, in place, and write the table of trials; return their ids."""
    missing = remaining_trials(folder, trial_specs(sweep), sweep.tune)
    for spec in missing:
        trial = finished(inline_trial(spec.run, work / spec.id))
        outcome.finish(folder.trial(spec.id), trial, TrialIdentity(spec.id, plain_run(spec), None), began=0.0)
    write_trials(folder, trial_rows(folder, trial_specs(sweep)))
    return [spec.id for spec in missing]


def made_older(folder: Folder) -> None:
    """Leave out what earlier versions did not write: seals, checksums, and the second file of the mark."""
    for path in (folder.record, *(one.result for one in folder.trials())):
        held = json.loads(path.read_text())
        path.write_text(json.dumps({name: one for name, one in held.items() if name not in LATER}))
    folder.record.with_name(".fedpriv.copy.json").unlink()


LATER = (SEAL, "checksums", "sweep_files")


def contents(folder: Folder) -> dict[str, bytes]:
    """The bytes of all files of a sweep, by their paths in it."""
    paths = [path for path in sorted(folder.path.rglob("*")) if path.is_file()]
    return {path.relative_to(folder.path).as_posix(): path.read_bytes() for path in paths}
