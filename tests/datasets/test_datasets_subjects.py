"""The split into subjects: everybody's own examples."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from datasets.federation import DataError, Examples, Federation, Source
from datasets.source_configs import HeldOutConfig, SharedTestConfig
from datasets.splits import subjects
from datasets.splits.subjects import Config
from tests.support.federations import numbers, streams

NUMBERS = np.array(
    [1, 2, 5, 7, 11, 30]
)  # of the subjects; 1, 2 and 5 are the publisher's training subjects
WINDOWS = 40  # of each subject
ALL = HeldOutConfig(clients=6)


def source(windows: int = WINDOWS, activities: int = 4) -> Source:
    """Windows [2, 3] whose first value is the number of the example; three subjects in either
    part, four activities.
    """
    total = windows * len(NUMBERS)
    x = np.random.default_rng(1).random((total, 2, 3), dtype=np.float32)
    x[:, 0, 0] = np.arange(total)
    y = np.arange(total) % activities
    half = total // 2
    return Source(
        "toy",
        activities,
        Examples(x[:half], y[:half]),
        Examples(x[half:], y[half:]),
        subjects=owners(windows),
    )


def owners(windows: int = WINDOWS) -> np.ndarray:
    """Whose window each is: the two parts are not sorted by subject."""
    return np.concatenate([np.tile(NUMBERS[:3], windows), np.tile(NUMBERS[3:], windows)])


def dealt(
    config: Config, data: HeldOutConfig = ALL, seed: int = 0, toy: Source | None = None
) -> Federation:
    toy = toy or source()
    assert subjects.shortages(config, data, toy) == []
    return subjects.partition(config, data, toy, streams(seed))


def parts(federation: Federation, client: int) -> tuple[list[int], list[int], list[int]]:
    """The examples of a client: trained on, tested on, non-members."""
    return (
        numbers(federation.client(client)),
        numbers(federation.test[federation.test_owner == client]),
        numbers(federation.nonmembers[federation.nonmember_owner == client]),
    )


configs = st.builds(
    Config,
    activity_sample=st.booleans(),
    holdout=st.sampled_from(["random", "fold"]),
    test_share=st.floats(0.05, 0.7),
    folds=st.integers(2, 4),
    fold=st.integers(0, 1),
)


@settings(max_examples=60, deadline=None)
@given(configs, st.integers(1, 6), st.one_of(st.none(), st.integers(4, 50)), st.integers(0, 10))
def test_every_window_of_a_client_serves_one_purpose_and_is_its_own(config, clients, limit, seed):
    federation = dealt(config, HeldOutConfig(clients=clients, examples_per_client=limit), seed)
    whose = owners()
    of_client = [whose[numbers(federation.client(i))[0]] for i in range(clients)]
    assert of_client == sorted(set(of_client))
    for i in range(clients):
        train, test, nonmembers = parts(federation, i)
        assert sorted(train + test + nonmembers) == np.flatnonzero(whose == of_client[i]).tolist()
        assert train and test and (limit is None or len(train + test) <= limit)
        assert nonmembers == [] or config.activity_sample or limit is not None
    assert sorted(numbers(federation.shadow)) == np.flatnonzero(~np.isin(whose, of_client)).tolist()
    assert (federation.train.y == np.array(numbers(federation.train)) % 4).all()
    assert (federation.test.y == np.array(numbers(federation.test)) % 4).all()


@pytest.mark.parametrize(
    ("share", "windows", "held_out"), [(0.2, 40, 8), (0.2, 41, 9), (0.3, 7, 3), (0.01, 40, 1)]
)
def test_a_share_is_rounded_up(share, windows, held_out):
    federation = dealt(Config(activity_sample=False, test_share=share), toy=source(windows))
    assert np.bincount(federation.test_owner).tolist() == [held_out] * 6


def test_folds_hold_out_every_window_once():
    tests = [
        dealt(Config(activity_sample=False, holdout="fold", fold=fold), toy=source(42)).test
        for fold in range(5)
    ]
    assert sorted(chain.from_iterable(numbers(test) for test in tests)) == list(range(42 * 6))
    assert [len(test) for test in tests] == [54, 54, 48, 48, 48]


def test_more_clients_keep_those_that_fewer_have():
    few, many = (dealt(Config(), HeldOutConfig(clients=clients)) for clients in (3, 5))
    those = {tuple(map(tuple, parts(many, i))) for i in range(5)}
    assert {tuple(map(tuple, parts(few, i))) for i in range(3)} < those


def test_an_activity_sample_keeps_one_to_all_of_each_activity():
    """1200 draws of 1..4 windows: each number 300 times with a deviation of 15, of 1..6: 200
    times with one of 13.
    """
    drawn = [[], []]
    for seed in range(1200):
        kept = subjects.activity_sample(
            np.arange(10), np.array([0] * 4 + [1] * 6), np.random.default_rng(seed)
        )
        assert len(set(kept)) == len(kept)
        drawn[0].append((kept < 4).sum())
        drawn[1].append((kept >= 4).sum())
    assert np.abs(np.bincount(drawn[0], minlength=5) - [0, 300, 300, 300, 300]).max() < 60
    assert np.abs(np.bincount(drawn[1], minlength=7) - [0, *[200] * 6]).max() < 60


@pytest.mark.parametrize(
    ("data", "toy", "said"),
    [
        (
            HeldOutConfig(clients=7),
            source(),
            "data.clients: toy has 6 subjects, fewer than 7 clients",
        ),
        (
            ALL,
            replace(source(), subjects=None),
            "data.split.name: subjects needs a data set that says whose example each is",
        ),
        (
            SharedTestConfig(clients=2),
            source(),
            "data.split.name: subjects needs a data set that says that clients hold out",
        ),
        (
            HeldOutConfig(clients=6, shadow_size=5),
            source(),
            "data.shadow_size: all 6 subjects of toy are clients",
        ),
    ],
)
def test_what_a_data_set_cannot_give_is_refused(data, toy, said):
    (sentence,) = subjects.shortages(Config(), data, toy)
    assert sentence.startswith(said)


def test_the_shadow_set_is_taken_from_the_other_subjects():
    with pytest.raises(DataError, match=r"data\.shadow_size: .* have 40 windows, fewer than 41"):
        dealt(Config(), HeldOutConfig(clients=5, shadow_size=41))
    assert len(dealt(Config(), HeldOutConfig(clients=5, shadow_size=40)).shadow) == 40
    assert subjects.shortages(Config(), HeldOutConfig(clients=6, shadow_size=0), source()) == []


@pytest.mark.parametrize(
    ("fields", "windows", "words"),
    [
        (
            {"test_share": 0.9},
            2,
            "of the 2 windows kept of subject 1, 2 are held out and 0 trained on",
        ),
        (
            {"holdout": "fold", "folds": 9, "fold": 8},
            4,
            "of the 4 windows kept of subject 1, 0 are held out and 4",
        ),
    ],
)
def test_a_subject_without_a_window_to_train_or_test_on_is_refused(fields, windows, words):
    with pytest.raises(DataError, match=words):
        dealt(Config(activity_sample=False, **fields), toy=source(windows))


@pytest.mark.parametrize("fields", [{"fold": 5}, {"folds": 3, "fold": 3}])
def test_a_fold_that_is_none_is_refused(fields):
    with pytest.raises(ValidationError):
        Config(**fields)
    assert Config(folds=3, fold=2).fold == 2
