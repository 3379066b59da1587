"""The ready-made view of a sweep in MLflow's own pages, looked at in headless Chromium as a person would."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from orchestrator.results.folder import Folder, claim
from orchestrator.tracking import places, shared_view
from orchestrator.tracking.recorded import views
from orchestrator.tracking.tracker import Tracker
from tests.orchestrator.tracking.test_tracking_pages import tell
from tests.orchestrator.tracking.test_tracking_server import Server
from tests.support.browser import visit
from tests.support.tracked import NAME, Seen, empty_store

__all__ = ["empty_store"]


@pytest.fixture(scope="module")
def shown(tmp_path_factory, empty_store) -> tuple[str, Path]:
    """The address of ``fedpriv ui`` on a sweep, and the results folder."""
    results = tmp_path_factory.mktemp("shown") / "results"
    claim(Folder(results / NAME), NAME, "name: my sweep\n", "digest").release()
    shutil.copy(empty_store, results / "mlflow.db")
    tracker = Tracker(results, NAME)
    tell(tracker)
    assert tracker.close(60)
    server = Server(results, *places.ui(results, 0, "127.0.0.1"))
    server.start()
    yield server.uri, results
    server.kill()


def text(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


@pytest.mark.browser
def test_the_view_has_settings_and_headline_metrics_as_columns(shown):
    address, results = shown
    ((_, link),) = views(results, address)
    page = text(visit(link, (2200, 900), seconds=30))
    assert "Error loading shared view state" not in page
    assert "shared view" in page  # MLflow says that this is one
    assert shared_view.TITLE in page
    for words in ("Group: ifca", "Group: ifca_mir", "ifca_mir, seed 1", "clustering.name", "accuracy/accuracy"):
        assert words in page
    assert "attack/calibrated_auc" in page
    assert "Does B protect better than A?" in page


@pytest.mark.browser
def test_the_charts_begin_with_the_trade_off(shown):
    address, results = shown
    ((_, link),) = views(results, address)
    page = text(visit(f"{link}&compareRunsMode=CHART", (1900, 1500), seconds=30))
    assert page.index("trade-off (1)") < page.index("headline metrics (") < page.index("accuracy (")


@pytest.mark.browser
@pytest.mark.parametrize("trial", ["", "ifca_mir1"])
def test_the_page_of_a_run_shows_its_description(shown, trial):
    address, results = shown
    seen = Seen(results)
    run = (seen.trial(trial) if trial else seen.parents[0]).info
    page = visit(f"{address}/#/experiments/{run.experiment_id}/runs/{run.run_id}?workflowType=machine_learning")
    assert "How to read it." in text(page)
    assert ("get-artifact?path=description%2Ftrade_off.png" in page) == (not trial)
    assert "<table" in page
