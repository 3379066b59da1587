"""A cluster of several nodes that is joined by its address: trials on two, a node that leaves, and one that cannot write."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from tests.support.command import arguments, same_results
from tests.support.complete import mlflow_holds_all
from tests.support.local_cluster import named

ACTOR = ("ray::ClientActor",)


@pytest.mark.slow
def test_a_node_that_leaves_is_survived(cluster, tiny, expected, tmp_path):
    """A trial lies on two of three nodes, until one of them is gone with its actor, and perhaps with the trial's process."""
    cluster.start(1)
    command = arguments(tiny, tmp_path, "--address", cluster.address)
    with open(tmp_path / "run.log", "w") as log:
        head = subprocess.Popen(command, env=cluster.variables, stdout=log, stderr=subprocess.STDOUT)
    try:
        while head.poll() is None and "round 1/" not in (tmp_path / "run.log").read_text():
            time.sleep(0.1)
        assert head.poll() is None, (tmp_path / "run.log").read_text()
        busy = [number for number, node in enumerate(cluster.nodes) if named(node.pid, ACTOR)]
        assert len(busy) == 2
        cluster.lose(busy[-1])
        head.wait(timeout=300)
    finally:
        head.kill()
    printed = (tmp_path / "run.log").read_text()
    assert head.returncode == 0, printed
    same_results(expected, tmp_path)
    mlflow_holds_all(tmp_path)


@pytest.mark.slow
def test_a_results_folder_that_another_node_does_not_see_is_refused(cluster, tiny, tmp_path):
    if os.geteuid() or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("a node with a file system of its own cannot be made here")
    results = tmp_path / "results"
    results.mkdir()
    # What this node has at the path of the results is a disk of its own.
    apart = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs "$0" && exec "$@"', str(results)]
    number = cluster.start(1, *apart)
    try:
        done = cluster.run(*arguments(tiny, results, "--address", cluster.address))
    finally:
        cluster.lose(number)
    assert done.returncode == 2, done.stdout + done.stderr
    (line, _) = done.stderr.strip().splitlines()[-2:]
    assert line.startswith("--results: node ")
    assert (
        f"cannot use the results folder {results / 'tiny'} (it does not see files that this process writes there)"
        in line
    )
    assert "nothing was started, nothing was written" in done.stderr
    assert list(results.iterdir()) == []


@pytest.mark.slow
def test_a_node_with_other_packages_is_refused(cluster, tiny, tmp_path):
    """The node's interpreter finds another torch, of which only the name exists."""
    other = tmp_path / "other"
    (other / "torch-0.1.dist-info").mkdir(parents=True)
    (other / "torch-0.1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 0.1\n")
    number = cluster.start(1, "env", f"PYTHONPATH={other}")
    try:
        done = cluster.run(*arguments(tiny, tmp_path / "results", "--address", cluster.address))
    finally:
        cluster.lose(number)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "has torch 0.1, unlike this process, and results depend on versions" in done.stderr
