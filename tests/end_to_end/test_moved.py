"""A results folder that is moved or copied between two runs: the sweep resumes there, and MLflow
finds its files.
"""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from tests.support.command import fedpriv, mlflow_holds_all, same_results, signalled_after

pytestmark = pytest.mark.slow

RESUMED = "1 of 2 trials are complete and are not repeated"


def complete(tiny: Path, expected: Path, results: Path, words: str) -> None:
    """The command says so, the results are the expected ones, and MLflow has each run once, with
    files below ``results``.
    """
    done = fedpriv(tiny, results)
    assert done.returncode == 0, done.stdout + done.stderr
    assert words in done.stdout and "round 1/12" not in done.stdout, "a trial began anew"
    same_results(expected, results)
    mlflow_holds_all(results)


def test_copied_moved_and_all_go_on(tiny, expected, tmp_path):
    """The run was killed in the middle of its second trial."""
    results, copy, archive = (
        tmp_path / "results",
        tmp_path / "copy",
        tmp_path / "archive, größer" / "results of mine",
    )
    _, printed = signalled_after(
        signal.SIGKILL, "[1/2]  ifca_mir lr=0.1  round 5/12", tiny, results
    )
    assert "finished in" in printed
    for place in (copy, tmp_path / "kept"):
        shutil.copytree(results, place)
    complete(tiny, expected, copy, RESUMED)
    complete(tiny, expected, results, RESUMED)
    mlflow_holds_all(copy)
    shutil.rmtree(results)
    archive.parent.mkdir()
    shutil.move(tmp_path / "kept", archive)
    complete(tiny, expected, archive, RESUMED)
    assert not results.exists()


def test_moved_when_it_was_complete(tiny, expected, tmp_path):
    """Nothing is left to train, but the store has to follow; and another store has to be told."""
    results, archive, others = (tmp_path / name for name in ("results", "archive", "others"))
    shutil.copytree(expected, results)
    complete(tiny, expected, results, "nothing was trained")
    shutil.move(results, archive)
    complete(tiny, expected, archive, "nothing was trained")
    others.mkdir()
    shutil.move(archive / "tiny", others / "tiny")
    complete(tiny, expected, others, "nothing was trained")
