"""No example serves two purposes, whatever the sizes; what is too small is said in a sentence."""

import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from datasets.federation import Examples, Source
from datasets.roles import NOBODY, assign, shortages
from datasets.source_configs import HeldOutConfig, SharedTestConfig


def source(train: int, test: int) -> Source:
    x = np.zeros((train + test, 1, 1, 1), np.uint8)
    y = np.zeros(train + test, np.int64)
    return Source("toy", 2, Examples(x[:train], y[:train]), Examples(x[train:], y[train:]))


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def optional(low: int, high: int):
    return st.none() | st.integers(low, high)


SHARED = st.builds(
    SharedTestConfig,
    clients=st.integers(1, 12),
    examples_per_client=optional(1, 12),
    shadow_size=st.integers(0, 40),
    test_size=optional(1, 30),
    nonmember_size=optional(0, 30),
)


@settings(deadline=None)
@given(SHARED, st.integers(0, 150), st.integers(0, 60))
def test_a_shared_test_set_gives_the_sizes_asked_for(config, train, test):
    assume(not shortages(config, source(train, test)))
    roles = assign(config, source(train, test), rng())
    each = config.examples_per_client or (train - config.shadow_size) // config.clients
    assert set(roles.sizes) == {each}
    assert len(roles.shadow) == config.shadow_size and (roles.shadow < train).all()
    assert len(roles.test) == (test // 2 if config.test_size is None else config.test_size)
    assert len(roles.nonmembers) == (
        test // 2 if config.nonmember_size is None else config.nonmember_size
    )
    assert (roles.test >= train).all() and (roles.nonmembers >= train).all()
    assert set(roles.test_owner) | set(roles.nonmember_owner) == {NOBODY}


def test_a_federation_says_whom_its_examples_are_about_and_what_its_inputs_are():
    """Every example holds its own number, and is about the person with its number by ten."""
    x = np.arange(100, dtype=np.float32)[:, None]
    parts = {
        name: Examples(own, np.zeros(50, np.int64))
        for name, own in (("train", x[:50]), ("test", x[50:]))
    }
    for fields in ({"persons": np.arange(100) // 10}, {"subjects": np.arange(100) // 10}):
        whole = Source("toy", 2, **parts, columns=("n",), **fields)
        data = assign(SharedTestConfig(clients=2, shadow_size=9), whole, rng()).federation(whole)
        for name, about in data.persons.items():
            assert (getattr(data, name).x[:, 0] // 10 == about).all() and len(about)
        assert {*data.persons} == {"train", "nonmembers", "shadow"} and data.columns == ("n",)
    silent = Source("toy", 2, **parts)
    assert (
        assign(SharedTestConfig(clients=2, shadow_size=9), silent, rng()).federation(silent).persons
        == {}
    )


def test_held_out_examples_of_the_paper():
    config = HeldOutConfig(clients=100, held_out=0.1)
    roles = assign(config, source(50_000, 10_000), rng())
    assert set(roles.sizes) == {450}
    assert np.bincount(roles.test_owner).tolist() == [25] * 100
    assert np.bincount(roles.nonmember_owner).tolist() == [25] * 100
    assert sorted(roles.shadow) == list(range(50_000, 60_000))


def test_the_number_of_clients_leaves_the_other_purposes_alone():
    few, many = (
        assign(SharedTestConfig(clients=n, shadow_size=10), source(50, 20), rng()) for n in (2, 5)
    )
    for name in "shadow", "test", "nonmembers":
        np.testing.assert_array_equal(getattr(few, name), getattr(many, name))


def shared(**fields) -> SharedTestConfig:
    return SharedTestConfig(**{"clients": 5, "shadow_size": 20} | fields)


@pytest.mark.parametrize(
    ("config", "key", "numbers"),
    [
        (shared(clients=31), "data.clients", [31, 30, 50, 20]),
        (shared(examples_per_client=7), "data.examples_per_client", [5, 6, 7, 50, 20]),
        (shared(shadow_size=51), "data.shadow_size", [50, 51]),
        (shared(test_size=6), "data.test_size", [6, 5, 10]),
        (
            shared(test_size=4, nonmember_size=4, validation_size=3),
            "data.validation_size",
            [3, 4, 1, 4, 10],
        ),
        (shared(validation_size=10), "data.validation_size", [10, 0, 1, 0, 10]),
        (HeldOutConfig(clients=51), "data.clients", [51, 50, 50]),
        (HeldOutConfig(clients=5), "data.held_out", [10, 0, 1, 9, 1, 0, 1]),
        (
            HeldOutConfig(clients=1, held_out=0.04, validation_share=0.6),
            "data.held_out",
            [50, 0, 4, 48, 1, 0, 1, 1],
        ),
        (HeldOutConfig(clients=5, held_out=0.5, shadow_size=11), "data.shadow_size", [10, 11]),
    ],
)
def test_what_is_too_small_is_said(config, key, numbers):
    (sentence,) = shortages(config, source(50, 10))
    place, _, said = sentence.partition(": ")
    assert (place, [int(word) for word in re.findall(r"\d+", said)]) == (key, numbers), said


def test_all_that_is_too_small_is_said_at_once():
    found = shortages(SharedTestConfig(clients=5, shadow_size=99, test_size=99), source(50, 10))
    assert [sentence.split(":")[0] for sentence in found] == ["data.shadow_size", "data.test_size"]
