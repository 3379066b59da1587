"""Source inference: whose example it is, by hand, by a slow loop, and on models that know their
examples by heart.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algorithms.core.messages import Weights
from algorithms.interfaces import Outcome
from attacks import sia
from attacks.interfaces import SeenRound, SeenUpdates
from attacks.sia import Config, calibrated, conclude, observe
from datasets.federation import DataError, Examples
from orchestrator.trial.random_streams import stream
from tests.support.federations import federation
from tests.support.passive import fixed
from tests.support.toy_federation import CLASSES, CLIENTS, EACH, columns_of


def dealt(sizes, tests=8):
    """Clients with ``sizes`` training examples and ``tests`` test examples each, all of them
    different.
    """
    clients, train = len(sizes), sum(sizes)
    x = np.arange(train + clients * tests, dtype=np.float32)[:, None]
    examples = Examples(x, np.arange(len(x)) % 2)
    owner = np.repeat(np.arange(clients), tests)
    return federation(examples[:train], sizes, test=examples[train:], test_owner=owner)


def concluded(losses, config=None, data=None, clients=None):
    """The exposure that follows from ``losses`` [models, owners, n], of all clients unless said
    otherwise.
    """
    losses = np.asarray(losses, float)
    clients = np.arange(losses.shape[1]) if clients is None else clients
    data = data if data is not None else dealt([losses.shape[2]] * losses.shape[1])
    observed = losses.reshape(len(losses), -1)
    return conclude(config or Config(), SeenRound(data, observed, clients, 0, fixed))


def seen(data, network, weights, config=None, clients=None):
    clients = tuple(range(len(weights))) if clients is None else clients
    params, buffers = np.stack([w.params for w in weights]), np.stack([w.buffers for w in weights])
    assignment = np.zeros(len(weights), int)
    seen = SeenUpdates(
        data, network, [weights[0]], assignment, params, buffers, clients, fixed, 0, lambda *_: None
    )
    return observe(config or Config(), seen)


def test_two_clients_by_hand():
    """Client 0 is found on three of four examples, client 1 on one; a tie falls to client 0."""
    own, other = [[1, 1, 1, 5], [2, 2, 2, 2]], [[2, 2, 2, 2], [3, 1, 3, 2]]
    found = concluded([[own[0], other[0]], [own[1], other[1]]])  # [models, owners, n]
    np.testing.assert_array_equal(found.clients["sia_accuracy"], [0.75, 0.25])
    np.testing.assert_array_equal(found.clients["target_loss"], [2, 2.25])
    metrics = columns_of(found)
    assert metrics["sia_mean"] == metrics["sia_chance"] == 0.5
    assert metrics["eod"] == 0.5 and metrics["sia_mad"] == 0.25
    assert metrics["sia_cov"] == pytest.approx(0.25 / 0.5)
    assert metrics["sia_fi"] == pytest.approx(1 / 1.25)
    assert metrics["sia_sen"] == pytest.approx(0.5 - 0.25 / 2)
    # Owner 0's examples lose 2 and 2 under the two models, owner 1's 2 and 2.25.
    assert metrics["loss_cov"] == pytest.approx((0 + 0.125 / 2.125) / 2)
    assert metrics["loss_fi"] == pytest.approx(1 / (1 + metrics["loss_cov"] ** 2))
    assert metrics["loss_mad"] == pytest.approx((0 + 0.125) / 2)
    assert 0 < metrics["eod_null"] < 1
    # Sen's welfare of 1 - accuracy is its mean less half the mean absolute difference, under
    # permuted owners, too.
    assert metrics["sia_mean_null"] == pytest.approx(
        1 - metrics["sen_null"] - metrics["mad_null"] / 2
    )
    rows = {one.of.name: [one.value, one.low, one.high, one.chance] for one in found.measures}
    assert rows["client_0"] == pytest.approx(
        [0.75, 0.3006, 0.9544, 0.5], abs=1e-4
    )  # Wilson's interval
    assert rows["client_1"] == pytest.approx([0.25, 0.0456, 0.6994, 0.5], abs=1e-4)


def slow(losses):
    """Equation 5 and the metrics of section 5.2, example by example."""
    models, owners, n = losses.shape
    found = []
    for i in range(owners):
        hits = 0
        for r in range(n):
            guess = 0
            for k in range(models):
                if losses[k, i, r] < losses[guess, i, r]:
                    guess = k
            hits += guess == i
        found.append(hits / n)
    spreads = []
    for i in range(owners):
        own = [float(np.mean(losses[k, i])) for k in range(models)]
        spreads.append(np.std(own) / np.mean(own))
    return found, float(np.mean(spreads))


def test_the_slow_loop_finds_the_same():
    rng = np.random.default_rng(0)
    losses = rng.integers(1, 5, (4, 4, 30)).astype(float)  # many ties
    found, (accuracies, loss_cov) = concluded(losses), slow(losses)
    assert found.clients["sia_accuracy"].tolist() == accuracies
    assert columns_of(found)["sia_mean"] == pytest.approx(np.mean(accuracies))
    assert columns_of(found)["sia_cov"] == pytest.approx(np.std(accuracies) / np.mean(accuracies))
    assert columns_of(found)["loss_cov"] == pytest.approx(loss_cov)


@given(st.integers(2, 6), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_targets_unrelated_to_their_owners_are_traced_at_exactly_one_in_k(clients, n, seed):
    """Over all rotations of the owners, each example is once the example of the client it is
    traced to.
    """
    losses = np.random.default_rng(seed).integers(0, 4, (clients, clients, n)).astype(float)
    data = dealt([n] * clients)
    means = [
        columns_of(concluded(np.roll(losses, turn, axis=1), data=data))["sia_mean"]
        for turn in range(clients)
    ]
    assert np.mean(means) == pytest.approx(1 / clients, abs=1e-12)


def lucky(by_class, labels, rng):
    """Losses of models that know nobody's examples, but of which some happen to be better at a
    class, or at all.
    """
    clients = len(labels)
    luck = (
        rng.normal(size=(clients, int(labels.max()) + 1))
        if by_class
        else np.tile(rng.normal(size=(clients, 1)), 10)
    )
    return np.exp(luck[:, labels] + rng.normal(size=(clients, *labels.shape)))


@pytest.mark.parametrize("score", ["loss", "calibrated"])
@pytest.mark.parametrize("partition", ["alike", "skewed"])
def test_with_nothing_to_find_every_disparity_is_what_it_is_by_chance(
    partition, score, monkeypatch
):
    """One model that is luckier than the others collects the guesses; in a skewed partition,
    those of a class.

    Binomial numbers of hits would have 0.49 for CoV and 0.16 for max - min.
    """
    monkeypatch.setattr(sia, "MOST", 20)
    nulls = {one.name: str(one.chance) for one in sia.IN_ROUND if one.chance}
    nulls["sia_mean"] = "sia_mean_null"
    rng, rounds = np.random.default_rng(0), []
    for _ in range(60 if score == "loss" else 30):
        shares = rng.dirichlet([0.1] * 4, 10) if partition == "skewed" else np.full((10, 4), 0.25)
        labels = np.stack([rng.choice(4, 30, p=own) for own in shares])
        data = dealt([30] * 10, tests=0)
        data = replace(data, train=Examples(data.train.x, labels.ravel()))
        found = columns_of(
            concluded(lucky(partition == "skewed", labels, rng), Config(score=score), data)
        )
        rounds.append([[found[name], found[null]] for name, null in nulls.items()])
    differences = np.diff(rounds, axis=2)[..., 0]
    spread = differences.std(axis=0) / len(rounds) ** 0.5
    assert (np.abs(differences.mean(axis=0)) < 4 * spread).all()
    by_chance = dict(zip(nulls.values(), np.mean(rounds, axis=0)[:, 1].tolist(), strict=True))
    if score == "loss":
        assert (
            by_chance["cov_null"] > 0.9
            and by_chance["eod_null"] > 0.3
            and by_chance["fi_null"] < 0.6
        )


def test_by_hand_what_classes_alone_tell_of_their_owners():
    """Each model is best at a class: at that of all its owner's examples, or at half of them."""
    for labels, expected in (([[0, 0], [1, 1]], 1.0), ([[0, 1], [0, 1]], 0.5)):
        data = dealt([2] * 2, tests=0)
        data = replace(data, train=Examples(data.train.x, np.ravel(labels)))
        found = columns_of(concluded(np.not_equal.outer([0, 1], labels).astype(float), data=data))
        assert found["sia_mean"] == found["sia_mean_null"] == expected


def test_a_model_whose_losses_are_no_numbers_is_not_suspected():
    losses = np.ones((3, 3, 4))
    losses[0], losses[1] = np.nan, np.inf
    found = concluded(losses)
    np.testing.assert_array_equal(found.clients["sia_accuracy"], [0, 0, 1])
    assert np.isnan(columns_of(found)["loss_cov"]) and columns_of(found)[
        "sia_mean"
    ] == pytest.approx(1 / 3)
    losses = np.where(
        np.arange(3)[:, None, None] == 0, np.nan, np.random.default_rng(0).random((3, 3, 4))
    )
    assert (sia.guesses(calibrated(losses, np.zeros((3, 4), int))) != 0).all()


def test_rounding_is_to_two_decimals_and_leaves_the_mean_alone():
    losses = np.ones((2, 2, 3))
    losses[1, 1, 0] = losses[1, 0, 0] = (
        0  # client 0 keeps two of three, client 1 gains one of three
    )
    plain, rounded = concluded(losses), concluded(losses, Config(rounded=True))
    assert columns_of(plain)["eod"] == pytest.approx(1 / 3) and columns_of(rounded)[
        "eod"
    ] == pytest.approx(0.67 - 0.33)
    assert columns_of(rounded)["sia_mean"] == columns_of(plain)["sia_mean"] == 0.5


def test_values_by_chance_are_means_over_all_permutations_within_a_class(monkeypatch):
    """Three clients with two examples each; those of class 0 are permuted in 4! ways, of class 1
    in 2!.
    """
    losses, labels = np.random.default_rng(3).random((3, 3, 2)), np.array([[0, 0], [0, 1], [1, 0]])
    guessed, of = sia.guesses(losses).ravel(), [np.flatnonzero(labels == label) for label in (0, 1)]
    every = []
    for zeros, ones in product(permutations(of[0]), permutations(of[1])):
        order = np.empty(6, int)
        order[of[0]], order[of[1]] = zeros, ones
        every.append((guessed[order].reshape(3, 2) == np.arange(3)[:, None]).mean(axis=1))
    monkeypatch.setattr(sia, "MOST", 20_000)
    monkeypatch.setattr(sia, "LOSSES", 20_000 * 6)
    drawn = sia.by_chance(Config(), losses, labels, np.random.default_rng(0))
    values, expected = (
        sia.round_metrics(drawn[0], one, losses.mean(axis=2)) for one in (drawn, np.array(every))
    )
    for one, other in zip(values, expected, strict=True):
        if one.chance is not None:
            assert one.chance == pytest.approx(other.chance, abs=4 * 0.5 / 20_000**0.5)
    assert sum(one.chance is not None for one in values) == 5
    assert set(map(tuple, drawn)) == set(map(tuple, every))


def test_who_took_no_part_is_neither_attacked_nor_suspected():
    rng, present = np.random.default_rng(1), np.array([1, 3, 4])
    losses = rng.random((3, 6, 10))
    found = concluded(losses, clients=present)
    alone = concluded(losses[:, present])
    assert columns_of(found) == columns_of(alone)
    for name, values in found.clients.items():
        assert np.isnan(values[[0, 2, 5]]).all()
        np.testing.assert_array_equal(values[present], alone.clients[name])
    assert [one.of.name for one in found.measures] == ["client_1", "client_3", "client_4"]
    one = concluded(
        losses[:1], clients=present[:1]
    )  # has no other for a source, and a success of 1 by chance
    assert (
        set(columns_of(one)) == set(columns_of(found))
        and set(one.clients) == set(found.clients)
        and not one.measures
    )
    assert np.isnan([*columns_of(one).values()]).all() and np.isnan([*one.clients.values()]).all()


@pytest.mark.parametrize("pool", ["training", "all"])
def test_targets_are_the_owners_own_examples_and_fixed(pool):
    data = dealt([30, 12, 9, 20])
    config = Config(pool=pool)
    places = sia.attacked(config, data, fixed)
    assert places.shape == (4, 9 if pool == "training" else 17)  # eight test examples each
    owners = np.concatenate([data.owner(), data.test_owner])
    assert (owners[places] == np.arange(4)[:, None]).all()
    assert all(len(set(own)) == len(own) for own in places.tolist())
    assert (places >= len(data.train)).any() == (pool == "all")
    np.testing.assert_array_equal(places, sia.attacked(config, data, fixed))
    assert (places != sia.attacked(config, data, lambda *place: stream(1, *place))).any()
    assert sia.attacked(Config(targets=5), data, fixed).shape == (4, 5)
    with pytest.raises(DataError, match="1 training example"):
        sia.attacked(Config(), dealt([5, 0, 5, 5]), fixed)


def test_models_that_know_their_examples_by_heart_give_them_away(noise, network, experts):
    found = concluded(seen(noise, network, experts).reshape(CLIENTS, CLIENTS, EACH), data=noise)
    assert columns_of(found)["sia_mean"] > 0.99
    assert (found.clients["sia_low"] > 1 / CLIENTS).all()
    # The same models, asked about examples of nobody: a sixth, whatever they are.
    strange = replace(noise, train=Examples(noise.nonmembers.x[:240], noise.nonmembers.y[:240]))
    found = concluded(seen(strange, network, experts).reshape(CLIENTS, CLIENTS, EACH), data=strange)
    assert columns_of(found)["sia_mean"] == pytest.approx(
        1 / CLIENTS, abs=4 * (5 / 36 / 240) ** 0.5
    )


def test_losses_are_cross_entropies_of_the_owners_examples_by_model(noise, network):
    weights = [network.initial(np.random.default_rng(i)) for i in range(2)]
    config = Config(targets=7)
    observed, places = seen(noise, network, weights, config), sia.attacked(config, noise, fixed)
    assert observed.shape == (2, CLIENTS * 7) and observed.dtype == np.float64
    for k, own in enumerate(weights):
        network.load(own)
        logits = torch.from_numpy(network.logits(noise.train.x)).double()
        theirs = torch.nn.functional.cross_entropy(
            logits, torch.from_numpy(noise.train.y), reduction="none"
        ).numpy()
        np.testing.assert_allclose(observed[k].reshape(CLIENTS, 7), theirs[places], rtol=1e-5)


class Sure:
    """Stands for a network; it is as sure of class 0 as its buffer, a running statistic, says."""

    def load(self, weights):
        self.sure = float(weights.buffers[0])

    def logits(self, x):
        return np.tile(np.eye(CLASSES, dtype=np.float32)[0] * self.sure, (len(x), 1))


def test_models_have_their_own_running_statistics_and_do_not_tie_where_they_are_all_but_certain(
    noise,
):
    """Probabilities of 1 - 1e-20 and 1 - 1e-30 are both 1 to a float, and a tie would go to
    client 0.
    """
    data = replace(noise, train=Examples(noise.train.x, np.zeros(len(noise.train), int)))
    weights = [
        Weights(np.zeros(1, np.float32), np.full(1, sure, np.float32)) for sure in (0, 50, 70)
    ]
    observed = seen(data, Sure(), weights)
    np.testing.assert_allclose(observed[0], np.log(CLASSES))
    assert (sia.guesses(observed[:, None]) == 2).all()


def test_final_metrics_are_means_over_attacked_rounds_and_their_maximum():
    rows = [
        {"sia_mean": 0.2, "sia_cov": 1.0, "eod": 0.5},
        {"sia_mean": None},
        {},
        {"sia_mean": 0.4, "sia_cov": None},
    ]
    rows.append({"sia_mean": 0.3, "sia_cov": 3.0, "eod": float("nan")})
    found, nothing = (
        sia.final_metrics(Config(), None, Outcome(of, [], np.array([]))) for of in (rows, [{}])
    )
    assert set(found) == {"sia_max", "sia_last5_mean", *columns_of(concluded(np.ones((2, 2, 2))))}
    assert found["sia_mean"] == pytest.approx(0.3) and found["sia_max"] == 0.4
    assert (found["sia_cov"], found["eod"], found["loss_cov"]) == (2, 0.5, None) and set(
        nothing.values()
    ) == {None}
    assert found["sia_last5_mean"] == found["sia_mean"]  # of three attacked rounds
    found = sia.final_metrics(
        Config(), None, Outcome([{"sia_mean": it / 8} for it in range(9)], [], np.array([]))
    )
    assert (found["sia_mean"], found["sia_last5_mean"]) == (4 / 8, 6 / 8)


CALIBRATED = Config(score="calibrated")


def slowly_calibrated(losses, labels):
    """One model and one example at a time: its confidence among those of the class that other
    owners have.
    """
    models, owners, n = losses.shape
    phi, found = -np.log(np.expm1(losses)), np.empty(losses.shape)
    everything = [(i, r) for i in range(owners) for r in range(n)]
    small = {
        label
        for label in np.unique(labels)
        if any(
            sum(labels[i, r] == label for i, r in everything if i != k) <= 10 for k in range(models)
        )
    }
    for k in range(models):
        for i, r in everything:
            like = [at for at in everything if at != (i, r) and at[0] != k]
            like = [at for at in like if labels[i, r] in small or labels[at] == labels[i, r]]
            reference = np.array([phi[k, *at] for at in like])
            found[k, i, r] = -(phi[k, i, r] - reference.mean()) / reference.std()
    return found


@pytest.mark.parametrize("classes", [1, 3, 12])
def test_the_slow_calibration_finds_the_same(classes):
    rng = np.random.default_rng(classes)
    losses, labels = rng.exponential(size=(4, 4, 15)), rng.integers(0, classes, (4, 15))
    labels[:, 0] = classes  # a rare class is compared with all
    np.testing.assert_allclose(
        calibrated(losses, labels), slowly_calibrated(losses, labels), rtol=1e-8
    )


def confident(base, rng, clients=10, n=40):
    """Losses of models whose confidence is ``base`` [models, classes] for a class, and noise;
    two classes in turn.
    """
    data = dealt([n] * clients, tests=0)
    labels = data.train.y.reshape(clients, n)
    phi = base[:, labels] + rng.normal(size=(clients, clients, n))
    return data, phi


def test_planted_memories_are_found_behind_a_model_that_is_better_on_everything():
    rng = np.random.default_rng(1)
    base = np.zeros((10, 2))
    base[3] = 4.0
    data, phi = confident(base, rng)
    phi[np.arange(10), np.arange(10)] += (
        3.0  # each model knows its own examples better than others'
    )
    losses = np.logaddexp(0, -phi)
    found, plain = concluded(losses, CALIBRATED, data), concluded(losses, None, data)
    assert (
        plain.clients["sia_accuracy"][3] > 0.95
        and np.delete(plain.clients["sia_accuracy"], 3).mean() < 0.4
    )
    assert columns_of(found)["sia_mean"] > 0.85 and columns_of(found)["eod"] < 0.3
    np.testing.assert_array_equal(
        found.clients["target_loss"], plain.clients["target_loss"]
    )  # in nats as before
