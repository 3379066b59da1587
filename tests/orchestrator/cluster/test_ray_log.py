"""What Ray's library writes past Python goes to a file; what Python writes stays on the screen."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
import os, sys
import orchestrator
from orchestrator.cluster.ray_log import ray_log
with ray_log() as log:
    os.write(2, b"rpc_client.h:153: Failed to connect\\n")
    print("ours", file=sys.stderr)
    told = log.keep() if sys.argv[1] == "keep" else ""
os.write(2, b"after\\n")
print(told.strip())
"""


def run(mode: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, mode],
        env={"TMPDIR": str(folder), "PATH": ""},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )


def test_the_lines_of_a_session_that_went_well_are_on_no_screen_and_in_no_file(tmp_path):
    done = run("drop", tmp_path)
    assert done.stderr == "ours\nafter\n"
    assert list(tmp_path.iterdir()) == []


def test_where_something_went_wrong_they_are_in_a_file_that_is_named(tmp_path):
    done = run("keep", tmp_path)
    assert done.stderr == "ours\nafter\n"
    (file,) = tmp_path.iterdir()
    assert done.stdout.strip() == f"(Ray's own messages are in {file})"
    assert "Failed to connect" in file.read_text()


def test_where_no_file_can_be_made_the_lines_stay_where_they_are(monkeypatch, tmp_path):
    from orchestrator.cluster.ray_log import ray_log

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with ray_log() as log:
        assert log.path is None
    assert log.keep() == ""
