"""What Ray writes past Python goes to a file, not on the screen; what other nodes are asked, and
how answers are judged.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator import CHECKOUT
from orchestrator.cluster import ray_session as nodes
from orchestrator.cluster.address import ClusterError, Target
from orchestrator.cluster.placement import Placement
from orchestrator.results.provenance import versions

PROGRAM = """
import os, sys
import orchestrator
from orchestrator.cluster.ray_session import ray_log
with ray_log() as keep:
    os.write(2, b"rpc_client.h:153: Failed to connect\\n")
    print("ours", file=sys.stderr)
    told = keep() if sys.argv[1] == "keep" else ""
os.write(2, b"after\\n")
print(told.strip())
"""


@pytest.mark.parametrize("mode", ["drop", "keep"])
def test_the_lines_of_a_session_are_on_no_screen_and_in_a_file_only_if_something_went_wrong(
    mode, tmp_path
):
    command, env = [sys.executable, "-c", PROGRAM, mode], {"TMPDIR": str(tmp_path), "PATH": ""}
    done = subprocess.run(
        command, env=env, cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    assert done.stderr == "ours\nafter\n"
    files = list(tmp_path.iterdir())
    assert done.stdout.strip() == (
        f"(Ray's own messages are in {files[0]})" if mode == "keep" else ""
    )
    assert ["Failed to connect" in file.read_text() for file in files] == (
        [True] if mode == "keep" else []
    )


def judged(answered: object, monkeypatch: pytest.MonkeyPatch) -> str:
    import ray

    monkeypatch.setattr(ray, "get", lambda ref: ref)
    return nodes.judge(answered, "node b (1f03aa77)", Path("results"))


def test_a_node_sees_the_folder_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / ".fedpriv-1234.tmp"
    token.write_text(token.name)
    assert judged(nodes.answer(str(token)), monkeypatch) == ""
    assert judged(nodes.answer(str(tmp_path / "elsewhere")), monkeypatch).startswith(
        "node b (1f03aa77) cannot use the results folder results (it does not see files"
    )
    token.write_text("another")
    assert nodes.answer(str(token)) == (False, versions())


def test_a_node_with_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = judged((True, versions() | {"torch": "0.1"}), monkeypatch)
    assert sentence.startswith("node b (1f03aa77) has torch 0.1, unlike this process")


@pytest.mark.parametrize("error", [RuntimeError("no room"), KeyboardInterrupt()])
def test_a_failed_start_leaves_no_process(
    error, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray forgets what it has started where its own start fails half-way; so does Ctrl-C."""
    import ray

    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    for name in (nodes.MODE, *nodes.TUNE_SETTINGS):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    started: list[subprocess.Popen[bytes]] = []

    def half(**_: Any) -> None:
        started.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]))
        raise error

    monkeypatch.setattr(ray, "init", half)
    raised = ClusterError if isinstance(error, Exception) else KeyboardInterrupt
    with pytest.raises(raised), nodes.ray_session(Target(), Placement(1, 0.0, 1)):
        pass
    assert len(started) == (
        2 if raised is ClusterError else 1
    )  # a busy machine may be too slow for the first attempt
    codes = [process.poll() for process in started]
    for process in started:
        process.kill()
    assert None not in codes


def test_what_ray_says_of_its_nodes_is_in_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    from ray._private import worker

    with nodes.logged():
        worker.print_to_stdstream(
            {"lines": ["[state-dump] 1", "2"], "pid": "raylet", "is_err": False},
            ignore_prefix=False,
        )
    worker.print_to_stdstream(
        {"lines": ["of the user's own"], "pid": "raylet", "is_err": False}, ignore_prefix=False
    )
    printed = capfd.readouterr()
    assert (
        printed.err == "[state-dump] 1\n2\n"
        and "of the user's own" in printed.out
        and "state" not in printed.out
    )
