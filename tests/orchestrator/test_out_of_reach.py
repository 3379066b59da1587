"""No value of any field makes the check or the dry run take the machine, or end in anything but a plan or a refusal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_every_value_of_every_field_ends_in_a_plan_or_a_refusal(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.out_of_reach", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    cases = {case: (outcome, wrong) for case, outcome, wrong in map(json.loads, done.stdout.splitlines())}
    assert {case: wrong for case, (_, wrong) in cases.items() if wrong} == {}
    assert len(cases) > 2000 and {outcome for outcome, _ in cases.values()} == {"plan", "refused"}
    by_key = {case.partition(" ")[2]: outcome for case, (outcome, _) in cases.items()}
    assert by_key["base.rounds=9223372036854775807"] == "refused"
    assert by_key["base.training.batch_size=1000000000"] == "plan"
