"""A sweep with own components, and what an earlier run of it left: for tests of hashes of code and data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.cluster.data_checks import data_problems
from orchestrator.config.own_code import install
from orchestrator.config.sweep_file import Sweep, load_sweep
from orchestrator.results.fingerprints import (
    DataHashes,
    identity,
)
from orchestrator.results.folder import Folder
from orchestrator.scheduling.earlier import Earlier, earlier_results
from orchestrator.scheduling.trials import trial_specs
from orchestrator.trial.outcome import write_record
from tests.support.own_code import AGGREGATION, ATTACK, HELPER, written

SWEEP = """\
name: own
code: code
base:
  rounds: 2
  data: {name: digits, clients: 6, examples_per_client: 20}
  model: {name: mlp, hidden: [8]}
sweep:
  aggregation.name: {grid_search: [scaled, fedavg]}
  seed: {grid_search: [0, 1]}
"""
IMPORTING = "import shared\nfrom ._own import HEIGHT\n\nNEEDS ="
SCALED = AGGREGATION.replace("NEEDS =", IMPORTING)
FILES = {"aggregation/scaled.py": SCALED, "aggregation/_own.py": "HEIGHT = 1\n", "attacks/norms.py": ATTACK}
FILES |= {"attacks/_norms.py": HELPER, "shared.py": "WIDTH = 1\n", "alone.py": "", "aggregation/_alone.py": ""}


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Path]:
    written(tmp_path / "code", FILES)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    yield tmp_path / "sweep.yaml"
    install(())


def loaded(sweep: Path) -> tuple[Sweep, DataHashes]:
    """The sweep, and the hashes of its data."""
    found, hashes = load_sweep(sweep), DataHashes()
    assert data_problems(found, download=False, loaded=hashes.add) == []
    return found, hashes


def ran(sweep: Path) -> Folder:
    """The folder of a sweep whose trials have all finished, as far as their records say."""
    found, hashes = loaded(sweep)
    folder = Folder(sweep.parent / "results" / "own")
    for spec in trial_specs(found):
        write_record(folder.trial(spec.id), "finished", identity(spec.id, spec.run, hashes), began=0.0)
    return folder


def today(sweep: Path, folder: Folder, repeat: bool = False) -> Earlier:
    found, hashes = loaded(sweep)
    return earlier_results(folder, trial_specs(found), hashes, repeat=repeat)


# Code
