"""The containers: numbering of examples, views, strengths for examples that belong to nobody,
and the digest.
"""

import dataclasses

import numpy as np
import pytest

from datasets.federation import Examples, Federation, Preparation, Source


def examples(n: int, start: int = 0) -> Examples:
    x = np.arange(start, start + n, dtype=np.uint8).reshape(n, 1, 1, 1)
    return Examples(x, np.arange(n, dtype=np.int64) % 3)


@pytest.fixture
def federation() -> Federation:
    """Three clients with 2, 3 and 1 examples; examples of clients 0 and 2 have strength 10 and
    30, client 1 has 1, 2, 3.
    """
    train = examples(6)
    return Federation(
        name="toy",
        classes=3,
        train=Examples(train.x.astype(np.float32), train.y),
        offsets=np.array([0, 2, 5, 6]),
        groups=np.array([0, 0, 1]),
        group_names=("majority", "minority"),
        strengths=np.float32([10, 2, 30]),
        example_strengths=np.float32([10, 10, 1, 2, 3, 30]),
        test=examples(2),
        test_owner=np.array([0, 2]),
        nonmembers=examples(2, 50),
        nonmember_owner=np.array([-1, -1]),
        shadow=examples(4, 100),
        prepare=Preparation("rotation"),
    )


def test_examples_are_numbered_training_first_then_test():
    source = Source("toy", 3, train=examples(4), test=examples(2, start=100))
    found = source.examples(np.array([5, 0, 4, 3]))
    assert found.x.ravel().tolist() == [101, 0, 100, 3]
    assert found.y.tolist() == [1, 0, 0, 0]
    assert found.x.dtype == np.uint8
    assert len(source) == 6


def test_a_client_is_a_view_of_its_examples(federation):
    assert federation.clients == 3 and federation.shape == (1, 1, 1)
    assert federation.sizes.tolist() == [2, 3, 1]
    assert federation.owner().tolist() == [0, 0, 1, 1, 1, 2]
    assert federation.client(1).x.ravel().tolist() == [2, 3, 4]
    assert np.shares_memory(federation.client(1).x, federation.train.x)


def test_amounts_are_drawn_from_the_examples_of_the_client(federation):
    clients = np.repeat([2, 1, 0], 200)
    drawn = federation.draw_strengths(clients, np.random.default_rng(0))
    assert drawn.dtype == np.float32
    assert (
        set(drawn[:200]) == {30} and set(drawn[200:400]) == {1, 2, 3} and set(drawn[400:]) == {10}
    )
    np.testing.assert_array_equal(
        drawn, federation.draw_strengths(clients, np.random.default_rng(0))
    )


def test_the_digest_is_that_of_the_shadow_set_and_the_preparation(federation):
    digest = federation.digest()
    assert len(digest) == 32 and int(digest, 16) >= 0

    def of(**changes) -> str:
        return dataclasses.replace(federation, **changes).digest()

    assert of(groups=np.array([1, 0, 0]), train=examples(6, 7)) == digest
    changed = [
        of(shadow=examples(4, 101)),
        of(shadow=examples(3, 100)),
        of(shadow=Examples(federation.shadow.x, federation.shadow.y[::-1])),
        of(shadow=Examples(federation.shadow.x.reshape(2, 2, 1, 1), federation.shadow.y)),
        of(prepare=Preparation("brightness")),
        of(prepare=Preparation("rotation", fill=1.0)),
        of(classes=4),
    ]
    assert len({digest, *changed}) == len(changed) + 1


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (("poor", "rich"), ("poor", "rich")),
        (("majority", "minority"), ("majority", "minority")),
        (("north", "north_east"), ("north", "north_east")),
        (("low", "high"), ("of_low_clients", "of_high_clients")),
        (("null", "poor_null"), ("of_null_clients", "of_poor_null_clients")),
        (("income", "income_low"), ("income", "of_income_low_clients")),
        (("all_low", "all_high"), ("all_low", "all_high")),
        (("low", "of_low_clients"), ("of_low_clients", "of_of_low_clients_clients")),
        (("global", "cluster_1", "east_model_2", "model_x"), None),
        (("worst", "worst_client", "gap", "last_half", "round_3"), None),
    ],
)
def test_groups_end_names_of_metrics_that_nothing_else_has(federation, names, columns):
    """A group is called by its name, or as its clients; no two are called alike."""
    made = dataclasses.replace(federation, group_names=names).group_columns
    assert made == (columns or tuple(f"of_{name}_clients" for name in names))
    assert len(set(made)) == len(names)


def test_preparing_scales_transforms_then_normalizes():
    prepare = Preparation("brightness", mean=(0.5,), std=(0.25,))
    ready = prepare(np.array([51, 255], np.uint8).reshape(2, 1, 1, 1), np.float32([2, 2]))
    np.testing.assert_allclose(ready.ravel(), [(0.4 - 0.5) / 0.25, (1 - 0.5) / 0.25], rtol=1e-5)
