"""Alzheimer MRI itself, where it lies under FEDPRIV_DATA, and the paper's clients on it."""

import numpy as np
import pytest

from datasets.federation import Source
from datasets.sources import alzheimer
from datasets.splits import class_counts
from tests.support.published import real

pytestmark = pytest.mark.realdata


@pytest.fixture(scope="module")
def source() -> Source:
    return real(alzheimer)[2]


def test_the_class_counts_are_the_published_ones(source):
    assert np.bincount(source.train.y).tolist() == [724, 49, 2566, 1781]
    assert np.bincount(source.test.y).tolist() == [172, 15, 634, 459]


def test_images_are_slices_on_a_dark_background_and_none_occurs_twice(source):
    x = np.concatenate([source.train.x, source.test.x])
    assert x.shape == (6400, 1, 128, 128) and x.max() > 200
    assert np.median(x[..., :4, :4]) < 10
    assert len({image.tobytes() for image in x}) == len(x)


@pytest.mark.parametrize("preset", list(class_counts.PUBLISHED_COUNTS))
def test_the_papers_clients(source, preset):
    table = class_counts.PUBLISHED_COUNTS[preset]
    config, data = class_counts.Config(preset=preset), alzheimer.Config(clients=len(table))
    assert class_counts.shortages(config, data, source) == []
    dealt = class_counts.assign(config, data, source, lambda purpose: np.random.default_rng([42, *purpose.encode()]))
    for i, own in enumerate(dealt.clients):
        mine = np.concatenate([own, dealt.test[dealt.test_owner == i]])
        assert np.bincount(source.train.y[mine]).tolist() == list(table[i])
        assert len(own) == round(0.8 * sum(table[i]))
    assert len(dealt.shadow) == (dealt.test_owner < 0).sum() == 640
    assert len(dealt.nonmembers) == 0
