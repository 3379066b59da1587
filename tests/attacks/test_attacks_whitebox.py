"""The white-box attack: cosines by hand and by autograd, and whether it finds members where there are any to be found."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from algorithms.core.messages import Weights
from algorithms.interfaces import Outcome
from attacks import whitebox_mia
from attacks.interfaces import SeenRound, SeenUpdates
from attacks.whitebox_mia import Config, attacked_examples, conclude, cosines, mock_update, observe
from datasets.federation import DataError, Examples
from orchestrator.trial.random_streams import stream
from tests.support.toy_federation import CLIENTS, EACH, FEATURES, network_for

SMALL = Config(queries=20, mock_updates=8, trees=50, mock_batch_size=20)
EVERYONE = np.arange(CLIENTS)


def fixed(purpose, *place):
    return stream(0, purpose, *place)


@pytest.fixture(scope="module")
def held(noise):
    """`noise`, in which forty of the non-members are tied to each client."""
    owners = np.repeat(EVERYONE, EACH)
    return replace(noise, nonmembers=noise.nonmembers[: len(owners)], nonmember_owner=owners)


@pytest.fixture(scope="module")
def narrow():
    return network_for((FEATURES,), hidden=(8,))


def sent_and_received(network, examples):
    """A common start, and every client's model after one pass over ``examples(client)``."""
    start, training = network.initial(np.random.default_rng(0)), Config(mock_lr=0.05, mock_batch_size=20)
    moved = [mock_update(training, examples(i), network, start, np.random.default_rng(i)) for i in range(CLIENTS)]
    return start, start.params + np.stack(moved)


def watched(config, data, network, start, params, clients=EVERYONE):
    nothing = np.zeros((len(clients), 0), np.float32)
    assignment = np.zeros(len(clients), int)
    return observe(config, SeenUpdates(data, network, [start], assignment, params[clients], nothing, clients, fixed))


def found(config, data, network, examples, clients=EVERYONE):
    start, params = sent_and_received(network, examples)
    observed = watched(config, data, network, start, params, clients)
    return conclude(config, SeenRound(data, observed, clients, 0, fixed))


# Whether it works


def test_clients_who_learn_by_heart_are_given_away(held, narrow):
    exposed = found(SMALL, held, narrow, held.client)
    assert exposed.metrics["whitebox_accuracy"] > 0.9
    accuracy = exposed.clients["whitebox_accuracy"]
    assert np.isnan(accuracy[0]) and (accuracy[1:] > 0.8).all()
    assert exposed.metrics["whitebox_accuracy"] == pytest.approx(accuracy[1:].mean())
    assert exposed.metrics["whitebox_eod"] == pytest.approx(np.ptp(accuracy[1:]))
    assert exposed.metrics["whitebox_cov"] == pytest.approx(accuracy[1:].std() / accuracy[1:].mean())
    named = {(one.subject, one.metric): one.value for one in exposed.measures}
    assert {target for target, _ in named} == {f"client_{i}" for i in range(1, CLIENTS)}
    assert all(named[f"client_{i}", "balanced_accuracy"] == accuracy[i] for i in range(1, CLIENTS))
    assert all(named[f"client_{i}", "auc"] > 0.9 for i in range(1, CLIENTS))


def test_where_membership_was_shuffled_it_is_at_chance(held, narrow):
    """Every client has trained on half of its members and on half of its non-members, so that being one tells nothing."""

    def mixed(client):
        own, held_out = held.client(client), held.nonmembers[held.nonmember_owner == client]
        x, y = (np.concatenate([getattr(part[::2], name) for part in (own, held_out)]) for name in ("x", "y"))
        return Examples(x, y)

    config = SMALL.model_copy(update={"queries": EACH})
    exposed = found(config, held, narrow, lambda i: mixed(i) if i else held.client(i))
    chance = (0.25 / (2 * EACH * (CLIENTS - 1))) ** 0.5
    assert exposed.metrics["whitebox_accuracy"] == pytest.approx(0.5, abs=3 * chance)
    halves = watched(config, held, narrow, *sent_and_received(narrow, lambda i: mixed(i) if i else held.client(i)))
    known, unknown = halves["members"][1:, ::2], halves["members"][1:, 1::2]
    assert known.mean() > unknown.mean() + 0.1  # and it is not that there was nothing to see


def test_the_same_is_found_again_and_in_whatever_blocks(held, narrow):
    start, params = sent_and_received(narrow, held.client)
    together = watched(SMALL, held, narrow, start, params)
    pieces = [watched(SMALL, held, narrow, start, params, part) for part in (EVERYONE[:4], EVERYONE[4:])]
    for name, values in together.items():
        assert np.concatenate([piece[name] for piece in pieces]).tobytes() == values.tobytes()
    first, again = (conclude(SMALL, SeenRound(held, together, EVERYONE, 0, fixed)) for _ in range(2))
    assert first.measures == again.measures


def test_without_the_trainer_nothing_is_found(held, narrow):
    exposed = found(SMALL, held, narrow, held.client, clients=np.array([1, 4]))
    assert np.isnan(exposed.clients["whitebox_accuracy"]).all()
    assert set(exposed.metrics) == set(whitebox_mia.AVERAGED) and np.isnan(list(exposed.metrics.values())).all()
    assert exposed.measures == ()


def test_only_those_who_took_part_are_judged(held, narrow):
    exposed = found(SMALL, held, narrow, held.client, clients=np.array([0, 2, 5]))
    np.testing.assert_array_equal(np.isfinite(exposed.clients["whitebox_accuracy"]), [0, 0, 1, 0, 0, 1])


# Features


def linear(features=2, classes=2):
    """A network with one layer, whose gradient is known: (p - onehot(y)) x'."""
    network = network_for((features,), hidden=())
    assert network.layout.shapes == ((10, features), (10,))
    return network


def test_cosines_by_hand():
    """At zero weights p = 0.1 for each class, so that the step downhill for (x, y) is (onehot(y) - 0.1) x'."""
    network = linear()
    network.load(Weights(np.zeros(30, np.float32), np.zeros(0, np.float32)))
    example = Examples(np.array([[3.0, 4.0]], np.float32), np.array([0]))
    along, away = np.zeros((2, 30), np.float32)
    step = np.outer(np.eye(10)[0] - 0.1, [3, 4]).ravel()
    along[:20], along[20:] = 7 * step, np.eye(10)[0] - 0.1
    away[:20] = -step  # and no update of the biases
    got = cosines(network, example, np.stack([along, away]))
    np.testing.assert_allclose(got, [[[1, 1], [-1, 0]]], atol=1e-6)


def test_cosines_are_those_of_autograd_example_by_example(noise, narrow):
    rng, start = np.random.default_rng(0), narrow.initial(np.random.default_rng(1))
    updates = rng.normal(size=(3, len(start.params))).astype(np.float32)
    examples = noise.train[5:9]
    narrow.load(start)
    got = cosines(narrow, examples, updates)
    arrays = list(narrow.module.parameters())
    for n in range(4):
        logits = narrow.module(torch.from_numpy(examples.x[n : n + 1]))
        loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(examples.y[n : n + 1]))
        gradients = torch.autograd.grad(loss, arrays)
        for m in range(3):
            pieces = narrow.layout.views(torch.from_numpy(updates[m])).values()
            theirs = [
                float(torch.cosine_similarity(-g.ravel(), u.ravel(), dim=0))
                for g, u in zip(gradients, pieces, strict=True)
            ]
            np.testing.assert_allclose(got[n, m], theirs, atol=1e-5)


def test_an_update_that_is_no_number_has_no_direction(noise, narrow):
    narrow.load(narrow.initial(np.random.default_rng(0)))
    for value in (np.nan, np.inf, 0):
        update = np.full((1, len(narrow.params)), value, np.float32)
        assert (cosines(narrow, noise.train[:2], update) == 0).all()


def test_a_mock_update_of_one_batch_is_a_gradient_step(noise):
    network = linear(FEATURES)
    start, examples = network.initial(np.random.default_rng(0)), noise.client(0)
    config = Config(mock_batch_size=EACH, mock_lr=0.5)
    got = mock_update(config, examples, network, start, np.random.default_rng(0))
    network.load(start)
    logits = network.logits(examples.x).astype(float)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    error = p - np.eye(10)[examples.y]
    gradient = np.concatenate([(error.T @ examples.x).ravel(), error.sum(axis=0)]) / EACH
    np.testing.assert_allclose(got, -0.5 * gradient, atol=1e-5)


def test_lessons_are_about_the_trainers_examples_half_of_them_held_out(held, narrow):
    start, params = sent_and_received(narrow, held.client)
    seen = watched(SMALL, held, narrow, start, params)
    arrays = len(narrow.layout.names)
    assert seen["lessons"].shape == (40 * 8, arrays) and seen["taught"].shape == (40 * 8,)
    np.testing.assert_array_equal(seen["taught"].reshape(40, 8).sum(axis=0), np.full(8, 20))
    assert seen["members"].shape == seen["nonmembers"].shape == (CLIENTS, 20, arrays)
    assert np.isnan(seen["members"][0]).all() and np.isfinite(seen["members"][1:]).all()
    # An example that was trained on lies along the update more than one that was held out.
    assert seen["lessons"][seen["taught"]].mean() > seen["lessons"][~seen["taught"]].mean() + 0.1


# Which examples


def test_members_are_the_clients_and_non_members_are_never_trained_on(held):
    inside, outside = attacked_examples(SMALL, held, 2, fixed)
    own, out = held.client(2), held.nonmembers[held.nonmember_owner == 2]
    assert len(inside) == len(outside) == 20
    assert {row.tobytes() for row in inside.x} < {row.tobytes() for row in own.x}
    assert {row.tobytes() for row in outside.x} < {row.tobytes() for row in out.x}
    again = attacked_examples(SMALL, held, 2, fixed)
    assert again[0].x.tobytes() == inside.x.tobytes() and again[1].x.tobytes() == outside.x.tobytes()


def test_a_clients_own_test_examples_come_first_and_nobodys_last(noise, images):
    owners = np.array([3] * 4 + [-1] * 6)
    tested = replace(noise, test_owner=owners)
    inside, outside = attacked_examples(SMALL, tested, 3, fixed)
    assert len(inside) == len(outside) == 4
    np.testing.assert_array_equal(outside.x, tested.test.x[:4])
    assert len(attacked_examples(SMALL, tested, 2, fixed)[1]) == 20  # nobody's non-members
    # What is stored as it was published is turned as the client's own examples are.
    turned = attacked_examples(
        Config(queries=300), replace(images, nonmembers=images.nonmembers[:1], nonmember_owner=np.array([1])), 1, fixed
    )
    np.testing.assert_array_equal(turned[1].x, images.prepare(images.nonmembers.x[:1], np.array([35])))


def test_a_client_with_nothing_held_out_is_left_out(held, narrow):
    data = replace(held, nonmember_owner=np.where(held.nonmember_owner == 4, 3, held.nonmember_owner))
    exposed = found(SMALL, data, narrow, data.client)
    np.testing.assert_array_equal(np.isfinite(exposed.clients["whitebox_accuracy"]), [0, 1, 1, 1, 0, 1])


def test_a_federation_with_nothing_held_out_is_refused(held, narrow):
    start, params = sent_and_received(narrow, held.client)
    none = replace(held, nonmembers=held.nonmembers[:0], nonmember_owner=np.empty(0, int))
    with pytest.raises(DataError, match="no example that could serve as a non-member"):
        watched(SMALL, none, narrow, start, params)


@pytest.mark.parametrize(("clients", "trainer", "field"), [(3, 3, "trainer"), (1, 0, ""), (3, 2, None), (2, 0, None)])
def test_a_trainer_and_somebody_else_must_be_there(clients, trainer, field):
    run = SimpleNamespace(data=SimpleNamespace(config=SimpleNamespace(clients=clients)))
    assert [key for key, _ in whitebox_mia.problems(Config(trainer=trainer), run)] == ([] if field is None else [field])


def test_the_run_is_the_mean_of_the_rounds_in_which_it_was_attacked():
    rows = [{"whitebox_accuracy": 0.5, "whitebox_cov": None}, {}, {"whitebox_accuracy": 0.75}]
    rows.append({"whitebox_accuracy": float("nan"), "whitebox_cov": 0.1})
    assert whitebox_mia.final_metrics(Config(), None, Outcome(rows, [], np.array([]))) == {
        "whitebox_accuracy": 0.625,
        "whitebox_cov": 0.1,
        "whitebox_eod": None,
    }
