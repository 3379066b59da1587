"""Processes told apart by number and start, and ended politely at first: sleepers of a line each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from orchestrator.cluster import processes
from orchestrator.cluster.processes import Process, descendants, end, machine, marked, running

pytestmark = pytest.mark.skipif(machine() is None, reason="needs /proc")

SLEEP = ("sleep", "60")
STUBBORN = (
    sys.executable,
    "-S",
    "-c",
    "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(60)",
)
PARENT = ("sh", "-c", "sleep 60 & echo $!; wait")

Started = tuple["subprocess.Popen[str]", Process]


@pytest.fixture
def start() -> Iterator[Callable[..., Started]]:
    """Start a command, with variables; killed at the end of the test."""
    begun: list[subprocess.Popen[str]] = []

    def begin(*command: str, **variables: str) -> Started:
        child = subprocess.Popen(
            command or SLEEP, stdout=subprocess.PIPE, text=True, env=os.environ | variables, start_new_session=True
        )
        begun.append(child)
        process = running(child.pid)
        assert process is not None
        return child, process

    yield begin
    for child in begun:
        with child, suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)


def test_a_process_is_its_number_and_its_start(start):
    child, process = start()
    assert process.number == child.pid
    assert running(child.pid) == process
    assert process.started >= running(os.getpid()).started


def test_what_has_ended_is_no_process_even_before_its_parent_heard_of_it():
    child = subprocess.Popen("true")
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert os.path.exists(f"/proc/{child.pid}/stat")
    assert running(child.pid) is None
    child.wait()
    assert running(child.pid) is None


def test_a_name_with_brackets_is_read_past(monkeypatch, tmp_path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text("7 (a) S (b) R 5 " + " ".join(map(str, range(100, 117))) + " 4711 0")
    monkeypatch.setattr(processes, "PROC", tmp_path)
    assert running(7) == Process(7, 4711)
    assert descendants([5]) == set()
    assert running(8) is None


def test_without_proc_nothing_is_known(monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "PROC", tmp_path / "none")
    assert machine() is None
    assert running(os.getpid()) is None
    assert descendants([os.getpid()]) == set()


def test_descendants_are_children_and_theirs_and_nobody_else(start):
    child, process = start(*PARENT)
    below = running(int(child.stdout.readline()))
    start()
    assert descendants([child.pid]) == {process, below}


def test_marked_are_those_that_were_started_with_the_word(start):
    _, one = start(FEDPRIV_TEST="a1")
    start(FEDPRIV_TEST="a12")
    start(FEDPRIV_OTHER="a1")
    assert list(marked(["FEDPRIV_TEST=a1"])) == [(one, "FEDPRIV_TEST=a1")]


def test_processes_of_other_users_are_not_looked_at(start, monkeypatch):
    start(FEDPRIV_TEST="b2")
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert list(marked(["FEDPRIV_TEST=b2"])) == []


@pytest.fixture(params=["with a descriptor", "without"])
def handles(request, monkeypatch):
    if request.param == "without":
        monkeypatch.delattr(os, "pidfd_open", raising=False)


@pytest.mark.usefixtures("handles")
def test_who_is_asked_ends_and_who_does_not_listen_is_killed(start):
    polite, one = start()
    stubborn, other = start(*STUBBORN)
    stubborn.stdout.readline()
    assert end({one, other}, polite=0.3) == set()
    assert (polite.wait(), stubborn.wait()) == (-signal.SIGTERM, -signal.SIGKILL)


@pytest.mark.usefixtures("handles")
def test_a_number_that_was_given_to_another_process_is_left_alone(start):
    child, process = start()
    assert end({replace(process, started=process.started - 1)}) == set()
    assert child.poll() is None


@pytest.mark.usefixtures("handles")
def test_a_number_that_changes_hands_while_one_waits_is_left_alone(start, monkeypatch):
    """The process ends, and its number is given away, between the look at it and the signal."""
    child, process = start()
    later, looks = replace(process, started=process.started + 5), []

    def look(number: int) -> Process:
        looks.append(number)
        return process if len(looks) == 1 else later

    monkeypatch.setattr(processes, "running", look)
    end({process}, polite=0.1, last=0.1)
    assert child.poll() is None


def test_what_cannot_be_ended_is_told(start, monkeypatch):
    child, process = start()
    monkeypatch.setattr(processes, "_send", lambda *_: None)
    assert end({process}, polite=0.05, last=0.05) == {process}
    assert child.poll() is None
