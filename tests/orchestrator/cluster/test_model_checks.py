"""A model by dotted path in a sweep file: refusals with file and line before anything starts, and the plan's remark."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.cluster.data_checks import data_problems
from orchestrator.config.errors import ConfigError
from orchestrator.config.sweep_file import Sweep, load_sweep

pytestmark = pytest.mark.usefixtures("one_thread", "own_modules")

SWEEP = """\
name: own
base:
  rounds: 2
  data: {name: digits, clients: 6}
  model:
    name: MODEL
    args: {ARGS}
sweep:
  SWEPT
"""


def sweep_of(folder: Path, model: str, args: str = "", swept: str = "seed: {grid_search: [0, 1]}") -> Sweep:
    text = SWEEP.replace("MODEL", f'"tests.support.own_modules:{model}"').replace("ARGS", args).replace("SWEPT", swept)
    (folder / "sweep.yaml").write_text(text)
    return load_sweep(folder / "sweep.yaml")


def test_what_does_not_fit_the_data_is_one_problem_at_the_models_line(tmp_path):
    found = data_problems(sweep_of(tmp_path, "Wrapped", "kind: plain, classes: 5"), download=False)
    (problem,) = map(str, found)
    assert problem.startswith(f"{tmp_path}/sweep.yaml:6: base.model.name: tests.support.own_modules:Wrapped ")
    assert "[4, 5]" in problem and "the data have 10 classes" in problem
    assert data_problems(sweep_of(tmp_path, "Plain"), download=False) == []
    run = sweep_of(tmp_path, "Convolutional").runs[0]
    assert "(backend loop), because it has batch normalization" in run.model.module.remark(run.model.config, run)


@pytest.mark.parametrize(
    ("model", "args", "line", "words"),
    [
        ("Plian", "", 6, "base.model.name: tests.support.own_modules:Plian does not exist"),
        ("Plain", "widht: 3", 7, "base.model.args: tests.support.own_modules:Plain takes"),
    ],
)
def test_what_cannot_be_called_is_refused_at_its_line(tmp_path, model, args, line, words):
    with pytest.raises(ConfigError) as refusal:
        sweep_of(tmp_path, model, args)
    assert f"sweep.yaml:{line}: {words}" in str(refusal.value)
    assert len(refusal.value.problems) == 1


def test_models_and_their_arguments_can_be_swept(tmp_path):
    sweep = sweep_of(tmp_path, "Plain", "width: 4", "model.args.width: {grid_search: [8, 16]}")
    assert [run.model.config.args for run in sweep.runs] == [{"width": 8}, {"width": 16}]
    names = 'model: {grid_search: [mlp, "tests.support.own_modules:tied"]}'
    text = SWEEP.replace("    name: MODEL\n    args: {ARGS}\n", "    name: mlp\n    hidden: [8]\n").replace(
        "SWEPT", names
    )
    (tmp_path / "sweep.yaml").write_text(text.replace("model: {grid", "model.name: {grid"))
    sweep = load_sweep(tmp_path / "sweep.yaml")
    assert [run.model.title for run in sweep.runs] == ["mlp", "tests.support.own_modules:tied"]
    assert [values["model.name"] for values in sweep.values] == ["mlp", "tests.support.own_modules:tied"]
