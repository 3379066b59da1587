"""The split by exact class counts: printed tables, a table of one's own, and shares of a
stratified partition.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from datasets import roles
from datasets.federation import Examples, Federation, Source
from datasets.source_configs import HeldOutConfig, SharedTestConfig
from datasets.sources import alzheimer
from datasets.splits import class_counts
from datasets.splits.class_counts import PUBLISHED_COUNTS, Config
from orchestrator.config.run import resolve
from tests.support.federations import numbers, streams

PUBLISHED = (
    np.repeat(np.arange(4), (724, 49, 2566, 1781)),
    np.repeat(np.arange(4), (172, 15, 634, 459)),
)
HELD_OUT = HeldOutConfig(clients=2, held_out=0.25, shadow_size=6)
SHARED = SharedTestConfig(clients=2, shadow_size=10, test_size=6, nonmember_size=4)


def source(train_y: np.ndarray, test_y: np.ndarray, classes: int) -> Source:
    """Examples whose only stored value is their number, in a shuffled order of classes."""
    rng = np.random.default_rng(5)
    x = np.arange(len(train_y) + len(test_y), dtype=np.float32).reshape(-1, 1)
    train, test = rng.permutation(train_y), rng.permutation(test_y)
    return Source("toy", classes, Examples(x[: len(train)], train), Examples(x[len(train) :], test))


def toy(train=(20, 10, 30), test=(8, 4, 12)) -> Source:
    return source(np.repeat(np.arange(3), train), np.repeat(np.arange(3), test), 3)


def dealt(config: Config, data, toys: Source | None = None, seed: int = 0) -> Federation:
    toys = toys or toy()
    assert class_counts.shortages(config, data, toys) == []
    return class_counts.partition(config, data, toys, streams(seed))


def by_class(y: np.ndarray, classes: int = 3) -> list[int]:
    return np.bincount(y, minlength=classes).tolist()


def all_of(federation: Federation, i: int) -> list[int]:
    """[classes] what client ``i`` has, its tests included."""
    mine = np.concatenate([federation.client(i).y, federation.test.y[federation.test_owner == i]])
    return by_class(mine, federation.classes)


@pytest.mark.parametrize(
    ("preset", "total"), [("homogeneous", 5120), ("non_iid", 5120), ("cia", 5120)]
)
def test_the_papers_tables_deal_every_image_by_the_published_counts(preset, total):
    data = alzheimer.Config(clients=len(PUBLISHED_COUNTS[preset]))
    federation = dealt(Config(preset=preset), data, source(*PUBLISHED, 4))
    assert [all_of(federation, i) for i in range(federation.clients)] == [
        list(row) for row in PUBLISHED_COUNTS[preset]
    ]
    assert federation.sizes.sum() + (federation.test_owner >= 0).sum() == total
    assert len(federation.nonmembers) == 0 and len(federation.shadow) == 640
    assert by_class(federation.shadow.y, 4) == [86, 8, 317, 229]
    assert by_class(federation.test.y[federation.test_owner < 0], 4) == [86, 7, 317, 230]


def test_a_small_table_by_hand():
    federation = dealt(Config(preset="custom", counts=[[4, 4, 0], [12, 0, 24]]), HELD_OUT)
    assert [by_class(federation.client(i).y) for i in (0, 1)] == [[3, 3, 0], [9, 0, 18]]
    tests = [by_class(federation.test.y[federation.test_owner == i]) for i in (0, 1, -1)]
    assert tests == [[1, 1, 0], [3, 0, 6], [6, 3, 9]]
    assert by_class(federation.nonmembers.y) == [4, 6, 6] and set(federation.nonmember_owner) == {
        -1
    }
    assert by_class(federation.shadow.y) == [2, 1, 3]
    assert federation.group_names == ("all",) and federation.groups.tolist() == [0, 0]
    assert federation.offsets.tolist() == [0, 6, 33]
    one_row = dealt(
        Config(preset="custom", counts=(5, 0, 5), test_share=0.4), HELD_OUT
    )  # for every client
    assert [all_of(one_row, i) for i in (0, 1)] == [[5, 0, 5]] * 2 and one_row.sizes.tolist() == [
        6,
        6,
    ]


def test_a_shared_test_set_keeps_the_sizes_that_the_data_set_names():
    federation = dealt(Config(shares=[4, 1]), SHARED)
    assert by_class(federation.shadow.y) == [
        3,
        2,
        5,
    ]  # a sixth of 20, 10 and 30 is 3 1/3, 1 2/3 and 5
    assert by_class(federation.test.y[federation.test_owner < 0]) == [2, 1, 3]
    assert by_class(federation.nonmembers.y) == [
        1,
        1,
        2,
    ]  # of the 6, 3 and 9 left, 4/18: 1 1/3, 2/3 and 2
    assert max(numbers(federation.shadow)) < 60 <= min(numbers(federation.nonmembers))
    assert all_of(federation, 0) == [14, 6, 20] and all_of(federation, 1) == [3, 2, 5]
    assert (federation.test_owner == 0).sum() == 8  # a fifth, where the data set has no held_out


def test_examples_per_client_is_a_mean_where_sizes_follow_shares():
    federation = dealt(
        Config(shares=(3, 1)), HELD_OUT.model_copy(update={"examples_per_client": 12})
    )
    assert [all_of(federation, i) for i in (0, 1)] == [[6, 3, 9], [2, 1, 3]]
    assert len(federation.nonmembers) == 60 - 24


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(0.01, 5), min_size=1, max_size=9),
    st.lists(st.integers(0, 80), min_size=1, max_size=12),
)
def test_shares_deal_everything_and_every_class_by_its_share(shares, available):
    table = class_counts.by_shares(np.array(available), tuple(shares))
    assert table.sum(axis=0).tolist() == available and (table >= 0).all()
    each = np.array(shares) / sum(shares)
    assert (
        table > np.outer(each, available) - 1 - 1e-9
    ).all()  # nobody loses an example of a class
    assert (
        table.sum(axis=1) < each * sum(available) + 1 + 1e-9
    ).all()  # nobody runs ahead by one in all


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 90), min_size=1, max_size=9), st.floats(0, 1))
def test_portions_are_proportional_within_one(available, part):
    counts = np.array(available)
    size = int(part * counts.sum())
    taken = roles.portions(counts, size)
    assert taken.sum() == size and (taken <= counts).all()
    assert (abs(taken - counts * size / max(counts.sum(), 1)) < 1).all()


def test_each_stream_deals_its_own_half_of_the_data():
    def mixed(purpose: str) -> np.random.Generator:
        return streams(1 if purpose == "validation" else 0)(purpose)

    config = Config(preset="custom", counts=((4, 4, 8), (4, 0, 8)))
    one, other = dealt(config, HELD_OUT), class_counts.partition(config, HELD_OUT, toy(), mixed)
    assert numbers(one.train) == numbers(other.train) and numbers(one.nonmembers) == numbers(
        other.nonmembers
    )
    assert numbers(one.shadow) != numbers(other.shadow)


def test_the_shadow_set_stays_when_clients_are_swept():
    few, many = (
        dealt(Config(), SHARED.model_copy(update={"clients": clients})) for clients in (2, 4)
    )
    assert numbers(few.shadow) == numbers(many.shadow)


# What is read and refused


@pytest.mark.parametrize(
    ("split", "field", "read"),
    [
        ({"preset": "custom", "counts": [[1, 2], [3, 1]]}, "counts", ((1, 2), (3, 1))),
        ({"preset": "custom", "counts": [5, 5]}, "counts", ((5, 5),)),
        ({"shares": [0.5, 1]}, "shares", (0.5, 1.0)),
    ],
)
def test_lists_in_a_sweep_file_are_rows(split, field, read):
    data = {"name": "digits", "clients": 2, "split": {"name": "class_counts", **split}}
    assert getattr(resolve({"rounds": 1, "model": "mlp", "data": data}).split.config, field) == read


def held_out(**fields) -> HeldOutConfig:
    return HELD_OUT.model_copy(update=fields)


def custom(*counts: tuple[int, ...]) -> Config:
    return Config(preset="custom", counts=counts)


@pytest.mark.parametrize(
    ("config", "data", "sentence"),
    [
        (
            Config(preset="homogeneous"),
            held_out(clients=3),
            "data.clients: data.split.preset describes 4 clients; got 3",
        ),
        (
            Config(shares=(1, 2)),
            held_out(clients=3),
            "data.clients: data.split.shares describes 2 clients; got 3",
        ),
        (
            Config(preset="custom"),
            HELD_OUT,
            "data.split.counts: the preset custom needs a row of numbers",
        ),
        (
            Config(preset="non_iid"),
            alzheimer.Config(examples_per_client=10),
            "data.examples_per_client: the class counts",
        ),
    ],
)
def test_what_does_not_fit_together_is_said(config, data, sentence):
    (found,) = class_counts.problems(config, data)
    assert found.startswith(sentence)


@pytest.mark.parametrize(
    ("config", "data", "sentences"),
    [
        (
            custom((11, 5, 15), (10, 6, 16)),
            HELD_OUT,
            [
                "data.split.counts: the clients ask for 21 examples of class 0, and toy has "
                "20 for them (of 60 training",
                "data.split.counts: the clients ask for 11 examples of class 1, and toy has 10",
                "data.split.counts: the clients ask for 31 examples of class 2, and toy has 30",
            ],
        ),
        (
            custom((9, 4, 12)),
            SHARED,
            [
                "data.split.counts: the clients ask for 18 examples of class 0, and toy has "
                "17 for them (of 60 training examples less the 10 that the server keeps)"
            ],
        ),
        (
            Config(preset="cia"),
            held_out(clients=3),
            ["data.split.preset: has counts for 4 classes, but toy"],
        ),
        (
            custom((1, 0, 1), (9, 9, 9)),
            HELD_OUT,
            ["data.split.test_share: of 2 examples of client 0, 0.25 leaves 2 to train"],
        ),
        (
            Config(),
            held_out(examples_per_client=31),
            ["data.examples_per_client: 2 clients can have at most 30 each on avera"],
        ),
    ],
)
def test_what_a_data_set_cannot_give_is_said(config, data, sentences):
    found = class_counts.shortages(config, data, toy())
    assert [
        told[: len(sentence)] for told, sentence in zip(found, sentences, strict=True)
    ] == sentences


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {"counts": [[1, 2], [3]]},
            "every row must have one number for each class; got rows of 1 and 2",
        ),
        ({"counts": [[1, 2], [0, 0]]}, "every client must have an example; row 1 has none"),
        ({"counts": [[1, -2]]}, "greater than or equal to 0"),
        ({"counts": [[1.5, 2]]}, "valid integer"),
    ],
)
def test_fields_out_of_range_are_refused(fields, why):
    with pytest.raises(ValidationError, match=why):
        Config(**fields)
