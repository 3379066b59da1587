"""What killed runs leave running: ended if it is certainly ours, and left alone otherwise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from orchestrator.cluster import orphans
from orchestrator.cluster.orphans import WORD, end_orphans, off_record, on_record, records_folder


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """An environment whose Ray has its folder in ``tmp_path``."""
    return {"RAY_TMPDIR": str(tmp_path)}


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def sleeping(started: list[subprocess.Popen[bytes]], word: str = "") -> psutil.Process:
    """A process of ours, with a word in its environment."""
    program = "import sys, time; print(flush=True); time.sleep(60)"
    environment = {**os.environ, WORD: word}
    started.append(subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE))
    started[-1].stdout.readline()  # type: ignore[union-attr]
    return psutil.Process(started[-1].pid)


def over() -> list[Any]:
    """A process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    started = psutil.Process(process.pid).create_time()
    process.wait()
    return [process.pid, started]


def record(variables: dict[str, str], **changes: Any) -> Path:
    folder = records_folder(variables)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / "1-word.json"
    plain = {"head": over(), "word": "word", "machine": orphans._machine(), "processes": []}
    path.write_text(json.dumps(plain | changes))
    return path


def plain(process: psutil.Process) -> list[Any]:
    return [process.pid, process.create_time()]


def test_nothing_is_there(variables):
    assert end_orphans(variables) == []


def test_what_a_killed_run_left_is_ended_and_forgotten(variables, started):
    listed, marked, other = sleeping(started), sleeping(started, "word"), sleeping(started, "another")
    path = record(variables, processes=[plain(listed), over()])
    (said,) = end_orphans(variables)
    assert "ended 2 processes" in said and not path.exists()
    assert [psutil.pid_exists(one.pid) and one.status() != "zombie" for one in (listed, marked, other)] == [
        False,
        False,
        True,
    ]
    assert end_orphans(variables) == []


def test_one_that_nobody_has_waited_for_has_ended(variables, started, monkeypatch):
    monkeypatch.setattr(orphans, "POLITE", 0.5)
    monkeypatch.setattr(orphans, "LAST", 0.5)
    program = "import subprocess, time; print(subprocess.Popen(['sleep', '60']).pid, flush=True); time.sleep(60)"
    started.append(subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE))
    child = psutil.Process(int(started[-1].stdout.readline()))
    path = record(variables, processes=[plain(child)])
    (said,) = end_orphans(variables)
    assert "ended 1 process " in said and not path.exists()
    assert child.status() == psutil.STATUS_ZOMBIE


def test_a_run_that_is_at_work_keeps_its_processes(variables, started):
    child = sleeping(started, "word")
    path = record(variables, head=plain(psutil.Process()), processes=[plain(child)])
    assert end_orphans(variables) == []
    assert path.exists() and child.is_running()


def test_a_number_that_was_given_out_again_is_somebody_elses(variables, started):
    stranger = sleeping(started)
    path = record(variables, processes=[[stranger.pid, stranger.create_time() - 100]])
    assert end_orphans(variables) == []
    assert stranger.is_running() and not path.exists()


def test_another_machine_that_shares_the_folder_has_processes_of_its_own(variables, started):
    child = sleeping(started, "word")
    path = record(variables, machine=["elsewhere", 1], processes=[plain(child)])
    assert end_orphans(variables) == []
    assert path.exists() and child.is_running()
    record(variables, machine=[orphans._machine()[0], 1], processes=[plain(child)])  # before this one was started again
    assert end_orphans(variables) == []
    assert not path.exists() and child.is_running()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"head": 3}', '{"head": [1, 2], "machine": [], "word": "w"}'])
def test_what_is_no_record_ends_nothing(variables, text):
    path = record(variables)
    path.write_text(text)
    assert end_orphans(variables) == [] and not path.exists()


def test_a_folder_that_others_could_write_to_is_not_believed(variables, started):
    child = sleeping(started, "word")
    path = record(variables, processes=[plain(child)])
    path.parent.chmod(0o777)
    assert end_orphans(variables) == []
    assert path.exists() and child.is_running()


def test_a_ray_that_is_started_is_on_record_until_it_is_shut_down(variables, monkeypatch, started):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with on_record():
        child = sleeping(started, os.environ[WORD])
        assert len(list(records_folder(os.environ).glob("*.json"))) == 1
    assert WORD not in os.environ
    (path,) = records_folder(os.environ).glob("*.json")
    assert [child.pid, child.create_time()] in json.loads(path.read_text())["processes"]
    assert end_orphans(os.environ) == []
    off_record()
    assert not path.exists()
