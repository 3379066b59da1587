"""A driver that dies before it has started a trial, and one that dies while it is handed the next: Tune gives both up."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from orchestrator import FINISHED, SOME_FAILED
from orchestrator.commands import Choices, run
from orchestrator.scheduling.driver import Driver
from tests.support.command import SWEEP, same_results, trials
from tests.support.undisturbed import undisturbed

pytestmark = pytest.mark.slow


class Fragile(Driver):
    """Dies before its first trial, and at the first hand-over of a trial. A file beside the results marks each death."""

    def setup(self, config):
        self._die_once(config, "setup")
        super().setup(config)

    def reset_config(self, new_config):
        self._die_once(new_config, "reset")
        return super().reset_config(new_config)

    @staticmethod
    def _die_once(config, moment: str) -> None:
        mark = Path(config["trial"]["sweep"]).parent / moment
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def fragile(monkeypatch, tmp_path):
    """The tiny sweep, run in this process with such drivers; yields its file."""
    from ray import cloudpickle

    monkeypatch.setattr("orchestrator.scheduling.driver.Driver", Fragile)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    path = tmp_path / "tiny.yaml"
    path.write_text(SWEEP.replace("[0.1, 0.2]", "[0.1]").replace("rounds: 4", "rounds: 2"))
    yield path
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def test_a_trial_whose_process_dies_before_it_began_is_taken_up_again(fragile, tmp_path, capsys):
    results = tmp_path / "results"
    assert run(fragile, [], Choices(results)) == FINISHED
    assert {file.name for file in results.iterdir()} >= {"setup", "reset"}
    same_results(undisturbed(fragile, tmp_path / "expected"), results)
    lines = [line for line in capsys.readouterr().out.splitlines() if "  round " in line]
    assert len(lines) == len(set(lines))


def test_but_not_more_often_than_it_may(fragile, tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    (results / "setup").touch()
    assert run(fragile, ["resources.trial_retries=0"], Choices(results)) == SOME_FAILED
    assert [row["status"] for row in trials(results)] == ["finished", "failed"]
