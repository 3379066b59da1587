"""The queue of the runs behind docs/verdicts.md: every line is a sweep, and a trial is written
down once.
"""

from __future__ import annotations

from pathlib import Path

import answers
import pandas as pd
import pytest
import run_queue
import torch

from algorithms.curvature import chain
from orchestrator.estimates import small_runs
from orchestrator.report.figures.arrangement import Arrangement
from tests.orchestrator.report.conftest import grouped as grouped


@pytest.mark.parametrize("line", run_queue.queue(), ids=lambda line: line.name)
def test_a_line_is_a_sweep_with_trials(line: run_queue.Line) -> None:
    _, ids = run_queue.loaded(line)
    assert ids and line.hours > 0 and line.decides
    assert line.command()[3:5] == ["run", f"sweeps/{line.sweep}.yaml"]
    table = run_queue.MEASURED / f"{line.name}.parquet"
    if table.exists():
        assert set(pd.read_parquet(table)["id"]) <= ids


def test_finished_trials_are_written_once(grouped: Arrangement, tmp_path: Path) -> None:
    folder = grouped.results.folder
    finished = {row["id"] for row in grouped.results.trials if row["status"] == "finished"}
    assert run_queue.harvest("line", folder, tmp_path) == finished
    table = pd.read_parquet(tmp_path / "line.parquet")
    assert set(table["id"]) == finished and {"run", "commit", "torch"} <= set(table)
    assert run_queue.harvest("line", folder, tmp_path) == finished
    assert len(pd.read_parquet(tmp_path / "line.parquet")) == len(table)


def test_missing_trials_are_run_each_by_itself_and_a_failure_ends_the_line(
    monkeypatch, tmp_path: Path
) -> None:
    (line,) = [
        line for line in run_queue.queue() if line.name == "finp_timing_20"
    ]  # of which one runs at a time
    _, ids = run_queue.loaded(line)
    codes, run = iter([0, -9, 0]), list[Path]()
    monkeypatch.setattr(run_queue, "harvest", lambda name, folder: ids - set(sorted(ids)[:3]))
    monkeypatch.setattr(
        run_queue, "watched", lambda line, command, folder: run.append(folder) or next(codes)
    )
    assert run_queue.work(line, tmp_path) == -9
    assert {folder.parent.name.removeprefix("finp_timing_20-") for folder in run} <= set(
        sorted(ids)[:3]
    )
    assert 2 <= len(run) <= 3 and all((folder.parent / "trial.yaml").exists() for folder in run)
    monkeypatch.setattr(run_queue, "harvest", lambda name, folder: ids)
    assert run_queue.work(line, tmp_path) == 0


def test_the_hours_of_a_sweep_are_divided_among_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tiny.yaml"
    attacked = (
        "training: {epochs: 1, batch_size: 5}, attacks: [{name: shadow_mia, every: 1, shadows: 3}]"
    )
    base = (
        f"{{rounds: 4, data: {{name: digits, clients: 4, examples_per_client: 10}}, model: mlp, "
        f"{attacked}}}"
    )
    path.write_text(f"name: tiny\nbase: {base}\nsweep: {{seed: {{grid_search: [0, 1]}}}}\n")
    monkeypatch.setattr(
        small_runs.Small,
        "rate",
        lambda self, step, attack: {"train": 1.0, "replicate": 0.5}.get(step, 0.0),
    )
    trials, now, before = answers.forecasts(path)
    shadows, trained = (
        (now.trial["shadow models"], before["shadow models"]),
        3 * 4 * 10 / 2,
    )  # at once, or by two processes
    assert (trials, now.trial["training"]) == (2, pytest.approx(4 * 4 * 10, abs=1))
    assert shadows == (
        pytest.approx(4 * trained, abs=2),
        pytest.approx((1 + 2 + 3 + 4) * trained, abs=2),
    )
    name, many, earlier, hours, *shares = [
        cell.strip() for cell in answers.line(path).strip("|").split("|")
    ]
    assert (name, many, shares[1]) == ("`tiny`", "2", "150 → 60")
    assert 0 < float(hours) < float(earlier)
    assert abs(sum(float(share.split()[-1]) for share in shares) - 100) <= len(shares) / 2
    path.write_text("name: tiny\n")
    assert "base" in answers.line(path)


def test_patches_that_are_made_for_each_label_give_the_same_lengths() -> None:
    layer, a = torch.nn.Conv2d(2, 3, 3), torch.randn(5, 2, 6, 6)
    d = [torch.randn(5, 3, 4, 4) for _ in range(4)]
    assert torch.equal(answers.patches_anew(layer, d, a), chain._squared_lengths(layer, d, a))
