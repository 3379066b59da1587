"""The metric-privacy paper's network: its sizes, how it starts, and dropout from a generator of
one's own.
"""

import math

import pytest
import torch
from torch import nn

from algorithms.core.dropout import Dropout, reseed
from algorithms.core.network import Network
from algorithms.models import keras_cnn
from tests.support.stand_ins import network_of

SMALL = (1, 18, 18)


def network(shape=SMALL, **fields) -> Network:
    return network_of(keras_cnn, shape, 4, **fields)


def test_kernels_start_glorot_uniform_and_biases_at_zero():
    built = network((1, 40, 40))
    fans = [(9, 288), (288, 576), (576, 1152), (128 * 36, 64), (64, 32), (32, 4)]
    layers = [layer for layer in built.module if isinstance(layer, nn.Conv2d | nn.Linear)]
    for layer, (fan_in, fan_out) in zip(layers, fans, strict=True):
        bound = math.sqrt(6 / (fan_in + fan_out))
        assert 0.9 * bound < layer.weight.abs().max() <= bound
        assert layer.bias.abs().max() == 0
        if layer.weight.numel() > 1000:
            assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)


# Dropout


def dropping(p: float = 0.1, seed: int = 0) -> Dropout:
    layer = Dropout(p)
    reseed(layer, seed, "cpu")
    return layer


def test_dropout_zeroes_a_share_of_values_and_gradients_and_keeps_the_mean():
    x = torch.ones(200, 1000, requires_grad=True)
    y = dropping(0.1)(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    assert y.unique().tolist() == [0.0, pytest.approx(1 / 0.9)]
    assert (y == 0).float().mean().item() == pytest.approx(
        0.1, abs=0.003
    )  # 4 standard errors are 0.0027
    assert y.mean().item() == pytest.approx(1, abs=0.003)
    assert torch.equal(Dropout(0.5).eval()(x), x) and torch.equal(Dropout(0.0).train()(x), x)


def test_dropout_needs_a_generator():
    with pytest.raises(RuntimeError, match="no generator"):
        Dropout(0.1)(torch.ones(3))


def test_the_mask_depends_on_seed_and_shape_alone():
    x = torch.ones(4, 3, 5, 5)
    same = [x, x.contiguous(memory_format=torch.channels_last), x.bfloat16()]
    one, *others = [dropping(0.3, seed=7)(each) for each in same]
    assert all(torch.equal(one == 0, other == 0) for other in others)
    assert others[-1].dtype == torch.bfloat16
    assert not torch.equal(one, dropping(0.3, seed=8)(x))
    layer = dropping(0.3, seed=7)
    assert torch.equal(layer(x), one) and not torch.equal(layer(x), one)  # the stream goes on
