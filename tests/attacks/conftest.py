"""Federations and a network that the tests of the attacks share, and one thread, as the client actors have."""

import pytest
import torch

from tests.support.toy_federation import FEATURES, images, network_for, noise


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", name="noise")
def noise_federation():
    return noise()


@pytest.fixture(scope="module", name="images")
def image_federation():
    return images()


@pytest.fixture(scope="module")
def network():
    return network_for((FEATURES,))


@pytest.fixture(scope="module")
def narrow():
    return network_for((FEATURES,), hidden=(8,))
