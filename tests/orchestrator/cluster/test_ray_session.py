"""What Ray's library writes past Python goes to a file; what Python writes stays on the screen."""

from __future__ import annotations

import subprocess
import sys

import pytest

from orchestrator import CHECKOUT

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
def test_the_lines_of_a_session_are_on_no_screen_and_in_a_file_only_if_something_went_wrong(mode, tmp_path):
    command, env = [sys.executable, "-c", PROGRAM, mode], {"TMPDIR": str(tmp_path), "PATH": ""}
    done = subprocess.run(command, env=env, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert done.stderr == "ours\nafter\n"
    files = list(tmp_path.iterdir())
    assert done.stdout.strip() == (f"(Ray's own messages are in {files[0]})" if mode == "keep" else "")
    assert ["Failed to connect" in file.read_text() for file in files] == ([True] if mode == "keep" else [])
