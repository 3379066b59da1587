"""Whole runs whose releases canaries audit, on a small federation of clients of unequal size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from algorithms.interfaces import Outcome
from algorithms.privacy import _server_noise
from orchestrator.trial.metric_rows import final_metrics
from orchestrator.trial.restarts import Trial
from tests.support.planted import finished, given, opened, planted

DATA = planted(clients=6, each=[9, 14, 11, 20, 13, 10], minority=2, features=400)


def noisy(
    z: float = 1.0, rounds: int = 3, seed: int = 0, privacy: dict[str, Any] | None = None, **slots: Any
) -> dict[str, Any]:
    fields = {"name": "global_dp", "clip": 1.0, "noise_multiplier": z, "audit_every": 1} | (privacy or {})
    return given(rounds, seed=seed, privacy=fields, **slots)


def ran(run: dict[str, Any], folder: Path) -> Trial:
    return finished(opened(run, folder, DATA))


def told(trial: Trial) -> dict[str, Any]:
    rows, state = trial.rows("rounds").to_pylist(), trial.state
    return final_metrics(trial.run, Outcome(rows, state.spent, trial.data.sizes, state.canaries))


def no_noise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_server_noise, "add_noise", lambda params, sd, noise: params.copy())
