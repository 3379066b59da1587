"""The Dirichlet split: label mixtures and sizes that differ between clients."""

import numpy as np
import pytest

from datasets.federation import DataError, Examples, Federation, Source
from datasets.source_configs import HeldOutConfig, SharedTestConfig
from datasets.splits import dirichlet
from datasets.splits.dirichlet import Config
from tests.support.federations import numbers, streams

# Client sizes on CIFAR-10 that the code released with Zhao et al. 2025 gives with seed 42, by alpha
# and algorithm.
PUBLISHED = {
    (0.5, "capped"): [1445, 3878, 1859, 2005, 2265, 2836, 2893, 4058, 2610, 1354],
    (0.5, "plain"): [1514, 7161, 3506, 5590, 3170, 7311, 5876, 10871, 3317, 1682],
    (0.1, "capped"): [1007, 2699, 175, 464, 1037, 2020, 1135, 1640, 2047, 1855],
    (0.1, "plain"): [6074, 18484, 175, 464, 2762, 5745, 1705, 3412, 6486, 4689],
}
HELD_OUT = HeldOutConfig(clients=4, split_seed=42)
SHARED = SharedTestConfig(clients=4, shadow_size=60, test_size=30, nonmember_size=40)


def source(train: int = 400, test: int = 100, classes: int = 5) -> Source:
    """Examples [1] whose value is the number of the example; the classes take turns."""
    x = np.arange(train + test, dtype=np.float32)[:, None]
    y = np.arange(train + test) % classes
    return Source("toy", classes, Examples(x[:train], y[:train]), Examples(x[train:], y[train:]))


def dealt(config: Config, data=HELD_OUT, seed: int = 0, toy: Source | None = None) -> Federation:
    toy = toy or source()
    assert dirichlet.shortages(config, data, toy) == []
    return dirichlet.partition(config, data, toy, streams(seed))


def mixtures(federation: Federation) -> np.ndarray:
    """[clients, classes] how many examples of each class each client has."""
    return np.array(
        [np.bincount(federation.client(i).y, minlength=5) for i in range(federation.clients)]
    )


# The released partition


def slowly(y: list[int], clients: int, alpha: float, capped: bool) -> list[list[int]]:
    """The recipe word by word, on lists."""
    rng = np.random.default_rng(42)
    taken: list[list[int]] = [[] for _ in range(clients)]
    for label in range(max(y) + 1):
        indices = [i for i, one in enumerate(y) if one == label]
        n = len(indices)
        rng.shuffle(indices)
        q = n * rng.dirichlet([alpha] * clients)
        for user in range(clients):
            take = min(len(indices), round(q[user]), n // clients if capped else n)
            taken[user] += [indices.pop(0) for _ in range(take)]
    return taken


@pytest.mark.parametrize(("alpha", "algorithm"), PUBLISHED)
def test_the_released_deal_is_replayed(alpha, algorithm):
    """Only the labels matter: these are as many, of as many classes, as CIFAR-10 has."""
    data = HeldOutConfig(clients=10, split_seed=42)
    config = Config(alpha=alpha, algorithm=algorithm, generator="numpy")
    federation = dealt(config, data, toy=source(50_000, 10_000, classes=10))
    assert federation.sizes.tolist() == PUBLISHED[alpha, algorithm]
    assert len(federation.test) == 10_000 and (federation.test_owner == -1).all()
    assert len(federation.nonmembers) == (
        50_000 - sum(federation.sizes) if algorithm == "capped" else 0
    )


@pytest.mark.parametrize("capped", [True, False])
@pytest.mark.parametrize("classes", [5, 7])
def test_the_replay_is_that_of_the_recipe_example_by_example(capped, classes):
    toy = source(400, classes=classes)
    config = Config(alpha=0.4, algorithm="capped" if capped else "plain", generator="numpy")
    federation = dealt(config, toy=toy, seed=capped)  # the run's streams are not asked
    expected = slowly(toy.train.y.tolist(), 4, 0.4, capped)
    assert [sorted(numbers(federation.client(i))) for i in range(4)] == [
        sorted(rows) for rows in expected
    ]


# The three algorithms


def test_a_class_of_fewer_examples_than_clients_is_not_lost():
    rng = np.random.default_rng(0)
    given = dirichlet.shares(Config(alpha=100.0), 4, [np.arange(3), np.arange(3, 103)], rng)
    assert [sum(rows < 3) for rows in given] == [1, 1, 1, 0]
    assert [sum(rows >= 3) for rows in given] == [len(rows[rows >= 3]) for rows in given] and max(
        map(len, given)
    ) <= 26


def test_a_large_alpha_deals_alike_and_a_small_one_whole_classes():
    alike = mixtures(dealt(Config(alpha=1e6, algorithm="plain")))
    assert np.abs(alike - 20).max() <= 1
    apart = mixtures(
        dealt(Config(alpha=0.001, algorithm="fedml", min_size=1), HeldOutConfig(clients=2))
    )
    assert np.isin(apart, [0, 1, 79, 80]).all()


def test_fedml_gives_no_further_class_to_who_has_an_equal_part():
    """Before each class, who holds an equal part or more, gets nothing of it: not even what
    rounding leaves over.
    """
    by_class = [np.arange(60 * c, 60 * c + 60) for c in range(6)]
    stopped = 0
    for seed in range(30):
        given = dirichlet.shares(
            Config(alpha=0.3, algorithm="fedml", min_size=1),
            4,
            by_class,
            np.random.default_rng(seed),
        )
        assert sorted(np.concatenate(given).tolist()) == list(range(360))
        of_class = np.array([np.bincount(rows // 60, minlength=6) for rows in given])
        full = np.cumsum(of_class, axis=1)[:, :-1] >= 90
        assert (of_class[:, 1:][full] == 0).all()
        stopped += full.sum()
    assert stopped > 30


def test_fedml_deals_until_everybody_has_enough_or_says_that_it_comes_to_no_end(monkeypatch):
    for min_size in (10, 70):
        config = Config(algorithm="fedml", min_size=min_size)
        assert min(dealt(config, seed=seed).sizes.min() for seed in range(5)) >= min_size
    monkeypatch.setattr(dirichlet, "ATTEMPTS", 20)
    with pytest.raises(
        DataError, match=r"data\.split\.min_size: 20 draws with alpha 0\.001 left some of 4 clients"
    ):
        dealt(Config(algorithm="fedml", alpha=0.001, min_size=100))


# What else there is


def test_with_held_out_examples_the_published_test_set_measures():
    federation = dealt(Config())
    assert sorted(numbers(federation.test)) == list(range(400, 500)) and len(federation.shadow) == 0
    assert sorted(numbers(federation.nonmembers) + numbers(federation.train)) == list(range(400))
    assert (federation.nonmember_owner == -1).all() and len(federation.nonmembers) > 50
    asked = dealt(Config(nonmember_size=25), HELD_OUT.model_copy(update={"shadow_size": 30}))
    assert len(asked.shadow) == 30 and len(asked.test) == 45
    assert (np.array(numbers(asked.nonmembers)) >= 400).sum() == 25
    assert min(numbers(asked.shadow) + numbers(asked.test)) >= 400


def test_what_rounding_leaves_over_is_no_set_of_non_members():
    federation = dealt(
        Config(algorithm="plain", generator="numpy"), HeldOutConfig(clients=7, split_seed=1)
    )
    assert 0 < 400 - len(federation.train) < 10
    assert len(federation.nonmembers) == 0


def test_with_a_shared_test_set_all_is_as_for_other_splits():
    federation = dealt(Config(), SHARED)
    assert (len(federation.test), len(federation.nonmembers), len(federation.shadow)) == (
        30,
        40,
        60,
    )
    other = dealt(Config(alpha=5.0, algorithm="plain"), SHARED.model_copy(update={"clients": 9}))
    assert numbers(other.shadow) == numbers(federation.shadow) and numbers(other.test) == numbers(
        federation.test
    )


def test_a_limit_keeps_a_clients_mixture():
    whole = dealt(Config(alpha=5.0, algorithm="plain"))
    part = dealt(
        Config(alpha=5.0, algorithm="plain"),
        HELD_OUT.model_copy(update={"examples_per_client": 40}),
    )
    assert part.sizes.tolist() == [40] * 4
    for i in range(4):
        assert set(numbers(part.client(i))) <= set(numbers(whole.client(i)))
    shares = [mixtures(one) / one.sizes[:, None] for one in (whole, part)]
    np.testing.assert_allclose(shares[1], shares[0], atol=0.2)


# Refusals


@pytest.mark.parametrize("generator", ["stream", "numpy"])
def test_a_client_that_is_dealt_nothing_is_refused(generator):
    config, data = Config(alpha=0.001, generator=generator), HeldOutConfig(clients=40, split_seed=3)
    problems = dirichlet.shortages(config, data, source())
    with pytest.raises(
        DataError,
        match=r"data\.split\.alpha: .* 0\.001 and data\.split_seed 3 client \d+ gets no example",
    ) as error:
        dirichlet.partition(config, data, source(), streams())
    assert problems == ([str(error.value)] if generator == "numpy" else [])


def held_out(**fields) -> HeldOutConfig:
    return HeldOutConfig(**{"clients": 4} | fields)


@pytest.mark.parametrize(
    ("config", "data", "words"),
    [
        (Config(generator="numpy"), held_out(), "data.split_seed: must be given"),
        (
            Config(nonmember_size=5),
            SHARED,
            "data.split.nonmember_size: this data set has data.nonmember_size",
        ),
        (
            Config(),
            held_out(clients=401),
            "data.clients: 401 clients of at least 1 each need more than the 400",
        ),
        (
            Config(algorithm="fedml"),
            held_out(clients=41),
            "data.clients: 41 clients of at least 10 each",
        ),
        (Config(), held_out(shadow_size=100), "data.shadow_size: 100 examples"),
        (
            Config(nonmember_size=50),
            held_out(shadow_size=50),
            "data.split.nonmember_size: 50 examples",
        ),
        (
            Config(),
            SharedTestConfig(clients=4, shadow_size=401),
            "data.shadow_size: toy has 400 training examples",
        ),
    ],
)
def test_what_cannot_be_had_is_refused(config, data, words):
    (sentence,) = dirichlet.shortages(config, data, source())
    assert sentence.startswith(words)
