"""The white-box attack: what it learns from and asks about, and whether it finds members where
there are any.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from algorithms.core.columns import register
from algorithms.core.messages import Assignment
from algorithms.engine import block
from algorithms.engine.block import train_again
from attacks import whitebox_mia
from attacks.interfaces import SeenRound, SeenUpdates
from attacks.metrics.client_auc import by_chance
from attacks.whitebox_mia import (
    Config,
    attacked_examples,
    conclude,
    cosines,
    data_problems,
    observe,
)
from datasets.federation import Examples
from orchestrator.config.run import resolve
from orchestrator.trial.random_streams import stream
from tests.support.federations import rows
from tests.support.passive import EVERYONE, fixed
from tests.support.toy_federation import (
    CLIENTS,
    EACH,
    FEATURES,
    NONMEMBERS,
    columns_of,
    memorized,
    network_for,
)

SMALL = Config(queries=20, mock_updates=8, trees=50)
PLAIN = {"lr": 0.05, "epochs": 1, "batch_size": 20, "backend": "loop"}


def a_run(**training):
    return resolve(
        {
            "rounds": 9,
            "data": "digits",
            "model": {"name": "mlp", "hidden": [8]},
            "training": training,
        }
    )


RUN = a_run(**PLAIN)


def of_round(round_):
    return lambda purpose, client: stream(0, purpose, round_, client)


@pytest.fixture(scope="module")
def held(noise):
    """`noise`, in which forty of the non-members are tied to each client."""
    owners = np.repeat(EVERYONE, EACH)
    return replace(noise, nonmembers=noise.nonmembers[: len(owners)], nonmember_owner=owners)


@pytest.fixture(scope="module")
def wide():
    return network_for((FEATURES,), hidden=(32,))


@pytest.fixture(scope="module")
def later(held, wide):
    """A model of a later round: it knows every client's training examples by heart."""
    return memorized(wide, held.train, epochs=15)


def seen_by(data, network, start, clients=EVERYONE, round_=0, run=RUN, trained_on=None):
    """What the server sees of clients who were trained by the engine, on the examples of
    ``trained_on``.
    """
    assigned = Assignment(list(clients), np.zeros(len(clients), int), round_)
    trained = block.train(run, trained_on or data, network, [start], assigned, of_round(round_))
    again = partial(train_again, run, data, network, [start], assigned)
    return SeenUpdates(
        data,
        network,
        [start],
        assigned.chosen,
        trained.params,
        trained.buffers,
        list(clients),
        fixed,
        round_,
        again,
    )


def first(network):
    return network.initial(np.random.default_rng(0))


def found(config, data, network, start=None, clients=EVERYONE, **options):
    observed = observe(config, seen_by(data, network, start or first(network), clients, **options))
    return conclude(config, SeenRound(data, observed, np.asarray(clients), 0, fixed))


@pytest.mark.parametrize("round_", [0, 5])
def test_clients_who_learn_by_heart_are_given_away(held, wide, later, round_):
    exposed = found(SMALL, held, wide, later if round_ else first(wide), round_=round_)
    assert columns_of(exposed)["whitebox_accuracy"] > 0.9
    accuracy = exposed.clients["whitebox_accuracy"]
    assert np.isnan(accuracy[0]) and (accuracy[1:] > 0.8).all()
    assert columns_of(exposed)["whitebox_accuracy"] == pytest.approx(accuracy[1:].mean())
    assert columns_of(exposed)["whitebox_eod"] == pytest.approx(np.ptp(accuracy[1:]))
    assert columns_of(exposed)["whitebox_cov"] == pytest.approx(
        accuracy[1:].std() / accuracy[1:].mean()
    )
    named = {(one.of.name, one.metric): one.value for one in exposed.measures}
    rates = np.array(
        [[named[f"client_{i}", side] for i in range(1, CLIENTS)] for side in ("tpr", "tnr")]
    )
    apart = np.sqrt((rates * (1 - rates)).sum(axis=0).mean() / (SMALL.queries - 1) / 4)
    assert columns_of(exposed)["whitebox_eod_null"] == pytest.approx(
        by_chance(accuracy[1:].mean(), apart, CLIENTS - 1)["eod"]
    )
    assert {target for target, _ in named} == {f"client_{i}" for i in range(1, CLIENTS)}
    assert all(named[f"client_{i}", "balanced_accuracy"] == accuracy[i] for i in range(1, CLIENTS))
    assert all(named[f"client_{i}", "auc"] > 0.9 for i in range(1, CLIENTS))


def test_where_membership_was_shuffled_it_is_at_chance(held, narrow):
    """Every client has trained on half of its members and on half of its non-members, so that
    being one tells nothing.
    """

    def mixed(client):
        own, held_out = held.client(client), held.nonmembers[held.nonmember_owner == client]
        return [
            np.concatenate([getattr(part[::2], name) for part in (own, held_out)])
            for name in ("x", "y")
        ]

    parts = [[held.client(0).x, held.client(0).y], *(mixed(i) for i in range(1, CLIENTS))]
    trained_on = replace(
        held, train=Examples(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    )
    config = SMALL.model_copy(update={"queries": EACH})
    exposed = found(config, held, narrow, trained_on=trained_on)
    chance = (0.25 / (2 * EACH * (CLIENTS - 1))) ** 0.5
    assert columns_of(exposed)["whitebox_accuracy"] == pytest.approx(0.5, abs=3 * chance)
    halves = observe(config, seen_by(held, narrow, first(narrow), trained_on=trained_on))
    known, unknown = halves["members"][1:, ::2], halves["members"][1:, 1::2]
    assert known.mean() > unknown.mean() + 0.1  # and it is not that there was nothing to see


def test_without_the_trainer_nothing_is_found(held, narrow):
    exposed = found(SMALL, held, narrow, clients=[1, 4])
    assert np.isnan(exposed.clients["whitebox_accuracy"]).all()
    assert (
        set(columns_of(exposed)) == set(register(whitebox_mia.METRICS))
        and np.isnan(list(columns_of(exposed).values())).all()
    )
    assert exposed.measures == ()


def test_only_those_who_took_part_and_of_whom_something_was_held_out_are_judged(held, narrow):
    data = replace(
        held, nonmember_owner=np.where(held.nonmember_owner == 4, 3, held.nonmember_owner)
    )
    exposed = found(SMALL, data, narrow, clients=[0, 2, 4, 5])
    np.testing.assert_array_equal(
        np.isfinite(exposed.clients["whitebox_accuracy"]), [0, 0, 1, 0, 0, 1]
    )


RECIPES = [
    PLAIN,
    {
        "optimizer": "adam",
        "lr": 1e-3,
        "epochs": 3,
        "batch_size": 7,
        "optimizer_state": "persist",
        "lr_decay": 0.5,
    },
    {"lr": 0.05, "epochs": 2, "batch_size": 16, "backend": "vmap", "clients_per_job": 1},
    {
        "name": "dp_sgd",
        "lr": 0.05,
        "epochs": 2,
        "batch_size": 16,
        "clip": 1.0,
        "noise_multiplier": 1.0,
    },
]


@pytest.mark.parametrize("training", RECIPES, ids=["sgd", "adam", "vmap", "dp_sgd"])
def test_a_mock_update_is_that_of_a_client_bit_for_bit(held, narrow, training):
    """With the generators of the round the repetition is the client's own update, moments and
    decay included.
    """
    run, start = a_run(**training), first(narrow)
    clients = [3] if training.get("backend") == "vmap" else [2, 3, 5]
    assigned = Assignment(clients, np.zeros(len(clients), int), 0)
    before = block.train(run, held, narrow, [start], assigned, of_round(0))
    assert bool(before.optimizer_states) == ("optimizer_state" in training)
    assigned = replace(assigned, round=1, optimizer_states=before.optimizer_states)
    real = block.train(run, held, narrow, [start], assigned, of_round(1)).params
    for position in range(len(clients)):
        again = train_again(run, held, narrow, [start], assigned, position, of_round(1))
        assert again.tobytes() == real[position].tobytes()
        other = train_again(run, held, narrow, [start], assigned, position, of_round(2))
        assert (other != real[position]).any()


def test_lessons_are_balanced_and_look_like_what_is_asked_later(held, wide, later):
    """What the trainer left out of a mock update, the model knew from earlier rounds; what was
    held out, it does not.
    """
    arrays = len(wide.layout.names)
    seen = observe(SMALL, seen_by(held, wide, later, round_=5))
    assert seen["lessons"].shape == (2 * 20 * 8, arrays) and seen["taught"].shape == (2 * 20 * 8,)
    np.testing.assert_array_equal(seen["taught"].reshape(40, 8).sum(axis=0), np.full(8, 20))
    assert seen["members"].shape == seen["nonmembers"].shape == (CLIENTS, 20, arrays)
    assert np.isnan(seen["members"][0]).all() and np.isfinite(seen["members"][1:]).all()
    members, nonmembers = seen["lessons"][seen["taught"]], seen["lessons"][~seen["taught"]]
    assert members.mean() > nonmembers.mean() + 0.05
    weights = [0, 2]  # not the biases, whose cosines are averages over few directions
    for lesson, asked in ((members, seen["members"]), (nonmembers, seen["nonmembers"])):
        np.testing.assert_allclose(
            lesson.mean(axis=0)[weights], asked[1:].mean(axis=(0, 1))[weights], atol=0.03
        )


@pytest.mark.parametrize("owned", [True, False])
def test_non_members_were_never_trained_on_and_those_of_the_lessons_are_asked_of_nobody_else(
    held, noise, owned
):
    data = held if owned else noise
    members, nonmembers = attacked_examples(SMALL, data, 0, fixed)
    assert rows(members.x) <= rows(data.client(0).x) and len(members) == len(nonmembers) == 20
    others = [rows(attacked_examples(SMALL, data, client, fixed)[1].x) for client in EVERYONE[1:]]
    assert not rows(nonmembers.x) & rows(data.train.x).union(*others)


def test_a_part_of_nobodys_examples_is_the_trainers(noise):
    """Up to ``queries``, and no more than half if others need them as well."""
    taken = {}
    for queries in (20, 1000):
        config = Config(queries=queries, trainer=2)
        pools = [whitebox_mia.held_out(config, noise, client, fixed)[1] for client in EVERYONE]
        taken[queries] = len(pools[2])
        others = {tuple(pool) for client, pool in enumerate(pools) if client != 2}
        assert len(others) == 1 and sorted([*pools[2], *others.pop()]) == list(range(NONMEMBERS))
    assert taken == {20: 20, 1000: NONMEMBERS // 2}
    alone = replace(
        noise, test_owner=np.delete(EVERYONE, 2).repeat(2)
    )  # all others have test examples of their own
    assert (
        len(whitebox_mia.held_out(Config(queries=1000, trainer=2), alone, 2, fixed)[1])
        == NONMEMBERS
    )
    owns = replace(noise, test_owner=np.full(10, 2))
    assert len(whitebox_mia.held_out(Config(trainer=2), owns, 0, fixed)[1]) == NONMEMBERS


def test_a_clients_own_test_examples_come_first_and_nobodys_last(noise, images):
    owners = np.array([3] * 4 + [-1] * 6)
    tested = replace(noise, test_owner=owners)
    inside, outside = attacked_examples(SMALL, tested, 3, fixed)
    assert len(inside) == len(outside) == 4
    np.testing.assert_array_equal(outside.x, tested.test.x[:4])
    assert len(attacked_examples(SMALL, tested, 2, fixed)[1]) == 20  # nobody's non-members
    # What is stored as it was published is turned as the client's own examples are.
    turned = attacked_examples(
        Config(queries=300),
        replace(images, nonmembers=images.nonmembers[:1], nonmember_owner=np.array([1])),
        1,
        fixed,
    )
    np.testing.assert_array_equal(
        turned[1].x, images.prepare(images.nonmembers.x[:1], np.array([35]))
    )


def test_data_that_serve_either_the_lessons_or_the_attack_are_refused(held, noise, narrow):
    def lacking(data, config=SMALL):
        problems = data_problems(config, data)
        assert {field for field, _ in problems} <= {"trainer"}
        return " ".join(sentence for _, sentence in problems)

    def of_nobody(size):
        return replace(noise, nonmembers=noise.nonmembers[:size], nonmember_owner=np.full(size, -1))

    assert lacking(held) == lacking(of_nobody(20)) == ""
    assert "has only 0 for client 0" in lacking(
        of_nobody(0)
    ) and "has only 9 for client 0" in lacking(of_nobody(19))
    only_trainers = replace(held, nonmember_owner=np.zeros_like(held.nonmember_owner))
    assert "a client besides its trainer 0" in lacking(only_trainers)
    little = replace(held, offsets=np.array([0, 9, *held.offsets[2:]]))
    assert "which has 9 training examples" in lacking(little)
    assert lacking(little, SMALL.model_copy(update={"trainer": 1})) == ""


@pytest.mark.parametrize(
    ("clients", "trainer", "field"), [(3, 3, "trainer"), (1, 0, ""), (3, 2, None), (2, 0, None)]
)
def test_a_trainer_and_somebody_else_must_be_there(clients, trainer, field):
    run = SimpleNamespace(data=SimpleNamespace(config=SimpleNamespace(clients=clients)))
    assert [key for key, _ in whitebox_mia.problems(Config(trainer=trainer), run)] == (
        [] if field is None else [field]
    )


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
            pairs = zip(gradients, pieces, strict=True)
            theirs = [
                float(torch.cosine_similarity(-g.ravel(), u.ravel(), dim=0)) for g, u in pairs
            ]
            np.testing.assert_allclose(got[n, m], theirs, atol=1e-5)
