"""kill -9 of whatever a sweep consists of: its results are those of an undisturbed run, byte for byte."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.end_to_end.conftest import ROUNDS, TRIALS
from tests.support.command import same_results
from tests.support.faults import HEAD, Kill, disturbed, mlflow_holds_each_run_once

KILLS = int(os.environ.get("FEDPRIV_KILLS", "50"))
SEED = int(os.environ.get("FEDPRIV_KILLS_SEED", "0"))


def check(sweep: Path, expected: Path, results: Path, kills: list[Kill]) -> None:
    """Run with these kills; results, MLflow, and what was told must be as if nothing had happened."""
    came = disturbed(sweep, results, kills)
    told = f"{', '.join(map(str, kills))}\n{came.text}"
    assert came.code == 0, told
    assert all(kill.done for kill in kills), told
    assert len(came.sessions) == 1 + sum(kill.who == HEAD for kill in kills), told
    same_results(expected, results)
    mlflow_holds_each_run_once(results)
    rounds = [line for session in came.told_rounds() for line in session]
    assert len(rounds) == len(set(rounds)), f"a round that was complete was done again: {told}"


def test_a_shadow_task_an_actor_and_the_trial_are_killed_in_one_sweep(tiny, expected, tmp_path):
    check(
        tiny,
        expected,
        tmp_path,
        [Kill("a shadow task", 0, 0.0), Kill("a client actor", 3, 0.1), Kill("the trial", 7, 0)],
    )


@pytest.mark.slow
def test_the_head_is_killed_twice(tiny, expected, tmp_path):
    check(tiny, expected, tmp_path, [Kill(HEAD, 1, 0.0), Kill(HEAD, 13, 0.0)])


@pytest.mark.slow
@pytest.mark.parametrize("number", range(KILLS))
def test_a_kill_at_a_random_moment(number, slower, expected_of_slower, tmp_path):
    """FEDPRIV_KILLS says how many (50), FEDPRIV_KILLS_SEED which ones (0)."""
    check(slower, expected_of_slower, tmp_path, [Kill.at_random(random.Random(f"{SEED} {number}"), TRIALS * ROUNDS)])
