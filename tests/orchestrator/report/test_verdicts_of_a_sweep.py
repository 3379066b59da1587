"""The verdicts of one sweep: on its page, as a figure and in MLflow."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from orchestrator.papers import verdicts
from orchestrator.report import page
from orchestrator.report.data import Results, results, rows
from orchestrator.report.figures.arrangement import Arrangement, arrange
from orchestrator.report.figures.catalog import catalog
from orchestrator.results.paths import Folder
from orchestrator.tracking.projection import project_sweep
from tests.support.pages import ROOT


@pytest.fixture(scope="module")
def har() -> Results:
    """The measured trials of FinP on UCI HAR, as the results of their sweep."""
    table = pd.read_parquet(ROOT / "docs" / "measured" / "finp_har.parquet")
    configs = {key: json.loads(run) for key, run in zip(table["id"], table.pop("run"), strict=True)}
    swept = ("objective.name", "aggregation.name", "seed")
    return results(Path("finp-har"), rows(table.to_dict("records")), swept, configs)


def test_a_sweep_has_the_verdicts_of_its_claims_on_its_page_and_in_mlflow(
    har: Results, grouped: Arrangement, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = {one.claim.claim: verdicts.words(one) for one in verdicts.of_results(har)}
    assert (
        judged["finp/loss_cov"]
        == "all examples: baseline differs, supported in part; 20 examples: not tested"
    )
    (grid,) = page._verdicts(har)
    assert {len(line) for line in grid.lines} == {len(grid.head)} and page._verdicts(
        grouped.results
    ) == []
    figure = catalog()["verdicts"](arrange(har) or pytest.fail("nothing to draw"))
    assert figure is not None and len(figure.axes[0].get_yticklabels()) == len(grid.lines)
    real = verdicts.of_results(har)
    monkeypatch.setattr(verdicts, "of_results", lambda _: real)
    folder = Folder(grouped.results.folder)
    wanted = project_sweep(folder, [trial["id"] for trial in grouped.results.trials], "0", "1")
    assert wanted.tags["verdict.finp/loss_cov"] == judged["finp/loss_cov"]
