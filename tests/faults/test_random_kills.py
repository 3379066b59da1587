"""Random kills on sweeps drawn at random from all components: what comes out is what an undisturbed run gives."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from orchestrator.config.sweep_file import load_sweep
from tests.support.command import mlflow_holds_all, nothing_left, same_results, trials
from tests.support.drawn import drawn
from tests.support.random_kills import Run, drawn_kills
from tests.support.undisturbed import undisturbed

SWEEPS = int(os.environ.get("FEDPRIV_KILLED_SWEEPS", "10"))
FIRST = int(os.environ.get("FEDPRIV_KILLED_FIRST", "0"))
KILLS = 5  # of each sweep


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FIRST, FIRST + SWEEPS))
def test_a_drawn_sweep_survives_random_kills(seed: int, tmp_path: Path) -> None:
    """FEDPRIV_KILLED_SWEEPS says how many sweeps (10), FEDPRIV_KILLED_FIRST the seed of the first one (0)."""
    pytest.importorskip("optuna")
    sweep = drawn(seed, tmp_path / "sweep")
    expected, results = undisturbed(sweep, tmp_path / "undisturbed"), tmp_path / "results"
    rows = trials(expected, sweep.stem)
    rounds = sum(run.rounds for run in load_sweep(sweep).runs[: len(rows)])
    kills = drawn_kills(random.Random(f"kills {seed}"), KILLS, rounds)
    run = Run(sweep, results, kills, len(rows))
    run.to_the_end(0 if all(row["status"] == "finished" for row in rows) else 1)
    told = f"{sweep.read_text()}\n{run}"
    assert not run.hung, f"the last session hung:\n{told}"
    assert all(kill.done for kill in kills), f"ended with {run.codes[-1]}:\n{told}"
    assert not run.left, told
    try:
        same_results(expected, results, sweep.stem)
        mlflow_holds_all(results, sweep.stem)
        nothing_left(results)
    except AssertionError as error:
        raise AssertionError(f"{str(error)[:3000]}\n{told}") from None
