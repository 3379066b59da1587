"""Federations and a network that the tests of the attacks share."""

import pytest

from tests.support.toy_federation import CLIENTS, FEATURES, images, memorized, network_for, noise


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
def experts(noise, network):
    """For each client of ``noise`` a model that knows its examples by heart."""
    return [memorized(network, noise.client(i)) for i in range(CLIENTS)]


@pytest.fixture(scope="module")
def narrow():
    return network_for((FEATURES,), hidden=(8,))
