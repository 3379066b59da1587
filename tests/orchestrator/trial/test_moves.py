"""Clients that move because of risk: names that stay, counts of who moved, and the exposure of
those who did.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.trial.attack_round import ClusterModels
from tests.support.planted import (
    ATTACK,
    PlannedShadows,
    clustered,
    finished,
    given,
    opened,
    planted,
    table,
)

ROBUST = {"warm_start_rounds": 1, "restarts": 2, "restart_rounds": 4}
DATA = planted(clients=20, minority=4)
MINORITY = DATA.groups == 1


def invasion(folder: Path, **fields: Any) -> Any:
    """A run in which the majority's model is said to be the risky one, so that its clients
    invade the minority's.
    """
    clustering = clustered("ifca_mir", preference="constant", beta=1.0, **ROBUST) | fields
    trial = opened(
        given(8, clustering=clustering, attacks=[ATTACK], training={"lr": 0.1}), folder, DATA
    )

    favored: list[int] = []

    def plan(round_: int) -> list[float]:
        if round_ <= 4:  # before anybody minds the risk
            favored[:] = [int(np.bincount(trial.state.assignment[~MINORITY], minlength=2).argmax())]
        return [0.85 if j == favored[0] else 0.55 for j in range(2)]

    trial.context = trial.rounds.context = replace(trial.context, tasks=PlannedShadows(plan))
    return finished(trial)


def test_a_majority_that_invades_the_minoritys_model_does_not_take_its_name(tmp_path: Path) -> None:
    """As in the quickstart of old: nobody of the minority leaves, and the majority comes in
    greater numbers.
    """
    trial = invasion(tmp_path)
    rows = table(trial, "rounds")
    last = {name: values[-1] for name, values in rows.items()}
    assert (last["moved_minority"], last["moved_majority"], last["migrated"]) == (0, 16, 16)
    assert (last["clients_minority"], last["own_clients_minority"]) == (20, 4)
    clients = table(trial, "clients")
    assert {
        m
        for m, g in zip(clients["model"][-20:], clients["group"][-20:], strict=True)
        if g == "minority"
    } == {"minority"}
    # The risk of 0.55 is still that of the minority's model; the majority's has no users.
    assert (last["mia_accuracy_minority"], last["mia_accuracy_majority"]) == (0.55, None)
    assert last["clients_majority"] == 0


def test_moves_are_counted_against_the_choice_by_loss_when_risk_begins_to_count(
    tmp_path: Path,
) -> None:
    trial = invasion(tmp_path)
    rows = table(trial, "rounds")
    # Starts are compared after four rounds, for which a risk has been measured: so it counts from
    # the fifth round on.
    assert rows["migrated"] == [None] * 4 + [16] * 4
    assert trial.state.reference.tolist() == np.where(MINORITY, *_by_name(trial)).tolist()


def _by_name(trial: Any) -> tuple[int, int]:
    return trial.state.names.index("minority"), trial.state.names.index("majority")


def test_an_emptied_model_is_attacked_on_the_records_of_those_who_used_it_last(
    tmp_path: Path,
) -> None:
    trial = invasion(tmp_path)
    emptied = trial.state.names.index("majority")
    assert ClusterModels.of(trial.state).users[emptied].tolist() == (~MINORITY).tolist()
    assert trial.context.tasks.rounds[-1] == 8
    assert (
        trial.state.published_risks[emptied] == 0.85
    )  # measured in the last round, not kept from an earlier one


def seen(
    history: Any, models: int = 2, reference: Any = None, assignment: Any = None
) -> ClusterModels:
    """The models after a history of who trained which; with what clients chose before risk
    counted, and use now.
    """
    history = np.array(history, np.int16).reshape(-1, 4)
    chosen = [np.full(4, -1) if one is None else np.array(one) for one in (reference, assignment)]
    return ClusterModels([None] * models, history, *chosen, np.zeros((4, models)))  # type: ignore[list-item]


def test_users_of_a_model_are_those_who_trained_it_last() -> None:
    first, second = (
        seen([[0, 0, 1, 1]], 3, [0, 1, 1, -1], [0, 0, 1, 1]),
        seen([[0, 0, 1, 1], [0, 0, 0, 0]], 3),
    )
    assert first.users.tolist() == [
        [True, True, False, False],
        [False, False, True, True],
        [False] * 4,
    ]
    assert second.users.tolist() == [[True] * 4, [False, False, True, True], [False] * 4]
    assert first.left.tolist() == [[False] * 4, [False, True, False, False], [False] * 4]
    assert (first.trained_rounds, second.trained_rounds, second.clusters) == (
        [1, 1, 0],
        [2, 1, 0],
        [0, 1],
    )


def test_who_was_absent_stays_where_it_trained_last() -> None:
    """Client 0 trains model 0 and is absent then; 1 trains it and then model 1; 2 comes late; 3
    never comes.
    """
    history = [[0, 0, -1, -1], [-1, 1, 1, -1], [-1, -1, 1, -1]]
    models = seen(
        history, reference=[0] * 4, assignment=[1] * 4
    )  # by loss all chose model 0, and now all use 1
    assert models.users.tolist() == [[True, False, False, False], [False, True, True, False]]
    assert models.trained_rounds == [1, 3] and models.own.tolist() == [0, 1, 1, -1]
    assert seen([]).own.tolist() == [-1] * 4 and not seen([]).users.any()
    assert models.left.tolist() == [
        [False, True, False, False],
        [False] * 4,
    ]  # only client 1 has trained both
    first, second = (models.cluster(DATA, number) for number in (0, 1))
    assert (first.clients.tolist(), first.took_part.tolist()) == ([0], [[True]])
    assert second.clients.tolist() == [1, 2]
    assert second.took_part.tolist() == [[False, False], [True, True], [False, True]]
    assert (
        seen(np.abs(history)).cluster(DATA, 0).took_part is None
    )  # where nobody is ever absent, nobody asks


def test_the_accuracy_of_a_model_is_that_on_the_examples_of_its_users() -> None:
    models = replace(seen([[0, 0, 2, 2]], 3), client_accuracies=np.arange(12.0).reshape(4, 3))
    assert models.accuracies.tolist() == pytest.approx([1.5, np.nan, 9.5], nan_ok=True)


@pytest.mark.parametrize(
    ("participation", "rate", "rounds"),
    [("fixed", 0.1, 1), ("fixed", 0.1, 3), ("poisson", 0.04, 3)],
)
def test_no_record_that_nobody_trained_on_is_a_member(
    tmp_path: Path, participation: str, rate: float, rounds: int
) -> None:
    """One model and few clients per round; in the first round of the last run, there is none."""
    attacks = [
        ATTACK | {"every": 1, "queries": 2000, "published_share": 0},
        {"name": "client_mia", "every": 1},
    ]
    run = given(
        rounds,
        participation=participation,
        participation_rate=rate,
        attacks=attacks,
        training={"lr": 0.1},
    )
    trial = finished(opened(run, tmp_path, DATA))
    history, scores = trial.state.history, table(trial, "scores")
    for done in range(1, rounds + 1):
        there = np.flatnonzero((history[:done] >= 0).any(axis=0)).tolist()
        assert len(there) < 20
        rows = zip(scores["round"], scores["client"], scores["member"], strict=True)
        assert {client for at, client, member in rows if at == done and member} == set(there)
    there = (history >= 0).any(axis=0)
    assert ClusterModels.of(trial.state).users.tolist() == [there.tolist()]
    risks = trial.state.own_risks
    assert not np.isfinite(risks[~there]).any(), "who has trained nothing has nothing to learn from"


def test_the_exposure_of_those_who_moved_follows_from_the_scores(tmp_path: Path) -> None:
    """Recomputed from the rows of scores.parquet, with the real attack and its shadow models."""
    clustering = clustered("ifca_mir", preference="constant", beta=1.0, **ROBUST)
    attack = ATTACK | {"shadows": 2, "risk": "loss_threshold", "queries": 500}
    run = given(8, clustering=clustering, attacks=[attack], training={"lr": 0.1, "epochs": 5})
    trial = finished(opened(run, tmp_path, DATA))
    scores = trial.rows("scores").to_pandas()
    row = {name: values[-1] for name, values in table(trial, "rounds").items()}
    last = scores[(scores["round"] == 8) & (scores["attack"] == "loss_threshold")]
    own, left = last[~last["left"]], last[last["left"]]
    movers = set(left[left["member"]]["client"])
    assert movers == set(np.flatnonzero(trial.state.reference != trial.state.assignment).tolist())
    assert 0 < len(movers) < 20

    def accuracy(rows: Any) -> float:
        said = rows["score"] >= 0
        return float(said[rows["member"]].mean() + (~said)[~rows["member"]].mean()) / 2

    used = {
        name
        for name, group in zip(trial.state.names, range(2), strict=True)
        if (trial.state.assignment == group).any()
    }
    own = own[own["target"].isin(used)]
    assert row["movers_risk"] == pytest.approx(accuracy(own[own["client"].isin(movers)]))
    assert row["movers_risk_left"] == pytest.approx(accuracy(left))
    rows = {
        (one["target"], one["metric"]): one["chance"]
        for one in trial.rows("attacks").to_pylist()
        if one["round"] == 8
    }
    for name, target in (("movers_risk", "movers"), ("movers_risk_left", "movers, model left")):
        assert row[f"{name}_null"] == rows[target, "balanced_accuracy"] != 0.5
    for g, name in enumerate(DATA.group_names):
        assert row[f"risk_{name}"] == pytest.approx(
            accuracy(own[own["client"].isin(np.flatnonzero(DATA.groups == g))])
        )
    clients = table(trial, "clients")
    tpr = own[own["member"]].groupby("client")["score"].apply(lambda s: (s >= 0).mean())
    assert clients["risk_tpr"][-20:] == pytest.approx(tpr.reindex(range(20)).tolist())
