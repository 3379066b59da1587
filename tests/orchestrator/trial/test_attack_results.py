"""What becomes of the results of attacks within a run: risks, rounds trained, what is kept, and
what clients choose by.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from algorithms.core.metric import Number, variant
from algorithms.interfaces import Run
from attacks.interfaces import Audit
from orchestrator.trial.attack_round import ClusterModels
from tests.support.planted import (
    ATTACK,
    by_round,
    clustered,
    finished,
    given,
    opened,
    planted,
    saved_state,
    table,
)

RISKS = (0.9, 0.6)


class Otherwise:
    """Stands for an attack that publishes a risk and has measures of another name, or none at
    all.
    """

    def __init__(self, *measures: Number, measured: float | None = None) -> None:
        self.measures, self.measured = measures, measured

    def audit(
        self, setup: Any, run: Run, attack: Any, data: Any, models: ClusterModels
    ) -> dict[int, Audit]:
        return {
            j: Audit(
                RISKS[j], self.measures, measured_risk=self.measured and self.measured + j / 100
            )
            for j in models.clusters
        }


@pytest.mark.parametrize(
    "measures", [(), (Number("auc", 0.75, variant("gradient")),)], ids=["none", "auc"]
)
def test_a_risk_needs_no_measure_called_balanced_accuracy(
    tmp_path: Path, measures: tuple[Number, ...]
) -> None:
    run = given(4, clustering=clustered("ifca"), attacks=[ATTACK])
    trial = finished(opened(run, tmp_path, shadows=Otherwise(*measures)))
    assert (
        trial.state.published_risks.tolist() == trial.state.measured_risks.tolist() == list(RISKS)
    )
    last = {name: values[-1] for name, values in table(trial, "rounds").items()}
    assert sorted((last["mia_accuracy_majority"], last["mia_accuracy_minority"])) == sorted(RISKS)
    told = set(table(trial, "attacks")["metric"]) if measures else set()
    assert told == {one.metric for one in measures}


def test_clients_choose_by_published_risk_and_tables_have_the_measured_one(tmp_path: Path) -> None:
    run = given(
        4, clustering=clustered("ifca_mir", preference="constant", beta=1.0), attacks=[ATTACK]
    )
    trial = finished(opened(run, tmp_path, shadows=Otherwise(measured=0.51)))
    assert trial.state.assignment.tolist() == [1] * 10
    assert trial.state.published_risks.tolist() == list(RISKS)
    assert trial.state.measured_risks.tolist() == [0.51, 0.52]
    last = {name: values[-1] for name, values in table(trial, "rounds").items()}
    occupied, empty = sorted(
        ("mia_accuracy_majority", "mia_accuracy_minority"), key=lambda name: last[name] is None
    )
    assert (last[occupied], last[empty], last["mia_accuracy_worst"]) == (0.52, None, 0.52)


def test_attacks_on_models_and_on_updates_count_the_rounds_trained(tmp_path: Path) -> None:
    """After two rounds, after four, and after the fifth, the last one."""
    attacks = [ATTACK, {"name": "sia", "every": 2, "targets": 5}]
    trial = finished(opened(given(5, clustering=clustered(), attacks=attacks), tmp_path))
    rows = table(trial, "attacks")
    rounds = {
        name: sorted(
            {
                round_
                for attack, round_ in zip(rows["attack"], rows["round"], strict=True)
                if attack == name
            }
        )
        for name in ("shadow_mia", "sia")
    }
    assert rounds == {"shadow_mia": [2, 4, 5], "sia": [2, 4, 5]}
    # A round's own row is numbered from 0, and the attack on the updates of its clients stands in
    # it.
    told = zip(table(trial, "rounds")["round"], table(trial, "rounds")["sia_mean"], strict=True)
    assert [round_ + 1 for round_, value in told if value is not None] == [2, 4, 5]


ONCE = {"warm_start_rounds": 1, "restarts": 1}
OWN = {"name": "client_mia", "every": 2}
TWELVE = planted(clients=12, minority=4)


def ran(folder: Path, attacks: list[dict[str, Any]], **fields: Any) -> Any:
    clustering = clustered("ifca_mir", preference="constant", beta=0.9, **ONCE) | fields
    return finished(
        opened(
            given(5, clustering=clustering, attacks=attacks, training={"lr": 0.1}), folder, TWELVE
        )
    )


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
    subjects = {
        one for one, metric in zip(found["attack"], found["metric"], strict=True) if metric == "auc"
    }
    assert {"client_mia", "client_mia, worst attacker", "client_mia, trained it"} <= subjects


def test_an_attack_by_clients_changes_nothing_for_those_who_trust_the_server(
    tmp_path: Path,
) -> None:
    without, beside = ran(tmp_path / "without", [ATTACK]), ran(tmp_path / "with", [ATTACK, OWN])
    for ours, theirs in zip(without.state.models, beside.state.models, strict=True):
        assert ours.params.tobytes() == theirs.params.tobytes()
    assert without.state.published_risks.tolist() == beside.state.published_risks.tolist()
    assert table(without, "rounds")["violations"] == table(beside, "rounds")["violations"]


def choosing_by_own(folder: Path, rounds: int, server: int, clients: int) -> Any:
    """A trial in which nobody may leave a model once risk counts; the server and clients attack
    after so many rounds.
    """
    clustering = clustered(
        "ifca_mir", preference="constant", beta=1.0, risk_from="own", most_leaving=0
    )
    attacks = [ATTACK | {"every": server}, OWN | {"every": clients}]
    return opened(
        given(rounds, clustering=clustering, attacks=attacks, training={"lr": 0.1}), folder, TWELVE
    )


def test_risk_counts_once_a_client_knows_one_where_each_chooses_by_its_own(tmp_path: Path) -> None:
    """The server measures after the last round only; clients attack after every round and choose
    by what they find.
    """
    trial = choosing_by_own(tmp_path, 4, server=50, clients=1)
    trial.advance()
    first = trial.state.assignment.copy()
    assert not np.isfinite(trial.state.own_risks).any() and (trial.state.reference < 0).all()
    finished(trial)
    assert (by_round(trial, "cluster") == first).all(), "nobody may leave a model once risk counts"
    assert (trial.state.reference >= 0).all()


def test_a_risk_that_only_the_server_knows_does_not_count_where_clients_choose_by_their_own(
    tmp_path: Path,
) -> None:
    trial = finished(choosing_by_own(tmp_path, 3, server=1, clients=50))
    assert np.isfinite(trial.state.measured_risks).any()
    assert (trial.state.reference < 0).all()


DATA = planted(clients=6, each=[9, 14, 11, 20, 13, 10], minority=2)
ATTACKS = [{"name": "sia"}, {"name": "fedmia", "every": 2, "signals": "all"}]
PLAIN = given(5, seed=3, attacks=ATTACKS, training={"lr": 0.5})
RESTARTED = PLAIN | {"clustering": clustered("ifca", restarts=2, restart_rounds=2)}


def test_scores_are_added_up_over_the_attacked_rounds_of_the_start_that_is_kept(tmp_path):
    trial, counts = opened(RESTARTED, tmp_path, DATA), []
    while not trial.done:
        trial.advance()
        counts.append(
            saved_state(trial).attacks["fedmia.rounds"].tolist() if trial.state.attacks else [0] * 6
        )
    # Two rounds of a start, two of another one, which is better, and its other three. Attacked are
    # rounds 2, 4 and 5. When the first start is over, what is saved is the beginning of the second.
    assert [one[0] for one in counts] == [0, 0, 0, 1, 1, 2, 3]
    assert set(trial.state.attacks) == {
        f"fedmia.{name}"
        for name in (
            "rounds",
            "fedmia_loss",
            "loss_series",
            "fedmia_cosine",
            "mean_cosine",
            "gradient_difference",
        )
    }


def test_the_tables_tell_every_clients_exposure(tmp_path):
    trial = finished(opened(PLAIN, tmp_path, DATA))
    clients, rounds = table(trial, "clients"), table(trial, "rounds")
    last = np.array(clients["fedmia_auc"][-6:], float)
    assert np.isfinite(last).all() and rounds["fedmia_auc"][-1] == pytest.approx(last.mean())
    assert rounds["fedmia_auc_low"][-1] < rounds["fedmia_auc"][-1] < rounds["fedmia_auc_high"][-1]
    assert [value is not None for value in rounds["fedmia_auc"]] == [False, True, False, True, True]
    rows = table(trial, "attacks")
    own = [i for i, name in enumerate(rows["attack"]) if name == "fedmia" and rows["round"][i] == 5]
    assert {rows["target"][i] for i in own} == {"clients", *(f"client_{i}" for i in range(6))}
    assert all(
        rows["low"][i] <= rows["value"][i] <= rows["high"][i] and rows["chance"][i] == 0.5
        for i in own
    )
