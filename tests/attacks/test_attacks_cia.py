"""Client inference: the published difference by hand, and a paired test that knows what it can and cannot tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from algorithms.core.messages import Weights
from attacks import cia
from attacks.cia import Config, Replica
from attacks.interfaces import AttackedModel, Cluster
from datasets.federation import DataError
from orchestrator.config.run import check, resolve
from tests.support.inline import inline_trial
from tests.support.planted import finished, given, planted, table

pytestmark = pytest.mark.usefixtures("one_thread")


class Told:
    """A network whose loss on an example is what the example's first feature says."""

    def load(self, weights: Weights) -> None: ...

    def logits(self, x: np.ndarray) -> np.ndarray:
        wanted = np.exp(-x[:, 0].astype(float))
        return np.stack([np.log(wanted), np.log1p(-wanted)], axis=1).astype(np.float32)


def telling():
    """Three clients; the target's training examples have a loss of 2, its test examples 3, the others' tests 1."""
    data = planted(clients=3, each=20, minority=1)
    train, test = data.train.x.copy(), data.test.x.copy()
    train[data.owner() == 2, 0], test[:, 0] = 2, np.where(data.test_owner == 2, 3, 1)
    zero = lambda examples, x: replace(examples, x=x, y=np.zeros(len(x), np.int64))  # noqa: E731
    return replace(data, train=zero(data.train, train), test=zero(data.test, test))


def test_by_hand_the_losses_and_the_published_difference():
    network, weights = Told(), Weights(np.zeros(0), np.zeros(0))
    measured = cia.measure(Config(), telling(), network, weights)
    assert measured == pytest.approx({"target": 2, "clients": (8 + 8 + 24) / 24, "others": 1})
    assert cia.measure(Config(shadow="disjoint"), telling(), network, weights)["target"] == pytest.approx(3)
    audit = cia.audit(
        Config(),
        AttackedModel(Cluster(telling(), 0, np.zeros(3, int)), network, weights, (), np.random.default_rng(0)),
    )
    assert audit.risk is None
    assert audit.metrics["cia_difference"] == pytest.approx((2 - 5 / 3) / 2)


@pytest.mark.parametrize(("share", "examples"), [(0.1, 2), (0.01, 1), (1, 20)])
def test_the_attacker_holds_a_share_of_the_targets_examples(share, examples):
    data = telling()
    held = cia.attacker_examples(Config(shadow_share=share), data)
    assert len(held) == examples
    assert {row.tobytes() for row in held.x} <= {row.tobytes() for row in data.client(2).x}


def test_a_target_without_test_examples_is_a_sentence():
    data = replace(telling(), test_owner=np.full(24, -1))
    with pytest.raises(DataError, match="client 2 of planted has no test examples of its own; use shadow: subset"):
        cia.attacker_examples(Config(shadow="disjoint"), data)


def test_by_hand_a_separated_and_a_useless_score():
    inside, rng = np.arange(8) < 4, np.random.default_rng(0)
    apart = cia.paired_test(np.array([7.0, 6, 7, 8, 1, 2, 1, 2]), inside, 200, rng)
    assert apart == {"cia_auc": 1, "cia_auc_low": 1, "cia_auc_high": 1, "cia_balanced_accuracy": 1}
    useless = cia.paired_test(np.ones(8), inside, 200, rng)
    assert (
        useless["cia_auc"]
        == useless["cia_auc_low"]
        == useless["cia_auc_high"]
        == useless["cia_balanced_accuracy"]
        == 0.5
    )


def test_scores_of_one_distribution_have_an_interval_around_one_half():
    rng = np.random.default_rng(1)
    found = cia.paired_test(rng.normal(size=200), np.arange(200) < 100, 500, rng)
    assert found["cia_auc_low"] < 0.5 < found["cia_auc_high"]
    assert 0.1 < found["cia_auc_high"] - found["cia_auc_low"] < 0.25


def test_half_are_trained_with_the_target_and_no_two_are_alike():
    wanted = cia.replicas(Config(replicas=3, rounds=(1, 5, 20)), rounds=7)
    assert [one.inside for one in wanted] == [True] * 3 + [False] * 3
    assert {one.rounds for one in wanted} == {5}
    assert len({one.number for one in wanted}) == 6
    assert cia.replicas(Config(replicas=0), 7) == ()
    assert cia.replicas(Config(rounds=(5,)), 3) == ()


def test_the_first_round_is_the_headline():
    found = [(Replica(i < 2, i, 2), {1: {"target": float(i >= 2)}, 2: {"target": 1.0}}) for i in range(4)]
    metrics = cia.compare(Config(rounds=(1, 2)), found, np.random.default_rng(0)).metrics
    assert (metrics["cia_auc"], metrics["cia_auc_round_1"], metrics["cia_auc_round_2"]) == (1, 1, 0.5)


def test_a_federation_without_a_client_is_that_of_the_others():
    data = planted(clients=4, each=[5, 6, 7, 8], minority=1)
    less = data.without(1)
    assert less.sizes.tolist() == [5, 7, 8]
    for old, new in ((0, 0), (2, 1), (3, 2)):
        assert (data.client(old).x == less.client(new).x).all()
        assert (data.test[data.test_owner == old].x == less.test[less.test_owner == new].x).all()
    assert set(less.test_owner) == set(less.nonmember_owner) == {0, 1, 2}
    assert np.shares_memory(data.without(3).train.x, data.train.x)


def test_what_cannot_be_attacked_is_refused():
    wrong = [
        (given(attacks=["cia"], clustering="ifca"), "one global model"),
        (given(attacks=[{"name": "cia", "target": 20}]), "numbered from 0; got 20"),
        (given(attacks=[{"name": "cia", "replicas": 1}]), "0 or at least 2 are needed"),
    ]
    for run, sentence in wrong:
        assert sentence in " ".join(str(problem) for problem in check(run)[1])


def test_a_run_trains_its_replicas_and_reports_them(tmp_path):
    """A lonely example's owner among few: the model that has memorized it is told from the one that has not."""
    run = given(
        rounds=2,
        training={"epochs": 20, "lr": 1.0},
        attacks=[{"name": "cia", "replicas": 6, "rounds": [1, 2], "shadow_share": 1.0, "bootstrap": 100}],
    )
    data = planted(clients=2, each=12, minority=1, features=40)  # the target's labels follow a rule of its own
    trial = finished(inline_trial(run, tmp_path, data))
    row = {name: values[-1] for name, values in table(trial, "rounds").items()}
    assert row["cia_auc"] == row["cia_auc_round_1"] == row["cia_auc_round_2"] == 1
    assert len(list((tmp_path / "shadows").glob("replica-*.json"))) == 12
    assert {"auc_round_1", "difference"} <= {name.removeprefix("cia_") for name in table(trial, "attacks")["metric"]}
    assert resolve(run).attacks[0].config.replicas == 6


def test_federations_that_diverge_are_left_out_and_too_few_decide_nothing():
    found = [(Replica(i < 3, i, 1), {1: {"target": float(i >= 3)}} if i % 3 else {}) for i in range(6)]
    metrics = cia.compare(Config(rounds=(1,)), found, np.random.default_rng(0)).metrics
    assert (metrics["cia_auc"], metrics["cia_federations"]) == (1, 4)
    alone = cia.compare(Config(rounds=(1,)), found[:5], np.random.default_rng(0)).metrics
    assert np.isnan(alone["cia_auc"]) and alone["cia_federations"] == 3
