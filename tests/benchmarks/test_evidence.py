"""The queue of the runs behind docs/verdicts.md: every line is a sweep, and a trial is written down once."""

from __future__ import annotations

from pathlib import Path

import answers
import pandas as pd
import pytest
import run_queue

from orchestrator.report.figures.arrangement import Arrangement
from tests.support.arranged import read
from tests.support.synthetic_results import write_grouped


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Arrangement:
    return read(write_grouped(tmp_path_factory.mktemp("r") / "grouped"))


@pytest.mark.parametrize("line", run_queue.queue(), ids=lambda line: line.name)
def test_a_line_is_a_sweep_with_trials(line: run_queue.Line) -> None:
    _, ids = run_queue.loaded(line)
    assert ids and line.hours > 0 and line.decides
    assert line.command()[3:5] == ["run", f"sweeps/{line.sweep}.yaml"]
    table = run_queue.MEASURED / f"{line.name}.parquet"
    if table.exists():
        assert set(pd.read_parquet(table)["id"]) <= ids


def test_finished_trials_are_written_once(swept: Arrangement, tmp_path: Path) -> None:
    folder = swept.results.folder
    finished = {row["id"] for row in swept.results.trials if row["status"] == "finished"}
    assert run_queue.harvest("line", folder, tmp_path) == finished
    table = pd.read_parquet(tmp_path / "line.parquet")
    assert set(table["id"]) == finished and {"run", "commit", "torch"} <= set(table)
    assert run_queue.harvest("line", folder, tmp_path) == finished
    assert len(pd.read_parquet(tmp_path / "line.parquet")) == len(table)


def test_the_hours_of_a_sweep_are_divided_among_its_parts(tmp_path: Path) -> None:
    path = tmp_path / "tiny.yaml"
    base = "{rounds: 2, data: {name: digits, clients: 4, examples_per_client: 10}, model: mlp}"
    path.write_text(f"name: tiny\nbase: {base}\nsweep: {{seed: {{grid_search: [0, 1]}}}}\n")
    name, trials, hours, *shares = [cell.strip() for cell in answers.line(path).strip("|").split("|")]
    assert (name, trials) == ("`tiny`", "2")
    assert 0 < float(hours) < 0.1 and abs(sum(map(float, shares)) - 100) <= len(shares) / 2
    path.write_text("name: tiny\n")
    assert "base" in answers.line(path)
