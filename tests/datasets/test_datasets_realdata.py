"""The published data sets themselves, where they lie under FEDPRIV_DATA."""

import os
from pathlib import Path

import numpy as np
import pytest

from datasets import build_federation
from datasets.federation import DataError, Federation, Source
from datasets.sources import alzheimer, cifar10, femnist, har, mnist
from datasets.splits import class_counts, groups, subjects
from tests.support.federations import streams

pytestmark = pytest.mark.realdata


class Chosen:
    def __init__(self, module, **fields):
        self.module, self.config = module, module.Config(**fields)


def real(module, **fields) -> tuple[Chosen, Path, Source]:
    if not os.environ.get("FEDPRIV_DATA"):
        pytest.skip("FEDPRIV_DATA names no folder of data sets")
    chosen, root = Chosen(module, **fields), Path(os.environ["FEDPRIV_DATA"])
    assert root.is_dir(), f"FEDPRIV_DATA names {root}, which is no folder: nothing would be tested"
    try:
        return chosen, root, module.load(chosen.config, root, download=False)
    except DataError as reason:
        if "is absent" not in str(reason):
            raise
        pytest.skip(str(reason))


def dealt(chosen: Chosen, root: Path, module=groups, **split) -> Federation:
    return build_federation(chosen, Chosen(module, **split), root, streams())


def test_mnist():
    from torchvision.datasets import MNIST

    chosen, root, source = real(mnist)
    assert np.bincount(source.train.y).tolist() == [
        5923,
        6742,
        5958,
        6131,
        5842,
        5421,
        5918,
        6265,
        5851,
        5949,
    ]
    assert np.bincount(source.test.y).tolist() == [
        980,
        1135,
        1032,
        1010,
        982,
        892,
        958,
        1028,
        974,
        1009,
    ]
    federation = dealt(chosen, root, minority_ratio=0.1)
    assert (
        set(federation.sizes) == {250}
        and federation.clients == 200
        and federation.groups.sum() == 20
    )
    assert (len(federation.test), len(federation.nonmembers), len(federation.shadow)) == (
        10_000,
        5_000,
        10_000,
    )
    assert federation.shape == (1, 28, 28)
    for train, part in ((True, source.train), (False, source.test)):
        published = MNIST(root, train=train, download=False)
        np.testing.assert_array_equal(part.x[:, 0], published.data.numpy())
        np.testing.assert_array_equal(part.y, published.targets.numpy())


def test_cifar10():
    chosen, root, source = real(cifar10)
    assert (
        np.bincount(source.train.y).tolist() == [5000] * 10
        and np.bincount(source.test.y).tolist() == [1000] * 10
    )
    pixels = source.train.x[::10] / 255
    np.testing.assert_allclose(pixels.mean(axis=(0, 2, 3)), source.mean, atol=0.01)
    federation = dealt(
        chosen, root, transform="brightness", minority=(0.5, 0.8), majority=(0.85, 1.15)
    )
    assert set(federation.sizes) == {450} and set(np.bincount(federation.test_owner)) == {25}
    assert len(federation.nonmembers) == 2_500 and len(federation.shadow) == 10_000


def test_har():
    chosen, root, source = real(har, split_seed=42)
    assert (len(source.train), len(source.test)) == (7352, 2947)
    assert np.bincount(source.train.y).tolist() == [1226, 1073, 986, 1286, 1374, 1407]
    assert np.bincount(source.test.y).tolist() == [496, 471, 420, 491, 532, 537]
    assert np.unique(source.subjects).tolist() == list(range(1, 31))
    of_train, of_test = np.split(source.subjects, [7352])
    assert len(np.unique(of_train)) == 21 and len(np.unique(of_test)) == 9
    # Gravity is in the total acceleration (channels 6 to 8) alone.
    gravity = np.linalg.norm((source.train.x[:, 6:] - source.train.x[:, :3]).mean(axis=2), axis=1)
    assert np.abs(gravity - 1).max() < 0.2
    federation = dealt(chosen, root, subjects)
    assert federation.clients == 10 and federation.shape == (9, 128)
    windows = (
        len(federation.train)
        + len(federation.test)
        + len(federation.nonmembers)
        + len(federation.shadow)
    )
    assert windows == 10_299 and len(federation.nonmembers) > 1000
    kept = federation.sizes + np.bincount(federation.test_owner)
    np.testing.assert_array_equal(np.bincount(federation.test_owner), np.ceil(0.2 * kept))


def test_femnist():
    chosen, root, source = real(femnist, clients=20, shadow_size=2_000)
    assert source.classes == 62 and source.train.y.max() == 61
    images = {image.tobytes() for part in (source.train, source.test) for image in part.x}
    assert len(images) == len(source)
    assert (source.train.x[:, 0, 0] == 255).mean() > 0.9
    federation = dealt(chosen, root, majority=(30.0, 55.0))
    assert federation.prepare.fill == 1.0 and len(federation.shadow) == 2_000


def test_alzheimer():
    _, _, source = real(alzheimer)
    assert np.bincount(source.train.y).tolist() == [724, 49, 2566, 1781]
    assert np.bincount(source.test.y).tolist() == [172, 15, 634, 459]
    x = np.concatenate([source.train.x, source.test.x])
    assert x.shape == (6400, 1, 128, 128) and x.max() > 200 and np.median(x[..., :4, :4]) < 10
    assert len({image.tobytes() for image in x}) == len(x)
    for preset, table in class_counts.PUBLISHED_COUNTS.items():
        config, data = class_counts.Config(preset=preset), alzheimer.Config(clients=len(table))
        assert class_counts.shortages(config, data, source) == []
        roles = class_counts.assign(config, data, source, streams(42))
        for i, own in enumerate(roles.clients):
            mine = np.concatenate([own, roles.test[roles.test_owner == i]])
            assert np.bincount(source.train.y[mine]).tolist() == list(table[i])
            assert len(own) == round(0.8 * sum(table[i]))
        assert (
            len(roles.shadow) == (roles.test_owner < 0).sum() == 640 and len(roles.nonmembers) == 0
        )
