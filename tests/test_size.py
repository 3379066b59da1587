"""`.ci/size` counts lines and entries, and fails beyond a limit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SIZE = Path(__file__).parents[1] / ".ci" / "size"


@pytest.mark.parametrize(
    ("lines", "tests", "beyond"), [(100, 85, False), (100, 101, True), (60_000, 10, True)]
)
def test_a_checkout_beyond_a_limit_fails(
    tmp_path: Path, lines: int, tests: int, beyond: bool
) -> None:
    for package, count in {
        "orchestrator": 0,
        "algorithms": lines,
        "attacks": 0,
        "datasets": 0,
        "tests": tests,
    }.items():
        (tmp_path / package / "room").mkdir(parents=True)
        (tmp_path / package / "room" / "file.py").write_text("\n" * count)
    done = subprocess.run([sys.executable, SIZE, tmp_path], capture_output=True, text=True)
    assert done.returncode == beyond
    assert len(done.stdout.splitlines()) == 5
    assert ("beyond the limit" in done.stdout) == beyond
