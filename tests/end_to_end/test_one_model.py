"""The commonest experiment: one model, unequal clients, a membership attack, plain against
DP-SGD; its risk is everywhere.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from orchestrator.cli import main
from tests.support.command import trials
from tests.support.inline_sweep import undisturbed

SWEEP = """
name: tiny
base:
  rounds: 2
  data: {name: digits, clients: 6, examples_per_client: 15, shadow_size: 200, split: {name: dirichlet, alpha: 0.5}}
  model: {name: mlp, hidden: [16]}
  training: {lr: 0.2, epochs: 2, batch_size: 10}
  attacks: [{name: shadow_mia, every: 2, shadows: 1}]
sweep:
  training.name: {grid_search: [local_sgd, dp_sgd]}
  seed: {grid_search: [0, 1, 2]}
resources: {client_actors: 1}
"""
RISKS = [f"mia_{name}_{of}" for name in ("accuracy", "auc") for of in ("global", "worst")]
# empty where the attack that was chosen gives many non-members the same highest score
RATE = "mia_tpr_at_1_fpr_worst"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Its results folder, and what the terminal shows: trained without Ray, and then given to
    the command.
    """
    folder = tmp_path_factory.mktemp("one-model")
    (folder / "sweep.yaml").write_text(SWEEP)
    results, shown = undisturbed(folder / "sweep.yaml", folder / "results"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(shown):
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        assert main(["run", str(folder / "sweep.yaml"), "--results", str(results)]) == 0
    return results, shown.getvalue()


def test_the_risk_is_in_the_table_of_trials(finished: tuple[Path, str]) -> None:
    rows = trials(finished[0])
    assert len(rows) == 6
    for row in rows:
        assert all(0 <= row[name] <= 1 for name in (*RISKS, "risk_worst_client")), row
        assert row[RATE] is None or 0 <= row[RATE] <= 1
        assert row["mia_accuracy_global"] == row["mia_accuracy_worst"] == row["mia_accuracy"]
        assert 0 <= row["violations_null"] < 3
    private = [row for row in rows if row["training.name"] == "dp_sgd"]
    assert all(row["epsilon_example"] > 0 and row["guarantee_example"] for row in private)


def test_the_risk_is_on_the_terminal_in_the_report_and_in_a_figure(
    finished: tuple[Path, str],
) -> None:
    table = finished[1][finished[1].index("\ntiny") :]
    for words in (
        "MIA",
        "AUC",
        "TPR",
        "epsilon",
        "by chance",
        "for one example and one model at delta 0.00001",
    ):
        assert words in " ".join(table.split()), table
    assert "fedpriv ui" in finished[1]
    _, lines = table.split("DP-SGD", 1)
    assert "±" in "".join(lines.splitlines()[:2]), table
    report = finished[0] / "tiny" / "report"
    summary, differences = (
        (report / name).read_text() for name in ("summary.md", "differences.md")
    )
    for words in (
        "MIA accuracy, worst model",
        "TPR at 1 % FPR, worst model",
        "epsilon of an example",
    ):
        assert words in summary
    assert "DP-SGD" in differences and "MIA" in differences
    files = {path.name for path in report.iterdir()}
    assert {
        "risk_of_models.png",
        "trade_off.png",
        "attack_roc.png",
        "clients_exposed_risk.png",
    } <= files
