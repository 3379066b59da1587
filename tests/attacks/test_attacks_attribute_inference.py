"""Attributes of rows: models that store the table or nothing, cases by hand, candidates as the
data encode them, chance.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import matthews_corrcoef

from attacks import attribute_inference
from attacks.attribute_inference import Config, attacked, audit, data_problems, guesses, leaked, mcc
from attacks.interfaces import AttackedModel, Cluster
from datasets.federation import Examples, Preparation
from tests.support.federations import federation
from tests.support.toy_federation import columns_of

CLIENTS, EACH, COLUMNS = 4, 60, ("age", "drug", "drug", "drug", "sex")
MODELED = ("csmia", "bb", "bb_ip")  # what is decided by imputation where the model does not decide
seeds = st.integers(0, 2**32 - 1)


def rows(n, rng):
    """An age, one of three drugs that depends on it a little, a sex, and a label that depends on
    all of them a little.
    """
    age, sex = rng.normal(size=n), rng.integers(0, 2, n)
    drug = (rng.random(n) + 0.2 * (age > 0) > 0.6).astype(int) + (rng.random(n) < 0.3)
    y = (age + drug + sex + rng.normal(0, 1.5, n) > 1.5).astype(np.int64)
    return Examples(np.column_stack([age, np.eye(3)[drug], sex]).astype(np.float32), y)


def table(seed=0, **fields):
    rng = np.random.default_rng(seed)
    outside = rows(200, rng)
    made = {
        "columns": COLUMNS,
        "nonmembers": outside,
        "nonmember_owner": np.full(200, -1),
        "shadow": rows(100, rng),
    }
    return federation(rows(CLIENTS * EACH, rng), [EACH] * CLIENTS, **made | fields)


class Answering:
    """Stands for a network that answers as ``answer(x)`` [n, classes] does, and keeps what it
    was asked.
    """

    def __init__(self, answer):
        self.answer, self.asked = answer, []

    def load(self, weights):
        pass

    def logits(self, x):
        self.asked.append(x.copy())
        return self.answer(x).astype(np.float32)


def found_of(data, answer, config=None, seed=0):
    network = answer if isinstance(answer, Answering) else Answering(answer)
    cluster, streams = Cluster(data, 0, np.arange(CLIENTS)), lambda *_: np.random.default_rng(0)
    model = AttackedModel(
        cluster, network, None, (), np.random.default_rng(seed), [], np.zeros(CLIENTS, int), streams
    )
    return audit(config or Config(attribute="drug"), model)


def value(found, subject, metric):
    (one,) = [
        m for m in found.measures if m.of.name.split(", ")[-1] == subject and m.metric == metric
    ]
    return one


def measured(found, name, metric):
    return value(found, "attribute_inference" if name == "bb_ip" else name, metric)


# Oracles


def test_a_model_that_answers_all_rows_alike_leaks_nothing_at_all():
    found = found_of(table(), lambda x: np.tile([0.3, 0.1], (len(x), 1)))
    for name in MODELED:
        leak = measured(found, name, "leak")
        assert leak.value == 0 and leak.low < 0 < leak.high
        assert (
            measured(found, name, "accuracy").value == value(found, "imputation", "accuracy").value
        )
        correlation = measured(found, name, "mcc")
        assert (
            correlation.value
            == correlation.chance
            == columns_of(found)["attribute_imputation_mcc"]
            > 0
        )
    assert (
        columns_of(found)["attribute_leak"] == 0 and columns_of(found)["attribute_imputation"] > 0.4
    )


def test_a_model_that_stores_the_table_leaks_what_imputation_misses():
    """It says the label of a row of the table, and of any other row a label that there is not."""
    data = table(classes=3)
    labels = {row.tobytes(): y for row, y in zip(data.train.x, data.train.y, strict=True)}

    def answer(x):
        return 30.0 * (
            np.array([labels.get(row.tobytes(), 2) for row in x])[:, None] == np.arange(3)
        )

    found = found_of(data, answer)
    imputed = columns_of(found)["attribute_imputation"]
    for name in MODELED:
        assert measured(found, name, "accuracy").value == 1
        assert measured(found, name, "leak").value == pytest.approx(1 - imputed)
        assert measured(found, name, "mcc").value == 1
    assert columns_of(found)["attribute_leak"] == pytest.approx(1 - imputed) and 0.3 < imputed < 0.9


# Cases by hand


def test_each_attack_by_hand():
    """Rows with two values of the column and the label 1: p of class 1 is 0.9, 0.6 / 0.1, 0.4 /
    0.3, 0.8 / 0.5, 0.5.
    """
    p = np.array([[0.9, 0.6], [0.1, 0.4], [0.3, 0.8], [0.5, 0.5]])
    logits = np.log(np.stack([1 - p, p], axis=2))
    imputed = np.array([[0.1, 0.9], [0.9, 0.1], [0.9, 0.1], [0.2, 0.8]])
    answers = guesses(
        logits, np.ones(4, np.int64), imputed, np.array([0.7, 0.3]), mean_loss=-np.log(0.55)
    )
    # Both right: the surer one. None right: the less sure one. One right: that one. Even:
    # imputation.
    assert answers["csmia"].tolist() == [0, 1, 1, 1]
    assert answers["bb"].tolist() == [0, 1, 1, 1]
    # 0.09 < 0.54 / 0.09 > 0.04 / 0.27 > 0.08 / 0.1 < 0.4
    assert answers["bb_ip"].tolist() == [1, 0, 0, 1]
    # Below the mean loss: both, so the prior / none, so the prior / the second / none, so the
    # prior.
    assert answers["yeom"].tolist() == [0, 0, 1, 0]
    assert answers["imputation"].tolist() == [1, 0, 0, 1]


@given(seeds, st.integers(2, 5))
def test_the_correlation_is_that_of_scikit_learn(seed, m):
    rng = np.random.default_rng(seed)
    truth, guess = rng.integers(0, m, 30), rng.integers(0, m, 30)
    guess[:10] = truth[:10]
    assert mcc(truth, guess, m) == pytest.approx(matthews_corrcoef(truth, guess))
    assert mcc(np.zeros(30, int), guess, m) == 0


@given(seeds)
def test_a_leak_is_the_difference_of_four_accuracies(seed):
    rng = np.random.default_rng(seed)
    hit, base, member = rng.random((3, 40)) < 0.5
    member[:2] = True, False
    member = np.sort(member)[::-1]  # members come first
    of = {side: hit[member == side].mean() - base[member == side].mean() for side in (True, False)}
    alike, other = np.zeros(40, int), member.astype(int)
    leak = leaked("x", hit, base, member, alike)
    assert leak.value == pytest.approx(of[True] - of[False])
    assert np.isnan(leaked("x", hit, base, member, other).value)  # no label in common
    opposite = leaked("x", base, hit, member, alike)
    assert (opposite.value, opposite.low) == pytest.approx((-leak.value, -leak.high))


def test_a_leak_is_0_where_members_have_other_labels_and_hits_follow_the_label():
    member, rng = np.arange(2000) < 1000, np.random.default_rng(0)
    label = (rng.random(2000) < np.where(member, 0.8, 0.2)).astype(int)
    found = [
        leaked("x", rng.random(2000) < 0.3 + 0.5 * label, np.zeros(2000, bool), member, label)
        for _ in range(100)
    ]
    assert abs(np.mean([one.value for one in found])) < 0.01
    assert np.mean([one.low <= 0 <= one.high for one in found]) > 0.9


def test_values_are_tried_as_the_data_encode_them_and_nothing_else_of_a_row_is_changed():
    data, network = table(), Answering(lambda x: x[:, :2])
    found_of(data, network)
    places, candidates = attacked(Config(attribute="drug"), data)
    assert places.tolist() == [1, 2, 3] and candidates.tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    truth = np.concatenate([data.train.x, data.nonmembers.x])
    for tried, candidate in zip(network.asked[:3], candidates, strict=True):
        assert (tried[:, 1:4] == candidate).all()
        np.testing.assert_array_equal(
            np.delete(tried, places, axis=1), np.delete(truth, places, axis=1)
        )


def test_imputation_never_sees_an_attacked_row(monkeypatch):
    seen = []
    original = attribute_inference.imputation

    def spy(known, *others):
        seen.extend(known[:, 0].tolist())
        return original(known, *others)

    monkeypatch.setattr(attribute_inference, "imputation", spy)
    for data in (
        table(),
        table(shadow=rows(0, np.random.default_rng(0))),
    ):  # a shadow set; a half of the non-members
        network = Answering(lambda x: x[:, :2])
        found_of(data, network)
        assert seen and not {*seen} & {*network.asked[0][:, 0].tolist()}
        seen.clear()


# Chance


def test_a_model_that_was_trained_on_nobody_is_at_chance_and_intervals_cover_it(monkeypatch):
    """200 audits: everything is drawn anew, and the model is a random function of the row."""
    monkeypatch.setattr(attribute_inference, "TREES", 4)
    monkeypatch.setattr(attribute_inference, "SIZES", ())
    rng, values, covered = np.random.default_rng(5), [], []
    names = (*MODELED, "yeom")
    for audit_ in range(200):
        first, second = rng.normal(size=(5, 8)), rng.normal(size=(8, 2))
        answer = lambda x, w=first, v=second: np.tanh(x @ w) @ v  # noqa: E731
        found = found_of(table(audit_), answer, Config(attribute="drug", queries=100), seed=audit_)
        leaks = [measured(found, name, "leak") for name in names]
        values.append([one.value for one in leaks])
        covered.append([one.low <= 0 <= one.high for one in leaks])
    means, errors, coverage = (
        np.mean(values, axis=0),
        np.std(values, axis=0) / 200**0.5,
        np.mean(covered, axis=0),
    )
    print("leaks", means.round(4), "errors", errors.round(4), "coverage", coverage.round(3))
    assert (np.abs(means) < 4 * errors).all()
    margin = 2 * (0.95 * 0.05 / 200) ** 0.5
    assert (coverage > 0.93 - margin).all() and (coverage < 0.97 + margin).all()


def test_the_correlation_of_guesses_that_know_nothing_is_covered():
    rng, covered, values = np.random.default_rng(6), [], []
    for _ in range(300):
        truth, guess = rng.choice(3, 100, p=[0.6, 0.3, 0.1]), rng.choice(3, 100, p=[0.5, 0.3, 0.2])
        one = attribute_inference.correlation("x", truth, guess, 3, 0.0, rng)
        values.append(one.value)
        covered.append(one.low <= 0 <= one.high)
    print("mcc", np.mean(values).round(4), "coverage", np.mean(covered).round(3))
    assert abs(np.mean(values)) < 4 * np.std(values) / 300**0.5
    assert 0.93 - 0.025 < np.mean(covered) < 0.97 + 0.025


# Refused


@pytest.mark.parametrize(
    ("change", "attribute"),
    [
        ({}, "weight"),  # no input
        ({}, "age"),  # a value for each row
        ({4: 1.0}, "sex"),  # constant
        ({4: "y"}, "sex"),  # follows from the label
    ],
)
def test_columns_that_cannot_be_attacked_are_refused(change, attribute):
    data = table()
    for part in (data.train, data.nonmembers, data.shadow):
        for place, content in change.items():
            part.x[:, place] = part.y if content == "y" else content
    config = Config(attribute=attribute)
    assert [field for field, _ in data_problems(config, data)] == ["attribute"]
    assert attacked(Config(), data)[0].tolist() == [1, 2, 3]  # auto: the first that can be
    assert data_problems(Config(attribute="4" if change else "0"), replace(data, columns=()))
    assert data_problems(Config(attribute="1"), replace(data, columns=())) == []


def test_turned_images_and_too_few_rows_are_refused():
    data, none = table(), rows(0, np.random.default_rng(0))
    assert [
        field
        for field, _ in data_problems(Config(), replace(data, prepare=Preparation("rotation")))
    ] == [""]
    few = replace(
        data, shadow=none, nonmembers=data.nonmembers[:20], nonmember_owner=np.full(20, -1)
    )
    assert [field for field, _ in data_problems(Config(), few)] == [""]
    of_another = columns_of(
        found_of(replace(data, nonmember_owner=np.full(200, CLIENTS)), lambda x: x[:, :2])
    )
    assert set(of_another) == set(columns_of(found_of(data, lambda x: x[:, :2])))
    assert np.isnan(list(of_another.values())).all()
