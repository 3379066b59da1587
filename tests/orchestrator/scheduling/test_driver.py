"""The driver between trials: what it does when it is started for one that has ended already."""

from types import SimpleNamespace

import pytest

from orchestrator.cluster.placement import Placement
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
