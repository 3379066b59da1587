"""A results folder that is moved or copied between two runs: the sweep resumes there, and MLflow finds its files."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.support.command import fedpriv, same_results, signalled_after
from tests.support.complete import mlflow_holds_all

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def halted(tiny, tmp_path_factory) -> Path:
    """Results of a sweep that was killed in the middle of its second trial."""
    results = tmp_path_factory.mktemp("halted") / "results"
    _, printed = signalled_after(signal.SIGKILL, "[1/2]  ifca_mir lr=0.1  round 5/12", tiny, results)
    assert "finished in" in printed
    return results


@pytest.fixture
def copied(halted, tmp_path) -> Path:
    """A results folder as it was when the run that had begun it was killed, and at the path where that run was."""
    shutil.copytree(halted, tmp_path / "kept")
    yield halted
    shutil.rmtree(halted, ignore_errors=True)
    (tmp_path / "kept").rename(halted)


def resumed(tiny: Path, expected: Path, results: Path) -> None:
    done = fedpriv(tiny, results)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 2 trials are complete and are not repeated" in done.stdout
    assert "round 1/12" not in done.stdout, "the second trial began anew"
    whole(expected, results)


def whole(expected: Path, results: Path) -> None:
    """The results are the expected ones, and MLflow has each run once, with all its files below ``results``."""
    from mlflow import MlflowClient

    same_results(expected, results)
    mlflow_holds_all(results)
    client = MlflowClient(f"sqlite:///{results / 'mlflow.db'}")
    (experiment,) = [one for one in client.search_experiments() if one.name == "tiny"]
    for run in client.search_runs([experiment.experiment_id]):
        place = Path(unquote(urlsplit(run.info.artifact_uri).path))
        assert place.is_relative_to(results)
        wanted = "config.yaml" if "mlflow.parentRunId" in run.data.tags else "sweep.yaml"
        assert (place / wanted).is_file()
        assert wanted in [file.path for file in client.list_artifacts(run.info.run_id)]


def test_moved(copied, tiny, expected, tmp_path):
    new = tmp_path / "archive, größer" / "results of mine"
    new.parent.mkdir()
    shutil.move(copied, new)
    resumed(tiny, expected, new)
    assert not copied.exists()


def test_copied_and_both_go_on(copied, tiny, expected, tmp_path):
    new = tmp_path / "copy"
    shutil.copytree(copied, new)
    resumed(tiny, expected, new)
    resumed(tiny, expected, copied)
    whole(expected, new)


def test_moved_when_it_was_complete(tiny, expected, tmp_path):
    """Nothing is left to train, but the store has to follow; and another store has to be told."""
    places = [tmp_path / name for name in ("results", "archive", "others")]
    shutil.copytree(expected, places[0])
    for place in places:
        again = fedpriv(tiny, place)
        assert (again.returncode, "nothing was trained" in again.stdout) == (0, True), again.stdout + again.stderr
        whole(expected, place)
        if place == places[0]:
            shutil.move(place, places[1])
            places[2].mkdir()
        elif place == places[1]:
            shutil.move(place / "tiny", places[2] / "tiny")
