"""What killed runs leave running: ended if it is certainly ours, and left alone otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from orchestrator.cluster.orphans import (
    MARK,
    _folder,
    _mark,
    end_orphans,
    end_own,
    marks,
    ray_processes,
)


@pytest.fixture(autouse=True)
def own_folder(monkeypatch, tmp_path) -> None:
    """Other tests' processes are of another folder of Ray's."""
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def sleeping(started: list[subprocess.Popen[bytes]], mark: str = "") -> psutil.Process:
    """A process of ours, with a mark in its environment."""
    program = "import sys, time; print(flush=True); time.sleep(60)"
    environment = {**os.environ, **({MARK: mark} if mark else {})}
    started.append(
        subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE)
    )
    started[-1].stdout.readline()  # type: ignore[union-attr]
    return psutil.Process(started[-1].pid)


def over() -> str:
    """The beginning of the mark of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    created = psutil.Process(process.pid).create_time()
    process.wait()
    return f"{process.pid} {created}"


def runs(process: psutil.Process) -> bool:
    return psutil.pid_exists(process.pid) and process.status() != psutil.STATUS_ZOMBIE


def test_what_a_killed_run_left_is_ended(started):
    gone = f"{over()} {_folder()}"
    left, other = [sleeping(started, gone), sleeping(started, gone)], sleeping(started)
    (said,) = end_orphans()
    assert "ended 2 processes" in said and gone.split()[0] in said
    assert [*map(runs, left), runs(other)] == [False, False, True]
    assert end_orphans() == []


@pytest.mark.parametrize("mark", ["{own}", "{gone} /tmp/elsewhere/ray", "no mark"])
def test_a_run_at_work_and_what_is_not_certainly_ours_are_left_alone(started, mark):
    child = sleeping(started, mark.format(own=_mark(), gone=over()))
    assert end_orphans() == [] and runs(child)


def test_a_number_that_was_given_out_again_is_another_command(started):
    left = sleeping(started, f"{os.getpid()} {psutil.Process().create_time() - 1e6} {_folder()}")
    assert len(end_orphans()) == 1 and not runs(left)


def test_what_is_marked_as_ours_is_ended_with_our_ray(started):
    child = sleeping(started, marks()[MARK])
    assert ray_processes() == {_mark(): [child]}
    assert end_orphans() == []
    end_own()
    assert not runs(child)
