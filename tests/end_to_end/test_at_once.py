"""Commands that begin in the same moment on a fresh results folder: each finishes, or is refused with a sentence."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.command import arguments, environment, fedpriv, same_results, trials
from tests.support.undisturbed import undisturbed

pytestmark = pytest.mark.slow

# Loads what a command loads, waits for a line, and is the command.
WAITING = (
    "import sys; from orchestrator.cli import main; print('ready', flush=True); input(); sys.exit(main(sys.argv[1:]))"
)


def at_once(*commands: tuple[Path, Path]) -> list[tuple[int, str]]:
    """Run these sweeps into these results folders; exit codes and all output."""
    begun = [
        subprocess.Popen(
            [sys.executable, "-c", WAITING, *arguments(sweep, results)[3:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(),
        )
        for sweep, results in commands
    ]
    for one in begun:
        assert one.stdout.readline() == "ready\n"
    for one in begun:
        one.stdin.write("\n")
        one.stdin.flush()
    printed = [""] * len(begun)

    def read(number: int) -> None:
        printed[number] = begun[number].communicate(timeout=400)[0]

    readers = [threading.Thread(target=read, args=(number,)) for number in range(len(begun))]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    return [(one.returncode, text) for one, text in zip(begun, printed, strict=True)]


def named(sweep: Path, name: str, folder: Path) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(sweep.read_text().replace("name: tiny", f"name: {name}"))
    return path


def held(results: Path, name: str) -> None:
    """Assert that MLflow has the sweep once, with a run for each trial, and all have ended."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{results / 'mlflow.db'}")
    (experiment,) = [one for one in client.search_experiments() if one.name == name]
    runs = client.search_runs([experiment.experiment_id])
    told = sorted(run.data.tags.get("fedpriv.trial", "") for run in runs if "mlflow.parentRunId" in run.data.tags)
    assert told == sorted(row["id"] for row in trials(results, name))
    assert len(runs) == len(told) + 1
    assert {run.info.status for run in runs} == {"FINISHED"}


def test_the_same_sweep_in_the_same_folder(tiny, expected, tmp_path):
    came = at_once((tiny, tmp_path / "results"), (tiny, tmp_path / "results"))
    assert sorted(code for code, _ in came) == [0, 2], came
    (refused,) = [text for code, text in came if code == 2]
    assert "another fedpriv run is writing to" in refused
    assert "Traceback" not in refused
    same_results(expected, tmp_path / "results")
    held(tmp_path / "results", "tiny")
    again = fedpriv(tiny, tmp_path / "results")
    assert (again.returncode, "nothing was trained" in again.stdout) == (0, True)


def test_different_sweeps_in_the_same_folder_share_a_store_that_nobody_had_made(tiny, tmp_path):
    sweeps = [named(tiny, name, tmp_path) for name in ("one", "two", "three")]
    came = at_once(*((sweep, tmp_path / "results") for sweep in sweeps))
    assert [code for code, _ in came] == [0, 0, 0], came
    for sweep in sweeps:
        undisturbed(sweep, tmp_path / "expected")
        same_results(tmp_path / "expected", tmp_path / "results", sweep.stem)
        held(tmp_path / "results", sweep.stem)


def test_the_same_sweep_in_different_folders(tiny, expected, tmp_path):
    places = [tmp_path / "results", tmp_path / "others"]
    came = at_once(*((tiny, place) for place in places))
    assert [code for code, _ in came] == [0, 0], came
    for place in places:
        same_results(expected, place)
        held(place, "tiny")
