"""The driver between trials: what it does when it is started for one that has ended already."""

import json

import pytest

from orchestrator.results.folder import Folder
from orchestrator.scheduling.driver import Driver


def _driver(path, status: str) -> Driver:
    folder = Folder(path).trial("abc")
    folder.path.mkdir(parents=True)
    folder.result.write_text(json.dumps({"id": "abc", "status": status, "metrics": {"accuracy": 0.5}}))
    driver = object.__new__(Driver)  # without Tune, and without actors
    driver._take_up({"id": "abc", "sweep": str(path)})
    return driver


def test_a_trial_that_ended_before_its_process_died_is_not_run_again(tmp_path):
    for status in ("finished", "diverged"):
        answer = _driver(tmp_path / status, status).step()
        assert answer["done"]
        assert answer["rows"] == []
        assert answer["summary"] == {"id": "abc", "status": status, "metrics": {"accuracy": 0.5}}


def test_a_trial_that_failed_is_taken_up_again(tmp_path):
    driver = _driver(tmp_path, "failed")
    opened = []

    def opening() -> None:
        opened.append(True)
        raise KeyboardInterrupt  # far enough

    driver._open = opening
    with pytest.raises(KeyboardInterrupt):
        driver.step()
    assert opened == [True]
