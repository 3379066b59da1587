"""Runs whose time is estimated, and the estimate where all speeds are known."""

from pathlib import Path
from typing import Any

import pytest

from algorithms.interfaces import Run
from orchestrator.cluster.placement import placement
from orchestrator.config.resources import Resources
from orchestrator.config.run import resolve
from orchestrator.estimates import speeds, trial
from orchestrator.estimates.speeds import TrainSpeed
from orchestrator.estimates.trial import Estimator, Shares


def a_run(rounds: int = 4, **given: Any) -> Run:
    digits = {"name": "digits", "clients": 8, "examples_per_client": 12}
    fields: dict[str, Any] = {"rounds": rounds, "data": digits, "model": {"name": "mlp", "hidden": [8]}}
    return resolve(fields | {"training": {"epochs": 2, "batch_size": 5, "clients_per_job": 3}} | given)


def an_estimator(run: Run, actors: int = 1) -> Estimator:
    return Estimator(lambda run: Path(), placement(Resources(client_actors=actors), run.training.config))


FIXED = {
    "train_speed": TrainSpeed(client=0.0, example=1.0),
    "evaluation_seconds": 10.0,
    "curvature_speed": speeds.CurvatureSpeed(example=100.0, product=0.0, anew=0.0, products=0),
    "pass_seconds": 1000.0,
    "server_seconds": 0.0,
}


def shares(run: Run, monkeypatch: pytest.MonkeyPatch, actors: int = 1) -> Shares:
    """The estimate where speeds are known and a trial has no other seconds."""
    for name, value in FIXED.items():
        monkeypatch.setattr(speeds, name, lambda *_, value=value: value)
    for name in ("TRIAL_SECONDS", "ROUND_SECONDS", "ALONE_SECONDS", "JOB_SECONDS", "TASK_SECONDS"):
        monkeypatch.setattr(trial, name, 0.0)
    monkeypatch.setattr(trial, "BYTES_PER_SECOND", float("inf"))
    return an_estimator(run, actors).shares(run)
