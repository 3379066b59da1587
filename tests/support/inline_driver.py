"""A sweep in this process by the driver that Tune runs, one trial after another, without Ray, Tune, MLflow and report."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import ray

from orchestrator.config.sweep_file import load_sweep
from orchestrator.execution import claim_folder
from orchestrator.preparation import Choices, Work, prepare
from orchestrator.results.fingerprints import identity
from orchestrator.results.folder import WriteError
from orchestrator.results.tables import write_trials
from orchestrator.scheduling.driver import Driver
from orchestrator.scheduling.trials import TrialConfig, TrialSpec, trial_rows
from orchestrator.trial.local_clients import LocalClients
from orchestrator.trial.worker_session import _sessions
from tests.support.inline import InlineShadows


def run_with_driver(sweep: Path, results: Path) -> list[dict[str, Any]]:
    """Run a sweep, or resume it; returns the rows of its trials.

    Raises:
        ConfigError: it was refused before anything started.
        WriteError: results could not be saved.
    """
    work = prepare(load_sweep(sweep), Choices(results))
    with claim_folder(work.folder, work.sweep):
        work.earlier.set_back(work.folder)
        write_trials(work.folder, trial_rows(work.folder, work.trials))
        for trial in work.missing():
            _trained(work, trial)
        rows = trial_rows(work.folder, work.trials)
        write_trials(work.folder, rows)
    return rows


def _trained(work: Work, trial: TrialSpec) -> None:
    """One trial, by steps of a driver whose actors and object store are this process."""
    own = identity(trial.id, trial.run, work.hashes)
    root = str(work.sweep.root_of(trial.run))
    config = TrialConfig(own, str(work.folder.path), root, work.place, 10.0, every_round=True)
    driver = object.__new__(Driver)
    driver.clients, driver.shadows = LocalClients(), InlineShadows(work.folder.shadows)
    driver._data = ("", None)
    _sessions.clear()
    with patch.object(ray, "put", lambda value: value), patch.object(ray, "get", lambda held: held):
        driver._take(config)
        answer: dict[str, Any] = {}
        while not answer.get("done"):
            answer = driver.step()
    if "unwritable" in answer:
        raise WriteError(*answer["unwritable"])
