"""Source inference on models without names: who is matched, by theory, by hand, by a slow loop,
and at chance.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from attacks import remapped_sia, sia
from attacks._queries import targets
from attacks.interfaces import SeenRound, as_seen
from attacks.metrics.disparity import wilson
from attacks.remapped_sia import (
    Config,
    by_chance,
    conclude,
    data_problems,
    guesses,
    match,
    over_rounds,
    shadow_examples,
)
from datasets.components import complete
from datasets.federation import Examples
from orchestrator.trial.random_streams import stream
from tests.attacks.test_attacks_sia import dealt
from tests.support.passive import fixed, seen_by
from tests.support.toy_federation import CLIENTS, columns_of

GOLDEN = {"greedy": (0.342, 0.676, 0.902), "one_to_one": (0.357, 0.784, 0.986)}


@pytest.mark.parametrize("remap", GOLDEN)
def test_matches_are_as_frequent_as_theory_says(remap):
    """Scores are N(m [j = k], 1) of ten clients; the share of greedy matches is an integral."""
    rng, draws = np.random.default_rng(0), 2000
    for m, printed in zip((1, 2, 3), GOLDEN[remap], strict=True):
        known = rng.normal(size=(draws, 10, 10)) + m * np.eye(10)
        found = np.mean([match(one, remap) == np.arange(10) for one in known])
        exact = printed  # which was simulated, too
        if remap == "greedy":
            exact = quad(lambda u, m=m: norm.pdf(u) * norm.cdf(u + m) ** 9, -9, 9)[0]
            assert exact == pytest.approx(printed, abs=0.003)
        assert found == pytest.approx(
            exact, abs=4 * (exact * (1 - exact) / draws / 10) ** 0.5 + 0.0005
        )


def observed(rng, clients=4, n=6, owners=None):
    owners = owners or clients
    return {
        "losses": rng.exponential(size=(clients, owners * n)),
        "known": rng.normal(size=(clients, owners)),
    }


def test_two_clients_by_hand():
    """Both clients are matched to the model in slot 0, which is client 1's, so they share every
    guess.
    """
    seen = {
        "known": np.array([[2.0, 3.0], [1.0, 0.0]]),
        "losses": np.array([[1.0, 1.0, 1.0, 1.0], [0.0, 2.0, 2.0, 0.0]]),
    }
    round_ = SeenRound(dealt([2, 2]), seen, np.arange(2), 0, fixed, slots=np.array([1, 0]))
    found = conclude(Config(), round_)
    assert found.clients["remap_hit"].tolist() == [0, 1]
    assert found.clients["remapped_sia_accuracy"].tolist() == [0.5, 0.5]
    half = {
        "remap_accuracy": 0.5,
        "remapped_sia_mean": 0.5,
        "remap_chance": 0.5,
        "remapped_sia_null": 0.5,
    }
    assert columns_of(found) == half
    # One to one: client 1 gets slot 0 (3 + 1 > 2 + 0), and source inference compares the losses of
    # both.
    found = conclude(Config(remap="one_to_one"), round_)
    assert found.clients["remap_hit"].tolist() == [1, 1]
    assert found.clients["remapped_sia_accuracy"].tolist() == [0.5, 0.5]


def test_the_slow_loop_finds_the_same_for_those_who_took_part():
    rng, clients = np.random.default_rng(1), np.array([0, 2, 5])
    seen = SeenRound(dealt([6] * 7), observed(rng, 3, owners=7), clients, 3, fixed).shuffled()
    found, known = conclude(Config(), seen), seen.observed["known"]
    slots = [max(range(3), key=lambda j: known[j, c]) for c in clients]
    for i, c in enumerate(clients):
        share = 0.0
        for x in range(6 * c, 6 * c + 6):
            losses = [seen.observed["losses"][slot, x] for slot in slots]
            share += (losses[i] == min(losses)) / losses.count(min(losses)) / 6
        assert found.clients["remapped_sia_accuracy"][c] == pytest.approx(share)
        assert found.clients["remap_hit"][c] == (slots[i] == seen.slots[i])
    assert np.isnan(found.clients["remap_hit"][[1, 3, 4, 6]]).all()
    assert columns_of(found)["remap_chance"] == pytest.approx(1 / 3)
    one = conclude(
        Config(),
        SeenRound(dealt([6] * 7), observed(rng, 1, owners=7), clients[:1], 4, fixed, found.kept),
    )
    assert (
        set(columns_of(one)) == set(columns_of(found))
        and set(one.clients) == set(found.clients)
        and one.kept == found.kept
    )
    assert (
        np.isnan([*columns_of(one).values()]).all()
        and np.isnan([*one.clients.values()]).all()
        and not one.measures
    )


@pytest.mark.parametrize("remap", GOLDEN)
def test_the_hidden_order_tells_nothing_and_hides_nothing_but_names(remap):
    """The result does not depend on it, and where everybody is matched it is that of plain
    source inference.
    """
    rng, data = np.random.default_rng(2), dealt([6] * 4)
    seen = SeenRound(data, observed(rng), np.arange(4), 0, fixed)
    hidden = seen.shuffled()
    assert columns_of(conclude(Config(remap=remap), hidden)) == columns_of(
        conclude(Config(remap=remap), seen)
    )
    np.testing.assert_array_equal(hidden.observed["known"][hidden.slots], seen.observed["known"])
    matched = replace(
        hidden, observed=hidden.observed | {"known": np.eye(4)[np.argsort(hidden.slots)]}
    )
    named = SeenRound(data, seen.observed["losses"], np.arange(4), 0, fixed)
    found, plain = conclude(Config(remap=remap), matched), sia.conclude(sia.Config(), named)
    assert columns_of(found)["remap_accuracy"] == 1
    np.testing.assert_array_equal(
        found.clients["remapped_sia_accuracy"], plain.clients["sia_accuracy"]
    )


def test_every_round_has_an_order_of_its_own_that_follows_from_the_seed():
    def order(round_, seed=0):
        place = lambda *names: stream(seed, *names)  # noqa: E731
        return SeenRound(dealt([6] * 8), np.arange(8.0), np.arange(8), round_, place).shuffled()

    np.testing.assert_array_equal(order(0).slots, order(0).slots)
    assert (order(0).slots != order(1).slots).any() and (
        order(0).slots != order(0, seed=1).slots
    ).any()
    np.testing.assert_array_equal(order(3).observed[order(3).slots], np.arange(8.0))
    plain = SeenRound(dealt([6] * 8), np.arange(8.0), np.arange(8), 0, fixed)
    assert as_seen(complete("attacks", "sia"), plain) is plain
    assert as_seen(complete("attacks", "remapped_sia"), plain).slots is not None


def audit(seed, remap, clients=10, rounds=8, n=40):
    """The run's two measures where nobody knows anything."""
    rng, data, kept = np.random.default_rng(seed), dealt([n] * clients, tests=0), {}
    for t in range(rounds):
        seen = SeenRound(
            data,
            observed(rng, clients, n),
            np.arange(clients),
            t,
            lambda *p: stream(seed, *p),
            kept,
        )
        found = conclude(Config(remap=remap), seen.shuffled())
        kept = found.kept
    return [(one.value, one.low, one.high) for one in found.measures[:2]]


@pytest.mark.parametrize("remap", GOLDEN)
def test_control_with_nothing_to_find_matches_and_sources_are_at_chance_and_intervals_cover_it(
    remap,
):
    audits = 600
    found = np.array(
        [audit(seed, remap) for seed in range(audits)]
    )  # [audits, measure, (value, low, high)]
    error = found[..., 0].std(axis=0) / audits**0.5
    assert (np.abs(found[..., 0].mean(axis=0) - 0.1) < 4 * error).all()
    covered = ((found[..., 1] <= 0.1) & (found[..., 2] >= 0.1)).mean(axis=0)
    assert (np.abs(covered - 0.95) < 0.02 + 2 * (0.05 * 0.95 / audits) ** 0.5).all(), covered


def test_an_interval_is_of_as_many_clients_as_there_are_if_their_rounds_are_alike():
    def ends(shares):
        return over_rounds(shares, np.where(np.isnan(shares), np.nan, 1 / 8))

    low, high = wilson(8, 8, 2.364624)  # Student's quantile at 7 degrees of freedom
    assert ends(np.ones((20, 8))) == pytest.approx((1, low, high, 1 / 8), abs=1e-6)
    assert np.isnan(ends(np.ones((20, 1)))[1:3]).all()
    assert ends(np.array([[0.5, 0.5]]))[1] < 0.1  # two clients in one round, which share a guess
    alike, fresh = (
        np.tile([1.0, 0, 0, 0, 0, 1, 0, 0], (20, 1)),
        np.random.default_rng(0).random((20, 8)) < 0.25,
    )
    (_, low, high, _), (_, lower, higher, _) = ends(alike), ends(fresh.astype(float))
    assert high - low > 2 * (higher - lower)
    alike[3:, 2] = np.nan  # absent
    assert ends(alike)[0] == pytest.approx(40 / 143)


def test_what_varies_is_how_far_a_share_is_above_its_value_by_chance():
    """Clients that labels alone tell apart make no interval wide: each is 0.1 above, or below,
    its own chance.
    """
    chance, apart = np.tile(np.linspace(0.1, 0.8, 8), (5, 1)), np.tile([0.1, -0.1] * 4, (5, 1))
    mean, low, high, expected = over_rounds(chance + apart, chance)
    reach = 2.364624 * 0.1 / 7**0.5
    assert mean == pytest.approx(expected) == pytest.approx(0.45)
    assert high - low == pytest.approx(2 * reach, rel=0.1)


def test_equal_losses_share_a_guess_and_a_model_of_no_numbers_gets_none():
    losses = np.array([[[np.nan, 1.0], [1.0, 2.0]], [[5.0, 1.0], [1.0, 1.0]]])
    np.testing.assert_array_equal(guesses(losses), [[[0, 0.5], [0.5, 0]], [[1, 0.5], [0.5, 1]]])


def test_chance_is_the_mean_over_all_permutations_within_classes():
    rng, labels = np.random.default_rng(5), np.array([[0, 1, 1], [0, 0, 1]])
    shares = guesses(rng.integers(0, 3, (2, 2, 3)).astype(float))
    places, found = [np.flatnonzero(labels.ravel() == label) for label in (0, 1)], []
    for orders in product(*(permutations(place) for place in places)):
        order = np.arange(6)
        for place, moved in zip(places, orders, strict=True):
            order[place] = moved
        permuted = shares.reshape(2, 6)[:, order].reshape(2, 2, 3)
        found.append(permuted[[0, 1], [0, 1]].mean(axis=1))
    assert len(found) == 36
    np.testing.assert_allclose(by_chance(shares, labels), np.mean(found, axis=0))


def null_run(seed, alpha, remap, clients=12, rounds=4, n=12, classes=10):
    """Measures of a run whose models know nobody's examples: each happens to be good at some
    classes, anew in every round.
    """
    rng = np.random.default_rng(seed)
    mixes = rng.dirichlet(np.full(classes, alpha), clients)
    labels, shadow = (
        np.stack([rng.choice(classes, size, p=mix) for mix in mixes]) for size in (n, 4)
    )
    data, kept = dealt([n] * clients, tests=0), {}
    data = replace(data, train=Examples(data.train.x, labels.ravel()))

    def losses(asked):
        return np.exp(luck[:, asked] + rng.normal(size=(clients, *asked.shape)))

    for t in range(rounds):
        luck = rng.normal(size=(clients, classes))
        of_shadow = losses(shadow)
        known = (of_shadow < 0.7).sum(axis=2) + np.exp(-of_shadow.mean(axis=2))
        seen = {"losses": losses(labels).reshape(clients, -1), "known": known}
        found = conclude(
            Config(remap=remap),
            SeenRound(
                data, seen, np.arange(clients), t, lambda *place: stream(seed, *place), kept
            ).shuffled(),
        )
        kept = found.kept
    return [(one.value, one.low, one.high, one.chance) for one in found.measures[:2]]


@pytest.mark.parametrize(
    ("alpha", "remap"), [(0.1, "greedy"), (0.3, "one_to_one"), (1000, "greedy")]
)
def test_where_labels_differ_chance_is_what_they_tell_and_intervals_cover_it(alpha, remap):
    runs = 200
    found = np.array([null_run(seed, alpha, remap) for seed in range(runs)])  # [runs, measure, 4]
    value, low, high, chance = np.moveaxis(found, 2, 0)
    error = (value - chance).std(axis=0) / runs**0.5
    over = (value - chance).mean(axis=0)
    covered = ((low <= chance) & (chance <= high)).mean(axis=0)
    print(
        alpha,
        remap,
        "value",
        value.mean(axis=0),
        "over chance",
        over,
        "errors",
        error,
        "coverage",
        covered,
    )
    assert (np.abs(over) < 2 * error).all()
    assert (np.abs(covered - 0.95) < 0.02 + 2 * (0.05 * 0.95 / runs) ** 0.5).all()
    assert (chance[:, 0] == pytest.approx(1 / 12)) and (
        (chance[:, 1].mean() > 1.2 / 12) == (alpha < 1)
    )


# Shadow data


def test_shadow_examples_are_held_out_from_the_client_where_there_are_some():
    data = dealt([40, 100, 20])  # eight test examples each, all examples different
    for client, size in enumerate((2, 5, 1)):
        drawn = shadow_examples(Config(), data, client, fixed)
        owner = data.test_owner[np.searchsorted(data.test.x.ravel(), drawn.x.ravel())]
        assert len(drawn) == size and (owner == client).all()
    assert len(shadow_examples(Config(shadow=1), data, 1, fixed)) == 8
    assert data_problems(Config(), data) == []


def test_shadow_examples_of_nobody_have_the_clients_labels_and_transform(images):
    labels = np.where(images.owner() < 3, np.arange(len(images.train)) % 2, 7)
    data = replace(images, train=Examples(images.train.x, labels))
    drawn = [shadow_examples(Config(shadow=0.5), data, i, fixed) for i in (0, 5)]
    assert set(drawn[0].y.tolist()) == {0, 1} and set(drawn[1].y.tolist()) == {7}
    often = replace(
        data, train=Examples(images.train.x, (np.arange(len(labels)) % 10 > 0).astype(int))
    )
    mean = shadow_examples(Config(shadow=1), often, 0, fixed).y.mean()
    assert 0.75 < mean < 0.98  # nine of label 1 for each of label 0
    turned = data.prepare(data.shadow.x, np.full(len(data.shadow), data.strengths[5], np.float32))
    assert all((turned == image).all(axis=(1, 2, 3)).any() for image in drawn[1].x)


def test_without_examples_like_a_clients_the_attack_is_refused(noise):
    other = Examples(noise.shadow.x, np.zeros(len(noise.shadow), int))
    ones = Examples(noise.train.x, np.ones(len(noise.train), int))
    data = replace(noise, train=ones, shadow=other)
    assert [field for field, _ in data_problems(Config(), data)] == ["shadow"]


def test_models_that_know_their_clients_data_are_matched_and_with_others_shadow_data_not(
    noise, network, experts
):
    """Shadow data close to what each model knows by heart; over all rotations of them, each
    client is matched once.
    """
    near = noise.train.x + np.random.default_rng(0).normal(0, 0.3, noise.train.x.shape).astype(
        np.float32
    )
    data = replace(noise, test=Examples(near, noise.train.y), test_owner=noise.owner())
    seen = remapped_sia.observe(Config(), seen_by(data, network, experts))
    of_two = shadow_examples(Config(), data, 2, fixed)
    right = [
        network.load(w) or (network.logits(of_two.x).argmax(axis=1) == of_two.y).sum()
        for w in experts
    ]
    np.testing.assert_array_equal(np.floor(seen["known"][:, 2]), right)
    assert seen["losses"].shape == (CLIENTS, targets(data, fixed, 100).size)
    found = []
    for turn in range(CLIENTS):
        turned = seen | {"known": np.roll(seen["known"], turn, axis=1)}
        one = columns_of(
            conclude(Config(), SeenRound(data, turned, np.arange(CLIENTS), 0, fixed).shuffled())
        )
        found.append([one["remap_accuracy"], one["remapped_sia_mean"]])
    assert found[0][0] == 1 and found[0][1] > 0.99
    np.testing.assert_allclose(np.mean(found, axis=0), 1 / CLIENTS, atol=1e-9)
