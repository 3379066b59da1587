"""Every example of own data, model, code and Python in the documentation, from the folder of its
sweep file, as a user runs it.

On a Ray of its own and on one that is joined: there Ray puts the working folder on the path of its
workers, and sends own code.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from orchestrator.cli import main
from tests.support.command import environment
from tests.support.own_code import write_pets, written
from tests.support.pages import FENCED, YAML, page

PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OWN_CODE = re.compile(r"^`(code/[\w/]+\.py)` is.*?^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = [str(Path(sys.executable).with_name("fedpriv"))]
FEWER = [
    "--set",
    "base.rounds=1",
    "--set",
    "resources.client_actors=1",
    "--set",
    "resources.concurrent_trials=1",
]
ONE_SHADOW = ["--set", "base.attacks.shadow_mia.shadows=1"]
ONE_SEED = [
    *ONE_SHADOW,
    "--set",
    "base.attacks.calibrated_mia.replicas=4",
    "--set",
    "sweep.seed.grid_search=[0]",
]


def own_model(folder: Path) -> list[list[str]]:
    """The network in a file beside the sweep."""
    (nets,), (sweep,) = (
        PYTHON.findall(page("docs/own_model.md")),
        YAML.findall(page("docs/own_model.md")),
    )
    written(folder, {"nets.py": nets, "sweep.yaml": sweep})
    widths = [
        "--set",
        "sweep.model.args.width.grid_search=[4]",
        "--set",
        "base.attacks.shadow_mia.every=1",
    ]
    return [[*COMMAND, "run", "sweep.yaml", *FEWER, *ONE_SHADOW, *widths]]


def own_table(folder: Path) -> list[list[str]]:
    """The table that scikit-learn writes, and the sweep that `fedpriv new` writes."""
    steps = PYTHON.findall(page("docs/own_data.md"))[0]
    new = [*COMMAND, "new", "cancer.csv", "--label", "target"]
    return [[sys.executable, "-c", steps], new, [*COMMAND, "run", "sweep.yaml", *FEWER, *ONE_SEED]]


def own_images(folder: Path) -> list[list[str]]:
    """Images in folders of clients and classes."""
    write_pets(folder, 120, (12, 12, 3))
    new = [*COMMAND, "new", "pets", "--layout", "client/class", "--output", "pets.yaml"]
    return [new, [*COMMAND, "run", "pets.yaml", *FEWER, *ONE_SEED]]


def own_code(folder: Path) -> list[list[str]]:
    """An aggregation, an attack and its helper in a folder beside the sweep."""
    files = dict(OWN_CODE.findall(page("docs/own_code.md")))
    assert len(files) == 3
    (sweep,) = YAML.findall(page("docs/own_code.md"))
    written(folder, files | {"sweep.yaml": sweep})
    return [[*COMMAND, "run", "sweep.yaml", *FEWER]]


def contributed(folder: Path) -> list[list[str]]:
    """The three files of CONTRIBUTING, a data set, an attack and an aggregation, outside the
    checkout.
    """
    fenced = FENCED.finditer(page("CONTRIBUTING.md"))
    files = {"/".join(("code", *Path(one["path"]).parts[-2:])): one["code"] for one in fenced}
    (sweep,) = YAML.findall(page("CONTRIBUTING.md"))
    written(folder, files | {"sweep.yaml": f"{sweep}code: code\n"})
    return [[*COMMAND, "run", "sweep.yaml", *FEWER, "--set", "base.attacks.correctness.every=1"]]


def from_python(folder: Path) -> list[list[str]]:
    """The sweep as a dict, as a script in the folder."""
    first = PYTHON.findall(page("docs/python.md"))[0]
    for old, new in {
        '"rounds": 4': '"rounds": 1',
        '"every": 4': '"every": 1',
        "[0, 1, 2]": "[0]",
    }.items():
        assert old in first
        first = first.replace(old, new)
    written(folder, {"script.py": first})
    return [[sys.executable, "script.py"]]


EXAMPLES = (own_model, own_table, own_images, own_code, contributed, from_python)


def follow(commands: list[list[str]], folder: Path, variables: Mapping[str, str]) -> None:
    """Give the commands in the folder; every trial must finish."""
    for command in commands:
        done = subprocess.run(
            command,
            cwd=folder,
            env=dict(variables),
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    (table,) = folder.glob("results/*/trials.parquet")
    statuses = pq.read_table(table)["status"].to_pylist()
    assert statuses and set(statuses) == {"finished"}


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES)
def test_it_runs_on_this_machine(example, tmp_path) -> None:
    follow(example(tmp_path), tmp_path, environment())


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES)
def test_it_runs_on_a_ray_that_is_joined(example, cluster, tmp_path) -> None:
    follow(example(tmp_path), tmp_path, cluster.variables | {"RAY_ADDRESS": cluster.address})


def test_own_components_pass_the_check(tmp_path, capsys, own_code_is_forgotten):
    own_code(tmp_path)
    for name in ("clipped_mean", "norms"):
        assert main(["check", name, "--code", str(tmp_path / "code")]) == 0, capsys.readouterr().out
