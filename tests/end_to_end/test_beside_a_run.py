"""The other commands while a sweep runs: they say what is there so far, and the run does not notice them."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.command import arguments, environment, same_results
from tests.support.complete import mlflow_holds_all
from tests.support.local_cluster import free_port

pytestmark = pytest.mark.usefixtures("own_ray")


def command(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orchestrator", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(),
        check=False,
    )


def answers(port: int) -> int:
    """The status with which the UI answers, as soon as it does."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as page:  # noqa: S310
            return page.status
        time.sleep(0.2)
    return 0


@pytest.mark.slow
def test_report_list_clean_and_ui_beside_a_run(slower, expected_of_slower, tmp_path):
    results, port = tmp_path / "results", free_port()
    early = command("report", results / "tiny")
    assert (early.returncode, "contains no results" in early.stderr) == (2, True)
    with subprocess.Popen(
        arguments(slower, results), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment()
    ) as run:
        lines = iter(run.stdout.readline, "")
        printed = [next(line for line in lines if "  round 2/" in line)]
        said = {
            "report": command("report", results / "tiny"),
            "list": command("list"),
            "clean": command("clean", results),
            "page": command("report", results / "tiny", "--html"),
        }
        still = run.poll() is None
        ui = subprocess.Popen(
            [sys.executable, "-m", "orchestrator", "ui", str(results), "--port", str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
            start_new_session=True,
        )
        try:
            assert answers(port) == 200
            printed += lines
            assert run.wait() == 0, "".join(printed)
            assert answers(port) == 200
        finally:
            ui.terminate()
            ui.communicate()
    assert still, "the run had ended before the commands beside it"
    for name, done in said.items():
        assert done.returncode == 0, (name, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
    assert "left behind" not in said["clean"].stdout
    same_results(expected_of_slower, results)
    mlflow_holds_all(results)
