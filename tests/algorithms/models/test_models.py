"""Networks: their parameter counts, as the paper prints them, and what they are made of."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from algorithms.core.dropout import Dropout
from algorithms.core.network import Network
from algorithms.models import femnist_cnn, femnist_net, hu_cnn, keras_cnn, mlp, mnist_cnn, resnet56, tcn, vgg
from datasets.components import complete
from tests.support.slot_components import FOLDERS, of_slot
from tests.support.stand_ins import StandIn

pytestmark = pytest.mark.usefixtures("one_thread")

HAR, DIGITS, MNIST, CIFAR = (9, 128), (1, 8, 8), (1, 28, 28), (3, 32, 32)


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
        (mlp, DIGITS, 10, {"hidden": ()}, 650),
        (mlp, DIGITS, 10, {"hidden": (8, 4)}, (64 + 1) * 8 + (8 + 1) * 4 + (4 + 1) * 10),
        (mlp, (5,), 2, {"hidden": (3,)}, (5 + 1) * 3 + (3 + 1) * 2),
        (mnist_cnn, MNIST, 10, {}, 50_186),
        (femnist_cnn, MNIST, 62, {}, 1_206_590),
        (femnist_cnn, MNIST, 62, {"padding": 1}, 1_632_574),
        (vgg, CIFAR, 10, {}, 9_756_426),
        (vgg, CIFAR, 10, {"depth": 13}, 9_941_322),
        (vgg, CIFAR, 10, {"depth": 16}, 15_253_578),
        (vgg, CIFAR, 10, {"depth": 19}, 20_565_834),
        (tcn, HAR, 6, {}, 25_670),
        (tcn, HAR, 10, {}, 33_354),
        (tcn, HAR, 6, {"causal": True}, 26_438),
        (hu_cnn, CIFAR, 10, {}, 940_362),
        (resnet56, CIFAR, 10, {}, 591_322),
        (resnet56, CIFAR, 10, {"block": "basic"}, 853_018),
        (femnist_net, MNIST, 62, {}, 858_590),
    ],
)
def test_parameter_counts_are_those_of_the_paper(module, shape, classes, fields, parameters):
    assert size(blueprint(module, shape, classes, **fields)) == parameters


def test_layers_are_those_that_the_papers_list():
    layers = list(blueprint(mnist_cnn, MNIST, 10).children())
    assert [size(layer) for layer in layers if size(layer)] == [320, 18_496, 31_370]
    assert [type(layer) for layer in layers if getattr(layer, "init", None) == "xavier"] == [nn.Linear]
    kinds = [type(layer) for layer in blueprint(mlp, (4,), 2, hidden=(3, 3)).children()]
    assert kinds == [nn.Flatten, nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]
    kinds = [type(layer) for layer in blueprint(keras_cnn, CIFAR, 4).children()]
    assert kinds[-8:] == [nn.Flatten, nn.Linear, nn.ReLU, Dropout, nn.Linear, nn.ReLU, Dropout, nn.Linear]
    assert kinds.count(Dropout) == 2 and keras_cnn.RANDOM
    for block, convolutions in (("bottleneck", 58), ("basic", 55)):
        layers = list(blueprint(resnet56, CIFAR, 10, block=block).modules())
        counted = [sum(isinstance(layer, kind) for layer in layers) for kind in (nn.Conv2d, nn.BatchNorm2d, nn.Linear)]
        assert counted == [convolutions, convolutions, 1]


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


@pytest.mark.parametrize(
    ("module", "fields", "smallest", "smaller"),
    [
        (tcn, {}, (2, 10), (2, 9)),
        (tcn, {"causal": True}, (2, 4), (2, 3)),
        (hu_cnn, {}, (1, 16, 16), (1, 16, 15)),
        (resnet56, {}, (1, 5, 5), (1, 4, 4)),
        (resnet56, {"block": "basic"}, (1, 5, 5), (1, 4, 4)),
        (femnist_net, {}, (1, 4, 4), (1, 3, 4)),
        (femnist_cnn, {}, (1, 6, 6), (1, 6, 5)),
        (femnist_cnn, {"padding": 1}, (1, 2, 2), (1, 2, 1)),
        (keras_cnn, {}, (3, 18, 18), (3, 18, 17)),
        (keras_cnn, {"padding": "same"}, (3, 4, 4), (3, 4, 3)),
    ],
)
@pytest.mark.filterwarnings("ignore:Initializing zero-element")
def test_the_smallest_examples_train_one_at_a_time_and_one_smaller_are_called_unfit_and_are(
    module, fields, smallest, smaller
):
    config = module.Config(**fields)
    assert module.shape_problem(config, smallest) is None
    made = Network(StandIn(module=module, config=config), smallest, 5)
    made.load(made.initial(np.random.default_rng(0)))
    made.reseed(0)
    made.module.train()
    made.module(torch.rand(1, *smallest)).square().sum().backward()
    assert made.grads.isfinite().all() and made.grads.abs().max() > 0
    refused = module.shape_problem(config, smaller)
    assert module.__name__.rpartition(".")[2] in refused and str(smaller) in refused
    with pytest.raises((RuntimeError, ValueError)):  # no pixel is left, or a single one that cannot be normalized
        module.build(config, smaller, 5)(torch.rand(1, *smaller))
