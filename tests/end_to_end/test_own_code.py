"""The page on own code, word by word: its files beside its sweep, in every table, and sent to the nodes of a cluster."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from orchestrator.cli import main
from orchestrator.config.own_code import install
from tests.support.command import arguments, trials
from tests.support.own_code import written
from tests.support.pages import page
from tests.support.undisturbed import undisturbed

PAGE = "docs/own_code.md"
SMALL = {"rounds: 4": "rounds: 2", "clients: 10}": "clients: 4, examples_per_client: 20}"}
RESOURCES = "resources: {client_actors: 2, concurrent_trials: 1}\n"


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    """The sweep of the page, with the page's files beside it."""
    before, *blocks = page(PAGE).split("```python\n")
    files = {}
    for block in blocks:
        name = re.findall(r"^`(code/[\w/]+\.py)` is", before, re.MULTILINE)[-1]
        files[name], _, before = block.partition("```")
    assert len(files) == 3
    (sweep,) = re.findall(r"```yaml\n(.*?)```", page(PAGE), re.DOTALL)
    for old, new in SMALL.items():
        assert old in sweep
        sweep = sweep.replace(old, new)
    written(tmp_path, files | {"sweep.yaml": sweep + RESOURCES})
    return tmp_path / "sweep.yaml"


def test_the_components_of_the_page_pass_the_check(experiment, capsys):
    try:
        for name in ("clipped_mean", "norms"):
            assert main(["check", name, "--code", str(experiment.parent / "code")]) == 0, capsys.readouterr().out
    finally:
        install(())


def test_an_own_attack_and_an_own_aggregation_are_in_every_table(experiment, tmp_path, capsys, monkeypatch):
    """Trained in this process; in test_sweep.py, workers of Ray have an aggregation of one's own."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    try:
        undisturbed(experiment, tmp_path / "results")
        assert main(["run", str(experiment), "--results", str(tmp_path / "results")]) == 0
    finally:
        install(())
    shown = capsys.readouterr().out
    rows = trials(tmp_path / "results", "own-code")
    assert [(row["aggregation.name"], row["status"]) for row in rows] == [
        ("clipped_mean", "finished"),
        ("fedavg", "finished"),
    ]
    assert rows[0]["step_length"] > 0
    summary = (tmp_path / "results/own-code/report/summary.md").read_text(encoding="utf-8")
    for metric, heading, label in (
        ("step_length", "length", "length of the step"),
        ("least_norm", "least", "shortest update, relative to the longest"),
    ):
        assert heading in shown and f"{rows[0][metric]:.2f}" in shown
        assert label in summary and f"{rows[0][metric]:.3f}" in summary
    found = pq.read_table(tmp_path / "results/own-code/trials" / rows[0]["id"] / "attacks.parquet").to_pylist()
    assert {(one["attack"], one["round"]) for one in found} == {("norms", 1), ("norms", 2)}


@pytest.mark.slow
def test_code_reaches_the_nodes_of_a_joined_cluster(experiment, cluster, tmp_path):
    """An aggregation that tells where it was imported: in the package that was sent, not beside the sweep."""
    file = experiment.parent / "code/aggregation/clipped_mean.py"
    told = 'float("fedpriv_sent" in __file__)'
    file.write_text(file.read_text().replace('"step_length": length', f'"step_length": {told}'))
    done = cluster.run(*arguments(experiment, tmp_path / "results", "--address", cluster.address))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = trials(tmp_path / "results", "own-code")
    assert rows[0]["step_length"] == 1.0
