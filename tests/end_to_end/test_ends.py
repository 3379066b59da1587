"""How a command ends that is asked to: its work is saved, its Ray is gone, and the same command resumes."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from orchestrator.cluster.orphans import ray_processes
from tests.support.command import arguments, environment, fedpriv, same_results, signalled_after
from tests.support.complete import mlflow_holds_all

pytestmark = pytest.mark.usefixtures("own_ray")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_scheduler_or_a_closed_terminal_ends_it_as_control_c_does(number, code, tiny, expected, tmp_path):
    came, printed = signalled_after(number, "  round 3/", tiny, tmp_path)
    assert came == code, printed
    assert "the same command resumes from there" in printed
    owner = (tmp_path / "tiny" / ".fedpriv.lock").read_text().partition(" ")[0]
    assert not [mark for mark in ray_processes() if mark.startswith(f"{owner} ")]
    done = fedpriv(tiny, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "left behind" not in done.stdout
    same_results(expected, tmp_path)
    mlflow_holds_all(tmp_path)


def seconds(sweep: Path, results: Path, address: str) -> tuple[float, str]:
    """How long the command takes to refuse an address, and what it says."""
    began = time.monotonic()
    done = subprocess.run(
        [*arguments(sweep, results, "--address", address)],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(),
        check=False,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert not results.exists()
    return time.monotonic() - began, done.stderr


@pytest.mark.slow
def test_an_address_where_nothing_answers_ends_the_command_within_ten_seconds(tiny, tmp_path):
    """Besides what the command takes to say that a word is no address, which is more on a busy machine."""
    at_once, said = seconds(tiny, tmp_path / "results", "head")
    assert "is no address of a Ray cluster" in said
    with socket.socket() as refusing, socket.create_server(("127.0.0.1", 0)) as silent:
        refusing.bind(("127.0.0.1", 0))  # and does not listen
        for place, reason in ((refusing, "connection refused"), (silent, "no answer")):
            taken, said = seconds(tiny, tmp_path / "results", f"127.0.0.1:{place.getsockname()[1]}")
            assert reason in said
            assert taken < at_once + 10
