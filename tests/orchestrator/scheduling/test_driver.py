"""The driver between trials: what it does when it is started for one that has ended already."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from orchestrator.cluster.placement import Placement
from orchestrator.results.log import DamageError
from orchestrator.results.paths import Folder
from orchestrator.results.record import TrialIdentity, read_record
from orchestrator.scheduling.driver import Driver
from orchestrator.scheduling.trials import TrialConfig
from tests.support.synthetic_results import seal

RECORD = {"metrics": {"accuracy": 0.5}}


def _driver(path, status: str) -> Driver:
    folder = Folder(path).trial("abc")
    seal(folder.path, RECORD | {"status": status})
    seal(path, {})
    driver = object.__new__(Driver)  # without Tune, and without actors
    driver.clients = driver.shadows = SimpleNamespace()
    driver._take(TrialConfig(TrialIdentity("abc", {}), str(path), ".", Placement(1, 0.0, 1, 1), 1.0, False))
    return driver


@pytest.mark.parametrize("status", ["finished", "diverged"])
def test_a_trial_that_ended_before_its_process_is_not_run_again(tmp_path, status):
    driver = _driver(tmp_path, status)
    record = read_record(driver.folder)
    assert driver.step() == {"done": True, "rows": [], "summary": record} and record["status"] == status


def opens(driver: Driver, monkeypatch: pytest.MonkeyPatch, repaired: str | None) -> None:
    """Let the driver open a trial that does no more than say what was repaired."""
    module = "orchestrator.scheduling.driver."
    driver._data, driver.clients, driver.shadows = ("known", None), None, None
    for name, does in {
        "resolve": lambda run: None,
        "federation_key": lambda run, root: "known",
        "Setup.of": lambda *given: None,
        "ray.get": lambda ref: None,
        "TrialContext": lambda *given, **named: None,
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
    identity = TrialIdentity("abc", {"training": {"device": "cpu"}, "privacy": {"noise": "secret"}})
    driver.trial_config = replace(driver.trial_config, identity=identity)
    opens(driver, monkeypatch, None)

    def damaged(*_) -> None:
        raise DamageError(driver.folder.state / "state.safetensors", "is empty; restore it")

    monkeypatch.setattr("orchestrator.scheduling.driver.Trial", damaged)
    summary = driver.step()["summary"]
    assert summary["status"] == "failed"
    assert summary["reason"] == f"{driver.folder.state / 'state.safetensors'} is empty; restore it"
    assert not driver.folder.error.exists()
