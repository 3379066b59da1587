"""Modules that keep their own initial values: what their constructors draw, and what no training
may change.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from torch import nn

from algorithms.core import own_values
from algorithms.core.gradients import mean_cross_entropy
from algorithms.core.network import Network
from algorithms.curvature import chain, hessian
from algorithms.models import imported
from datasets.components import Component
from tests.support import own_modules
from tests.support.own_modules import CLASSES, FITTING

pytestmark = pytest.mark.usefixtures("own_modules")

SHAPE = (1, 8, 8)
every_module = pytest.mark.parametrize("name", FITTING)


def network_of(name: str, **args: object) -> Network:
    config = imported.Config(callable=f"tests.support.own_modules:{name}", args=args)
    return Network(Component("imported", config, "algorithms.models"), SHAPE, CLASSES)


def built(name: str) -> nn.Module:
    """The module as its author would build it."""
    offered = {
        "in_features": 64,
        "in_channels": 1,
        "num_classes": CLASSES,
        "classes": CLASSES,
        "n_classes": CLASSES,
    }
    code = getattr(own_modules, name)
    module: nn.Module = code(
        **{key: offered[key] for key in inspect.signature(code).parameters if key in offered}
    )
    if name == "lazy":
        module.eval()(torch.zeros(2, *SHAPE))
    return module


def images(n: int = 6) -> np.ndarray:
    return np.random.default_rng(0).random((n, *SHAPE), dtype=np.float32)


@every_module
def test_initial_values_are_those_that_the_constructor_draws_and_leave_torchs_generator_as_it_was(
    name,
):
    network, state = network_of(name), torch.get_rng_state()
    first = network.initial(np.random.default_rng(1))
    again = network_of(name).initial(np.random.default_rng(1))
    other = network.initial(np.random.default_rng(2))
    assert (first.params.tobytes(), first.buffers.tobytes()) == (
        again.params.tobytes(),
        again.buffers.tobytes(),
    )
    assert (first.params.tobytes() == other.params.tobytes()) == (name == "pretrained")
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(int(np.random.default_rng(1).integers(2**63)))
    theirs = dict(built(name).named_parameters())
    network.load(first)
    assert network.layout.names
    for key, view in network.layout.views(network.params).items():
        torch.testing.assert_close(view, theirs[key].data, rtol=0, atol=0)


@every_module
def test_steps_on_the_vector_are_steps_of_the_module(name):
    """A gradient step on the flat vector against one of torch's optimizer on a copy of the
    module.
    """
    network = network_of(name)
    network.load(network.initial(np.random.default_rng(0)))
    own, x, y = built(name), torch.from_numpy(images()), torch.arange(6)
    own.load_state_dict(network.module.state_dict())
    for module in (network.module, own):
        torch.manual_seed(0)
        mean_cross_entropy(module.train()(x), y).backward()
    torch.optim.SGD([one for one in own.parameters() if one.requires_grad], 0.5).step()
    network.params.add_(network.grads, alpha=-0.5)
    theirs = dict(own.named_parameters())
    for key, view in network.layout.views(network.params).items():
        torch.testing.assert_close(view, theirs[key].data, rtol=1e-4, atol=1e-6)


@every_module
def test_gradients_of_single_examples_are_those_of_autograd(name):
    network, y = network_of(name), np.arange(4)
    network.load(network.initial(np.random.default_rng(0)))
    found = torch.cat([some.clone() for some in network.example_gradients(images(4), y)])
    assert found.shape == (4, network.layout.size)
    for i in range(4):
        network.grads.zero_()
        x = network.inputs(images(4))[i : i + 1]
        mean_cross_entropy(network.module(x), torch.tensor([i])).backward()
        torch.testing.assert_close(found[i], network.grads, rtol=1e-3, atol=1e-5)
    along = np.random.default_rng(1).normal(size=network.layout.size).astype(np.float32)
    slopes = torch.from_numpy(network.derivatives(images(4), y, along))
    torch.testing.assert_close(slopes, found @ torch.from_numpy(along), rtol=1e-3, atol=1e-3)


def test_gradients_of_examples_are_taken_one_by_one_where_vmap_cannot():
    network = network_of("Wrapped", kind="branches", classes=CLASSES)
    network.load(network.initial(np.random.default_rng(0)))
    assert [len(some) for some in network.example_gradients(images(3), np.arange(3))] == [1, 1, 1]
    rows = torch.cat([some.clone() for some in network.example_gradients(images(3), np.arange(3))])
    found = network.derivatives(images(3), np.arange(3), np.ones(network.layout.size))
    np.testing.assert_allclose(found, rows.sum(dim=1), rtol=1e-4, atol=1e-4)


def test_constant_buffers_and_frozen_layers_are_the_same_everywhere_and_are_not_sent():
    first, second = network_of("Constants"), network_of("Constants")
    assert first.layout.names == ("head.weight", "head.bias")
    assert first.buffer_layout.names == ()
    second.load(second.initial(np.random.default_rng(9)))
    own = built("Constants")
    one, other = (network.module.state_dict() for network in (first, second))
    for name in ("order", "scale", "mask"):
        assert torch.equal(one[name], getattr(own, name)) and torch.equal(
            other[name], getattr(own, name)
        )
    assert (
        torch.equal(one["features.weight"], other["features.weight"])
        and one["features.weight"].std() > 0
    )


def test_running_statistics_are_sent_and_counters_begin_anew():
    network = network_of("Convolutional")
    start = network.initial(np.random.default_rng(0))
    assert network.buffer_layout.names == ("body.1.running_mean", "body.1.running_var")
    assert set(start.buffers.tolist()) == {0.0, 1.0}
    network.module.train()(network.inputs(images()))
    assert network.weights().buffers.tobytes() != start.buffers.tobytes()
    assert [int(one) for one in network.counters] == [1]
    network.load(start)
    assert [int(one) for one in network.counters] == [0]
    assert network.weights().buffers.tobytes() == start.buffers.tobytes()


@pytest.mark.parametrize("name", ["tied", "frozen_first"])
def test_the_curvature_of_shared_and_frozen_layers_is_that_of_autograd(name, monkeypatch):
    monkeypatch.setattr(own_modules, "frozen_first", frozen_first, raising=False)
    network = network_of(name)
    network.load(network.initial(np.random.default_rng(0)))
    assert not chain.is_chain(network.module)
    network.module.eval()
    x, y = network.inputs(images()), torch.arange(6)

    def loss(params: torch.Tensor) -> torch.Tensor:
        outputs = torch.func.functional_call(network.module, network.layout.views(params), (x,))
        return mean_cross_entropy(outputs, y)

    v = torch.randn(network.layout.size, generator=torch.Generator().manual_seed(0))
    expected = torch.autograd.functional.hvp(loss, network.params, v)[1]
    found = hessian.LossSurface(network, x, y).times(v.double())
    torch.testing.assert_close(found.float(), expected, rtol=1e-3, atol=1e-5)


def frozen_first(classes: int) -> nn.Module:
    first = nn.Linear(64, 6).requires_grad_(False)
    return nn.Sequential(nn.Flatten(), first, nn.ReLU(), nn.Linear(6, classes))


def test_what_is_no_module_is_named():
    with pytest.raises(TypeError, match="returns a NoneType, no torch.nn.Module"):
        own_values.build(lambda: None, SHAPE, 0)
