"""The driver between trials: what it does when it is started for one that has ended already."""

import json
from dataclasses import replace

import pytest

from orchestrator.cluster.placement import Placement
from orchestrator.results.folder import Folder
from orchestrator.results.record import TrialIdentity, read_begun
from orchestrator.scheduling.driver import Driver
from orchestrator.scheduling.trials import TrialConfig


def _driver(path, status: str) -> Driver:
    folder = Folder(path).trial("abc")
    folder.path.mkdir(parents=True)
    folder.result.write_text(json.dumps({"id": "abc", "status": status, "metrics": {"accuracy": 0.5}}))
    driver = object.__new__(Driver)  # without Tune, and without actors
    driver._prepare(TrialConfig(TrialIdentity("abc", {}, None), str(path), ".", Placement(1, 0.0, 1, 1), 1.0, False))
    return driver


def test_a_trial_that_ended_before_its_process_is_not_run_again(tmp_path):
    for status in ("finished", "diverged"):
        answer = _driver(tmp_path / status, status).step()
        assert answer["done"]
        assert answer["rows"] == []
        assert answer["summary"] == {"id": "abc", "status": status, "metrics": {"accuracy": 0.5}}


def test_a_trial_that_failed_is_run_again(tmp_path):
    driver = _driver(tmp_path, "failed")
    opened = []

    def opening() -> None:
        opened.append(True)
        raise KeyboardInterrupt  # far enough

    driver._open = opening
    with pytest.raises(KeyboardInterrupt):
        driver.step()
    assert opened == [True]


def test_a_trial_that_begins_leaves_its_code_and_data_beside_its_state(tmp_path, monkeypatch):
    driver = _driver(tmp_path, "failed")
    driver.trial_config = replace(
        driver.trial_config, identity=TrialIdentity("abc", {}, None, (("a.py", "1"),), {"code": "2", "data": "3"})
    )

    def resolve(_) -> None:
        raise KeyboardInterrupt  # far enough

    monkeypatch.setattr("orchestrator.scheduling.driver.resolve", resolve)
    with pytest.raises(KeyboardInterrupt):
        driver._open()
    (driver.folder.state / "state.safetensors").touch()
    assert read_begun(driver.folder) == {"files": {"a.py": "1"}, "origin": {"code": "2", "data": "3"}}
