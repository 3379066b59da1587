"""What a round leaves in the tables, by hand on four clients; and that what does not exist is
empty and never 0.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import roc_auc_score

from algorithms.core.choices import Preferences
from algorithms.core.messages import Weights
from algorithms.core.metric import Number, variant
from algorithms.interfaces import Outcome
from algorithms.metrics import classification
from attacks.interfaces import Audit, Scores
from attacks.metrics import client_risk
from datasets.federation import Examples, Federation
from orchestrator.config.run import resolve
from orchestrator.results.tables import as_table
from orchestrator.trial import client_actors, metric_rows
from orchestrator.trial.attack_round import Findings
from orchestrator.trial.metric_rows import ClientExposure, Snapshot
from orchestrator.trial.restarts import Trial
from orchestrator.trial.saved import RunState
from tests.support.planted import clustered, finished, given, opened, planted, table

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

LABELS = [0, 0, 1, 1, 0, 0, 1, 1]
OWNERS = [0, 0, 1, 2, 3, 3, 3, 3]  # the first four examples are the majority's
# The first model is right on 3 of the majority's examples and none of the minority's; the second on
# the minority's alone.
PREDICTIONS = np.array([[0, 0, 1, 0, 1, 1, 0, 0], [1, 1, 0, 0, 0, 0, 1, 1]], np.int16)
OUTPUTS = np.eye(2, dtype=np.float32)[PREDICTIONS]  # [models, examples, classes]
SORTED = (0, 0, 0, 1)
COUNTS = [[12, 10, 8], [8, 10, 12]]  # members, non-members, and called members, of each class
RUN = resolve(given(rounds=3))


def four_clients(owners: Any = OWNERS) -> Federation:
    test = Examples(np.zeros((8, 10), np.float32), np.array(LABELS))
    return replace(planted(clients=4, each=5, minority=1), test=test, test_owner=np.array(owners))


def shot(
    assignment: Any = SORTED, data: Federation | None = None, flipped: bool = False, **state: Any
) -> Snapshot:
    """A round's end; ``flipped`` swaps the indices of the two models."""
    order = [1, 0] if flipped else [0, 1]
    losses = np.array([[0.2, 1.0], [0.4, 1.0], [0.6, 1.0], [2.0, 0.5]])
    accuracies = np.array([[1.0, 0.1], [0.8, 0.1], [0.6, 0.1], [0.1, 0.9]])
    chosen = np.array(assignment)
    fields: dict[str, Any] = {
        "models": [Weights(np.zeros(1, np.float32), np.zeros(0, np.float32))] * 2,
        "servers": [{}, {}],
        "losses": losses[:, order],
        "accuracies": accuracies[:, order],
        "selection": losses[:, order],
        "assignment": 1 - chosen if flipped else chosen,
        "reference": np.array([1, 1, 1, 0] if flipped else SORTED),
        "queried": np.array([COUNTS, COUNTS]),
        "published_risks": np.array([0.65, 0.9])[order],
        "measured_risks": np.array([0.65, 0.9])[order],
        "names": [],
        "round": 3,
    }
    preferences = Preferences(np.array([0.5, 0.6, 0.7, 0.8]), np.array([1.0, 0.5, 0.25, 0.0]))
    costs = np.arange(8.0).reshape(4, 2)
    made = Snapshot(
        data or four_clients(),
        RunState(**{**fields, **state}),
        preferences,
        OUTPUTS[order],
        costs[:, order],
    )
    made.state.names = made.state.names or metric_rows.name_models(made)
    return made


# A round's row


@pytest.mark.parametrize("flipped", [False, True])
def test_by_hand_a_sorted_round(flipped):
    row = metric_rows.round_row(shot(flipped=flipped))
    expected = {
        "loss": (0.2 + 0.4 + 0.6 + 0.5) / 4,
        "train_accuracy": (1.0 + 0.8 + 0.6 + 0.9) / 4,
        "accuracy": 3 / 4 * 3 / 4 + 1 / 4 * 1,
        "accuracy_majority": 3 / 4,
        "accuracy_minority": 1.0,
        "model_accuracy_majority": 3 / 4,
        "model_accuracy_minority": 1.0,
        "mia_accuracy_majority": 0.65,
        "mia_accuracy_minority": 0.9,
        "violations": 3,  # 0.5 and 0.6 are below 0.65, 0.8 is below 0.9
        "violations_majority": 2,
        "violations_minority": 1,
        "risk_gap": 0.25,
        "loss_gap": 1.5,
        "purity": 1.0,
        "migrated": 0,
        "moved_majority": 0,
        "moved_minority": 0,
        "clients_majority": 3,
        "clients_minority": 1,
        "own_clients_majority": 3,
        "own_clients_minority": 1,
        "mia_accuracy": (0.65 + 0.9) / 2,
        "mia_accuracy_worst": 0.9,
        "mia_accuracy_worst_null": client_risk.worst_by_chance(np.array([COUNTS, COUNTS])),
    }
    assert {name: row[name] for name in expected} == pytest.approx(expected)


def test_by_hand_what_a_constant_answer_reaches():
    """On the examples, and by the weights, of each accuracy; the commonest class of the training
    examples is answered.
    """
    made = shot()
    answer = int(np.bincount(made.data.train.y).argmax())
    right = np.array(LABELS) == answer
    groups = np.where(np.array(OWNERS) < 0, -1, made.data.groups[np.array(OWNERS)])
    majority, minority = (right[groups == g].mean() for g in (0, 1))
    row = metric_rows.round_row(made)
    expected = {
        "accuracy_null": 3 / 4 * majority + 1 / 4 * minority,
        "accuracy_majority_null": majority,
        "accuracy_minority_null": minority,
        "model_accuracy_majority_null": majority,
        "test_accuracy_null": right[groups < 0].mean() if (groups < 0).any() else right.mean(),
    }
    assert {name: row[name] for name in expected} == pytest.approx(expected)


def test_a_model_that_nobody_uses_is_none_of_those_of_which_the_worst_is_taken():
    """Alone, a model is exposed by chance as its labels tell; and nothing is known by chance of
    unknown examples.
    """
    row = metric_rows.round_row(shot((0, 0, 0, 0)))
    found = 8 * 12 / 22 + 12 * 8 / 18  # of those that are called members
    assert row["mia_accuracy_worst_null"] == pytest.approx((found / 20 + 1 - (20 - found) / 20) / 2)
    assert row["mia_accuracy_worst"] == 0.65
    row = metric_rows.round_row(shot(queried=np.zeros((2, 2, 3), np.int64)))
    assert np.isnan([row["mia_accuracy_worst_null"], row["violations_null"]]).all()


def test_by_hand_people_and_models_are_told_apart_when_somebody_migrates():
    """Client 2 of the majority uses the minority's model: its example is wrong there, and the
    model is none the worse.
    """
    row = metric_rows.round_row(shot((0, 0, 1, 1)))
    assert (row["accuracy_majority"], row["model_accuracy_majority"]) == (3 / 4, 3 / 4)
    row = metric_rows.round_row(shot((0, 1, 0, 1)))
    assert (row["accuracy_majority"], row["model_accuracy_majority"]) == (2 / 4, 3 / 4)
    assert (row["purity"], row["moved_majority"], row["clients_minority"]) == (3 / 4, 1, 2)
    assert (row["moved_minority"], row["migrated"], row["own_clients_minority"]) == (0, 1, 1)


def test_without_groups_there_is_an_accuracy_and_no_more():
    data = replace(four_clients([-1] * 8), groups=np.zeros(4, np.int64), group_names=("everybody",))
    row = metric_rows.round_row(shot((0, 0, 0, 1), data))
    assert row["accuracy"] == 3 / 8  # the model that most clients use, on examples of nobody
    judged = {
        "accuracy",
        "test_accuracy",
        "test_loss",
        "f1_macro",
        "precision_macro",
        "accuracy_null",
        "test_accuracy_null",
    }
    risks = {"mia_accuracy", "mia_accuracy_worst", "mia_accuracy_model_0", "mia_accuracy_model_1"}
    risks |= {f"{name}_null" for name in risks} | {"violations", "violations_null", "migrated"}
    assert (
        set(row)
        == {"loss", "train_accuracy", "clients_model_0", "clients_model_1"} | judged | risks
    )


def test_examples_of_nobody_and_groups_without_examples_count_for_no_group():
    """Of the minority no test example is known: what is said of the majority, and of all, is
    said by the majority's.
    """
    row = metric_rows.round_row(shot(data=four_clients([0, 0, 1, 2, -1, -1, -1, -1])))
    assert (row["accuracy"], row["accuracy_majority"]) == (3 / 4, 3 / 4)
    assert "accuracy_minority" not in row and "model_accuracy_minority" not in row
    assert np.isnan(row["demographic_parity"]) and np.isnan(row["equalized_odds"])
    mixed = metric_rows.round_row(shot(data=four_clients([0, 0, 1, 2, 3, 3, -1, -1])))
    # The majority is told class 1 once in four, the minority's two examples of class 0 never.
    assert mixed["demographic_parity"] == pytest.approx(1 / 4)


def test_fairness_by_chance_is_that_of_groups_of_clients():
    """Class 1 is told the clients in 0 of 2, 1 of 1, 0 of 1 and 2 of 4 cases; each is the
    minority in a fourth of draws.
    """
    row = metric_rows.of_last_round(shot(), np.random.default_rng(0))
    expected = np.mean(
        [3 / 6 - 0, 1 - 2 / 7, 3 / 7 - 0, 2 / 4 - 1 / 4]
    )  # 0.32 with permuted examples
    assert row["demographic_parity_null"] == pytest.approx(expected, abs=0.04)


def test_the_micro_averaged_auc_is_scikit_learns():
    one = shot()
    of_class = np.eye(one.data.classes)[one.data.test.y[one.judged]]
    expected = roc_auc_score(
        of_class.ravel(), softmax(one.logits[one.judged].astype(float), axis=1).ravel()
    )
    assert metric_rows.of_last_round(one, np.random.default_rng(0))["auc_micro"] == pytest.approx(
        expected
    )
    assert 0.5 < expected < 1


# What does not exist


@pytest.mark.parametrize("flipped", [False, True])
def test_an_empty_cluster_has_no_metrics_and_a_collapse_is_reported(flipped):
    row = metric_rows.round_row(shot((0, 0, 0, 0), flipped=flipped))
    assert row.get("model_accuracy_minority") is None
    assert row.get("mia_accuracy_minority") is None
    assert (row["clients_majority"], row["clients_minority"]) == (4, 0)
    assert (row["purity"], row["migrated"]) == (3 / 4, 1)
    assert (row["accuracy_majority"], row["accuracy_minority"], row["model_accuracy_majority"]) == (
        3 / 4,
        0,
        3 / 4,
    )
    assert (row["mia_accuracy_majority"], row["violations"]) == (0.65, 2)


ATTACKS = [
    {"name": "shadow_mia", "every": 1, "shadows": 1, "queries": 20},
    {"name": "calibrated_mia", "replicas": 2},
]


@pytest.mark.parametrize(
    "names", [("low", "high"), ("null", "worst"), ("global", "model_0"), ("worst_client", "gap")]
)
def test_what_is_measured_does_not_depend_on_what_groups_are_called(tmp_path, names):
    """Every column has the value that it has with harmless names, and none is lost."""
    plain, named = (
        finished(
            opened(given(2, attacks=ATTACKS), tmp_path / of[0], replace(planted(), group_names=of))
        )
        for of in (("poor", "rich"), names)
    )
    expected = metric_rows.final_metrics(plain.run, outcome(plain))
    found = metric_rows.final_metrics(named.run, outcome(named))
    called = dict(zip(("poor", "rich"), named.data.group_columns, strict=True))
    of_groups = {
        name: "_".join(called.get(word, word) for word in name.split("_")) for name in expected
    }
    expected = {of_groups[name]: value for name, value in expected.items() if "seconds" not in name}
    assert {"calibrated_auc_" + of for of in called.values()} <= expected.keys()
    assert {name: value for name, value in found.items() if "seconds" not in name} == pytest.approx(
        expected, nan_ok=True
    )


def outcome(trial: Trial) -> Outcome:
    """What `final_metrics` is made of."""
    return Outcome(
        trial.rows("rounds").to_pylist(), trial.state.spent, trial.data.sizes, trial.state.canaries
    )


# Clients


def client_rows(made: Snapshot) -> dict[str, Any]:
    """The clients' rows of a round without an attack."""
    found = Findings(made.state.assignment)
    return metric_rows.client_rows(made, found, ClientExposure(found, None, made.data))


def test_by_hand_every_client_has_a_row_for_the_model_that_it_uses():
    columns = {name: list(values) for name, values in client_rows(shot()).items()}
    assert columns["round"] == [2] * 4
    assert columns["group"] == ["majority"] * 3 + ["minority"]
    assert columns["model"] == ["majority"] * 3 + ["minority"]
    assert columns["cluster"] == [0, 0, 0, 1]
    assert columns["examples"] == [5] * 4
    assert columns["loss"] == [0.2, 0.4, 0.6, 0.5]
    assert columns["accuracy"] == [1.0, 0.8, 0.6, 0.9]
    assert columns["test_accuracy"] == [1.0, 1.0, 0.0, 1.0]
    assert columns["choice_cost"] == [0.0, 2.0, 4.0, 7.0]
    assert columns["published_risk"] == [0.65, 0.65, 0.65, 0.9]
    assert (columns["threshold"], columns["beta"]) == ([0.5, 0.6, 0.7, 0.8], [1.0, 0.5, 0.25, 0.0])
    assert columns["loss_majority"] == [0.2, 0.4, 0.6, 2.0]
    assert columns["loss_minority"] == [1.0, 1.0, 1.0, 0.5]
    columns = as_table(client_rows(shot(data=four_clients([0, 0, 1, -1, 3, 3, 3, -1])))).to_pydict()
    assert columns["test_accuracy"] == [1.0, 1.0, None, 1.0]  # client 2 has no test examples


# Attacks


def found(cluster: int, members: list[bool]) -> tuple[str, int, int, Any]:
    count = len(members)
    scores = Scores(
        attack=np.array(["loss_threshold"] * count),
        client=np.arange(count),
        member=np.array(members),
        score=np.arange(count) / 4,
    )
    own = Number("balanced_accuracy", 0.5 + cluster / 4, variant("shadow_mia"), 0.6, 0.8, 0.5)
    risk = Number("auc", 0.75, variant("risk"))
    return ("shadow_mia", 5, cluster, Audit(0.0, (own, risk), scores))


def test_a_model_that_nobody_uses_counts_in_no_column_of_attacks():
    audits = [
        ("shadow_mia", 5, j, Audit(0.0, (), numbers=(Number("mia_auc", auc),)))
        for j, auc in enumerate((0.9, 0.6))
    ]
    for assignment, expected in (([0, 1], (0.75, 0.9)), ([1, 1], (0.6, 0.6))):
        columns = metric_rows.attack_columns(
            Findings(np.array(assignment), audits), ["minority", "majority"]
        )
        assert (columns["mia_auc"], columns["mia_auc_worst"]) == expected
        assert ("mia_auc_minority" in columns) == (0 in assignment)


def test_the_largest_by_chance_is_the_mean_of_the_largest_of_each_draw():
    draws = [
        [0.2, 0.8],
        [0.5, 0.3],
        [1.0, 1.0],
        [np.nan] * 2,
    ]  # of four models, one that nobody uses, and one without
    audits = [
        (
            "shadow_mia",
            5,
            j,
            Audit(0.0, (), numbers=(Number("mia_auc", 1.0),), by_chance={"mia_auc": np.array(one)}),
        )
        for j, one in enumerate(draws)
    ]
    before = [
        (name, 4, j, replace(audit, by_chance={"mia_auc": np.ones(2)}))
        for name, _, j, audit in audits
    ]
    found = Findings(
        np.array([0, 1, 3]), [*before, *audits]
    )  # of attacks before and after the round the latter count
    columns = metric_rows.attack_columns(found, ["minority", "majority", "other_2", "other_3"])
    assert columns["mia_auc_null"] == pytest.approx(0.45)
    assert columns["mia_auc_worst_null"] == pytest.approx(0.65)


def test_by_hand_attacks_and_scores_are_listed_by_the_name_of_their_target():
    examples, names = (
        Findings(np.array(SORTED), [found(1, [True, False]), found(0, [True])]),
        ["minority", "majority"],
    )
    rows = as_table(metric_rows.attack_rows(examples, names)).to_pydict()
    assert rows["attack"] == ["shadow_mia", "risk"] * 2 and rows["round"] == [5] * 4
    assert rows["target"] == ["majority"] * 2 + ["minority"] * 2
    assert rows["metric"] == ["balanced_accuracy", "auc"] * 2 and rows["value"] == [
        0.75,
        0.75,
        0.5,
        0.75,
    ]
    assert (rows["low"], rows["high"], rows["chance"]) == (
        [0.6, None] * 2,
        [0.8, None] * 2,
        [0.5, None] * 2,
    )
    columns = metric_rows.score_columns(examples, names, four_clients())
    assert as_table(columns).to_pydict() == {
        "attack": ["loss_threshold"] * 3,
        "round": [5] * 3,
        "target": ["majority", "majority", "minority"],
        "client": [0, 1, 0],
        "member": [True, False, True],
        "left": [False] * 3,
        "score": [0.0, 0.25, 0.0],
        "row": [None] * 3,
        "label": [None] * 3,
    }


def test_attacked_examples_keep_their_row_and_the_name_of_their_class():
    """Places count the training examples first, then those that were held out."""
    data = replace(four_clients(), rows=np.arange(100, 140), class_names=tuple("abcdefghij"))
    told = ("shadow_mia", 5, 0, Audit(0.0, (), replace(SCORES, place=np.array([3, 21]))))
    columns = metric_rows.score_columns(Findings(np.array(SORTED), [told]), ["global"], data)
    table = as_table(columns).to_pydict()
    assert (table["row"], table["label"]) == ([103, 121], ["c", "b"])


SCORES = Scores(
    attack=np.array(["loss_threshold"] * 2),
    client=np.arange(2),
    member=np.array([True, False]),
    score=np.zeros(2),
    label=np.array([2, 1]),
)


# Final metrics


@pytest.mark.parametrize(
    ("violations", "attacked", "last_half"),
    [
        ([9, 1, 3, 5], [0, 0, 1, 1], 4),
        ([9, 9, 3, 5, 7], [1, 0, 0, 1, 1], 6),
        ([None, None, 2], [0, 0, 1], 2),
    ],
)
def test_final_metrics_are_of_the_last_round_or_means_over_attacked_rounds(
    violations, attacked, last_half
):
    rows = [
        {
            "round": i,
            "accuracy": i / 10,
            "violations": count,
            "attacked": bool(hit),
            "seconds": float(i),
        }
        for i, (count, hit) in enumerate(zip(violations, attacked, strict=True))
    ]
    final = metric_rows.final_metrics(RUN, Outcome(rows, [], np.array([5])))
    assert final["accuracy"] == (len(rows) - 1) / 10
    assert final["violations"] == violations[-1]
    assert final["violations_last_half"] == last_half
    assert final["seconds_per_round"] == np.mean(
        range(1, len(rows))
    )  # processes load packages in the first
    assert not {"round", "seconds", "attacked"} & final.keys()


# Two models of two classes on four examples: the first is right on the first three, the second on
# the last alone.
VALIDATED = np.array([0, 1, 0, 1])
LOGITS = np.log(
    np.array(
        [
            [[0.8, 0.2], [0.4, 0.6], [0.9, 0.1], [0.7, 0.3]],
            [[0.1, 0.9], [0.6, 0.4], [0.2, 0.8], [0.5, 0.5001]],
        ]
    )
).astype(np.float32)


def federation(owners: Any, clients: int = 5, minority: int = 1) -> Federation:
    examples = Examples(np.zeros((4, 10), np.float32), VALIDATED)
    return replace(
        planted(clients, 5, minority), validation=examples, validation_owner=np.array(owners)
    )


def test_by_hand_every_group_counts_by_its_clients() -> None:
    """Client 4 is the minority, with three of the examples; the majority's client 0 has one and
    uses the first model.
    """
    row = classification.validation(LOGITS, federation([0, 4, 4, 4]), np.array([0, 0, 0, 0, 1]))
    assert row["validation_accuracy"] == pytest.approx(4 / 5 * 1 + 1 / 5 * 1 / 3)
    majority, minority = -np.log(0.8), -(np.log(0.4) + np.log(0.2) + np.log(0.5001 / 1.0001)) / 3
    assert row["validation_loss"] == pytest.approx(4 / 5 * majority + 1 / 5 * minority, rel=1e-5)


def test_by_hand_examples_of_nobody_are_judged_under_the_most_used_model() -> None:
    row = classification.validation(LOGITS, federation([-1] * 4), np.array([0, 1, 0, 0, 1]))
    assert row["validation_accuracy"] == 3 / 4
    mixed = classification.validation(LOGITS, federation([-1, -1, 0, 4]), np.array([0, 0, 0, 0, 0]))
    assert mixed["validation_accuracy"] == pytest.approx(4 / 5 * 1 + 1 / 5 * 0)
    of_one_group = classification.validation(
        LOGITS, federation([0, 1, 2, 3]), np.zeros(5, np.int64)
    )
    assert of_one_group["validation_accuracy"] == 3 / 4  # the other counts for nothing


@pytest.mark.parametrize("fields", [{}, {"clustering": clustered()}])
def test_on_the_test_examples_it_is_the_accuracy(
    tmp_path: Path, fields: dict[str, Any], monkeypatch: Any
) -> None:
    monkeypatch.setattr(client_actors, "PREDICTED", 7)
    data = planted()
    twice = replace(data, validation=data.test, validation_owner=data.test_owner)
    trial = finished(opened(given(rounds=3, evaluate_every=2, **fields), tmp_path, twice))
    rows = table(trial, "rounds")
    assert rows["validation_accuracy"] == rows["accuracy"]
    assert (
        rows["validation_accuracy"][0] is None and rows["validation_accuracy"][2] > 0.5
    )  # measured when evaluated
    if not fields:
        assert rows["validation_loss"][2] < rows["validation_loss"][1]
