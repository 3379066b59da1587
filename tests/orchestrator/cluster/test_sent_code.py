"""Own code on a cluster that is joined: what Ray is handed, and that another process imports the
same from it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray

from orchestrator.cluster.address import Target
from orchestrator.cluster.ray_session import LACKS, ray_session, sent_along
from orchestrator.commands import Choices, prepare
from orchestrator.config.errors import ConfigError
from orchestrator.config.own_code import SENT, VARIABLE, install
from orchestrator.config.sweep_file import load_sweep
from tests.support.own_code import AGGREGATION, ATTACK, HELPER, written
from tests.support.pages import ROOT


@pytest.fixture
def own(tmp_path):
    """A folder with more in it than code, and a single file."""
    files = {
        "attacks/norms.py": ATTACK,
        "attacks/_norms.py": HELPER,
        "pkg/__init__.py": "",
        "pkg/words.txt": "a b",
    }
    written(tmp_path / "code", files | {"results/big.bin": "much", "attacks/__pycache__/x.pyc": ""})
    written(
        tmp_path, {"scaled.py": AGGREGATION.replace("LABEL =", 'SLOT = "aggregation"\nLABEL =')}
    )
    assert install([tmp_path / "code", tmp_path / "scaled.py"]) == []
    yield tmp_path
    install(())


def test_the_runtime_environment_holds_the_code_and_nothing_else(own):
    with sent_along() as options:
        environment = options["runtime_env"]
        (package,) = map(Path, environment["py_modules"])
        files = sorted(
            str(file.relative_to(package)) for file in package.rglob("*") if file.is_file()
        )
    assert package.name == SENT
    code = [
        "0/code/attacks/_norms.py",
        "0/code/attacks/norms.py",
        "0/code/pkg/__init__.py",
        "0/code/pkg/words.txt",
    ]
    assert files == [*code, "1/scaled.py", "__init__.py"]
    assert json.loads(environment["env_vars"][VARIABLE]) == [
        str(own / "code"),
        str(own / "scaled.py"),
    ]
    assert not package.exists()
    install(())
    with sent_along() as options:
        assert options == {}


def test_ray_is_handed_it_where_a_cluster_is_joined_and_not_where_it_is_started_here(
    own, monkeypatch
):
    asked = []
    monkeypatch.setattr(ray, "init", lambda **options: asked.append(options))
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setattr(ray, "nodes", list)
    for target in (Target("10.0.0.1:6379", "--address"), Target()):
        with ray_session(target, SimpleNamespace(bundles=[{"CPU": 1.0}])):
            pass
    joined, started = asked
    assert json.loads(joined["runtime_env"]["env_vars"][VARIABLE])[0] == str(own / "code")
    assert "runtime_env" not in started


def test_a_ray_that_was_connected_before_is_refused_because_its_workers_lack_the_code(
    own, monkeypatch
):
    base = "base: {rounds: 1, data: {name: digits, clients: 4, split: dirichlet}, model: mlp}\n"
    (own / "sweep.yaml").write_text(f"name: own\ncode: [code, scaled.py]\n{base}")
    monkeypatch.setattr("orchestrator.cluster.ray_session.is_connected", lambda: True)
    with pytest.raises(ConfigError) as refusal:
        prepare(load_sweep(own / "sweep.yaml"), Choices(own / "results"))
    assert str(refusal.value) == f"{own}/sweep.yaml:2: code: {LACKS}"
    assert not (own / "results").exists()
    assert prepare(load_sweep(own / "sweep.yaml"), Choices(own / "results", dry=True)).trials
    (own / "sweep.yaml").write_text(f"name: own\n{base}")
    assert prepare(load_sweep(own / "sweep.yaml"), Choices(own / "results")).trials


def test_another_node_imports_what_was_sent_although_the_working_folder_is_on_the_path(
    own, tmp_path
):
    """Ray puts the folder in which the command runs on the path of a joined cluster's workers."""
    written(own, {"nets.py": "WIDTH = 4\n"})
    assert install([own / "code", own / "scaled.py", own / "nets.py"]) == []
    with sent_along() as options:
        environment = options["runtime_env"]
        there = tmp_path / "node" / SENT
        shutil.copytree(environment["py_modules"][0], there)
    program = (
        "import orchestrator, nets; from datasets import origins; from datasets.components "
        "import components;print(components('attacks')['norms'].__file__, "
        "components('algorithms.aggregation')['scaled'].__file__,nets.__file__, "
        "origins.of('nets').kind)"
    )
    variables = {**environment["env_vars"], "PYTHONPATH": f"{own}:{tmp_path / 'node'}"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    files = [f"{there}/0/code/attacks/norms.py", f"{there}/1/scaled.py", f"{there}/2/nets.py"]
    assert done.stdout.split() == [*files, "own"], done.stderr
