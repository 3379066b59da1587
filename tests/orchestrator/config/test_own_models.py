"""Models of own code: what is remembered of an edited module, which of two helpers is imported,
which names are taken.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.cluster.data_checks import data_problems
from orchestrator.config.sweep_file import load_sweep
from tests.support.own_code import written

pytestmark = pytest.mark.usefixtures("own_code_is_forgotten")

SWEEP = """\
name: own
code: nets.py
base:
  rounds: 2
  data: {name: digits, clients: 6}
  model: {name: "nets:Net"}
  attacks: []
"""
NET = '''"""A model of somebody."""

import torch
from torch import nn


class Net(nn.Module):
    """A linear model."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

    def forward(self, x):
        """Logits."""
        return self.layers(x)
'''


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A sweep file with a model beside it."""
    written(tmp_path, {"nets.py": NET, "sweep.yaml": SWEEP})
    return tmp_path / "sweep.yaml"


def misfits(sweep: Path, right: str = "", changed: str = "") -> list[str]:
    """What is said of the model after an edit."""
    assert right in NET
    written(sweep.parent, {"nets.py": NET.replace(right, changed)})
    return [str(problem) for problem in data_problems(load_sweep(sweep), download=False)]


def test_an_edited_module_is_tried_anew_in_the_same_process(beside):
    (problem,) = misfits(beside, "64, 10", "64, 5")
    assert "nets:Net returns torch.float32 [4, 5]" in problem
    assert misfits(beside) == []
    assert not load_sweep(beside).runs[0].model.module.BATCH_NORM
    (problem,) = misfits(beside, "nn.Flatten(), ", "nn.Flatten(), nn.BatchNorm1d(64), ")
    assert "train on one example" in problem, (
        "and not that its normalization could not be seen before"
    )
    assert load_sweep(beside).runs[0].model.module.BATCH_NORM


@pytest.mark.parametrize(
    ("code", "problems"),
    [
        ("torch.manual_seed(0)", 1),
        ("torch.random.fork_rng().__enter__()", 0),
        ("torch.manual_seed(torch.initial_seed())", 0),
    ],
)
def test_a_constructor_that_seeds_torch_itself_is_refused(beside, code, problems):
    """Otherwise the models of all seeds of a sweep would start alike."""
    sentences = misfits(beside, "super().__init__()", f"super().__init__(); {code}")
    assert len(sentences) == problems and all(
        "torch.manual_seed" in sentence for sentence in sentences
    )


def test_a_slots_folder_in_a_package_is_a_package(beside, tmp_path):
    written(
        tmp_path,
        {"mypkg/__init__.py": "", "mypkg/models/__init__.py": "", "mypkg/models/net.py": NET},
    )
    beside.write_text(SWEEP.replace("nets.py", "mypkg").replace("nets:Net", "mypkg.models.net:Net"))
    assert load_sweep(beside).runs[0].model.title == "mypkg.models.net:Net"
