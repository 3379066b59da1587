"""The network: one module over flat vectors, and its initial weights."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from algorithms.core.messages import Weights
from algorithms.core.network import Network
from datasets.components import Component, components
from orchestrator.conformance.behavior import SHAPES
from tests.support.slot_components import module_of
from tests.support.stand_ins import StandIn

IMAGE = (2, 6, 6)


def model(build: Any) -> Any:
    """A component of the model slot that builds ``build(shape, classes)``."""
    return StandIn(
        config=None, module=SimpleNamespace(build=lambda _, shape, classes: build(shape, classes))
    )


def normalized(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Convolution, batch normalization, linear layer: everything that has a place of its own in
    the vectors.
    """
    convolution = nn.Conv2d(shape[0], 3, 3), nn.BatchNorm2d(3), nn.ReLU()
    return nn.Sequential(*convolution, nn.Flatten(), nn.Linear(48, classes, bias=False))


@pytest.fixture
def network() -> Network:
    return Network(model(normalized), IMAGE, 4)


def weights_of(network: Network, seed: int = 0) -> Weights:
    rng = np.random.default_rng(seed)
    shapes = network.layout.size, network.buffer_layout.size
    return Weights(*(rng.uniform(0.1, 1, size).astype(np.float32) for size in shapes))


def images(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, *IMAGE)).astype(np.float32)


# Flat views


def test_writing_the_vector_changes_the_module_and_the_reverse(network):
    assert network.layout.names == ("0.weight", "0.bias", "1.weight", "1.bias", "4.weight")
    assert network.buffer_layout.names == ("1.running_mean", "1.running_var")  # and not the counter
    kernel = network.module.get_parameter("0.weight")
    network.params.fill_(2.0)
    assert all((parameter == 2).all() for parameter in network.module.parameters())
    with torch.no_grad():
        kernel[1, 0, 2, 1] = 5.0
    assert (network.params == 5).sum() == 1
    network.buffers.fill_(3.0)
    assert (network.module.get_buffer("1.running_var") == 3).all()
    network.module.get_buffer("1.running_mean")[0] = 4.0
    assert (network.buffers == 4).sum() == 1


def same(one: Weights, other: Weights) -> bool:
    return (
        one.params.tobytes() == other.params.tobytes()
        and one.buffers.tobytes() == other.buffers.tobytes()
    )


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_what_is_loaded_is_copied_to_the_bit_and_what_is_returned_is_a_copy(network):
    first, x = weights_of(network), images(5)
    for array in (first.params, first.buffers, x):
        array.setflags(write=False)
    network.load(first)
    kept, before = network.weights(), network.logits(x)
    network.params.add_(1.0)
    network.buffers.zero_()
    assert same(kept, first) and same(first, weights_of(network))
    assert not np.array_equal(network.logits(x), before)
    assert network.module.get_parameter("0.weight").is_contiguous(memory_format=torch.channels_last)
    assert network.inputs(x).is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(network.inputs(x), torch.from_numpy(x))


# Buffers


def test_training_moves_the_running_statistics_as_torch_defines_them_and_evaluation_does_not(
    network,
):
    network.load(weights_of(network))
    before, x = network.weights(), network.inputs(images(6))
    network.module.train()
    network.logits(images(6))
    assert same(network.weights(), before)
    activations = network.module[0](x).detach()  # type: ignore[index]
    network.module.train()(x)
    mean, variance = activations.mean(dim=(0, 2, 3)), activations.var(dim=(0, 2, 3))
    expected = 0.9 * before.buffers + 0.1 * torch.cat([mean, variance]).numpy()
    np.testing.assert_allclose(network.weights().buffers, expected, rtol=1e-5)


def test_logits_are_those_of_a_plain_module_whatever_the_batch(network):
    network.load(weights_of(network))
    plain = normalized(IMAGE, 4)
    plain.load_state_dict(
        {name: value.contiguous().clone() for name, value in network.module.state_dict().items()}
    )
    plain.eval()
    expected = plain(torch.from_numpy(images(7))).detach().numpy()
    for batch in (1, 3, 7, 1000):
        np.testing.assert_allclose(network.logits(images(7), batch), expected, rtol=1e-5, atol=1e-5)


# Initial weights


def test_initial_weights_are_a_function_of_the_generator_alone(network):
    first = network.initial(np.random.default_rng(0))
    torch.manual_seed(2)
    np.random.seed(2)
    network.params.fill_(9.0)
    network.buffers.fill_(9.0)
    assert same(network.initial(np.random.default_rng(0)), first)
    assert network.initial(np.random.default_rng(1)).params.tobytes() != first.params.tobytes()


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(lambda: nn.Linear(50, 400), (50,)), (lambda: nn.Conv2d(8, 120, 3), (8, 4, 4))],
    ids=["linear", "convolution"],
)
def test_weights_and_biases_are_distributed_as_pytorch_would_draw_them(layer, shape):
    network = Network(model(lambda shape, classes: nn.Sequential(layer())), shape, 1)
    network.initial(np.random.default_rng(3))
    ours = dict(network.module.named_parameters())
    fan_in = math.prod(ours["0.weight"].shape[1:])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        default = dict(layer().named_parameters())
    assert {name.removeprefix("0."): drawn.shape for name, drawn in ours.items()} == {
        name: drawn.shape for name, drawn in default.items()
    }
    for drawn in (*ours.values(), *default.values()):
        bound, values = fan_in**-0.5, drawn.detach().flatten().sort().values
        assert 0.9 * bound < values.abs().max() <= bound * (1 + 1e-6)
        # Uniform: the sorted draws follow the line from -bound to bound (Kolmogorov's distance, 4
        # deviations).
        line = torch.linspace(-1, 1, len(values)) * bound
        assert (values - line).abs().max() < 4 * bound / math.sqrt(len(values))


def test_normalization_starts_as_the_identity_whatever_was_there_before(network):
    network.load(weights_of(network))
    network.initial(np.random.default_rng(0))
    state = network.module.state_dict()
    assert (state["1.weight"] == 1).all() and (state["1.bias"] == 0).all()
    assert (state["1.running_mean"] == 0).all() and (state["1.running_var"] == 1).all()


@pytest.mark.parametrize("name", sorted({*components("algorithms.models")} - {"imported"}))
def test_derivatives_along_a_direction_are_products_with_gradients(name):
    """Of every model, in evaluation mode."""
    module, rng = module_of("model", name), np.random.default_rng(0)
    shape = next(shape for shape in SHAPES if not module.shape_problem(module.Config(), shape))
    network = Network(Component(name, module.Config(), "algorithms.models"), shape, 7)
    network.load(before := network.initial(rng))
    x, y = rng.random((3, *shape), dtype=np.float32), np.array([0, 6, 2])
    direction = rng.normal(size=network.layout.size)
    gradients = np.concatenate(
        [few.double().cpu().numpy() for few in network.example_gradients(x, y)]
    )
    close = 1e-3 * np.linalg.norm(gradients, axis=1).max()
    np.testing.assert_allclose(
        network.derivatives(x, y, direction), gradients @ direction, rtol=1e-3, atol=close
    )
    np.testing.assert_array_equal(network.weights().buffers, before.buffers)
    assert network.derivatives(x[:0], y[:0], direction).shape == (0,)
