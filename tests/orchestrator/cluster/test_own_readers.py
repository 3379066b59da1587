"""Readers, splits and files of a user's own: what is wrong with them is refused before anything starts, with a place."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

import pytest

from datasets.components import forget
from orchestrator.cluster.data_checks import data_problems
from orchestrator.config.errors import ConfigProblem
from orchestrator.config.sweep_file import load_sweep
from orchestrator.estimates.small_runs import SmallRuns
from orchestrator.trial.attack_tasks import content_digest
from orchestrator.trial.federation import partition_data

READER = """
from pathlib import Path
import numpy as np
from pydantic import Field
from datasets.federation import Examples, Source
from datasets.source_configs import HeldOutConfig

class Config(HeldOutConfig):
    '''Its fields.'''
{fields}
def load(config: Config, root: Path, download: bool = True) -> Source:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(400, 5)).astype(np.float32), rng.integers(0, 2, 400)
    tests = 100
{body}
    return Source("mine", 2, Examples(x[tests:], y[tests:]), Examples(x[:tests], y[:tests]))
"""
SWEEP = """
name: mine
base:
  rounds: 2
  data: {name: mine, clients: 4, held_out: 0.3, split: {name: groups, transform: none, minority_ratio: 0.5}}
  model: mlp
  attacks: [{name: shadow_mia, shadows: 1}]
"""


class Own:
    """A component of the user's own in the slot of data sets."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.sweep = folder, folder / "mine.yaml"
        self.sweep.write_text(SWEEP)

    def reads(self, body: str = "", fields: str = "") -> list[ConfigProblem]:
        """What is found of a reader with ``body``."""
        (self.folder / "mine.py").write_text(READER.format(body=indent(body, "    "), fields=indent(fields, "    ")))
        sys.modules.pop("datasets.sources.mine", None)
        forget()
        return data_problems(load_sweep(self.sweep), download=False)

    def says(self, body: str) -> str:
        (problem,) = self.reads(body)
        assert str(problem).startswith(f"{self.sweep}:5: base.data")
        return problem.sentence


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Own]:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    package = importlib.import_module("datasets.sources")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    yield Own(tmp_path)
    sys.modules.pop("datasets.sources.mine", None)
    monkeypatch.undo()
    forget()


def test_a_sound_reader_is_taken(own: Own) -> None:
    assert own.reads() == []


def test_an_attack_without_a_shadow_set_is_refused_and_does_not_fail_in_a_later_round(own: Own) -> None:
    for tests in (0, 1):
        (problem,) = own.reads(f"tests = {tests}")
        assert str(problem).startswith(
            f"{own.sweep}:7: base.attacks.0: shadow_mia trains shadow models on the server's shadow set, "
        )
        assert f"which has {tests} examples of mine; it needs 2 or more" in problem.sentence
    own.sweep.write_text(SWEEP.replace("[{name: shadow_mia, shadows: 1}]", "[]"))
    assert own.reads("tests = 0") == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "raise KeyError('age')",
            "the reader of mine failed with KeyError: 'age' (mine.py, line 15: raise KeyError('age'))",
        ),
        (
            "x = open('nowhere.csv')",
            "failed with FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.csv' (m",
        ),
        ("np.zeros(3) @ np.zeros(4)", "failed with ValueError: matmul"),
        ("raise MemoryError", "the data set mine does not fit into the memory of this machine"),
        ("return None", "is wrong: load must return a datasets.federation.Source; it returned NoneType"),
        (
            "x = x.astype(float)",
            "the reader of mine is wrong: train.x must be uint8 (pixels) or float32; it is float64",
        ),
        ("y = y + 1", "the reader of mine is wrong: train.y must be labels from 0 to 1; they are from 1 to 2"),
    ],
)
def test_what_a_reader_does_wrong_is_a_problem_and_no_traceback(own: Own, body: str, said: str) -> None:
    found = [problem.sentence for problem in own.reads(body)]
    assert any(said in sentence for sentence in found)
    assert all(str(own.sweep) in str(problem) for problem in own.reads(body))


CSV = """
name: table
base:
  rounds: 2
  data: {name: table, path: data/t.csv, label: sick, shadow_size: 20, clients: 3, split: {name: dirichlet, alpha: 9.0}}
  model: mlp
  attacks: [{name: shadow_mia, shadows: 1}]
"""


def csv(folder: Path, rows: int = 300) -> None:
    folder.mkdir()
    lines = [f"{i * 37 % 101}.5,{'abc'[i % 3]},{'yn'[i % 2]}" for i in range(rows)]
    (folder / "t.csv").write_text("\n".join(["age,where,sick", *lines]) + "\n")


def test_own_files_lie_beside_the_sweep_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    csv(tmp_path / "data")
    (tmp_path / "own.yaml").write_text(CSV)
    monkeypatch.chdir(tmp_path.parent)
    sweep = load_sweep(Path(tmp_path.name) / "own.yaml", ["data_root=/nowhere"])
    (run,) = sweep.runs
    assert sweep.root_of(run) == tmp_path
    assert data_problems(sweep, download=False) == []
    assert partition_data(run, sweep.root_of(run)).clients == 3
    data, _ = SmallRuns(sweep.root_of).data(run)
    assert data.clients == 3 and len(data.shadow) == 20
    assert load_sweep(Path(tmp_path.name) / "own.yaml", ["base.data={name: digits}"]).runs[0].data.name == "digits"


def test_replicas_that_were_trained_on_a_file_before_it_was_edited_are_not_taken(tmp_path: Path) -> None:
    csv(tmp_path / "data")
    (tmp_path / "own.yaml").write_text(CSV)
    (run,) = load_sweep(tmp_path / "own.yaml").runs
    before = content_digest(partition_data(run, tmp_path))
    assert before == content_digest(partition_data(run, tmp_path))
    (tmp_path / "data/t.csv").write_text((tmp_path / "data/t.csv").read_text().replace("37.5", "37.25"))
    assert before != content_digest(partition_data(run, tmp_path))
