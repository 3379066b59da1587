"""A client attacks others: it finds what was learned by heart, nothing where nothing is, and
never asks about itself.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attacks import client_mia
from attacks._queries import draw_queries
from attacks.client_mia import (
    Config,
    attackers,
    audit,
    data_problems,
    learn,
    reserved,
    teaching_set,
)
from attacks.interfaces import AttackedModel
from attacks.metrics.membership import Outputs, losses
from orchestrator.config.errors import ConfigError
from orchestrator.config.run import resolve
from tests.support.federations import streams
from tests.support.toy_federation import (
    CLIENTS,
    EACH,
    HALVES,
    NONMEMBERS,
    cluster_of,
    columns_of,
    memorized,
    value,
)

FIXED = {"published_share": 0.0}


def attacked(config, data, network, weights, cluster=0, sent=(), own=None, seed=1):
    own, sent = np.full(CLIENTS, cluster) if own is None else own, sent or {cluster: weights}
    model = AttackedModel(
        cluster_of(data, cluster),
        network,
        weights,
        (),
        np.random.default_rng(seed),
        sent,
        own,
        streams(),
    )
    return audit(config, model)


def test_every_client_finds_what_the_model_knows_by_heart(noise, network):
    """Those who trained the model learn on it; the others carry over the threshold of their own,
    which knows theirs.
    """
    models = [
        memorized(network, noise.train[half * 3 * EACH : (half + 1) * 3 * EACH]) for half in (0, 1)
    ]
    found = attacked(Config(**FIXED), noise, network, models[0], sent=models, own=HALVES)
    for subject in (
        "client_mia",
        "client_mia, trained it",
        "client_mia, carried over",
        "client_mia, worst attacker",
    ):
        assert value(found, subject, "balanced_accuracy") > 0.9
        assert value(found, subject, "auc") > 0.95
    assert value(found, "client_mia", "attackers") == CLIENTS
    assert value(found, "client_mia, trained it", "members") == 2 * EACH  # not its own
    assert value(found, "client_mia, carried over", "members") == 3 * EACH
    assert value(found, "client_mia", "nonmembers") == NONMEMBERS / 2
    assert (found.own_risks > 0.9).all()
    assert (found.published_risk, found.risk) == (None, None)


def test_on_a_model_that_saw_none_of_these_examples_the_attack_is_at_chance(noise, network):
    """The attackers trained nothing that is attacked: both models know the non-members of nobody
    at most.
    """
    blank = memorized(network, noise.shadow[:120])
    found = attacked(Config(**FIXED), noise, network, blank, sent=[blank, blank], own=HALVES)
    for name in ("balanced_accuracy", "auc"):
        (row,) = [
            one for one in found.measures if (one.of.name, one.metric) == ("client_mia", name)
        ]
        assert row.low <= 0.5 <= row.high
        assert row.chance == pytest.approx(0.5, abs=0.02)
    assert columns_of(found)["client_mia_worst_attacker"] < 0.65
    assert 0.5 < columns_of(found)["client_mia_worst_attacker_null"] < 0.65


def test_what_is_asked_about_is_not_learned_from_and_what_is_set_aside_is_never_asked_about(
    noise, network
):
    """Broken examples of others, and of nobody that are not set aside, leave what an attacker
    learns as it is.
    """
    config, weights = Config(**FIXED), network.initial(np.random.default_rng(0))
    aside = np.isin(np.arange(NONMEMBERS), reserved(config, noise, streams()))
    assert aside.sum() == NONMEMBERS // 2
    others, unasked = (
        replace(noise.nonmembers, x=np.where(kept[:, None], noise.nonmembers.x, np.nan))
        for kept in (aside, ~aside)
    )
    train = replace(noise.train, x=np.where(noise.owner()[:, None] == 2, noise.train.x, np.nan))
    learned = set()
    for data in (noise, replace(noise, train=train, nonmembers=others)):
        sent = [weights], np.zeros(CLIENTS, int), streams()
        model = AttackedModel(
            cluster_of(data, 0), network, weights, (), np.random.default_rng(0), *sent
        )
        learned.add(client_mia.learned_thresholds(config, model, 2).tobytes())
    assert len(learned) == 1
    drawn = draw_queries(
        10_000,
        replace(noise, nonmembers=unasked),
        np.arange(3),
        np.random.default_rng(0),
        np.flatnonzero(aside),
    )
    assert np.isfinite(drawn.outside.x).all() and (~drawn.member).sum() == NONMEMBERS // 2
    assert drawn.owner[drawn.member].tolist() == np.repeat([0, 1, 2], EACH).tolist()


def test_an_attacker_learns_from_its_own_test_examples_and_hold_outs_if_they_suffice(noise):
    config = Config()
    owned = replace(
        noise,
        test_owner=np.full(10, 0),
        nonmember_owner=np.repeat(np.arange(CLIENTS), NONMEMBERS // CLIENTS),
    )
    assert len(reserved(config, owned, streams())) == 0
    examples, member = teaching_set(config, owned, 0, streams())
    assert (member.sum(), (~member).sum()) == (EACH, 10 + NONMEMBERS // CLIENTS)
    assert examples.x[:EACH].tobytes() == noise.client(0).x.tobytes()
    assert examples.y[EACH : EACH + 10].tolist() == noise.test.y.tolist()
    assert examples.y[EACH + 10 :].tolist() == noise.nonmembers.y[:50].tolist()


def test_only_who_kept_back_too_little_gets_some_of_what_is_set_aside(noise):
    some = replace(
        noise, test_owner=np.full(10, 0)
    )  # client 0 has ten test examples, the others have none
    aside = reserved(Config(), some, streams())
    assert len(aside) == NONMEMBERS // 2
    assert [(~teaching_set(Config(), some, client, streams())[1]).sum() for client in range(3)] == [
        10,
        EACH,
        EACH,
    ]
    stored = {row.tobytes() for row in some.nonmembers.x[aside]}
    drawn = [teaching_set(Config(), some, client, streams())[0].x[EACH:] for client in (1, 2, 1)]
    assert all({row.tobytes() for row in one} <= stored for one in drawn)
    assert drawn[0].tobytes() == drawn[2].tobytes() != drawn[1].tobytes()


def test_an_attacker_is_not_asked_about_what_was_held_out_from_it(noise, network):
    owner = np.where(np.arange(NONMEMBERS) < 240, np.arange(NONMEMBERS) % CLIENTS, -1)
    data = replace(noise, nonmember_owner=owner)
    found = attacked(Config(**FIXED), data, network, memorized(network, noise.train[: 3 * EACH]))
    # 40 of each of three clients less its own 40, and 60 of nobody, of which nothing is set aside.
    assert value(found, "client_mia, trained it", "nonmembers") == 3 * 40 + 60 - 40
    assert value(found, "client_mia, carried over", "nonmembers") == 3 * 40 + 60


def test_by_hand_a_class_with_enough_examples_has_a_threshold_of_its_own():
    """Losses of members and non-members: class 0 is told apart at 1 nat, class 1 at 3, class 2
    has too few.
    """
    wanted = {0: ([0.5] * 3, [1.5] * 3), 1: ([2.0] * 3, [4.0] * 3), 2: ([0.1], [0.2])}
    labels, loss, member = [], [], []
    for label, sides in wanted.items():
        for inside, side in zip((True, False), sides, strict=True):
            labels += [label] * len(side)
            loss += side
            member += [inside] * len(side)
    p = np.exp(-np.array(loss))
    logits = np.log(
        np.stack([np.where(np.array(labels) == c, p, (1 - p) / 2) for c in range(3)], axis=1)
    )
    outputs = Outputs(logits, np.array(labels), np.array(member))
    assert losses(outputs.logits, outputs.labels) == pytest.approx(loss)
    found = learn(outputs, 3, per_class=3)
    assert found[:2] == pytest.approx([1.0, 3.0])
    # Over all classes, 0.35 and 1.0 are as good; the highest threshold on the score is the lowest
    # loss.
    common = learn(outputs, 3, per_class=99)
    assert len(set(common)) == 1 and common[0] == found[2]


def test_who_is_not_drawn_or_has_trained_no_model_yet_does_not_attack(noise, network):
    who = attackers(Config(attackers=2), noise, streams())
    drawn = attacked(
        Config(attackers=2, **FIXED), noise, network, network.initial(np.random.default_rng(0))
    )
    assert len(who) == 2 and np.flatnonzero(~np.isnan(drawn.own_risks)).tolist() == who.tolist()
    assert attackers(Config(attackers=99), noise, streams()).tolist() == list(range(CLIENTS))
    weights = memorized(network, noise.train[: 3 * EACH])
    own = np.array([0, 0, -1, -1, -1, -1])
    found = attacked(Config(**FIXED), noise, network, weights, sent=[weights], own=own)
    assert np.flatnonzero(~np.isnan(found.own_risks)).tolist() == [0, 1]
    assert value(found, "client_mia", "attackers") == 2
    nobody = attacked(
        Config(**FIXED), noise, network, weights, sent=[weights], own=np.full(CLIENTS, -1)
    )
    assert np.isnan(nobody.own_risks).all() and np.isnan(list(columns_of(nobody).values())).all()


def test_choosing_by_the_own_attack_uses_other_examples_than_the_report(noise, network):
    weights = memorized(network, noise.train[: 3 * EACH])
    whole, halved, later = (
        attacked(Config(published_share=share), noise, network, weights, seed=of_round)
        for share, of_round in ((0.0, 1), (0.5, 1), (0.5, 2))
    )
    assert value(halved, "client_mia", "nonmembers") == value(whole, "client_mia", "nonmembers") / 2
    assert not np.array_equal(whole.own_risks, halved.own_risks)
    assert np.array_equal(later.own_risks, halved.own_risks)  # the same examples in every round


def test_who_cannot_learn_a_threshold_does_not_attack(noise):
    few = replace(
        noise, nonmembers=noise.nonmembers[:30], nonmember_owner=noise.nonmember_owner[:30]
    )
    assert data_problems(Config(), few) == []
    assert (
        "needs a client with 10 training examples"
        in data_problems(Config(set_aside=0.1), few)[0][1]
    )
    (field, sentence) = data_problems(Config(set_aside=0.9), few)[0]
    assert (field, sentence[:20]) == ("set_aside", "leaves 3 of 30 non-m")


def test_own_risk_needs_the_attack_of_every_client():
    mir = {
        "rounds": 2,
        "data": "digits",
        "model": "mlp",
        "clustering": {"name": "ifca_mir", "risk_from": "own"},
    }
    for clustering, share in ((mir["clustering"], 0.5), ("ifca_mir", 0)):
        run = resolve({**mir, "clustering": clustering, "attacks": ["shadow_mia", "client_mia"]})
        assert run.attacks[1].config.published_share == share
    for attacks in (["shadow_mia"], ["shadow_mia", {"name": "client_mia", "attackers": 3}]):
        with pytest.raises(ConfigError, match="client_mia"):
            resolve(mir | {"attacks": attacks})
