"""Attacks on choices within a run: which rounds they see, of which initialization, and what they
find of planted groups.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.planted import (
    PlannedShadows,
    by_round,
    clustered,
    finished,
    given,
    opened,
    planted,
    table,
)

DATA = planted(clients=12, minority=4)
ATTACKS = [
    {"name": "shadow_mia", "every": 2, "shadows": 1, "queries": 20},
    {"name": "choice_inference"},
]
SORTED = {"warm_start_rounds": 1, "restarts": 3, "restart_rounds": 2}


def ran(
    folder: Path, name: str, rounds: int = 6, fields: dict[str, Any] | None = None, **slots: Any
) -> Any:
    """A run in which the second model is much safer than the first from round 2 on."""
    clustering = clustered(name, **SORTED | (fields or {}))
    trial = opened(given(rounds, clustering=clustering, attacks=ATTACKS, **slots), folder, DATA)
    trial.context.tasks.audit = PlannedShadows(lambda _: (0.9, 0.5)).audit
    return finished(trial)


def last(trial: Any) -> dict[str, Any]:
    return {name: values[-1] for name, values in table(trial, "rounds").items()}


def test_planted_groups_are_told_by_ifca_and_weights_are_not(tmp_path: Path) -> None:
    trial = ran(tmp_path, "ifca")
    assert (
        trial.state.assignment[:8].tolist()
        == [trial.state.assignment[0]] * 8
        != trial.state.assignment[4:].tolist()
    )
    row = last(trial)
    assert row["choice_group_gain"] == pytest.approx(1 - 8 / 12) and row["choice_group_p"] < 0.05
    assert row["choice_beta_bits"] == 0
    rows = [row for row in trial.rows("attacks").to_pylist() if row["attack"] == "choice_inference"]
    assert {row["round"] for row in rows} == {6} and {f"client_{i}" for i in range(12)} < {
        row["target"] for row in rows
    }


@pytest.mark.parametrize("participation", ["all", "poisson"])
def test_the_weights_of_clients_that_move_are_in_the_intervals_that_their_choices_leave(
    tmp_path: Path, participation: str
) -> None:
    sampled = (
        {"participation": participation, "participation_rate": 0.6}
        if participation != "all"
        else {}
    )
    trial = ran(tmp_path, "ifca_mir", **sampled)
    low, high, beta = (
        by_round(trial, name)[-1].astype(float)
        for name in ("choice_beta_low", "choice_beta_high", "beta")
    )
    assert ((low <= beta) & (beta <= high)).all() and last(trial)["choice_beta_bits"] > 0.1
    np.testing.assert_allclose(
        by_round(trial, "choice_beta_bits")[-1].astype(float), -np.log2(high - low), atol=1e-9
    )
    never = (trial.state.history[1:] < 0).all(axis=0)
    assert (high - low)[never].tolist() == [1.0] * never.sum()


def test_a_random_migration_moves_as_many_and_tells_no_weights(tmp_path: Path) -> None:
    trial = ran(tmp_path, "random_migration")
    assert len({*map(tuple, trial.state.history.tolist())}) > 2, "clients moved"
    assert last(trial)["choice_beta_bits"] == 0


def test_models_that_are_dealt_out_are_no_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first round's models are drawn; the last one's number is all that a run of two rounds
    has to go by.
    """
    from attacks import choice_inference

    seen = []
    real = choice_inference.infer
    monkeypatch.setattr(
        choice_inference,
        "infer",
        lambda config, all_: seen.append(all_.choices) or real(config, all_),
    )
    trial = ran(tmp_path, "ifca_mir", rounds=5, fields={"restarts": 2})
    np.testing.assert_array_equal(seen[0], trial.state.history[1:])
    assert len(seen) == 1 and len(trial.state.history) == 5
