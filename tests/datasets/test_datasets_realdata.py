"""The published data sets themselves, where they lie under FEDPRIV_DATA."""

import os
from pathlib import Path

import numpy as np
import pytest

from datasets import build
from datasets.federation import DataError, Federation, Source
from datasets.sources import cifar10, femnist, mnist
from datasets.splits import groups

pytestmark = pytest.mark.realdata


class Chosen:
    def __init__(self, module, **fields):
        self.module, self.config = module, module.Config(**fields)


def real(module, **fields) -> tuple[Chosen, Path, Source]:
    if not os.environ.get("FEDPRIV_DATA"):
        pytest.skip("FEDPRIV_DATA names no folder of data sets")
    chosen, root = Chosen(module, **fields), Path(os.environ["FEDPRIV_DATA"])
    try:
        return chosen, root, module.load(chosen.config, root, download=False)
    except DataError as reason:
        if "is absent" not in str(reason):
            raise
        pytest.skip(str(reason))


def dealt(chosen: Chosen, root: Path, **split) -> Federation:
    return build(chosen, Chosen(groups, **split), root, lambda purpose: np.random.default_rng([0, *purpose.encode()]))


def test_mnist():
    chosen, root, source = real(mnist)
    assert np.bincount(source.train.y).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(source.test.y).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    federation = dealt(chosen, root, minority_ratio=0.1)
    assert set(federation.sizes) == {250} and federation.clients == 200 and federation.groups.sum() == 20
    assert (len(federation.test), len(federation.nonmembers), len(federation.shadow)) == (10_000, 5_000, 10_000)
    assert federation.shape == (1, 28, 28)
    majority, minority = np.split(federation.test.y, 2)
    np.testing.assert_array_equal(majority, minority)


@pytest.mark.slow
def test_mnist_is_that_of_torchvision():
    _, root, source = real(mnist)
    from torchvision.datasets import MNIST

    for train, part in ((True, source.train), (False, source.test)):
        published = MNIST(root, train=train, download=False)
        np.testing.assert_array_equal(part.x[:, 0], published.data.numpy())
        np.testing.assert_array_equal(part.y, published.targets.numpy())


def test_cifar10():
    chosen, root, source = real(cifar10)
    assert np.bincount(source.train.y).tolist() == [5000] * 10 and np.bincount(source.test.y).tolist() == [1000] * 10
    pixels = source.train.x[::10] / 255
    np.testing.assert_allclose(pixels.mean(axis=(0, 2, 3)), source.mean, atol=0.01)
    federation = dealt(chosen, root, transform="brightness", minority=(0.5, 0.8), majority=(0.85, 1.15))
    assert set(federation.sizes) == {450} and set(np.bincount(federation.test_owner)) == {25}
    assert len(federation.nonmembers) == 2_500 and len(federation.shadow) == 10_000


def test_femnist():
    chosen, root, source = real(femnist, clients=20, shadow_size=2_000)
    assert source.classes == 62 and source.train.y.max() == 61
    images = {image.tobytes() for part in (source.train, source.test) for image in part.x}
    assert len(images) == len(source)
    assert (source.train.x[:, 0, 0] == 255).mean() > 0.9
    federation = dealt(chosen, root, majority=(30.0, 55.0))
    assert federation.prepare.fill == 1.0 and len(federation.shadow) == 2_000
