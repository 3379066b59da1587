"""What the tests of kills, nodes and jobs share, made once: a sweep, what it must come to, and a
cluster of two nodes.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import SWEEP
from tests.support.inline_sweep import undisturbed
from tests.support.local_cluster import LocalCluster

# Two trials of twelve rounds, each on two actors.
TINY = {"rounds: 4": "rounds: 12", "client_actors: 1": "client_actors: 2", "[0.1, 0.2]": "[0.1]"}
# The same with rounds long enough that a random moment falls into one.
SLOWER = TINY | {"examples_per_client: 20": "examples_per_client: 80", "epochs: 1": "epochs: 10"}


def written(folder: Path, changes: dict[str, str]) -> Path:
    text = SWEEP
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path = folder / "tiny.yaml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def own_ray() -> Iterator[None]:
    """A folder of Ray's for these tests alone: runs that others kill are not theirs to clean up,
    nor theirs the others'.
    """
    folder = tempfile.mkdtemp(
        prefix="fp", dir="/tmp"
    )  # short: a socket's path has at most 107 letters
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", folder)
        yield
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> Path:
    return written(tmp_path_factory.mktemp("sweep"), TINY)


@pytest.fixture(scope="session")
def slower(tmp_path_factory) -> Path:
    return written(tmp_path_factory.mktemp("sweep"), SLOWER)


@pytest.fixture(scope="session")
def expected(tiny, tmp_path_factory) -> Path:
    """The results of a run in one process, without Ray: nothing there can be disturbed."""
    return undisturbed(tiny, tmp_path_factory.mktemp("undisturbed"))


@pytest.fixture(scope="session")
def expected_of_slower(slower, tmp_path_factory) -> Path:
    return undisturbed(slower, tmp_path_factory.mktemp("undisturbed"))


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """Two nodes of one CPU each, so that a trial of two actors lies on both, the first with a
    job server.

    A test that loses a node starts another.
    """
    pytest.importorskip("aiohttp_cors", reason="a job server needs ray[default]")
    with LocalCluster() as started:
        started.start(1, jobs=True)
        started.start(1)
        yield started
