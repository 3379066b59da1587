"""No value of any field makes the check or the dry run take the machine, or end in anything but a plan or a refusal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def outcomes(of: str, folder: Path, processes: int) -> dict[str, tuple[str, str]]:
    """The outcome of each case, and what is wrong with it."""
    command = [sys.executable, "-m", "tests.support.out_of_reach", of, str(folder), str(processes)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return {case: (outcome, wrong) for case, outcome, wrong in map(json.loads, done.stdout.splitlines())}


def wrong(found: dict[str, tuple[str, str]]) -> dict[str, str]:
    return {case: sentence for case, (_, sentence) in found.items() if sentence}


@pytest.mark.slow
def test_the_worst_values_end_in_a_plan_or_a_refusal(tmp_path: Path) -> None:
    found = outcomes("sample", tmp_path, 1)
    assert wrong(found) == {}
    assert len(found) > 40 and {outcome for outcome, _ in found.values()} == {"plan", "refused"}
    by_end = {case.partition(" ")[2]: outcome for case, (outcome, _) in found.items()}
    assert by_end["base.rounds=9223372036854775807"] == "refused"
    assert by_end["base.training.batch_size=1000000000"] == "plan"


@pytest.mark.slow
def test_every_value_of_every_field_ends_in_a_plan_or_a_refusal(tmp_path: Path) -> None:
    found = outcomes("all", tmp_path, 2)
    assert wrong(found) == {}
    assert len(found) > 2000
