"""Subjects: models that know people or nobody, which examples are asked about, chance and
intervals over subjects.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attacks.interfaces import AttackedModel, Cluster
from attacks.subject_mia import Config, audit, compared, data_problems, problems, subjects
from datasets.federation import Examples
from orchestrator.config.run import resolve
from tests.support.federations import federation
from tests.support.toy_federation import columns_of

# PEOPLE of each client are trained on; as many are held out, and EACH examples of all.
CLIENTS, PEOPLE, EACH = 2, 12, 6


def examples_of(people):
    """Each holds the number of its person, and of itself."""
    rows = np.column_stack([people, np.arange(len(people))]).astype(np.float32)
    return Examples(rows, np.zeros(len(people), np.int64))


def hospitals():
    """People 0 to 23 are trained on, in the order of the clients, and have fresh examples; 24 to
    47 are held out whole.
    """
    known, strange = np.repeat(np.arange(24), EACH), np.repeat(np.arange(24, 48), EACH)
    fresh = np.concatenate([known, strange])
    parts = {
        "nonmembers": examples_of(fresh),
        "nonmember_owner": fresh % 24 // PEOPLE,
        "shadow": examples_of(known[:0]),
    }
    persons = {"train": known, "nonmembers": fresh, "shadow": known[:0]}
    return federation(examples_of(known), [PEOPLE * EACH] * CLIENTS, persons=persons, **parts)


class Knowing:
    """Stands for a network with the loss ``loss(people, numbers)`` of class 0, and keeps whom it
    was asked about.
    """

    def __init__(self, loss):
        self.loss, self.asked = loss, []

    def load(self, weights):
        pass

    def logits(self, x):
        self.asked += x[:, 0].astype(int).tolist()
        loss = self.loss(x[:, 0].astype(int), x[:, 1].astype(int))
        return np.column_stack([np.zeros(len(x)), np.log(np.expm1(loss))]).astype(np.float32)


def found_of(data, loss, config=None, clients=(0, 1), seed=0):
    network = loss if isinstance(loss, Knowing) else Knowing(loss)
    cluster, streams = Cluster(data, 0, np.array(clients)), lambda *_: np.random.default_rng(0)
    rng = np.random.default_rng(seed)
    model = AttackedModel(cluster, network, None, (), rng, [], np.zeros(CLIENTS, int), streams)
    return audit(config or Config(), model)


def test_a_model_that_knows_people_is_told_from_one_that_knows_examples():
    def people(who, _):
        return np.where(who < 24, 0.1, 1.0)

    assert columns_of(found_of(hospitals(), people))["subject_auc"] == pytest.approx(1)
    for auc, examples in (
        (0.5, "fresh"),
        (1.0, "trained"),
    ):  # all that is fresh has the loss of one whom nobody knows
        knowing = Knowing(None)
        seen = {*hospitals().train.x[:, 1].astype(int)} if examples == "trained" else set()
        knowing.loss = lambda who, n, seen=seen: np.where(
            np.isin(n, [*seen]) & (who < 24), 0.1, 1.0
        )
        assert columns_of(found_of(hospitals(), knowing, Config(examples=examples)))[
            "subject_auc"
        ] == pytest.approx(auc)


@pytest.mark.parametrize("each", [2, 6])
def test_several_examples_tell_what_one_does_not(each):
    """Losses with unit noise and a gap of 1: AUC of means of e is Phi(sqrt(e / 2)), where e is
    all that there are, six.
    """
    from scipy.stats import norm

    values = []
    for seed in range(40):
        noise = np.random.default_rng(seed).normal(5, 1, (48, 48 * EACH))
        found = found_of(
            hospitals(),
            lambda who, n, noise=noise: noise[who, n] - (who < 24),
            Config(each=each),
            seed=seed,
        )
        values.append(columns_of(found)["subject_auc"])
    assert np.mean(values) == pytest.approx(norm.cdf(3**0.5), abs=4 * np.std(values) / 40**0.5)


def test_whom_a_model_is_asked_about():
    data, network = hospitals(), Knowing(lambda who, n: 1.0 + n / 100)
    found_of(data, network, Config(each=3), clients=(1,))
    numbers, counts = np.unique(network.asked, return_counts=True)
    assert numbers.tolist() == [*range(12, 24), *range(36, 48)] and set(counts) == {
        EACH
    }  # of the same client
    persons, network = data.persons["nonmembers"].copy(), Knowing(lambda who, n: 1.0 + n / 100)
    persons[24 * EACH] = (
        25  # one example less of 24, who is client 0's: as many are asked about of all
    )
    found_of(
        replace(data, persons=data.persons | {"nonmembers": persons}),
        network,
        Config(each=3),
        clients=(0,),
    )
    assert len(network.asked) == 24 * (EACH - 1)
    shadow = replace(
        data,
        shadow=examples_of(np.repeat([99], 4)),
        persons=data.persons | {"shadow": np.repeat([99], 4)},
    )
    assert 99 in subjects(Config(), shadow, np.array([0]))[1]
    elsewhere = replace(
        data, persons=data.persons | {"train": np.roll(data.persons["train"], PEOPLE * EACH)}
    )
    inside, outside = subjects(
        Config(), elsewhere, np.array([0])
    )  # client 1 has the fresh ones of these people
    assert not inside and {*outside} == {*range(24, 36)}
    assert np.isnan(
        columns_of(found_of(elsewhere, lambda who, n: 1.0 + n, clients=(0,)))["subject_auc"]
    )


def test_where_nobody_is_known_subjects_are_at_chance_and_intervals_cover_it():
    """300 audits; examples of a person are alike, so that intervals over examples would be too
    narrow.
    """
    rng, values, covered = np.random.default_rng(2), [], []
    data = hospitals()
    for seed in range(300):
        person, example = rng.normal(size=48), rng.normal(size=48 * EACH)
        loss = lambda who, n, p=person, e=example: np.exp(p[who] + 0.5 * e[n])  # noqa: E731
        auc = found_of(data, loss, seed=seed).measures[0]
        values.append(auc.value)
        covered.append(auc.low <= 0.5 <= auc.high)
    print(
        "AUC",
        np.mean(values).round(4),
        "error",
        (np.std(values) / 300**0.5).round(4),
        "coverage",
        np.mean(covered),
    )
    assert abs(np.mean(values) - 0.5) < 4 * np.std(values) / 300**0.5
    assert 0.93 - 0.025 < np.mean(covered) < 0.97 + 0.025


@given(
    st.lists(st.integers(0, 5), min_size=5, max_size=9),
    st.lists(st.integers(0, 5), min_size=5, max_size=9),
)
def test_an_auc_by_counting_pairs(inside, outside):
    auc = compared(np.array(inside, float), np.array(outside, float))
    pairs = [(a > b) + (a == b) / 2 for a in inside for b in outside]
    assert auc.value == pytest.approx(np.mean(pairs)) and 0 <= auc.low <= auc.value <= auc.high <= 1
    assert np.isnan(compared(np.array([np.nan, *inside]), np.array(outside, float)).value)
    apart = compared(np.array(inside) + 6.0, np.array(outside, float))
    assert (
        apart.low <= apart.value <= apart.high
        and apart.value == pytest.approx(1)
        and apart.low < 0.9
    )  # of nine or fewer on each side


def test_data_without_people_subjects_with_one_example_and_too_few_subjects_are_refused():
    data = hospitals()
    assert data_problems(Config(), data) == []
    for warm, count in (("fedavg", 0), ("fedyogi", 1)):
        run = resolve({"rounds": 1, "data": "har", "model": "tcn", "aggregation": warm})
        assert len(problems(Config(), run)) == count
    assert [field for field, _ in data_problems(Config(), replace(data, persons={}))] == [""]
    lonely = data.persons["nonmembers"].copy()
    lonely[0] = 77
    data = replace(data, persons=data.persons | {"nonmembers": lonely})
    assert [field for field, _ in data_problems(Config(), data)] == ["too_few"]
    assert data_problems(Config(too_few="leave_out"), data) == []
    nobody = replace(data, persons=data.persons | {"nonmembers": np.minimum(lonely, 23)})
    assert [field for field, _ in data_problems(Config(too_few="leave_out"), nobody)] == [
        "examples"
    ]
    with pytest.raises(ValueError, match="each"):
        Config(each=1)
