"""Clients that attack by themselves within a run: what is kept, what they choose by, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.planted import ATTACK, by_round, clustered, finished, given, opened, planted, table

pytestmark = pytest.mark.usefixtures("one_thread")

ONCE = {"warm_start_rounds": 1, "restarts": 1}
OWN = {"name": "client_mia", "every": 2}
DATA = planted(clients=12, minority=4)


def ran(folder: Path, attacks: list[dict[str, Any]], **fields: Any) -> Any:
    clustering = clustered("ifca_mir", preference="constant", beta=0.9, **ONCE) | fields
    return finished(opened(given(5, clustering=clustering, attacks=attacks, training={"lr": 0.1}), folder, DATA))


def test_clients_choose_by_the_risk_that_their_own_attack_found(tmp_path: Path) -> None:
    trial = ran(tmp_path, [ATTACK, OWN], risk_from="own")
    risks = trial.state.own_risks
    assert risks.shape == (12, 2)
    assert len(np.unique(risks[np.isfinite(risks)])) > 2, "not one risk for all"
    told = table(trial, "clients")
    last = np.array(told["own_risk"][-12:], np.float64)
    assert np.array_equal(last, risks[np.arange(12), trial.state.assignment], equal_nan=True)
    # Nobody had attacked before the second round was over.
    assert told["own_risk"][:12] == [None] * 12
    rows = table(trial, "rounds")
    assert 0 <= rows["client_mia_auc"][-1] <= 1
    assert rows["client_mia_worst_attacker"][-1] >= rows["client_mia_accuracy"][-1]
    found = table(trial, "attacks")
    subjects = {one for one, metric in zip(found["attack"], found["metric"], strict=True) if metric == "auc"}
    assert {"client_mia", "client_mia, worst attacker", "client_mia, trained it"} <= subjects


def test_an_attack_by_clients_changes_nothing_for_those_who_trust_the_server(tmp_path: Path) -> None:
    without, beside = ran(tmp_path / "without", [ATTACK]), ran(tmp_path / "with", [ATTACK, OWN])
    for ours, theirs in zip(without.state.models, beside.state.models, strict=True):
        assert ours.params.tobytes() == theirs.params.tobytes()
    assert without.state.published_risks.tolist() == beside.state.published_risks.tolist()
    assert table(without, "rounds")["violations"] == table(beside, "rounds")["violations"]


def test_risk_counts_once_a_client_knows_one_where_each_chooses_by_its_own(tmp_path: Path) -> None:
    """The server measures after the last round only; clients attack after every round and choose by what they find."""
    clustering = clustered("ifca_mir", preference="constant", beta=1.0, risk_from="own", most_leaving=0)
    attacks = [ATTACK | {"every": 50}, OWN | {"every": 1}]
    trial = opened(given(4, clustering=clustering, attacks=attacks, training={"lr": 0.1}), tmp_path, DATA)
    trial.advance()
    first = trial.state.assignment.copy()
    assert not np.isfinite(trial.state.own_risks).any() and (trial.state.reference < 0).all()
    finished(trial)
    assert (by_round(trial, "cluster") == first).all(), "nobody may leave a model once risk counts"
    assert (trial.state.reference >= 0).all()


def test_a_risk_that_only_the_server_knows_does_not_count_where_clients_choose_by_their_own(tmp_path: Path) -> None:
    clustering = clustered("ifca_mir", preference="constant", beta=1.0, risk_from="own", most_leaving=0)
    attacks = [ATTACK | {"every": 1}, OWN | {"every": 50}]
    trial = opened(given(3, clustering=clustering, attacks=attacks, training={"lr": 0.1}), tmp_path, DATA)
    finished(trial)
    assert np.isfinite(trial.state.measured_risks).any()
    assert (trial.state.reference < 0).all()
