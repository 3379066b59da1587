"""Results of made-up sweeps that several tests of the figures read."""

from pathlib import Path

import pytest

from orchestrator.report import write_report
from orchestrator.report.figures import catalog
from orchestrator.report.figures.arrangement import Arrangement
from tests.support.arranged import read
from tests.support.synthetic_results import GROUPED, write_alone, write_grouped


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Arrangement:
    return read(write_grouped(tmp_path_factory.mktemp("r") / "grouped"))


@pytest.fixture(scope="session")
def page_of_three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a sweep with three seeds, beside its other files."""
    folder = write_grouped(tmp_path_factory.mktemp("r") / "grouped", {**GROUPED, "seed": [0, 1, 2]})
    return write_report(folder, formats=())[-1]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Arrangement:
    return read(write_alone(tmp_path_factory.mktemp("r") / "alone"))


@pytest.fixture
def few_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the figures, only two are drawn: for tests of when and where files are written."""
    drawings = catalog.catalog()
    monkeypatch.setattr(
        catalog, "catalog", lambda: {name: drawings[name] for name in ("convergence", "accuracy")}
    )
