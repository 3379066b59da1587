"""The driver between trials: what it does when it is started for one that has ended already."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from orchestrator.cluster.placement import Placement
from orchestrator.results.folder import Folder
from orchestrator.results.integrity import Damage, DamageError
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


def opens(driver: Driver, monkeypatch: pytest.MonkeyPatch, repaired: str | None) -> None:
    """Let the driver open a trial that does no more than say what was repaired."""
    module = "orchestrator.scheduling.driver."
    driver._data, driver.clients, driver.shadows = ("known", None), None, None
    for name, does in {
        "resolve": lambda run: None,
        "federation_key": lambda run, root: "known",
        "Setup.of": lambda *given: None,
        "ray.get": lambda ref: None,
        "Surroundings": lambda *given: None,
        "Trial": lambda *given: SimpleNamespace(repaired=repaired, done=False, news=list, note=lambda: None),
        "_rounds": lambda trial, seconds: None,
    }.items():
        monkeypatch.setattr(module + name, does)


def test_what_was_repaired_is_reported_once(tmp_path, monkeypatch):
    driver = _driver(tmp_path, "failed")
    opens(driver, monkeypatch, "state is damaged: set aside")
    assert driver.step()["repaired"] == "state is damaged: set aside"
    assert "repaired" not in driver.step()


def test_a_damaged_state_of_a_trial_that_cannot_be_repeated_is_the_reason_why_it_failed(tmp_path, monkeypatch):
    driver = _driver(tmp_path, "stopped")
    identity = TrialIdentity("abc", {"training": {"device": "cpu"}, "privacy": {"noise": "secret"}}, None)
    driver.trial_config = replace(driver.trial_config, identity=identity)
    opens(driver, monkeypatch, None)

    def damaged(*_) -> None:
        raise DamageError(Damage(driver.folder.state / "state.safetensors", "is empty; restore it"))

    monkeypatch.setattr("orchestrator.scheduling.driver.Trial", damaged)
    summary = driver.step()["summary"]
    assert summary["status"] == "failed"
    assert summary["reason"] == f"{driver.folder.state / 'state.safetensors'} is empty; restore it"
    assert not driver.folder.error.exists()


def test_a_trial_that_begins_leaves_its_code_and_data_beside_its_state(tmp_path, monkeypatch):
    driver = _driver(tmp_path, "failed")
    driver.trial_config = replace(
        driver.trial_config, identity=TrialIdentity("abc", {}, None, (("a.py", "1"),), {"code": "2", "data": "3"})
    )

    opens(driver, monkeypatch, None)
    driver._open()
    (driver.folder.state / "state.safetensors").touch()
    assert read_begun(driver.folder) == {"files": {"a.py": "1"}, "origin": {"code": "2", "data": "3"}}
