"""A dry run of own components that raise or return what they must not: one sentence with slot,
name, file and line, never a traceback.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cli import main
from tests.support.own_code import AGGREGATION, written

pytestmark = pytest.mark.usefixtures("own_code_is_forgotten")

HEAD = "import numpy as np\nfrom datasets.components import Config as SlotConfig\n"
CONFIG = "\n\nclass Config(SlotConfig):\n    every: int = 1\n\n\n"
SPLIT = (
    HEAD
    + "from dataclasses import replace\nfrom datasets.splits import dirichlet\n\n\n"
    + "class Config(dirichlet.Config):\n    pass\n\n\n"
    + "def shortages(config, data_config, source):\n    return []\n\n\n"
    + "def partition(config, data_config, source, rng_for):\n"
    + "    made = dirichlet.partition(config, data_config, source, rng_for)\n    {line}\n"
)
ATTACK = (
    HEAD
    + "from algorithms.core.metric import Number\nfrom attacks.interfaces import Exposure\n\nKINDS = ('updates',)"
    + CONFIG
    + "def observe(config, seen):\n    return np.zeros(len(seen.params))\n\n\n"
    + "def conclude(config, seen):\n    {line}\n"
)
OBJECTIVE = (
    HEAD
    + CONFIG
    + "def loss(config, forward, arrays, x, y, client):\n"
    + "    from torch.nn.functional import cross_entropy\n"
    + "    each = cross_entropy(forward(arrays, x), y, reduction='none')\n    {line}\n"
)
MODEL = (
    HEAD
    + "CONVOLUTIONAL = True\nBATCH_NORM = False"
    + CONFIG
    + "def build(config, shape, classes):\n    from torch import nn\n\n"
    + "    class Net(nn.Module):\n        def __init__(self):\n            super().__init__()\n"
    + "            self.c = nn.Conv2d(shape[0], 4, 3)\n"
    + "            self.f = nn.Linear(144, classes)\n\n"
    + "        def forward(self, x):\n            x = self.c(x)\n"
    + "            return self.f(x.view(len(x), -1))\n\n    {line}\n"
)
BODY = "    step = config.scale * received.mean\n"
CONTENTS = {
    "split": SPLIT,
    "attacks": ATTACK,
    "objective": OBJECTIVE,
    "model": MODEL,
    "aggregation": AGGREGATION.replace("{", "{{")
    .replace("}", "}}")
    .replace(BODY, "    {line}\n" + BODY),
}
PLACES = {
    "split": "data: {name: digits, clients: 4, examples_per_client: 20, split: mine}",
    "attacks": "attacks: [mine]",
    "aggregation": "aggregation: mine",
    "objective": "objective: mine",
    "model": "model: mine",
}


@pytest.fixture
def planned(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def plan(slot: str, line: str) -> tuple[int, str]:
        written(tmp_path / "code", {f"{slot}/mine.py": CONTENTS[slot].format(line=line)})
        lines = {
            "split": "data: {name: digits, clients: 4, examples_per_client: 20}",
            "model": "model: {name: mlp, hidden: [8]}",
            "attacks": "attacks: []",
        } | {slot: PLACES[slot]}
        base = "".join(f"  {text}\n" for text in ("rounds: 1", *lines.values()))
        (tmp_path / "s.yaml").write_text(f"name: s\ncode: code\nbase:\n{base}")
        results = str(tmp_path / "results")
        code = main(["run", str(tmp_path / "s.yaml"), "--dry-run", "--results", results])
        return code, capfd.readouterr().err

    return plan


@pytest.mark.parametrize(
    ("slot", "line", "sentence"),
    [
        ("split", "raise KeyError('no')", "base.data.split.name: mine fails in partition"),
        ("split", "return None", "it returned None; it must return Federation"),
        ("split", "return replace(made, offsets=made.offsets[:-1])", "offsets of int64 [4]"),
        ("split", "return replace(made, test_owner=made.test_owner + 9)", "owners of test"),
        ("attacks", "raise ValueError('no')", "base.attacks: mine fails in conclude"),
        ("attacks", "return None", "it returned None; it must return Exposure"),
        ("attacks", "return Exposure((), {'a': np.zeros(1)})", "the column a of shape [1]"),
        ("attacks", "return Exposure((Number('a', [1]),))", "list as the number a"),
        ("attacks", "return Exposure(measures=(1,))", "int among its measures"),
        ("objective", "raise SystemExit('bye')", "base.objective.name: mine fails in loss"),
        ("objective", "return each", "a tensor of shape [8]"),
        ("objective", "return each.detach().mean()", "base.objective.name: mine fails on these"),
        ("model", "return 3", "base.model.name: mine fails in build"),
        ("model", "return nn.Linear(3, classes)", "base.model.name: mine fails on these data"),
        ("aggregation", "return params[:1], state, {}", "parameters of shape [1]"),
        ("aggregation", "raise KeyboardInterrupt", "base.aggregation.name: mine fails in apply"),
    ],
)
def test_an_own_component_at_fault_is_named(planned, tmp_path, slot, line, sentence):
    code, err = planned(slot, line)
    assert code == 2 and "Traceback" not in err
    assert sentence in err
    assert f"{tmp_path}/code/{slot}/mine.py" in err
    assert "1 problem; nothing was started" in err


def test_an_own_model_gets_images_in_the_usual_layout(planned):
    """It flattens the output of a convolution with ``view``, as tutorials do."""
    assert planned("model", "return Net()") == (0, "")
