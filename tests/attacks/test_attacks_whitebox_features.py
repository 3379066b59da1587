"""The features of the white-box attack: cosines by hand and by autograd."""

import numpy as np
import torch

from algorithms.core.messages import Weights
from attacks.whitebox_mia import cosines
from datasets.federation import Examples
from tests.support.toy_federation import network_for


def linear(features=2, classes=2):
    """A network with one layer, whose gradient is known: (p - onehot(y)) x'."""
    network = network_for((features,), hidden=())
    assert network.layout.shapes == ((10, features), (10,))
    return network


def test_cosines_by_hand():
    """At zero weights p = 0.1 for each class, so that the step downhill for (x, y) is (onehot(y) - 0.1) x'."""
    network = linear()
    network.load(Weights(np.zeros(30, np.float32), np.zeros(0, np.float32)))
    example = Examples(np.array([[3.0, 4.0]], np.float32), np.array([0]))
    along, away = np.zeros((2, 30), np.float32)
    step = np.outer(np.eye(10)[0] - 0.1, [3, 4]).ravel()
    along[:20], along[20:] = 7 * step, np.eye(10)[0] - 0.1
    away[:20] = -step  # and no update of the biases
    got = cosines(network, example, np.stack([along, away]))
    np.testing.assert_allclose(got, [[[1, 1], [-1, 0]]], atol=1e-6)


def test_cosines_are_those_of_autograd_example_by_example(noise, narrow):
    rng, start = np.random.default_rng(0), narrow.initial(np.random.default_rng(1))
    updates = rng.normal(size=(3, len(start.params))).astype(np.float32)
    examples = noise.train[5:9]
    narrow.load(start)
    got = cosines(narrow, examples, updates)
    arrays = list(narrow.module.parameters())
    for n in range(4):
        logits = narrow.module(torch.from_numpy(examples.x[n : n + 1]))
        loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(examples.y[n : n + 1]))
        gradients = torch.autograd.grad(loss, arrays)
        for m in range(3):
            pieces = narrow.layout.views(torch.from_numpy(updates[m])).values()
            theirs = [
                float(torch.cosine_similarity(-g.ravel(), u.ravel(), dim=0))
                for g, u in zip(gradients, pieces, strict=True)
            ]
            np.testing.assert_allclose(got[n, m], theirs, atol=1e-5)


def test_an_update_that_is_no_number_has_no_direction(noise, narrow):
    narrow.load(narrow.initial(np.random.default_rng(0)))
    for value in (np.nan, np.inf, 0):
        update = np.full((1, len(narrow.params)), value, np.float32)
        assert (cosines(narrow, noise.train[:2], update) == 0).all()
