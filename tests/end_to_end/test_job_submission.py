"""`ray job submit`, as docs/cluster.md has it, to a cluster of two nodes with token authentication."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from orchestrator import CHECKOUT
from tests.support.command import same_results
from tests.support.complete import mlflow_holds_all
from tests.support.local_cluster import RAY, LocalCluster, named

pytestmark = pytest.mark.slow  # a sweep in a Ray that runs already is tried by default in test_own_ray

MOST_BYTES = 30 * 10**5  # the code alone has 2.3 million, a third of it docstrings
HEADERS, END = 30 + 46, 22  # bytes that a zip archive spends on each entry, besides its name twice, and at its end


def uploaded(cluster: LocalCluster) -> list[Path]:
    """The copies of the checkout on the nodes."""
    found = cluster.folder.glob("*/session_*/runtime_resources/working_dir_files/_ray_pkg_*")
    return [path for path in {path.resolve() for path in found} if path.is_dir()]


def archived(copy: Path) -> int:
    """Bytes of the archive, which Ray does not compress, that this copy was unpacked from."""
    entries = [path for path in copy.rglob("*") if path.suffix != ".pyc" and path.name != "__pycache__"]
    content = sum(path.stat().st_size for path in entries if path.is_file())
    return content + sum(HEADERS + 2 * len(str(path.relative_to(copy))) for path in entries) + END


def submit(cluster: LocalCluster, *command: str) -> list[str]:
    address = ["--address", cluster.url, "--working-dir", str(CHECKOUT)]
    return [*RAY, "job", "submit", *address, "--", *command]


def test_a_job_gives_the_same_bytes_and_uploads_little(cluster, tiny, expected, tmp_path):
    run = ["python", "-m", "orchestrator", "run", str(tiny), "--results", str(tmp_path)]
    command = submit(cluster, *run)
    busy: set[int] = set()
    with open(tmp_path / "job.log", "w") as log:
        job = subprocess.Popen(command, env=cluster.variables, stdout=log, stderr=subprocess.STDOUT)
        while job.poll() is None:
            busy |= {number for number, node in enumerate(cluster.nodes) if named(node.pid, ("ray::ClientActor",))}
            time.sleep(0.5)
    printed = (tmp_path / "job.log").read_text()
    assert job.returncode == 0, printed
    assert "succeeded" in printed
    assert busy == {0, 1}, printed
    same_results(expected, tmp_path)
    mlflow_holds_all(tmp_path)
    copies = uploaded(cluster)
    assert len(copies) == 2
    for copy in copies:
        assert (copy / "orchestrator" / "report" / "published.yaml").exists()
        assert not (copy / "tests").exists()
        assert archived(copy) < MOST_BYTES


def test_without_the_token_nothing_is_run(cluster, tmp_path):
    stranger = cluster.run(*submit(cluster, "touch", str(tmp_path / "broken in")), RAY_AUTH_TOKEN="0" * 48)
    assert stranger.returncode != 0
    assert "authenticat" in (stranger.stdout + stranger.stderr).lower()
    assert not (tmp_path / "broken in").exists()
