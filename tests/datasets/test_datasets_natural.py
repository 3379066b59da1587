"""The partition that the data come with: each value of the client column is a client."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from datasets.federation import Examples, Federation, Source
from datasets.source_configs import HeldOutConfig, SharedTestConfig
from datasets.splits import natural
from tests.support.federations import numbers, streams

NAMES = ("anna", "bob", "cem", "dora")
TRAIN, TEST = (10, 20, 30, 40), (4, 8, 12, 16)


def source(
    train: tuple[int, ...] = TRAIN, test: tuple[int, ...] = TEST, classes: int = 2, **fields: Any
) -> Source:
    """Examples of one number, which is their own; those of the clients are mixed."""
    total = sum(train) + sum(test)
    x = np.arange(total, dtype=np.float32)[:, None]
    mixed = np.random.default_rng(3)
    who = np.concatenate(
        [mixed.permutation(np.repeat(np.arange(len(sizes)), sizes)) for sizes in (train, test)]
    )
    y = np.arange(total) // 2 % classes
    parts = Examples(x[: sum(train)], y[: sum(train)]), Examples(x[sum(train) :], y[sum(train) :])
    return Source("toy", 2, *parts, subjects=who, subject_names=NAMES[: len(train)], **fields)


def data(**fields: Any) -> SharedTestConfig:
    return SharedTestConfig(**{"clients": 4, "shadow_size": 10} | fields)


def dealt(
    config: SharedTestConfig, seed: int = 0, given: Source | None = None, **fields: Any
) -> Federation:
    given = given or source()
    assert natural.shortages(natural.Config(**fields), config, given) == []
    return natural.partition(natural.Config(**fields), config, given, streams(seed))


@settings(deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(
    st.lists(st.integers(1, 60), min_size=4, max_size=4),
    st.integers(2, 4),
    st.integers(0, 30),
    st.integers(0, 20),
)
def test_whoever_is_drawn_can_give_its_share_if_small_clients_are_left_out(
    train: list[int], clients: int, shadow: int, seed: int
) -> None:
    given, config = source(tuple(train)), data(clients=clients, shadow_size=shadow)
    chosen = natural.Config(too_few="leave_out", min_examples=4, one_class="keep")
    small = natural.too_small(4, shadow, clients, np.array(train), np.array(TEST))
    assume(not natural.shortages(chosen, config, given) and (~small).sum() >= clients)
    able = np.sort(np.array(train)[~small])
    # Else no client can be left out: the shadow set is too large, whoever is drawn.
    assume(able[0] - np.ceil(shadow * able[0] / able[:clients].sum()) >= 4)
    federation = natural.partition(chosen, config, given, streams(seed))
    assert federation.clients == clients and federation.sizes.min() >= 4


def test_a_client_that_cannot_give_its_share_is_left_out_and_otherwise_refused() -> None:
    given, config = source((5, 20, 30, 40)), data(clients=3, shadow_size=24)
    chosen = natural.Config(too_few="leave_out", min_examples=4, one_class="keep")
    for seed in range(10):
        assert natural.partition(chosen, config, given, streams(seed)).sizes.tolist() == [
            15,
            22,
            29,
        ]
    assert natural.shortages(
        natural.Config(too_few="leave_out", min_examples=4), data(clients=4, shadow_size=60), given
    )


def test_every_client_has_its_own_examples_and_gives_its_share_to_the_shadow_set() -> None:
    given = source()
    assert given.subjects is not None
    federation = dealt(data(), given=given)
    assert federation.client_names == NAMES
    assert federation.sizes.tolist() == [9, 18, 27, 36]
    assert given.subjects[numbers(federation.train)].tolist() == federation.owner().tolist()
    assert np.bincount(given.subjects[numbers(federation.shadow)]).tolist() == [1, 2, 3, 4]
    assert (np.array(numbers(federation.shadow)) < 100).all()
    assert np.bincount(federation.test_owner).tolist() == [2, 4, 6, 8]
    assert np.bincount(federation.nonmember_owner).tolist() == [2, 4, 6, 8]
    assert given.subjects[numbers(federation.test)].tolist() == federation.test_owner.tolist()
    assert (
        given.subjects[numbers(federation.nonmembers)].tolist()
        == federation.nonmember_owner.tolist()
    )
    assert not federation.strangers
    assert federation.group_names == ("all",)


def test_every_attacked_example_keeps_its_number_in_the_data() -> None:
    """Numbers count from 1, or are those of the user's own file where the source has them."""
    given = source()
    of_file = np.random.default_rng(4).permutation(len(given)) + 7
    for file_rows in (None, of_file):
        federation = dealt(data(), given=source(file_rows=file_rows))
        stored = [federation.train.x, federation.nonmembers.x, federation.shadow.x]
        number = np.concatenate(stored)[:, 0].astype(np.int64)
        expected = number + 1 if file_rows is None else of_file[number]
        assert np.array_equal(federation.rows, expected)


def test_sizes_count_the_examples_of_all_clients() -> None:
    federation = dealt(data(shadow_size=0, test_size=20, nonmember_size=10, validation_size=10))
    assert np.bincount(federation.test_owner).tolist() == [2, 4, 6, 8]
    assert np.bincount(federation.nonmember_owner).tolist() == [1, 2, 3, 4]
    assert np.bincount(federation.validation_owner).tolist() == [1, 2, 3, 4]
    assert len(federation.shadow) == 0 and federation.sizes.tolist() == list(TRAIN)
    assert dealt(data(examples_per_client=15)).sizes.tolist() == [9, 15, 15, 15]


def test_fewer_clients_are_drawn_and_keep_their_own_draws() -> None:
    drawn = {
        tuple(dealt(data(clients=2, shadow_size=0), seed).sizes.tolist()) for seed in range(20)
    }
    assert len(drawn) > 3 and drawn <= {(a, b) for a in TRAIN for b in TRAIN if a < b}
    whole, fewer = dealt(data(shadow_size=0)), dealt(data(clients=2, shadow_size=0))
    own = [numbers(whole.client(client)) for client in range(4)]
    assert [own.index(numbers(fewer.client(client))) for client in range(2)] == [
        NAMES.index(one) for one in fewer.client_names
    ]
    assert all(numbers(fewer.client(client)) in own for client in range(2))


def test_groups_are_those_of_the_data() -> None:
    groups: dict[str, Any] = {
        "subject_groups": np.array([2, 0, 2, 0]),
        "group_names": ("east", "south", "west"),
    }
    federation = dealt(data(), given=source(**groups))
    assert federation.group_names == ("east", "west") and federation.groups.tolist() == [1, 0, 1, 0]


def refused(
    given: Source, config: SharedTestConfig | HeldOutConfig | None = None, **fields: Any
) -> list[str]:
    return natural.shortages(natural.Config(**fields), config or data(), given)


def test_clients_with_too_few_examples_are_refused_by_name_or_left_out() -> None:
    small = source(train=(1, 20, 30, 40), test=(1, 8, 0, 16))
    (sentence,) = refused(small)
    assert sentence.startswith(
        "data.split.too_few: clients with too few examples: anna, cem (anna has 1 to train "
        "on and 1 to test on; at "
    )
    assert refused(small, data(clients=2), too_few="leave_out") == []
    federation = dealt(data(clients=2), given=small, too_few="leave_out")
    assert federation.clients == 2 and federation.sizes.sum() == 50


def test_clients_that_are_set_aside_by_name_may_be_small_or_of_one_class() -> None:
    """They take no part: anna has one example, and cem none to test on."""
    small = source(train=(1, 20, 30, 40), test=(1, 8, 0, 16))
    names = ["anna", "cem"]
    assert refused(small, data(clients=2), server=names) == []
    assert refused(small, data(clients=3), server=names[:1])[0].startswith("data.split.too_few")
    assert small.subjects is not None
    y = np.where(small.subjects[: len(small.train)] == 3, 0, small.train.y)
    one = replace(small, train=Examples(small.train.x, y))
    assert refused(one, data(clients=1), server=names)[0].startswith("data.split.one_class")
    assert refused(one, data(clients=1), server=[*names, NAMES[3]]) == []


def test_clients_with_one_class_are_refused_by_name_or_kept() -> None:
    given = source()
    assert given.subjects is not None
    y = np.where(given.subjects[:100] == 1, 1, given.train.y)
    lonely = Source(
        "toy",
        2,
        Examples(given.train.x, y),
        given.test,
        subjects=given.subjects,
        subject_names=NAMES,
    )
    (sentence,) = refused(lonely)
    assert sentence.startswith(
        "data.split.one_class: clients with training examples of one class alone: bob;"
    )
    assert refused(lonely, one_class="keep") == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"clients": 5},
            "data.clients: toy has 4 clients with enough examples (anna, bob, cem, dora), "
            "fewer than 5",
        ),
        (
            {"shadow_size": 90},
            "data.shadow_size: 90 examples, of each client in proportion to the 100 of all, "
            "are 9 of ",
        ),
        ({"test_size": 50}, "data.test_size: 50 examples"),
        ({"test_size": 30, "nonmember_size": 30}, "data.nonmember_size: 30 examples"),
        ({"validation_size": 40}, "data.validation_size: 40 examples"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(fields: dict[str, Any], said: str) -> None:
    (sentence,) = refused(source(), data(**fields))
    assert said in sentence


def test_data_that_name_no_client_are_refused() -> None:
    given = source()
    nameless = Source("toy", 2, given.train, given.test)
    for config, one in ((data(), nameless), (HeldOutConfig(), given)):
        assert refused(one, config)[0].startswith(
            "data.split.name: natural needs data that say whose each example is"
        )
