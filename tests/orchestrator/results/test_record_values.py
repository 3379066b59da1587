"""A record is believed if it has the values that a trial writes, and no others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.results.folder import TrialFolder
from orchestrator.results.integrity import DamageError
from orchestrator.results.record import checked_record, read_record, save_record

BY = {"name": "asha", "metric": "accuracy", "mode": "max"}
RECORD: dict[str, Any] = {
    "id": "abc",
    "status": "finished",
    "reason": None,
    "metrics": {"accuracy": 0.5, "epsilon": None, "guarantee": "none: no noise", "converge_round": 3, "own": True},
    "seconds": 1.5,
    "origin": {"commit": "unknown", "data": "ab"},
    "model": {"shape": [1, 8, 8], "classes": 10},
    "files": {"algorithms/models/mlp.py": "ab"},
    "notes": ["not repeatable"],
}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"id": "abd"}, "it is the record of another trial, 'abd'"),
    ({"status": "done"}, "its status is 'done', not one of finished, stopped, diverged, failed"),
    ({"status": ["finished"]}, r"its status is \['finished'\]"),
    ({"status": None}, "its status is null"),
    ({"metrics": None}, "its metrics is null, not a mapping"),
    ({"metrics": [0.5]}, r"its metrics is \[0.5\], not a mapping"),
    ({"metrics": {"accuracy": "high"}}, "its metric 'accuracy' is the text 'high'"),
    ({"metrics": {"accuracy": [0.5]}}, r"its metric 'accuracy' is \[0.5\], not a number"),
    ({"metrics": {"own": {}}}, "its metric 'own' is {}, not a number"),
    ({"metrics": {"own": 10**400}}, "its metric 'own' is an integer of more than 64 bits"),
    ({"metrics": {"own": float("nan")}}, "its metric 'own' is nan, not a finite number"),
    ({"metrics": {"accuracy": float("inf")}}, "its metric 'accuracy' is inf, not a finite number"),
    ({"metrics": {"test_loss": -float("inf")}}, "its metric 'test_loss' is -inf, not a finite number"),
    ({"seconds": "1"}, "its seconds is '1'"),
    ({"seconds": 10**400}, "its seconds is an integer of more than 64 bits"),
    ({"reason": 3}, "its reason is 3, not a text"),
    ({"origin": "here"}, "its origin is 'here', not a mapping"),
    ({"files": {"a.py": 3}}, "its files is {'a.py': 3}, not a mapping of texts"),
    ({"model": {"shape": [1, -8], "classes": 10}}, "its model is "),
    ({"notes": "none"}, "its notes is 'none', not a list of texts"),
    ({"notes": [1]}, r"its notes is \[1\]"),
    ({"status": "stopped"}, "it does not say what stopped the trial"),
    ({"status": "stopped", "stopped": {"by": BY, "round": 2}}, "it does not say what stopped the trial"),
    ({"status": "stopped", "stopped": {"by": "asha", "round": 2, "value": 0.5}}, "it does not say what stopped"),
    ({"checksums": {}}, "its checksum is missing"),
]


@pytest.fixture
def trial(tmp_path: Path) -> TrialFolder:
    (tmp_path / "abc").mkdir()
    return TrialFolder(tmp_path / "abc")


def test_what_trials_write_is_believed(trial: TrialFolder) -> None:
    stopped = {**RECORD, "status": "stopped", "stopped": {"by": BY, "round": 2, "value": 0.5}}
    failed = {"id": "abc", "status": "failed", "reason": "its process died", "metrics": {}, "seconds": 0.0}
    set_back = RECORD | {"seconds": -0.8}  # earlier versions wrote what the clock said
    for record in (RECORD, stopped, failed, set_back):
        trial.result.write_text(json.dumps(record))
        assert read_record(trial) == record
        kept = save_record(trial, record)
        assert kept == {**record, "checksums": {}} and read_record(trial) == kept


@pytest.mark.parametrize(("changed", "problem"), WRONG)
def test_values_that_no_trial_writes_are_damage(trial: TrialFolder, changed: dict[str, Any], problem: str) -> None:
    trial.result.write_text(json.dumps({**RECORD, **changed}))
    with pytest.raises(DamageError, match=f"^{trial.result} is not what was saved: {problem}"):
        checked_record(trial)
    assert read_record(trial) is None


def test_an_epsilon_may_be_infinite_and_a_sealed_record_says_what_it_says(trial: TrialFolder) -> None:
    trial.result.write_text(json.dumps({**RECORD, "metrics": {"epsilon": float("inf")}}))
    assert read_record(trial) is not None
    save_record(trial, {**RECORD, "metrics": {"test_loss": float("inf")}})
    assert read_record(trial) is not None


def test_a_record_copied_from_another_trial_is_damage(trial: TrialFolder) -> None:
    save_record(trial, RECORD)
    other = TrialFolder(trial.path.with_name("abd"))
    other.path.mkdir()
    other.result.write_bytes(trial.result.read_bytes())
    assert read_record(trial) is not None and read_record(other) is None


def test_a_sealed_record_keeps_the_checksums_of_the_files_that_exist(trial: TrialFolder) -> None:
    trial.config.write_text("rounds: 1\n")
    trial.table("rounds").write_bytes(b"PAR1")
    assert sorted(save_record(trial, RECORD)["checksums"]) == ["config.yaml", "rounds.parquet"]
    held = json.loads(trial.result.read_text())
    held["metrics"]["accuracy"] = 0.75
    trial.result.write_text(json.dumps(held))
    with pytest.raises(DamageError, match="its checksum differs"):
        checked_record(trial)
