"""Commands that begin in the same moment on a fresh results folder: each finishes, or is refused
with a sentence.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.command import arguments, environment, fedpriv, mlflow_holds_all, same_results
from tests.support.inline_sweep import undisturbed

pytestmark = pytest.mark.slow

# Loads what a command loads, waits for a line, and is the command.
WAITING = (
    "import sys; from orchestrator.cli import main; print('ready', flush=True); input(); "
    "sys.exit(main(sys.argv[1:]))"
)


def at_once(sweeps: list[Path], results: Path) -> list[tuple[int, str]]:
    """Run these sweeps into one results folder; exit codes and all output."""
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE) | {
        "stderr": subprocess.STDOUT,
        "text": True,
    }
    begun = [
        subprocess.Popen(
            [sys.executable, "-c", WAITING, *arguments(sweep, results)[3:]],
            env=environment(),
            **pipes,
        )
        for sweep in sweeps
    ]
    for one in begun:
        assert one.stdout.readline() == "ready\n"
    for one in begun:
        one.stdin.write("\n")
        one.stdin.flush()
    with ThreadPoolExecutor(len(begun)) as pool:
        printed = list(pool.map(lambda one: one.communicate(timeout=400)[0], begun))
    return [(one.returncode, text) for one, text in zip(begun, printed, strict=True)]


def test_the_same_sweep_in_the_same_folder(tiny, expected, tmp_path):
    ended = at_once([tiny, tiny], tmp_path / "results")
    assert sorted(code for code, _ in ended) == [0, 2], ended
    (refused,) = [text for code, text in ended if code == 2]
    assert "another fedpriv run is writing to" in refused and "Traceback" not in refused
    same_results(expected, tmp_path / "results")
    mlflow_holds_all(tmp_path / "results")
    again = fedpriv(tiny, tmp_path / "results")
    assert (again.returncode, "nothing was trained" in again.stdout) == (0, True)


def test_different_sweeps_in_the_same_folder_share_a_store_that_nobody_had_made(tiny, tmp_path):
    sweeps = [tmp_path / f"{name}.yaml" for name in ("one", "two", "three")]
    for sweep in sweeps:
        sweep.write_text(tiny.read_text().replace("name: tiny", f"name: {sweep.stem}"))
    ended = at_once(sweeps, tmp_path / "results")
    assert [code for code, _ in ended] == [0, 0, 0], ended
    for sweep in sweeps:
        undisturbed(sweep, tmp_path / "expected")
        same_results(tmp_path / "expected", tmp_path / "results", sweep.stem)
        mlflow_holds_all(tmp_path / "results", sweep.stem)
