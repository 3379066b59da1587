"""How a command ends that is asked to: its work is saved, its Ray is gone, and the same command
resumes.
"""

from __future__ import annotations

import signal
import time

import psutil
import pytest

from orchestrator.cluster.orphans import ray_processes
from tests.support.command import (
    arguments,
    fedpriv,
    mlflow_holds_all,
    same_results,
    signalled_after,
    watched,
)


@pytest.mark.slow
@pytest.mark.usefixtures("own_ray")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_control_c_a_scheduler_or_a_closed_terminal_ends_it(number, code, tiny, expected, tmp_path):
    ended, printed = signalled_after(number, "  round 3/", tiny, tmp_path)
    assert ended == code, printed
    # To a terminal that was closed nothing is printed any more.
    assert ("the same command resumes from there" in printed) == (number != signal.SIGHUP)
    owner = (tmp_path / "tiny" / ".fedpriv.lock").read_text().partition(" ")[0]
    assert not [mark for mark in ray_processes() if mark.startswith(f"{owner} ")]
    done = fedpriv(tiny, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "left behind" not in done.stdout
    same_results(expected, tmp_path)
    mlflow_holds_all(tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("own_ray")
@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_a_ray_that_dies_is_said_in_seconds_and_the_command_resumes(name, tiny, expected, tmp_path):
    """As where the system ends Ray's own processes for lack of memory; Ray itself would wait for
    a minute, or for hours.
    """
    killed = list[float]()

    def kill(head) -> None:
        (process,) = [
            child for child in psutil.Process(head.pid).children() if child.name() == name
        ]
        process.kill()
        killed.append(time.monotonic())

    code, printed = watched(arguments(tiny, tmp_path), ("  round 3/", kill))
    took = time.monotonic() - killed[0]
    assert code == 1 and took < 45, (took, printed)
    last = printed.splitlines()[-1]
    assert f"its process {name} was killed" in last and "the same command resumes" in last
    assert not any(
        word in printed for word in ("state-dump", "Traceback", "(raylet)", "waiting for resources")
    )
    owner = (tmp_path / "tiny" / ".fedpriv.lock").read_text().partition(" ")[0]
    assert not [mark for mark in ray_processes() if mark.startswith(f"{owner} ")]
    done = fedpriv(tiny, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    same_results(expected, tmp_path)
    mlflow_holds_all(tmp_path)
