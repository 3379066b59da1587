"""SIGTERM and SIGHUP: what they do to a command that is to save its work, sent to this process
and to others.
"""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
import time

import pytest

from orchestrator.cluster import signals
from orchestrator.cluster.signals import ASKED, heeded, own_signals

CODE = """
import runpy, sys, time
heeded = runpy.run_path(sys.argv[2])["heeded"]  # the file alone is loaded in no time
with heeded() as asked:
    try:
        print("ready", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        time.sleep(0.3)
        print("saving", flush=True)
        open(sys.argv[1], "w").write("saved")
        print("saved", flush=True)
        sys.exit(128 + asked[0])
"""


@pytest.fixture(autouse=True)
def handlers():
    """The handlers of this process, as the tests have found them; they begin with the system's."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in ASKED}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def ask(number: int) -> None:
    """Send this process a signal, and wait for what its handler does."""
    os.kill(os.getpid(), number)
    time.sleep(10)


@pytest.fixture
def kept_output(monkeypatch):
    """The output of this process stays, although it is told that its terminal is closed."""
    monkeypatch.setattr(signals.os, "dup2", lambda *_: None)


@pytest.mark.usefixtures("kept_output")
@pytest.mark.parametrize("number", ASKED)
def test_a_signal_interrupts_once_and_its_number_is_told(number):
    """A scheduler may ask again, and a terminal that is closed asks twice: what is being saved
    is not interrupted.
    """
    with heeded() as asked:
        with pytest.raises(KeyboardInterrupt):
            ask(number)
        for again in ASKED:
            os.kill(os.getpid(), again)
        time.sleep(0.01)
    assert asked == [number]
    assert all(signal.getsignal(one) == signal.SIG_DFL for one in ASKED)


@pytest.mark.parametrize("number", ASKED)
def test_what_is_ignored_stays_ignored_and_what_is_another_s_stays_his(number):
    signal.signal(number, signal.SIG_IGN)
    with heeded() as asked, own_signals():
        os.kill(os.getpid(), number)
        time.sleep(0.01)
    assert asked == [] and signal.getsignal(number) == signal.SIG_IGN
    signal.signal(number, signal.SIG_DFL)
    # where a process handles none itself, as a notebook, Ray's handling shuts its processes down
    with own_signals():
        signal.signal(number, print)
    assert signal.getsignal(number) is print


def test_a_thread_heeds_nothing():
    told = []

    def run() -> None:
        with heeded() as asked, own_signals():
            told.append((asked, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert told == [([], signal.SIG_DFL)]


@pytest.mark.parametrize("starting", [True, False])
def test_what_ray_puts_in_place_of_our_handling_is_undone_and_its_answer_while_it_starts_is_ours(
    starting,
):
    def start_ray() -> None:
        with own_signals():
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
            if starting:
                ask(signal.SIGTERM)
        ask(signal.SIGTERM)

    with heeded() as asked, pytest.raises(KeyboardInterrupt):
        start_ray()
    assert asked == [signal.SIGTERM]


def test_what_is_started_meanwhile_does_not_hear_of_a_closed_terminal():
    with own_signals():
        child = subprocess.Popen(["sleep", "60"])
    later = subprocess.Popen(["sleep", "60"])
    for one in (child, later):
        one.send_signal(signal.SIGHUP)
    assert later.wait() == -signal.SIGHUP
    assert child.poll() is None
    child.terminate()
    assert child.wait() == -signal.SIGTERM


def test_work_is_saved_after_the_terminal_was_closed(tmp_path):
    """The kernel sends SIGHUP, and there is nothing left to print to."""
    child, terminal = pty.fork()
    if child == 0:
        os.execv(
            sys.executable, [sys.executable, "-c", CODE, str(tmp_path / "work"), signals.__file__]
        )
    assert b"ready" in os.read(terminal, 100)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 129
    assert (tmp_path / "work").read_text() == "saved"
