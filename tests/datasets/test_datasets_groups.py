"""The split into a majority and a minority that differ by a transform."""

import numpy as np
import pytest
from pydantic import ValidationError

from datasets import federation
from datasets.federation import Examples, Federation, Source
from datasets.source_configs import HeldOutConfig, SharedTestConfig
from datasets.splits import groups
from datasets.splits.groups import MINORITY, Config
from tests.support.federations import numbers, streams

BRIGHT = {"transform": "brightness", "minority": [0.5, 0.8], "majority": [0.85, 1.15]}
SHARED = SharedTestConfig(
    clients=8, examples_per_client=10, shadow_size=30, test_size=14, nonmember_size=20
)
HELD_OUT = HeldOutConfig(clients=8, examples_per_client=15, held_out=0.4)


def source(train: int = 120, test: int = 40, side: int = 6, classes: int = 5) -> Source:
    """Random images whose first pixel, as stored, is the number of the example."""
    rng = np.random.default_rng(1)
    x = rng.random((train + test, 1, side, side), dtype=np.float32)
    x[:, 0, 0, 0] = np.arange(train + test)
    y = rng.integers(0, classes, train + test)
    return Source(
        "toy", classes, Examples(x[:train], y[:train]), Examples(x[train:], y[train:]), fill=1.0
    )


def dealt(config: Config, data=SHARED, seed: int = 0, toy: Source | None = None) -> Federation:
    return groups.partition(config, data, toy or source(), streams(seed))


@pytest.mark.parametrize("data", [SHARED, HELD_OUT])
@pytest.mark.parametrize("draw", ["per_client", "per_image"])
@pytest.mark.parametrize("ranges", [{}, BRIGHT, {"transform": "none"}])
def test_the_parts_fit_together(data, draw, ranges):
    config = Config(minority_ratio=0.25, draw=draw, **ranges)
    federation = dealt(config, data)
    assert federation.clients == 8 and federation.shape == (1, 6, 6)
    assert federation.group_names == ("majority", "minority")
    assert (federation.groups == MINORITY).sum() == 2
    for i in range(federation.clients):
        mine = federation.example_strengths[federation.offsets[i] : federation.offsets[i + 1]]
        assert federation.strengths[i] == pytest.approx(mine.mean())
        low, high = config.minority if federation.groups[i] == MINORITY else config.majority
        if config.transform == "none":
            low = high = 0.0
        assert (low - 1e-5 <= mine).all() and (mine <= high + 1e-5).all()
        assert len(set(mine)) == (
            len(mine) if draw == "per_image" and config.transform != "none" else 1
        )
    assert federation.train.x.dtype == np.float32 and federation.train.y.dtype == np.int64
    assert federation.train.x.flags.c_contiguous


def test_examples_are_prepared_with_their_strengths_in_parts_as_in_one_go(monkeypatch):
    toy, data = source(), SHARED.model_copy(update={"validation_size": 4})
    plain, turned = dealt(Config(transform="none"), data, toy=toy), dealt(Config(), data, toy=toy)
    for part, strengths in (
        ("train", turned.example_strengths),
        ("test", turned.strengths[turned.test_owner]),
        ("validation", turned.strengths[turned.validation_owner]),
    ):
        stored = toy.examples(np.array(numbers(getattr(plain, part))))
        np.testing.assert_array_equal(getattr(turned, part).x, turned.prepare(stored.x, strengths))
    assert turned.prepare.fill == toy.fill == 1.0
    monkeypatch.setattr(federation, "EXAMPLES_AT_ONCE", 7)
    np.testing.assert_array_equal(dealt(Config(), data, toy=toy).train.x, turned.train.x)


def test_both_groups_are_tested_on_the_same_examples():
    federation = dealt(Config(transform="none", minority_ratio=0.25))
    majority, minority = np.split(np.array(numbers(federation.test)), 2)
    np.testing.assert_array_equal(majority, minority)
    of_group = federation.groups[federation.test_owner]
    assert of_group.tolist() == [0] * 14 + [MINORITY] * 14
    counts = np.bincount(federation.test_owner, minlength=8)
    assert sorted(counts[federation.groups == 0]) == [2, 2, 2, 2, 3, 3]
    assert sorted(counts[federation.groups == MINORITY]) == [7, 7]


def test_the_number_of_minority_clients_is_the_rounded_ratio():
    for clients, ratio, expected in [
        (20, 0.15, 3),
        (200, 0.1, 20),
        (8, 0.3, 2),
        (10, 0.25, 2),
        (2, 0.5, 1),
    ]:
        data = SharedTestConfig(clients=clients, examples_per_client=1, shadow_size=0)
        federation = dealt(Config(minority_ratio=ratio), data, toy=source(200, 4, side=2))
        assert (
            federation.groups.sum()
            == expected
            == groups.minority_size(Config(minority_ratio=ratio), clients)
        )


def test_a_sweep_of_the_ratio_adds_to_the_minority():
    small, large = (
        dealt(Config(minority_ratio=ratio, majority=(0.0, 25.0))) for ratio in (0.25, 0.5)
    )
    assert set(np.flatnonzero(small.groups)) < set(np.flatnonzero(large.groups))
    np.testing.assert_array_equal(small.strengths, large.strengths)
    np.testing.assert_array_equal(small.train.x, large.train.x)


def test_a_sweep_of_the_ranges_keeps_places_within_them():
    narrow = dealt(Config(minority=(0, 20), majority=(20, 40)))
    wide = dealt(Config(minority=(0, 30), majority=(30, 60)))
    np.testing.assert_array_equal(narrow.groups, wide.groups)
    low_narrow, low_wide = (np.where(narrow.groups == MINORITY, 0, low) for low in (20, 30))
    np.testing.assert_allclose(
        (narrow.strengths - low_narrow) / 20, (wide.strengths - low_wide) / 30, atol=1e-5
    )


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"minority": [25, 0]}, "minority", r"a range is \[low, high\]; got \[25, 0\]"),
        ({"majority": [0, 181]}, "majority", r"degrees must lie in \[-180, 180\]; got \[0, 181\]"),
        (
            {"transform": "brightness"},
            "minority",
            r"must lie in \(0, 10\], for example \[0.5, 0.8\] .* got \[0, 25\]",
        ),
    ],
)
def test_impossible_fields_are_refused(fields, field, message):
    with pytest.raises(ValidationError, match=message) as refused:
        Config.model_validate(fields)
    assert field in [error["loc"][0] for error in refused.value.errors()]


@pytest.mark.parametrize(
    ("ratio", "clients", "empty"), [(0.02, 20, "minority"), (0.99, 20, "majority")]
)
def test_a_ratio_that_leaves_a_group_empty_is_a_problem(ratio, clients, empty):
    (sentence,) = groups.problems(Config(minority_ratio=ratio), SharedTestConfig(clients=clients))
    assert sentence.startswith(f"data.split.minority_ratio: {ratio:g} of {clients} clients is ")
    assert f"leaves the {empty} empty; a ratio from 0.05 to 0.95 leaves no group empty" in sentence
    for edge in 0.05, 0.95:
        assert groups.problems(Config(minority_ratio=edge), SharedTestConfig(clients=clients)) == []


def test_all_problems_are_found_at_once():
    windows = Source(
        "windows",
        2,
        Examples(np.zeros((4, 9, 128), np.float32), np.zeros(4, np.int64)),
        source().test,
    )
    found = groups.shortages(
        Config(minority_ratio=0.01), SharedTestConfig(clients=5, shadow_size=0), windows
    )
    keys = [sentence.split(":")[0] for sentence in found]
    assert keys == ["data.split.minority_ratio", "data.split.transform", "data.clients"]
    (sentence,) = groups.shortages(Config(**BRIGHT), SHARED, source())
    assert sentence.endswith(
        "brightness is for pixels in [0, 1], to which it clips; toy has values from 0 to 159"
    )
