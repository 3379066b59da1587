"""`ray submit docs/cluster.yaml submit.py -- ...`: what the launcher does on the head node, which is this machine.

Commands of the launcher that would stop every Ray on this machine (``ray stop``) are left out.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from orchestrator import CHECKOUT
from tests.support.command import environment
from tests.support.local_cluster import BIN, RAY

CLUSTER = yaml.safe_load((CHECKOUT / "docs" / "cluster.yaml").read_text())
# Runs what a node would be asked to run, as sshd does: the words joined by blanks are given to a shell.
SSH = """#!/bin/bash
for last; do :; done
while [ $# -gt 0 ] && [[ "$1" != *@* ]]; do shift; done
shift
printf '%s\\n' "$*" >> "$NODE_HOME/asked.txt"
cd "$NODE_HOME" && HOME="$NODE_HOME" exec bash -c "$*"
"""
# Stands for `rsync`, which may not be installed: a folder becomes a link, so that the checkout need not be copied, a file
# is copied. Its last two arguments are a path here, and one on the node after the host and a colon.
RSYNC = f"""#!{sys.executable}
import os, pathlib, shutil, sys
source, target = pathlib.Path(sys.argv[-2]).expanduser(), sys.argv[-1].partition(":")[2]
target = pathlib.Path(target.replace("~", os.environ["NODE_HOME"], 1).rstrip("/"))
target.parent.mkdir(parents=True, exist_ok=True)
if source.is_dir():
    target.unlink() if target.is_symlink() else target.rmdir() if target.exists() else None
    target.symlink_to(source.resolve())
else:
    shutil.copy(source, target)
"""


def submit(folder: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """``ray submit --start cluster.yaml submit.py -- ...`` with docs/cluster.yaml made to fit one node here."""
    (folder / "tools").mkdir()
    for name, script in {"ssh": SSH, "rsync": RSYNC}.items():
        (folder / "tools" / name).write_text(script)
        (folder / "tools" / name).chmod(0o755)
    more = {"PATH": f"{folder / 'tools'}:{BIN}:{os.environ['PATH']}", "RAY_TMPDIR": str(folder)}
    (home / ".bashrc").write_text("".join(f"export {name}={shlex.quote(text)}\n" for name, text in more.items()))
    (folder / "key").touch(mode=0o600)
    config = CLUSTER | {"cluster_name": f"fedpriv-{os.getpid()}-{folder.name}", "setup_commands": ["true"]}
    config |= {"head_start_ray_commands": ["true"], "worker_start_ray_commands": ["true"]}
    config["provider"] = CLUSTER["provider"] | {"head_ip": "127.0.0.1", "worker_ips": []}
    config["auth"] = {"ssh_user": "root", "ssh_private_key": str(folder / "key")}
    config["file_mounts"] = {place: at for place, at in CLUSTER["file_mounts"].items() if "auth_token" not in place}
    assert "ray stop" not in yaml.safe_dump(config)
    (folder / "cluster.yaml").write_text(yaml.safe_dump(config))
    variables = environment(NODE_HOME=str(home), **more)
    del variables["RAY_ADDRESS"]
    command = [*RAY, "submit", "--start", "--no-config-cache", str(folder / "cluster.yaml"), "submit.py", "--"]
    return subprocess.run(
        [*command, *arguments], env=variables, cwd=CHECKOUT, capture_output=True, text=True, timeout=300
    )


def test_the_launcher_brings_a_command_to_the_checkout_on_the_head_node(tmp_path):
    """What has no blanks and braces comes through as it is; the checkout is found, and paths begin there."""
    pytest.importorskip("aiohttp_cors", reason="the launcher needs ray[default]")
    home, results = tmp_path / "home", tmp_path / "results"
    home.mkdir()
    sets = ["--set", "sweep.seed.grid_search=[0,1]", "--set", "'base.clustering={name: ifca, clusters: 2}'"]
    run = ["run", "sweeps/quickstart.yaml", "--results", str(results)]
    done = submit(tmp_path, home, *run, "--address", "nothing", *sets)
    asked = (home / "asked.txt").read_text()
    assert f"python ~/submit.py {' '.join(run)}" in asked
    assert "sweep.seed.grid_search=[0,1]" in asked
    assert "--address: nothing is no address of a Ray cluster" in done.stdout + done.stderr, done
    assert (home / "fedpriv" / "orchestrator" / "cli.py").exists()
    assert not results.exists()


@pytest.mark.parametrize("has_uv", [False, True])
def test_a_node_is_set_up_without_touching_the_python_of_its_system(tmp_path, has_uv):
    """Stand-ins say what they were asked; python3 makes an environment, its pip brings uv, and uv is told which Python."""
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


def test_submit_py_finds_the_checkout_or_says_where_it_sought_and_exits_as_the_command_does(tmp_path):
    (tmp_path / "submit.py").write_text((CHECKOUT / "submit.py").read_text())

    def submitted(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {"HOME": str(tmp_path), "PATH": "", **variables}
        command = [sys.executable, str(tmp_path / "submit.py"), *arguments]
        return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)

    lost = submitted("list")
    sought = f"{tmp_path} or {tmp_path / 'fedpriv'}"
    assert (lost.returncode, lost.stderr) == (
        1,
        f"no checkout of fedpriv in {sought}; set FEDPRIV_HOME to its folder\n",
    )
    assert "preference" in submitted("list", "ifca_mir", FEDPRIV_HOME=str(CHECKOUT)).stdout
    assert submitted("list", "ifca_mri", FEDPRIV_HOME=str(CHECKOUT)).returncode == 2
