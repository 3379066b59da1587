"""Client inference: the published difference by hand, and what the paired test makes of losses that are given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from algorithms.core.messages import Weights
from attacks import cia
from attacks._cia_worlds import KINDS, Replica, pairs
from attacks.cia import Config
from attacks.interfaces import AttackedModel, Cluster
from attacks.metrics import paired
from orchestrator.config.run import check, resolve
from tests.support.planted import given, planted

pytestmark = pytest.mark.usefixtures("one_thread")


class Told:
    """A network whose loss on an example is what the example's first feature says."""

    def load(self, weights: Weights) -> None: ...

    def logits(self, x: np.ndarray) -> np.ndarray:
        wanted = np.exp(-x[:, 0].astype(float))
        return np.stack([np.log(wanted), np.log1p(-wanted)], axis=1).astype(np.float32)


def telling():
    """Three clients; the target's training examples have a loss of 2, its test examples 3, those of others 1.

    Of the non-members, the target's have a loss of 5 and those of others 4.
    """
    data = planted(clients=3, each=20, minority=1)
    train, test, out = data.train.x.copy(), data.test.x.copy(), data.nonmembers.x.copy()
    train[data.owner() == 2, 0], test[:, 0] = 2, np.where(data.test_owner == 2, 3, 1)
    out[:, 0] = np.where(data.nonmember_owner == 2, 5, 4)
    zero = lambda examples, x: replace(examples, x=x, y=np.zeros(len(x), np.int64))  # noqa: E731
    return replace(
        data, train=zero(data.train, train), test=zero(data.test, test), nonmembers=zero(data.nonmembers, out)
    )


def test_by_hand_the_losses_and_the_published_difference():
    network, weights = Told(), Weights(np.zeros(0), np.zeros(0))
    measured = cia.measure(Config(), telling(), network, weights)
    assert measured == pytest.approx({"target": 2, "nobody": 4, "distinct": 1})
    assert cia.measure(Config(shadow="disjoint"), telling(), network, weights)["target"] == pytest.approx(3)
    audit = cia.audit(
        Config(),
        AttackedModel(Cluster(telling(), 0, np.zeros(3, int)), network, weights, (), np.random.default_rng(0)),
    )
    assert audit.risk is None
    assert audit.metrics["cia_aggregated_loss"] == pytest.approx((8 + 8 + 24) / 24)
    assert audit.metrics["cia_difference"] == pytest.approx((2 - 5 / 3) / 2)


def found(count: int, rounds: dict[int, dict[str, float]], spread: float = 0.0):
    """Measurements of ``count`` pairs: the loss on the target by round and world, plus what each pair adds to all."""
    worlds = []
    for replica in pairs(count, max(rounds)):
        own = spread * replica.number
        by_round = {
            r: {"target": losses[replica.world] + own, "nobody": 1.0 + own, "distinct": 0.5}
            for r, losses in rounds.items()
        }
        worlds.append((replica, by_round))
    return worlds


HIDDEN = {"in": 1.0, "stand_in": 1.0, "zero": 1.0, "reference": 1.0}
SHOWN = HIDDEN | {"in": 0.5, "zero": 2.0}


def compared(config: Config, worlds) -> dict[str, float]:
    return dict(cia.compare(config, worlds, np.random.default_rng(0)).metrics)


def test_the_last_measured_round_is_the_headline():
    """In a sweep of issue 16, 0.09 of round 1 was printed beside the accuracy of round 5, where it was 1."""
    metrics = compared(Config(rounds=(1, 5), replicas=8), found(8, {1: HIDDEN, 5: SHOWN}))
    assert (metrics["cia_auc"], metrics["cia_auc_round_1"], metrics["cia_auc_round_5"]) == (1, 0.5, 1)
    assert (metrics["cia_round"], metrics["cia_pairs"], metrics["cia_auc_p"]) == (5, 8, 2 / 2**8)


def test_all_that_the_paired_test_reports_by_hand():
    metrics = compared(Config(rounds=(1,), replicas=16), found(16, {1: SHOWN}))
    assert metrics["cia_auc"] == metrics["cia_zero_auc"] == metrics["cia_advantage"] == 1
    assert metrics["cia_balanced_accuracy"] == metrics["cia_auc_high"] == 1
    assert metrics["cia_auc_low"] == metrics["cia_low_most"] == pytest.approx(0.8804, abs=1e-3)
    assert metrics["cia_p_least"] == metrics["cia_auc_p"] == 2**-15
    assert metrics["cia_epsilon_most"] == pytest.approx(1.35, abs=0.01)
    assert (metrics["cia_auc_nobody"], metrics["cia_auc_nobody_p"]) == (0.5, 1)
    assert metrics["cia_stand_in_distinct"] == 0.5
    assert "cia_federations" not in metrics


def test_the_paired_test_has_an_epsilon_and_what_half_of_the_pairs_certify():
    """Of all pairs told apart: a finite estimate, no upper end, and no more than eight runs of either kind can show."""
    metrics = compared(Config(rounds=(1,), replicas=16), found(16, {1: SHOWN}))
    for name in ("cia_epsilon", "cia_zero_epsilon"):
        assert metrics[f"{name}_low"] < metrics[name] < 30 and np.isnan(metrics[f"{name}_high"])
        assert metrics[f"{name}_certified"] == pytest.approx(paired.most_epsilon(8), abs=1e-3)
    hidden = compared(Config(rounds=(1,), replicas=16), found(16, {1: HIDDEN}))
    assert hidden["cia_epsilon"] == hidden["cia_epsilon_low"] == hidden["cia_epsilon_certified"] == 0
    one = compared(Config(rounds=(1,), replicas=2, interval=False), found(2, {1: SHOWN}))
    assert one["cia_epsilon"] > 0 and np.isnan(one["cia_epsilon_certified"]) and "cia_epsilon_low" not in one


def test_an_attacker_whose_decision_is_the_wrong_way_round_succeeds():
    metrics = compared(Config(rounds=(1,), replicas=8), found(8, {1: HIDDEN | {"in": 2.0}}))
    assert metrics["cia_auc"] == 0
    assert metrics["cia_advantage"] == metrics["cia_balanced_accuracy"] == 1
    assert metrics["cia_auc_high"] == pytest.approx(1 - metrics["cia_low_most"])


def test_a_reference_takes_away_what_differs_from_pair_to_pair():
    worlds = found(8, {1: SHOWN}, spread=3.0)
    assert compared(Config(rounds=(1,), replicas=8), worlds)["cia_auc"] == 1
    alone = compared(Config(rounds=(1,), replicas=8, score="loss"), worlds)
    assert alone["cia_auc"] == 0.5


def test_without_an_interval_there_is_an_auc_and_an_exact_p():
    metrics = compared(Config(rounds=(1,), replicas=4, interval=False), found(4, {1: SHOWN}))
    assert (metrics["cia_auc"], metrics["cia_auc_p"]) == (1, 2 / 2**4)
    assert not {"cia_auc_low", "cia_zero_auc_high", "cia_balanced_accuracy"} & set(metrics)
    assert np.isnan(metrics["cia_low_most"])


def test_pairs_with_a_federation_that_diverged_are_left_out_and_too_few_decide_nothing():
    def without(worlds, lost):
        return [(one, {} if (one.world, one.number) in lost else by_round) for one, by_round in worlds]

    worlds, config = found(8, {1: SHOWN}), Config(rounds=(1,), replicas=8)
    metrics = compared(config, without(worlds, {("zero", 3)}))
    assert (metrics["cia_pairs"], metrics["cia_auc"], metrics["cia_auc_p"]) == (7, 1, 2 / 2**7)
    assert np.isnan(metrics["cia_auc_low"])  # fewer than eight pairs
    metrics = compared(config, without(worlds, {("reference", number) for number in range(7)}))
    assert metrics["cia_pairs"] == 1 and np.isnan(metrics["cia_auc"])
    metrics = compared(config, without(worlds, {(kind, number) for kind in KINDS for number in range(8)}))
    assert metrics["cia_pairs"] == 0 and np.isnan(metrics["cia_auc"]) and metrics["cia_round"] == 1


def test_a_pair_has_four_worlds_and_one_number():
    wanted = cia.replicas(Config(replicas=3, rounds=(1, 5, 20), interval=False), rounds=7)
    assert [(one.world, one.number) for one in wanted] == [(kind, number) for number in range(3) for kind in KINDS]
    assert {one.rounds for one in wanted} == {5}
    assert cia.replicas(Config(replicas=0), 7) == ()
    assert cia.replicas(Config(rounds=(5,)), 3) == ()
    assert Replica("in", 0, 5) in wanted


@pytest.mark.parametrize(("rounds", "expected"), [(1, (1,)), (7, (1, 7))])
def test_by_default_the_first_and_the_last_round_are_measured(rounds, expected):
    config = resolve(given(rounds=rounds, attacks=["cia"])).attacks[0].config
    assert config.rounds == expected
    assert [r for r in range(1, rounds + 1) if cia.looks_after(config, r)] == list(expected)


def test_what_cannot_be_attacked_is_refused():
    wrong = [
        (given(attacks=["cia"], clustering="ifca"), "one global model"),
        (given(attacks=[{"name": "cia", "target": 20}]), "numbered from 0; got 20"),
        (given(attacks=[{"name": "cia", "replicas": 1}]), "0 or at least 8; got 1"),
        (given(attacks=[{"name": "cia", "replicas": 1, "interval": False}]), "0 or at least 2; got 1"),
        (given(attacks=[{"name": "cia", "replicas": 7}]), "at least 8 pairs of federations; got 7"),
        (given(attacks=[{"name": "cia", "rounds": [9]}]), "no round of the paired test is one of the run's 4; got 9"),
        (given(attacks=[{"name": "cia", "rounds": list(range(1, 12))}]), "after at most 10 rounds; got 11"),
    ]
    for run, sentence in wrong:
        assert sentence in " ".join(str(problem) for problem in check(run)[1])
    for replicas, interval in ((0, True), (8, True), (7, False), (2, False)):
        fields = {"replicas": replicas} | ({} if interval else {"interval": False})
        assert check(given(attacks=[{"name": "cia", **fields}]))[1] == []
