"""The metric-privacy paper's network: its sizes, how it starts, and dropout from a generator of one's own."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from algorithms.core.dropout import Dropout, reseed
from algorithms.core.network import Network
from algorithms.models import keras_cnn
from tests.support.stand_ins import StandIn

pytestmark = pytest.mark.usefixtures("one_thread")

SLICE, SMALL = (1, 128, 128), (1, 18, 18)


def blueprint(shape=SLICE, classes: int = 4, **fields) -> nn.Module:
    """The network without memory."""
    with torch.device("meta"):
        return keras_cnn.build(keras_cnn.Config(**fields), shape, classes)


def network(shape=SMALL, **fields) -> Network:
    built = Network(StandIn(module=keras_cnn, config=keras_cnn.Config(**fields)), shape, 4)
    built.initial(np.random.default_rng(0))
    return built


@pytest.mark.parametrize(
    ("padding", "first_dense", "total"), [("valid", 6_422_592, 6_517_476), ("same", 8_388_672, 8_483_556)]
)
def test_twelve_arrays_with_the_papers_parameters(padding, first_dense, total):
    sizes = [parameter.numel() for parameter in blueprint(padding=padding).parameters()]
    layers = [kernel + bias for kernel, bias in zip(sizes[::2], sizes[1::2], strict=True)]
    assert layers == [320, 18_496, 73_856, first_dense, 2_080, 132]
    assert (len(sizes), sum(sizes)) == (12, total)


def test_every_layer_gives_the_shape_that_the_paper_lists():
    x, shapes = torch.zeros(2, *SLICE), []
    for layer in network(SLICE).module.eval():
        x = layer(x)
        if not isinstance(layer, nn.ReLU | Dropout):
            shapes.append(tuple(x.shape[1:]))
    images = [(32, 126, 126), (32, 63, 63), (64, 61, 61), (64, 30, 30), (128, 28, 28)]
    assert shapes == [*images, (100_352,), (64,), (32,), (4,)]


def test_dropout_follows_both_hidden_dense_layers_and_nothing_else():
    kinds = [type(layer) for layer in blueprint().children()]
    assert kinds[-8:] == [nn.Flatten, nn.Linear, nn.ReLU, Dropout, nn.Linear, nn.ReLU, Dropout, nn.Linear]
    assert kinds.count(Dropout) == 2 and [layer.p for layer in blueprint() if isinstance(layer, Dropout)] == [0.1, 0.1]
    assert keras_cnn.RANDOM


@pytest.mark.parametrize(("padding", "side"), [("valid", 18), ("same", 4)])
def test_the_smallest_image_fits_and_one_pixel_less_is_refused(padding, side):
    config = keras_cnn.Config(padding=padding)
    assert keras_cnn.shape_problem(config, (3, side, side)) is None
    built = network((3, side, side + 1), padding=padding)
    logits = built.logits(np.random.default_rng(1).random((5, 3, side, side + 1), dtype=np.float32))
    assert logits.shape == (5, 4) and np.isfinite(logits).all()
    assert keras_cnn.shape_problem(config, (3, side, side - 1)) == (
        f"keras_cnn with padding {padding} needs images of {side}x{side} pixels or more; "
        f"examples have shape (3, {side}, {side - 1})"
    )
    assert keras_cnn.shape_problem(config, (40,)) is not None
    size = nn.Sequential(*[layer for layer in built.module if not isinstance(layer, nn.Flatten | nn.Linear | Dropout)])
    with pytest.raises(RuntimeError):  # the limit is where torch itself has nothing left
        size(torch.ones(1, 3, side, side - 1))


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


def test_outputs_are_logits_and_not_probabilities():
    logits = network().logits(np.random.default_rng(1).random((3, *SMALL), dtype=np.float32))
    assert (logits < 0).any() and abs(logits.sum(axis=1) - 1).max() > 0.1


# Dropout


def dropping(p: float = 0.1, seed: int = 0) -> Dropout:
    layer = Dropout(p)
    reseed(layer, seed, "cpu")
    return layer


def test_dropout_is_the_identity_in_evaluation_and_at_probability_zero():
    x = torch.arange(6.0)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert torch.equal(Dropout(0.0).train()(x), x)


def test_dropout_zeroes_a_share_and_keeps_the_mean():
    y = dropping(0.1)(torch.ones(200, 1000))
    assert y.unique().tolist() == [0.0, pytest.approx(1 / 0.9)]
    assert (y == 0).float().mean().item() == pytest.approx(0.1, abs=0.003)  # 4 standard errors are 0.0027
    assert y.mean().item() == pytest.approx(1, abs=0.003)


def test_gradients_pass_where_the_mask_lets_values_pass():
    x = torch.ones(50, requires_grad=True)
    y = dropping(0.5)(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_the_mask_depends_on_seed_and_shape_alone():
    x = torch.ones(4, 3, 5, 5)
    same = [x, x.contiguous(memory_format=torch.channels_last), x.bfloat16()]
    one, *others = [dropping(0.3, seed=7)(each) for each in same]
    assert all(torch.equal(one == 0, other == 0) for other in others)
    assert others[-1].dtype == torch.bfloat16
    assert not torch.equal(one, dropping(0.3, seed=8)(x))
    layer = dropping(0.3, seed=7)
    assert torch.equal(layer(x), one) and not torch.equal(layer(x), one)  # the stream goes on


def test_training_without_a_generator_is_refused():
    with pytest.raises(RuntimeError, match="no generator; call algorithms.core.dropout.reseed"):
        Dropout(0.1)(torch.ones(3))


@pytest.mark.parametrize("p", [-0.1, 1.0])
def test_a_probability_out_of_range_is_refused(p):
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        Dropout(p)


def test_training_repeats_with_its_seed_and_spares_the_global_generator():
    built, x = network(), torch.rand(8, *SMALL, generator=torch.Generator().manual_seed(1))
    before = torch.initial_seed(), torch.get_rng_state()

    def outputs(seed: int) -> torch.Tensor:
        reseed(built.module, seed, "cpu")
        return torch.cat([built.module.train()(x), built.module(x)]).detach()

    one, two, other = outputs(3), outputs(3), outputs(4)
    assert torch.equal(one, two) and not torch.equal(one, other) and not torch.equal(one[:8], one[8:])
    assert torch.initial_seed() == before[0] and torch.equal(torch.get_rng_state(), before[1])


def test_all_layers_share_one_generator_and_other_modules_are_left_alone():
    module = nn.Sequential(Dropout(0.5), nn.Sequential(nn.Linear(2, 2), Dropout(0.5)), nn.Dropout(0.5))
    reseed(module, 5, "cpu")
    first, second = module[0].generator, module[1][1].generator
    assert first is second and first.initial_seed() == 5
    assert not hasattr(module[1][0], "generator") and not hasattr(module[2], "generator")
    assert Dropout(0.5).generator is None


def test_a_functional_call_draws_from_the_modules_generator():
    built, x = network(), torch.rand(4, *SMALL, generator=torch.Generator().manual_seed(1))
    arrays = {name: value.detach().clone() for name, value in built.module.named_parameters()}
    built.module.train()
    reseed(built.module, 1, "cpu")
    direct = built.module(x)
    reseed(built.module, 1, "cpu")
    assert torch.equal(torch.func.functional_call(built.module, arrays, (x,)), direct)
