"""Networks: their parameter counts, as the paper prints them, and what they are made of."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from algorithms.core.network import Network
from algorithms.models import femnist_cnn, hu_cnn, mlp, mnist_cnn, vgg
from datasets.components import complete
from orchestrator.config.errors import ConfigError
from orchestrator.config.run import resolve
from tests.support.slot_components import FOLDERS, of_slot
from tests.support.stand_ins import StandIn

pytestmark = pytest.mark.usefixtures("one_thread")

DIGITS, MNIST, CIFAR = (1, 8, 8), (1, 28, 28), (3, 32, 32)


def blueprint(module: Any, shape: tuple[int, ...], classes: int, **fields: Any) -> nn.Module:
    """The network without memory, so that the large ones cost nothing."""
    with torch.device("meta"):
        return module.build(module.Config(**fields), shape, classes)


def size(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("module", "shape", "classes", "fields", "parameters"),
    [
        (mlp, DIGITS, 10, {}, 4_810),
        (mlp, DIGITS, 10, {"hidden": (64,)}, 4_810),
        (mlp, DIGITS, 10, {"hidden": ()}, 650),
        (mlp, DIGITS, 10, {"hidden": (8, 4)}, (64 + 1) * 8 + (8 + 1) * 4 + (4 + 1) * 10),
        (mlp, (5,), 2, {"hidden": (3,)}, (5 + 1) * 3 + (3 + 1) * 2),
        (mnist_cnn, MNIST, 10, {}, 50_186),
        (femnist_cnn, MNIST, 62, {}, 1_206_590),
        (femnist_cnn, MNIST, 62, {"padding": 1}, 1_632_574),
        (vgg, CIFAR, 10, {}, 9_756_426),
        (vgg, CIFAR, 10, {"depth": 11}, 9_756_426),
        (vgg, CIFAR, 10, {"depth": 13}, 9_941_322),
        (vgg, CIFAR, 10, {"depth": 16}, 15_253_578),
        (vgg, CIFAR, 10, {"depth": 19}, 20_565_834),
    ],
)
def test_parameter_counts_are_those_of_the_paper(module, shape, classes, fields, parameters):
    assert size(blueprint(module, shape, classes, **fields)) == parameters


def test_the_mnist_layers_are_those_that_the_paper_lists():
    counts = [size(layer) for layer in blueprint(mnist_cnn, MNIST, 10).children() if size(layer)]
    assert counts == [320, 18_496, 31_370]


@pytest.mark.parametrize("depth", [11, 13, 16, 19])
def test_a_vgg_has_as_many_weighted_layers_as_its_depth(depth):
    layers = list(blueprint(vgg, CIFAR, 10, depth=depth).modules())
    weighted = [layer for layer in layers if isinstance(layer, nn.Conv2d | nn.Linear)]
    assert len(weighted) == depth
    assert sum(isinstance(layer, nn.MaxPool2d) for layer in layers) == 5
    for at, layer in enumerate(layers):
        if isinstance(layer, nn.Conv2d):
            assert isinstance(layers[at + 1], nn.BatchNorm2d)
            assert layers[at + 1].num_features == layer.out_channels


def test_only_the_linear_layer_of_the_mnist_network_is_marked_for_glorot():
    marked = [
        type(layer) for layer in blueprint(mnist_cnn, MNIST, 10).children() if getattr(layer, "init", None) == "xavier"
    ]
    assert marked == [nn.Linear]


@pytest.mark.parametrize(
    ("module", "shape", "classes"),
    [
        (mlp, DIGITS, 10),
        (mlp, (7,), 3),
        (mnist_cnn, MNIST, 10),
        (mnist_cnn, DIGITS, 4),
        (femnist_cnn, MNIST, 62),
        (femnist_cnn, DIGITS, 10),
        (vgg, CIFAR, 10),
    ],
)
def test_a_network_gives_one_logit_for_each_class(module, shape, classes):
    network = Network(StandIn(module=module, config=module.Config()), shape, classes)
    network.load(network.initial(np.random.default_rng(0)))
    logits = network.logits(torch.rand(2, *shape).numpy())
    assert logits.shape == (2, classes)
    assert abs(logits).max() > 0


def test_an_mlp_is_nonlinear_between_its_layers_and_only_there():
    kinds = [type(layer) for layer in blueprint(mlp, (4,), 2, hidden=(3, 3)).children()]
    assert kinds == [nn.Flatten, nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]


@pytest.mark.parametrize("width", [0, -3])
def test_a_hidden_layer_without_units_is_refused(width):
    with pytest.raises(ConfigError, match=r"model\.hidden"):
        resolve({"rounds": 1, "data": "digits", "model": {"name": "mlp", "hidden": [8, width]}})


@pytest.mark.parametrize(("module", "shape"), [(mnist_cnn, MNIST), (femnist_cnn, MNIST), (hu_cnn, CIFAR), (vgg, CIFAR)])
def test_a_pool_before_a_relu_is_the_papers_order_to_the_bit(module, shape):
    model = StandIn(module=module, config=module.Config())
    ours = Network(model, shape, 10)
    ours.initial(np.random.default_rng(0))
    paper = _relus_first(ours.module)
    x = ours.inputs(np.random.default_rng(1).normal(size=(4, *shape)).astype(np.float32))
    outputs = {}
    for name, network in (("ours", ours.module), ("paper", paper)):
        ours.load(ours.initial(np.random.default_rng(0)))
        ours.grads.zero_()
        network.train()
        logits = network(x)
        logits.square().sum().backward()
        outputs[name] = (logits.detach().numpy().tobytes(), ours.grads.numpy().tobytes())
    assert outputs["ours"] == outputs["paper"]


def _relus_first(network: nn.Module) -> nn.Sequential:
    """The same layers, over the same weights, with every ReLU that follows a pool before it."""
    layers = list(network.children())
    places = [i for i, (one, two) in enumerate(pairwise(layers)) if isinstance(one, nn.MaxPool2d)]
    assert places
    for i in places:
        assert isinstance(layers[i + 1], nn.ReLU)
        layers[i], layers[i + 1] = layers[i + 1], layers[i]
    return nn.Sequential(*layers)


@pytest.mark.parametrize("shape", [(5,), (2, 16), (1, 1, 1), (1, 3, 3), (1, 5, 5), (1, 6, 6), (1, 17, 17), CIFAR])
@of_slot("model")
def test_a_model_refuses_the_shapes_that_it_cannot_be_built_for(name, shape):
    module = complete(FOLDERS["model"], name)
    config = module.Config()
    if module.shape_problem(config, shape) is None:
        blueprint(module, shape, 10).eval()(torch.zeros(2, *shape, device="meta"))


@pytest.mark.parametrize(("padding", "smallest"), [(0, 6), (1, 2)])
def test_the_femnist_network_needs_pixels_for_its_pool(padding, smallest):
    config = femnist_cnn.Config(padding=padding)
    assert femnist_cnn.shape_problem(config, (1, smallest, smallest)) is None
    blueprint(femnist_cnn, (1, smallest, smallest), 10, padding=padding)(
        torch.zeros(2, 1, smallest, smallest, device="meta")
    )
    assert femnist_cnn.shape_problem(config, (1, smallest, smallest - 1)) == (
        f"femnist_cnn with padding {padding} needs images of {smallest}x{smallest} pixels or more; "
        f"examples have shape (1, {smallest}, {smallest - 1})"
    )
