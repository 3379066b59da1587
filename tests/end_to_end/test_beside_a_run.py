"""The other commands while a sweep runs: they say what is there so far, and the run does not
notice them.
"""

from __future__ import annotations

import subprocess
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.command import (
    COMMAND,
    arguments,
    environment,
    given,
    mlflow_holds_all,
    same_results,
    watched,
)
from tests.support.local_cluster import free_port

pytestmark = pytest.mark.usefixtures("own_ray")


def answers(port: int) -> int:
    """The status with which the UI answers, as soon as it does."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with (
            suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as page,
        ):  # noqa: S310
            return page.status
        time.sleep(0.2)
    return 0


@pytest.mark.slow
def test_report_list_clean_and_ui_beside_a_run(slower, expected_of_slower, tmp_path):
    results, port = tmp_path / "results", free_port()
    others = [["report", results / "tiny"], ["list"], ["clean", results]]

    def command(words: list[str | Path]) -> subprocess.CompletedProcess[str]:
        return given([*COMMAND, *map(str, words)])

    def beside(run: subprocess.Popen[str]) -> None:
        for done in map(command, others):
            assert done.returncode == 0 and "Traceback" not in done.stderr, done
            assert "left behind" not in done.stdout
        assert run.poll() is None, "the run had ended before the commands beside it"
        assert answers(port) == 200

    early = command(others[0])
    assert (early.returncode, "contains no results" in early.stderr) == (2, True)
    interface = [*COMMAND, "ui", str(results), "--port", str(port)]
    quiet = dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)

    def start(_: object) -> None:
        started.append(
            subprocess.Popen(interface, env=environment(), start_new_session=True, **quiet)
        )

    started: list[subprocess.Popen[bytes]] = []
    try:
        code, printed = watched(
            arguments(slower, results), ("  round 1/", start), ("  round 2/", beside)
        )
        assert code == 0, printed
        assert answers(port) == 200
    finally:
        for one in started:
            one.terminate()
            one.wait()
    same_results(expected_of_slower, results)
    mlflow_holds_all(results)
