"""What data, readers, splits, models and attacks lack is refused before anything starts, with
the line of the file.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import indent

import numpy as np
import pytest

from datasets.components import forget
from datasets.federation import Examples, Source
from orchestrator.cluster import data_checks
from orchestrator.cluster.data_checks import data_problems
from orchestrator.config.errors import ConfigProblem
from orchestrator.config.sweep_file import Sweep, load_sweep
from orchestrator.estimates.small_runs import SmallRuns
from orchestrator.results.provenance import data_hash
from orchestrator.trial.federation import partition_data

ATTACKED = """
name: attacked
base:
  rounds: 2
  data: {{name: digits, clients: 4, shadow_size: {shadow}, split: {{name: class_counts}}}}
  model: mlp
  attacks:
    - {{name: sia, targets: 5}}
    - name: cia
      replicas: {replicas}
sweep:
  seed: {{grid_search: [0, 1]}}
  privacy.name: {{grid_search: [none, global_dp]}}
"""


def problems(folder: Path, shadow: int, replicas: int) -> list[ConfigProblem]:
    path = folder / "attacked.yaml"
    path.write_text(ATTACKED.format(shadow=shadow, replicas=replicas))
    return data_problems(load_sweep(path), download=False)


def test_a_target_without_a_stand_in_is_refused_with_its_line(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, shadow=0, replicas=8)
    assert str(problem).startswith(f"{tmp_path / 'attacked.yaml'}:10: base.attacks.1.replicas")
    assert (
        "a stand-in for client 3 needs a shadow set" in problem.sentence
        and "data.shadow_size" in problem.sentence
    )
    (problem,) = problems(tmp_path, shadow=5, replicas=8)  # of ten classes
    assert (
        "of all of its classes, and none of the 5 in the server's shadow set is of classes "
        in problem.sentence
    )


def test_with_a_stand_in_or_without_a_paired_test_nothing_is_missing_and_each_partition_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert problems(tmp_path, shadow=0, replicas=0) == []
    partitions = []
    real = data_checks._lacking

    def lacking(run, attacks, source, settle):
        partitions.append((run.seed, source.train.x.shape[2:]))
        return real(run, attacks, source, settle)

    monkeypatch.setattr(data_checks, "_lacking", lacking)
    assert problems(tmp_path, shadow=100, replicas=8) == []
    assert partitions == [(0, (1, 1)), (1, (1, 1))]  # of four trials
    partitions.clear()
    assert problems(tmp_path, shadow=0, replicas=8)
    assert partitions[:2] == [
        (0, (1, 1)),
        (0, (8, 8)),
    ]  # nothing is refused for what one pixel of each image shows


def test_noise_for_a_target_is_found_in_the_same_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, settled, partitions = tmp_path / "target.yaml", [], []
    training = "sampling: shuffle, target_epsilon: 2, epochs: 1, lr: 0.1"
    path.write_text(
        f"name: target\nbase:\n  rounds: 20\n  data: {{name: digits, clients: 4, "
        f"examples_per_client: 40}}\n  model: mlp\n  training: {{name: dp_sgd, {training}}}\n "
        f" attacks: [{{name: sia, targets: 5}}]\n"
    )
    real = data_checks._lacking
    monkeypatch.setattr(
        data_checks, "_lacking", lambda *given: partitions.append(given) or real(*given)
    )
    assert (
        data_problems(load_sweep(path), download=False, settle=lambda *pair: settled.append(pair))
        == []
    )
    ((run, ready),) = settled
    assert run.training.config.target_epsilon == 2 and len(partitions) == 1
    assert ready.training.config.noise_multiplier == pytest.approx(8.9166, abs=1e-4)


def test_a_trainer_without_examples_to_learn_from_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "attacked.yaml"
    text = ATTACKED.format(shadow=100, replicas=0).replace(
        "{name: sia, targets: 5}", "{name: whitebox_mia, trainer: 1}"
    )
    path.write_text(text.replace("clients: 4,", "clients: 4, examples_per_client: 5,"))
    (problem,) = data_problems(load_sweep(path), download=False)
    assert str(problem).startswith(f"{path}:8: base.attacks.0.trainer")
    assert "client 1, which has 4 training examples; it needs 10" in problem.sentence


MODEL = """\
name: own
base:
  rounds: 2
  data: {name: digits, clients: 6}
  model:
    name: "tests.support.own_modules:CLASS"
    args: {ARGS}
"""


def model_sweep(folder: Path, model: str, args: str = "") -> Sweep:
    (folder / "sweep.yaml").write_text(MODEL.replace("CLASS", model).replace("ARGS", args))
    return load_sweep(folder / "sweep.yaml")


@pytest.mark.usefixtures("own_modules")
def test_a_model_that_does_not_fit_the_data_is_one_problem_at_its_line(tmp_path: Path) -> None:
    (problem,) = map(
        str,
        data_problems(model_sweep(tmp_path, "Wrapped", "kind: plain, classes: 5"), download=False),
    )
    assert problem.startswith(
        f"{tmp_path}/sweep.yaml:6: base.model.name: tests.support.own_modules:Wrapped "
    )
    assert "[4, 5]" in problem and "the data have 10 classes" in problem
    assert data_problems(model_sweep(tmp_path, "Plain"), download=False) == []


@pytest.mark.usefixtures("own_modules")
def test_models_and_their_arguments_can_be_swept(tmp_path):
    sweeps = {
        "args: {width: 4}\nsweep: {model.args.width: {grid_search: [8, 16]}}": "tests.support.own_modules:Plain",
        "hidden: [8]\nsweep: {model.name: {grid_search: [mlp, "
        "'tests.support.own_modules:tied']}}": "mlp",
    }
    names = []
    for fields, name in sweeps.items():
        text = MODEL.replace("tests.support.own_modules:CLASS", name).replace(
            "args: {ARGS}", fields
        )
        (tmp_path / "sweep.yaml").write_text(text)
        names += [run.model.title for run in load_sweep(tmp_path / "sweep.yaml").runs]
    assert names == ["tests.support.own_modules:Plain"] * 2 + [
        "mlp",
        "tests.support.own_modules:tied",
    ]


READER = """
from pathlib import Path
import numpy as np
from pydantic import Field
from datasets.federation import Examples, Source
from datasets.source_configs import HeldOutConfig

class Config(HeldOutConfig):
    '''Its fields.'''
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

    def reads(self, body: str = "") -> list[ConfigProblem]:
        """What is found of a reader with ``body``."""
        (self.folder / "mine.py").write_text(READER.format(body=indent(body, "    ")))
        sys.modules.pop("datasets.sources.mine", None)
        forget()
        return data_problems(load_sweep(self.sweep), download=False)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Own]:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    package = importlib.import_module("datasets.sources")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    yield Own(tmp_path)
    sys.modules.pop("datasets.sources.mine", None)
    monkeypatch.undo()
    forget()


def test_an_attack_without_a_shadow_set_is_refused_and_does_not_fail_in_a_later_round(
    own: Own,
) -> None:
    assert own.reads() == []
    for tests in (0, 1):
        (problem,) = own.reads(f"tests = {tests}")
        assert str(problem).startswith(
            f"{own.sweep}:7: base.attacks.0: shadow_mia trains shadow models on the "
            "server's shadow set, "
        )
        assert f"which has {tests} examples of mine; it needs 2 or more" in problem.sentence
    own.sweep.write_text(bare := SWEEP.replace("[{name: shadow_mia, shadows: 1}]", "[]"))
    assert own.reads("tests = 0") == []
    dirichlet = bare.replace("{name: groups, transform: none, minority_ratio: 0.5}", "dirichlet")
    own.sweep.write_text(dirichlet + "  aggregation: fedopt\n")
    (problem,) = (
        own.reads()
    )  # shadow_size: null, which is all test examples under other splits and none here
    assert (
        "base.aggregation" in str(problem)
        and "dirichlet of mine leaves it none" in problem.sentence
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "raise KeyError('age')",
            "mine failed with KeyError: 'age' (mine.py, line 14: raise KeyError('age'))",
        ),
        ("np.zeros(3) @ np.zeros(4)", "failed with ValueError: matmul"),
        ("raise MemoryError", "the reader of mine failed with MemoryError"),
        (
            "return None",
            "is wrong: load must return a datasets.federation.Source; it returned NoneType",
        ),
    ],
)
def test_what_a_reader_does_wrong_is_a_problem_and_no_traceback(
    own: Own, body: str, said: str
) -> None:
    wrong = own.reads(body)
    assert any(said in problem.sentence for problem in wrong)
    assert all(str(own.sweep) in str(problem) for problem in wrong)


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


def test_own_files_lie_beside_the_sweep_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert (
        load_sweep(Path(tmp_path.name) / "own.yaml", ["base.data={name: digits}"]).runs[0].data.name
        == "digits"
    )


def test_replicas_that_were_trained_on_a_file_before_it_was_edited_are_not_taken(
    tmp_path: Path,
) -> None:
    csv(tmp_path / "data")
    (tmp_path / "own.yaml").write_text(CSV)
    (run,) = load_sweep(tmp_path / "own.yaml").runs
    before = data_hash(partition_data(run, tmp_path))
    assert before == data_hash(partition_data(run, tmp_path))
    (tmp_path / "data/t.csv").write_text(
        (tmp_path / "data/t.csv").read_text().replace("37.5", "37.25")
    )
    assert before != data_hash(partition_data(run, tmp_path))


def test_a_data_set_has_the_hash_that_records_of_earlier_versions_name() -> None:
    part = Examples(np.zeros((2, 3), np.float32), np.arange(2))
    source = Source("mine", 2, part, part, subjects=np.arange(4), class_names=("no", "yes"))
    assert data_hash(source) == "9e5761875061d4d8"
    assert data_hash(replace(source, fit=lambda rows: source)) == "f0931a2d9d47cf97"
    assert data_hash(replace(source, remarks=("not read: 3 .gif in cat",))) == "9e5761875061d4d8"
    assert (
        data_hash(replace(source, mean=(0.5,), persons=np.array([*"abcd"], object)))
        == "37861a40ab57eb8f"
    )
