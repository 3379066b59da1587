"""A cluster with token authentication: a submitted job, a node that leaves, and nodes that are
refused (docs/cluster.md).
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator import CHECKOUT
from tests.support.command import arguments, mlflow_holds_all, same_results
from tests.support.local_cluster import RAY, LocalCluster, named

pytestmark = (
    pytest.mark.slow
)  # a sweep in a Ray that runs already is tried by default in test_own_ray

MOST_BYTES = (
    30 * 10**5
)  # of the copy on a node; the code alone has 2.3 million, a third of it docstrings


def busy(cluster: LocalCluster) -> list[int]:
    """The nodes on which clients are trained."""
    return [
        number
        for number, node in enumerate(cluster.nodes)
        if named(node.pid, ("ray::ClientActor",))
    ]


def watched(cluster: LocalCluster, command: list[str], log: Path) -> Iterator[str]:
    """Give a command and yield what it has printed, again and again, until it ends; it must
    succeed.
    """
    with open(log, "w") as file:
        head = subprocess.Popen(
            command, env=cluster.variables, stdout=file, stderr=subprocess.STDOUT
        )
    try:
        while head.poll() is None:
            yield log.read_text()
            time.sleep(0.2)
    finally:
        head.kill()
    assert head.wait() == 0, log.read_text()


def submission(cluster: LocalCluster, *command: str) -> list[str]:
    return [
        *RAY,
        "job",
        "submit",
        "--address",
        cluster.url,
        "--working-dir",
        str(CHECKOUT),
        "--",
        *command,
    ]


def test_a_job_gives_the_same_bytes_and_uploads_little(cluster, tiny, expected, tmp_path):
    run = ["python", "-m", "orchestrator", "run", str(tiny), "--results", str(tmp_path)]
    nodes: set[int] = set()
    for _ in watched(cluster, submission(cluster, *run), tmp_path / "job.log"):
        nodes |= set(busy(cluster))
    assert nodes == {0, 1}
    same_results(expected, tmp_path)
    mlflow_holds_all(tmp_path)
    uploaded = cluster.folder.glob("*/session_*/runtime_resources/working_dir_files/_ray_pkg_*")
    copies = [path for path in {path.resolve() for path in uploaded} if path.is_dir()]
    assert len(copies) == 2
    for copy in copies:
        assert (copy / "orchestrator" / "papers" / "published.yaml").exists() and not (
            copy / "tests"
        ).exists()
        files = [path for path in copy.rglob("*") if path.is_file() and path.suffix != ".pyc"]
        assert sum(path.stat().st_size for path in files) < MOST_BYTES


def test_without_the_token_nothing_is_run(cluster, tmp_path):
    stranger = cluster.run(
        *submission(cluster, "touch", str(tmp_path / "broken in")), RAY_AUTH_TOKEN="0" * 48
    )
    assert stranger.returncode != 0
    assert "authenticat" in (stranger.stdout + stranger.stderr).lower()
    assert not (tmp_path / "broken in").exists()


def test_a_node_that_leaves_is_survived(cluster, tiny, expected, tmp_path):
    """A trial lies on two of three nodes, until one of them is gone with its actor, and perhaps
    with the trial's process.
    """
    cluster.start(1)
    lost = None
    for printed in watched(
        cluster, arguments(tiny, tmp_path, "--address", cluster.address), tmp_path / "run.log"
    ):
        if lost is None and "round 1/" in printed:
            _, lost = busy(cluster)
            cluster.lose(lost)
    assert lost is not None
    same_results(expected, tmp_path)
    mlflow_holds_all(tmp_path)


def test_a_results_folder_that_another_node_does_not_see_is_refused(cluster, tiny, tmp_path):
    if os.geteuid() or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("a node with a file system of its own cannot be made here")
    results = tmp_path / "results"
    results.mkdir()
    # What this node has at the path of the results is a disk of its own.
    apart = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs tmpfs "$0" && exec "$@"',
        str(results),
    ]
    with cluster.node(*apart):
        done = cluster.run(*arguments(tiny, results, "--address", cluster.address))
    assert done.returncode == 2, done.stdout + done.stderr
    line = done.stderr.strip().splitlines()[-2]
    assert (
        line.startswith("--results: node ")
        and f"cannot use the results folder {results / 'tiny'} (" in line
    )
    assert "nothing was started, nothing was written" in done.stderr
    assert list(results.iterdir()) == []


def test_a_node_with_other_packages_is_refused(cluster, tiny, tmp_path):
    """The node's interpreter finds another torch, of which only the name exists."""
    other = tmp_path / "other" / "torch-0.1.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 0.1\n")
    with cluster.node("env", f"PYTHONPATH={other.parent}"):
        done = cluster.run(*arguments(tiny, tmp_path / "results", "--address", cluster.address))
    assert done.returncode == 2, done.stdout + done.stderr
    assert "has torch 0.1, unlike this process, and results depend on versions" in done.stderr
