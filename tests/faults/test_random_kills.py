"""Random kills on small sweeps of every component: what comes out is what an undisturbed run
gives.
"""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path

import pytest
import yaml

from tests.support.command import mlflow_holds_all, nothing_left, same_results, trials
from tests.support.inline_sweep import undisturbed
from tests.support.random_kills import DEADLY, EARLY, LATE, WEIGHTS, Run, drawn_kills
from tests.support.slot_components import EVERY, described

SWEEPS = int(os.environ.get("FEDPRIV_KILLED_SWEEPS", "10"))
FIRST = int(os.environ.get("FEDPRIV_KILLED_FIRST", "0"))
KILLS = 5  # of each sweep
KILLED = [(slot, name) for slot, name in EVERY if not slot.key.startswith("data")]
random.Random(0).shuffle(KILLED)
SEARCH = {
    "sweep": {"training.lr": {"loguniform": [0.01, 0.2]}},
    "samples": 3,
    "tune": {"metric": "accuracy", "search": {"name": "optuna", "startup": 1}},
}


def written(seed: int, folder: Path) -> Path:
    """A sweep of a component, whose turn it is, over seeds, or, of every third, a search."""
    slot, name = KILLED[seed % len(KILLED)]
    varied = {"sweep": {"seed": {"grid_search": [seed, seed + 1]}}} if seed % 3 else SEARCH
    resources = {
        "client_actors": 1 + seed % 2,
        "concurrent_trials": 1 + seed // 2 % 2,
        "trial_retries": 5,
    }
    base = described(slot, name) | {"rounds": 4}
    folder.mkdir()
    path = folder / f"killed-{seed}.yaml"
    path.write_text(
        yaml.safe_dump({"name": path.stem, "base": base, "resources": resources, **varied})
    )
    return path


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FIRST, FIRST + SWEEPS))
def test_a_sweep_survives_random_kills(seed: int, tmp_path: Path) -> None:
    """FEDPRIV_KILLED_SWEEPS says how many sweeps (10), FEDPRIV_KILLED_FIRST the seed of the
    first one (0).
    """
    pytest.importorskip("optuna")
    sweep = written(seed, tmp_path / "sweep")
    expected, results = undisturbed(sweep, tmp_path / "undisturbed"), tmp_path / "results"
    rows = trials(expected, sweep.stem)
    kills = drawn_kills(random.Random(f"kills {seed}"), KILLS, 4 * len(rows))
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


def test_kills_are_drawn_for_everybody_at_every_moment_in_their_order() -> None:
    every = [drawn_kills(random.Random(seed), 5, 12) for seed in range(200)]
    assert {kill.who for kills in every for kill in kills} == set(WEIGHTS)
    assert {kill.moment for kills in every for kill in kills} == {"rounds", *EARLY, *LATE}
    for kills in every:
        told = [kill.rounds for kill in kills if kill.moment == "rounds"]
        assert len(kills) == 5 and told == sorted(told) and all(1 <= one <= 12 for one in told)
        for before, kill in itertools.pairwise(kills):
            assert kill.moment not in EARLY or before.who in DEADLY or before.moment in EARLY
