"""`.ci/size` weighs tokens, and fails beyond a limit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SIZE = Path(__file__).parents[1] / ".ci" / "size"
PLAIN = '"""A module."""\n\n\ndef double(x):\n    """Twice x."""\n    return 2 * x  # two\n'
PACKED = "a, b, c = 1, 2, 3\nif (n := a):\n    d = 'x' * (n > 1)\n    e, f = a, b\n"


def sizes(root: Path, source: str, tests: str = "") -> tuple[int, dict[str, str]]:
    """The exit code and the sizes of a checkout of one module, by name."""
    for package in ("orchestrator", "algorithms", "attacks", "datasets", "tests"):
        (root / package).mkdir()
    (root / "algorithms" / "module.py").write_text(source)
    (root / "tests" / "test_module.py").write_text(tests)
    done = subprocess.run([sys.executable, SIZE, root], capture_output=True, text=True)
    rows = [line.split("of at most") for line in done.stdout.splitlines()]
    return done.returncode, {row[0][:32].strip(): row[0][32:].strip() for row in rows}


def test_tokens_leave_out_comments_docstrings_and_layout(tmp_path: Path) -> None:
    code, found = sizes(tmp_path, PLAIN, tests=PLAIN)
    assert code == 0
    # def double ( x ) :    and    return 2 * x
    assert found["tokens of source"] == "10"
    assert found["tokens a line"] == "5.00"
    assert found["tokens of the largest function"] == "10"
    assert found["tokens of tests / source"] == "1.00"


def test_three_names_a_walrus_and_text_times_truth_are_packed(tmp_path: Path) -> None:
    assert sizes(tmp_path, PACKED)[1]["packed"] == "3"


@pytest.mark.parametrize(
    ("source", "tests"),
    [("def long():\n" + "    x = 1\n" * 400, ""), ("x = 1\n", "x = 1\n" * 2)],
)
def test_a_checkout_beyond_a_limit_fails(tmp_path: Path, source: str, tests: str) -> None:
    assert sizes(tmp_path, source, tests)[0] == 1
