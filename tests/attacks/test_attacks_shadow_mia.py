"""The shadow attack on small federations: whom it asks, and whether it finds what is there."""

from dataclasses import replace

import numpy as np
import pytest

from algorithms.core.network import Network
from attacks import shadow_mia
from attacks.interfaces import AttackedModel, Cluster
from attacks.metrics.membership import measure
from attacks.shadow_mia import Config, audit
from datasets.federation import DataError, Examples, Federation
from tests.support.toy_federation import (
    CLIENTS,
    EACH,
    HALVES,
    NONMEMBERS,
    SHADOWS,
    memorized,
    network_for,
    shadows_of,
    value,
)


def attacked(config, data, network, weights, shadows, cluster=0, seed=1):
    """The audit of the model ``weights``, which the clients of ``cluster`` use."""
    rng = np.random.default_rng(seed)
    return audit(config, AttackedModel(Cluster(data, cluster, HALVES), network, weights, shadows, rng))


@pytest.mark.parametrize("signal", ["oracle", "server_only"])
@pytest.mark.parametrize("attack_model", ["mlp", "mlp_per_class"])
def test_a_model_that_knows_its_examples_by_heart_gives_them_away(noise, network, attack_model, signal):
    config = Config(attack_model=attack_model, signal=signal)
    weights = memorized(network, noise.train[: 3 * EACH])
    found = attacked(config, noise, network, weights, shadows_of(config, noise, network))
    assert found.published_risk > (0.9 if signal == "oracle" else 0.8)
    for attack in ("shadow_mia", "loss_threshold", "confidence", "maximum"):
        assert value(found, attack, "balanced_accuracy") > 0.9
        assert value(found, attack, "members") == value(found, attack, "nonmembers") == 3 * EACH
    assert value(found, "model", "gap") > 0.5
    assert value(found, "shadows", "accuracy") == 1.0


def test_where_membership_was_shuffled_the_attack_is_at_chance(noise, network):
    """The model knows half of the members and half of the non-members, so that being one tells nothing."""
    config = Config(queries=120)
    known = np.random.default_rng(2).permutation(240)
    mixed = Examples(
        np.concatenate([noise.train.x[:120], noise.nonmembers.x[:120]])[known],
        np.concatenate([noise.train.y[:120], noise.nonmembers.y[:120]])[known],
    )
    weights = memorized(network, Examples(*(np.concatenate([part[:60], part[120:180]]) for part in (mixed.x, mixed.y))))
    train = Examples(
        np.concatenate([mixed.x[:120], noise.train.x[120:]]), np.concatenate([mixed.y[:120], noise.train.y[120:]])
    )
    data = replace(noise, train=train, nonmembers=mixed[120:], nonmember_owner=np.full(120, -1))
    found = attacked(config, data, network, weights, shadows_of(config, data, network))
    tpr, tnr = value(found, "shadow_mia", "tpr"), value(found, "shadow_mia", "tnr")
    interval = 1.96 * np.sqrt((tpr * (1 - tpr) + tnr * (1 - tnr)) / 120) / 2
    assert interval > 0.05
    assert found.risk == pytest.approx(0.5, abs=interval)


def test_shuffled_membership_is_covered_by_its_binomial_interval(noise, network):
    weights = memorized(network, noise.train[: 3 * EACH])
    found = attacked(Config(), noise, network, weights, shadows_of(Config(), noise, network))
    mine = found.scores.attack == "shadow_mia"
    scores, member = found.scores.score[mine], found.scores.member[mine]
    rng, inside = np.random.default_rng(3), 0
    for _ in range(400):
        shuffled = measure(scores, rng.permutation(member))
        variance = sum(shuffled[rate] * (1 - shuffled[rate]) for rate in ("tpr", "tnr")) / (3 * EACH) / 4
        inside += abs(shuffled["balanced_accuracy"] - 0.5) <= 1.96 * np.sqrt(variance)
    # Shuffling draws without replacement, which varies no more than the binomial.
    assert inside / 400 > 0.92


def test_an_audit_repeats_itself_bit_for_bit(noise, network):
    weights, shadows = memorized(network, noise.train[: 3 * EACH]), shadows_of(Config(shadows=1), noise, network, 0.5)
    once, again = (attacked(Config(shadows=1), noise, network, weights, shadows, seed=5) for _ in range(2))
    assert once.measures == again.measures
    assert once.scores.score.tobytes() == again.scores.score.tobytes()


def test_the_server_alone_needs_no_example_of_a_client(noise, network):
    config = Config(signal="server_only", shadows=2)
    poisoned = replace(noise, train=Examples(np.full_like(noise.train.x, np.nan), np.zeros_like(noise.train.y)))
    weights = network.initial(np.random.default_rng(0))
    clean, blind = (
        attacked(config, data, network, weights, shadows_of(config, data, network)) for data in (noise, poisoned)
    )
    assert blind.published_risk == clean.published_risk > 0.8
    # What only the oracle knows is then unknown, and not 0.
    assert np.isnan(value(blind, "shadow_mia", "balanced_accuracy"))
    assert np.isnan(value(blind, "maximum", "auc"))


# Whom it asks


class Listening(Network):
    """A network that keeps what it was asked since it was last loaded."""

    def load(self, weights):
        self.heard = []
        super().load(weights)

    def logits(self, x, batch=1000):
        self.heard.append(x)
        return super().logits(x, batch)


@pytest.fixture(scope="module")
def listening() -> Listening:
    return network_for((1, 8, 8), hidden=(), kind=Listening)


def asked(config: Config, data: Federation, listening: Listening, cluster: int = 0):
    """Members, non-members and the audit itself."""
    weights = listening.initial(np.random.default_rng(0))
    shadows = shadows_of(config, data, listening, accuracy=0.1, cluster=cluster)
    found = attacked(config, data, listening, weights, shadows, cluster)
    return *listening.heard, found


def rows(x: np.ndarray) -> set[bytes]:
    return {example.tobytes() for example in x}


def test_members_are_the_clusters_and_non_members_look_like_them(images, listening):
    members, nonmembers, found = asked(Config(shadows=1, queries=50), images, listening, cluster=1)
    assert len(members) == len(nonmembers) == 50
    assert rows(members) <= rows(images.train.x[3 * EACH :])
    likely = [rows(images.prepare(images.nonmembers.x, np.full(NONMEMBERS, strength))) for strength in (5, 10, 15)]
    shares = [len(rows(nonmembers) & looks) for looks in likely]
    assert sum(shares) == 50
    assert min(shares) > 5
    assert len(found.scores.score) == 3 * 100
    assert set(found.scores.client[found.scores.member]) == {3, 4, 5}
    assert set(found.scores.client[~found.scores.member]) == {-1}


def test_unrotated_non_members_are_left_as_they_are(images, listening):
    config = Config(shadows=1, nonmember_transform="unrotated")
    _, nonmembers, _ = asked(config, images, listening)
    assert rows(nonmembers) <= rows(images.prepare(images.nonmembers.x, np.zeros(NONMEMBERS)))


def test_of_examples_that_clients_held_out_only_the_clusters_are_asked(images, listening):
    data = replace(images, nonmember_owner=np.arange(NONMEMBERS) % CLIENTS)
    members, nonmembers, found = asked(Config(shadows=1), data, listening)
    own = data.nonmember_owner < 3
    assert len(members) == len(nonmembers) == 3 * EACH < own.sum()
    assert rows(nonmembers) <= rows(data.prepare(data.nonmembers.x[own], data.strengths[data.nonmember_owner[own]]))
    assert set(found.scores.client) == {0, 1, 2}


def test_the_shadow_set_is_never_asked(images, listening):
    *queries, _ = asked(Config(shadows=1, shadow_transform="none", nonmember_transform="unrotated"), images, listening)
    shadow = rows(images.prepare(images.shadow.x, np.zeros(SHADOWS)))
    assert all(not rows(x) & shadow for x in queries)


def test_as_many_members_are_asked_as_there_are_non_members(images, listening):
    data = replace(images, nonmembers=images.nonmembers[:7], nonmember_owner=images.nonmember_owner[:7])
    members, nonmembers, _ = asked(Config(shadows=1), data, listening)
    assert len(members) == len(nonmembers) == 7


def test_a_cluster_without_a_held_out_example_cannot_be_attacked(images, listening):
    data = replace(images, nonmember_owner=np.full(NONMEMBERS, 5))
    with pytest.raises(DataError, match="no held-out example"):
        asked(Config(shadows=1), data, listening)


def test_the_attack_is_trained_on_no_more_vectors_than_asked(images, listening, monkeypatch):
    seen = []
    fit = shadow_mia._attack_models.fit
    monkeypatch.setattr(
        shadow_mia._attack_models, "fit", lambda name, shadow, rng: seen.append(len(shadow)) or fit(name, shadow, rng)
    )
    asked(Config(shadows=2, attack_examples=90), images, listening)
    asked(Config(shadows=2), images, listening)
    assert seen == [90, 2 * 2 * 3 * EACH]
