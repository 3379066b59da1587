"""`ray submit docs/cluster.yaml submit.py -- ...`: what the launcher does on the head node, with and without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from orchestrator import CHECKOUT
from tests.support.command import same_results
from tests.support.launcher import Launcher
from tests.support.local_cluster import free_port

# Runs what a node would be asked to run, as sshd does: the words joined by blanks are given to a shell.
ON_THIS_MACHINE = """#!/bin/bash
for last; do :; done
while [ $# -gt 0 ] && [[ "$1" != *@* ]]; do shift; done
shift
printf '%s\\n' "$*" >> "$NODE_HOME/asked.txt"
cd "$NODE_HOME" && HOME="$NODE_HOME" exec bash -c "$*"
"""


def test_the_launcher_brings_a_command_to_the_checkout_on_the_head_node(tmp_path):
    """What has no blanks and braces comes through as it is; the checkout is found, and paths begin there."""
    pytest.importorskip("aiohttp_cors", reason="the launcher needs ray[default]")
    launcher = Launcher(tmp_path, ON_THIS_MACHINE)
    sets = ["--set", "sweep.seed.grid_search=[0,1]", "--set", "'base.clustering={name: ifca, clusters: 2}'"]
    done = launcher.submit(
        "run", "sweeps/quickstart.yaml", "--results", str(tmp_path / "results"), "--address", "nothing", *sets
    )
    asked = (launcher.home / "asked.txt").read_text()
    assert f"python ~/submit.py run sweeps/quickstart.yaml --results {tmp_path / 'results'}" in asked
    assert "sweep.seed.grid_search=[0,1]" in asked
    assert "--address: nothing is no address of a Ray cluster" in done.stdout + done.stderr, done
    assert (launcher.home / "fedpriv" / "orchestrator" / "cli.py").exists()
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("has_uv", [False, True])
def test_a_node_is_set_up_without_touching_the_python_of_its_system(tmp_path, has_uv):
    """Stand-ins say what they were asked; python3 makes an environment, its pip brings uv, and uv is told which Python."""
    tools, checkout = tmp_path / "tools", tmp_path / "fedpriv"
    for folder in (tools, checkout):
        folder.mkdir()
    said = f'#!/bin/sh\necho "$(basename $0) $*" >> {tmp_path}/asked\n'
    uv = f"printf '{said}' > ~/.fedpriv/bin/uv; chmod +x ~/.fedpriv/bin/uv".replace("\n", "\\n")
    pip = said + uv
    (tmp_path / "pip").write_text(pip)
    made = "mkdir -p $3/bin && cp ~/pip $3/bin/pip && chmod +x $3/bin/pip\n"
    for name, script in {"python3": said + made, **({"uv": said} if has_uv else {})}.items():
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)
    for command in yaml.safe_load((CHECKOUT / "docs" / "cluster.yaml").read_text())["setup_commands"]:
        variables = {"HOME": str(tmp_path), "PATH": f"{tools}:/usr/bin:/bin"}
        subprocess.run(["bash", "-c", command], env=variables, cwd=tmp_path, check=True)
    brought = [] if has_uv else [f"python3 -m venv {tmp_path}/.fedpriv", "pip install -q uv"]
    assert (tmp_path / "asked").read_text().splitlines() == [
        *brought,
        "uv venv -q --allow-existing --python 3.11",
        "uv pip install -q -r pyproject.toml --extra cluster -c constraints.txt",
    ]
    assert "fedpriv/.venv/bin" in (tmp_path / ".bashrc").read_text()


@pytest.fixture
def alone(tmp_path) -> Path:
    """A home folder with nothing but the copy of submit.py."""
    (tmp_path / "submit.py").write_text((CHECKOUT / "submit.py").read_text())
    return tmp_path


def submitted(home: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(home / "submit.py"), *arguments],
        env={"HOME": str(home), "PATH": ""} | variables,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_checkout_it_says_where_it_was_sought(alone):
    done = submitted(alone, "list")
    assert done.returncode == 1
    assert done.stderr == f"no checkout of fedpriv in {alone} or {alone / 'fedpriv'}; set FEDPRIV_HOME to its folder\n"


def test_the_variable_names_the_checkout_and_the_exit_code_is_the_commands(alone):
    assert "preference" in submitted(alone, "list", "ifca_mir", FEDPRIV_HOME=str(CHECKOUT)).stdout
    assert submitted(alone, "list", "ifca_mri", FEDPRIV_HOME=str(CHECKOUT)).returncode == 2


# What sshd runs whatever is asked for: the same command with the node's home folder in place of the user's.
FORCED = """#!/bin/bash
export HOME={home} NODE_HOME={home}
cd "$HOME" && exec bash -c "$SSH_ORIGINAL_COMMAND"
"""
SSHD = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
ForceCommand {folder}/forced
"""


@pytest.fixture
def networked(cluster, tmp_path) -> Iterator[Launcher]:
    """A launcher that reaches the node of the cluster by a real ssh; the cluster's address is in Ray's file there."""
    sshd, keygen = shutil.which("sshd", path="/usr/sbin:/usr/bin"), shutil.which("ssh-keygen")
    if not sshd or not keygen or os.geteuid():
        pytest.skip("a server for ssh cannot be started here")
    port, token = free_port(), {name: cluster.variables[name] for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")}
    launcher = Launcher(tmp_path, f'#!/bin/sh\nexec {shutil.which("ssh")} -F none -p {port} "$@"\n', token)
    (tmp_path / "key").unlink()
    for name in ("key", "host"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    (tmp_path / "forced").write_text(FORCED.format(home=launcher.home))
    (tmp_path / "forced").chmod(0o755)
    (tmp_path / "sshd").write_text(SSHD.format(port=port, folder=tmp_path))
    (tmp_path / "ray").mkdir(exist_ok=True)
    (tmp_path / "ray" / "ray_current_cluster").write_text(cluster.address)
    Path("/run/sshd").mkdir(exist_ok=True)  # without it sshd does not start
    with open(tmp_path / "sshd.log", "w") as log:
        server = subprocess.Popen([sshd, "-D", "-e", "-f", str(tmp_path / "sshd")], stdout=log, stderr=log)
    try:
        yield launcher
    finally:
        server.terminate()
        server.wait()


@pytest.mark.slow
def test_a_sweep_that_is_submitted_over_ssh_runs_on_all_nodes_and_says_so(networked, cluster, tiny, expected, tmp_path):
    results = tmp_path / "results"
    done = networked.submit("run", str(tiny), "--results", str(results))
    assert done.returncode == 0, done.stdout + done.stderr + (tmp_path / "sshd.log").read_text()
    file = tmp_path / "ray" / "ray_current_cluster"
    told = f"joined the Ray cluster at {cluster.address} (2 nodes, 2 CPUs), which {file} names; --address local uses"
    assert told in " ".join(done.stdout.split()), done.stdout
    same_results(expected, results)
