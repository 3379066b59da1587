"""`ray submit docs/cluster.yaml submit.py -- ...`: the launcher's file, how a node is set up,
and the script run there.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from orchestrator import CHECKOUT

CLUSTER = yaml.safe_load((CHECKOUT / "docs" / "cluster.yaml").read_text())


def test_the_launcher_reads_the_file():
    pytest.importorskip("jsonschema", reason="the launcher needs ray[default]")
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(CLUSTER))


@pytest.mark.parametrize("has_uv", [False, True])
def test_a_node_is_set_up_without_touching_the_python_of_its_system(tmp_path, has_uv):
    """Stand-ins say what they were asked; python3 makes an environment, its pip brings uv, and
    uv is told which Python.
    """
    tools, checkout = tmp_path / "tools", tmp_path / "fedpriv"
    for folder in (tools, checkout):
        folder.mkdir()
    said = f'#!/bin/sh\necho "$(basename $0) $*" >> {tmp_path}/asked\n'
    uv = f"printf '{said}' > ~/.fedpriv/bin/uv; chmod +x ~/.fedpriv/bin/uv".replace("\n", "\\n")
    (tmp_path / "pip").write_text(said + uv)
    made = "mkdir -p $3/bin && cp ~/pip $3/bin/pip && chmod +x $3/bin/pip\n"
    for name, script in {"python3": said + made, **({"uv": said} if has_uv else {})}.items():
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)
    for command in CLUSTER["setup_commands"]:
        variables = {"HOME": str(tmp_path), "PATH": f"{tools}:/usr/bin:/bin"}
        subprocess.run(["bash", "-c", command], env=variables, cwd=tmp_path, check=True)
    brought = [] if has_uv else [f"python3 -m venv {tmp_path}/.fedpriv", "pip install -q uv"]
    assert (tmp_path / "asked").read_text().splitlines() == [
        *brought,
        "uv venv -q --allow-existing --python 3.11",
        "uv pip install -q -r pyproject.toml --extra cluster -c constraints.txt",
    ]
    assert "fedpriv/.venv/bin" in (tmp_path / ".bashrc").read_text()


def test_submit_py_finds_the_checkout_that_was_copied_or_says_where_it_sought_and_exits_as_the_command_does(
    tmp_path,
):
    (tmp_path / "submit.py").write_text((CHECKOUT / "submit.py").read_text())

    def submitted(*arguments: str) -> subprocess.CompletedProcess[str]:
        env, command = (
            {"HOME": str(tmp_path), "PATH": ""},
            [sys.executable, str(tmp_path / "submit.py"), *arguments],
        )
        return subprocess.run(
            command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    lost = submitted("list")
    sought = f"{tmp_path} or {tmp_path / 'fedpriv'}"
    said = f"no checkout of fedpriv in {sought}; set FEDPRIV_HOME to its folder\n"
    assert (lost.returncode, lost.stderr) == (1, said)
    (tmp_path / "fedpriv").mkdir()
    for place, mounted in CLUSTER["file_mounts"].items():
        if place.startswith("~/fedpriv/"):
            (tmp_path / place.removeprefix("~/")).symlink_to(CHECKOUT / mounted)
    assert "preference" in submitted("list", "ifca_mir").stdout
    assert submitted("list", "ifca_mri").returncode == 2
