"""Networks: their parameter counts, as the papers print them, what they are made of and accept,
and narrow passes.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from algorithms.core.initialization import initialize
from algorithms.core.network import Network
from algorithms.models import (
    femnist_cnn,
    femnist_net,
    hu_cnn,
    keras_cnn,
    mlp,
    mnist_cnn,
    resnet56,
    tcn,
    vgg,
)
from algorithms.models._slimmable import Basic, Bottleneck, ResNet, Stage
from tests.support.stand_ins import StandIn
from tests.support.stand_ins import network_of as network

BLOCKS = pytest.mark.parametrize("block", [Bottleneck, Basic])

HAR, DIGITS, MNIST, CIFAR = (9, 128), (1, 8, 8), (1, 28, 28), (3, 32, 32)


def blueprint(module: Any, shape: tuple[int, ...], classes: int, **fields: Any) -> nn.Module:
    """The network without memory, so that the large ones cost nothing."""
    with torch.device("meta"):
        return module.build(module.Config(**fields), shape, classes)


def size(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def small(block: Any, classes: int = 3) -> ResNet:
    """One block a stage, with normalization that is not the identity."""
    generator = torch.Generator().manual_seed(0)
    module = ResNet(block, 1, 1, classes)
    initialize(module, generator)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.weight.data.uniform_(0.5, 1.5, generator=generator)
            layer.bias.data.uniform_(-0.5, 0.5, generator=generator)
    return module


def images(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


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
        (keras_cnn, (1, 128, 128), 4, {}, 6_517_476),
        (keras_cnn, (1, 128, 128), 4, {"padding": "same"}, 8_483_556),
    ],
)
def test_parameter_counts_are_those_of_the_paper(module, shape, classes, fields, parameters):
    assert size(blueprint(module, shape, classes, **fields)) == parameters


@pytest.mark.parametrize(
    ("module", "shape"), [(mnist_cnn, MNIST), (femnist_cnn, MNIST), (hu_cnn, CIFAR), (vgg, CIFAR)]
)
def test_a_pool_before_a_relu_is_the_papers_order_to_the_bit(module, shape):
    model = StandIn(module=module, config=module.Config())
    ours = Network(model, shape, 10)
    ours.initial(np.random.default_rng(0))
    paper = _relus_first(ours.module)
    x = ours.inputs(np.random.default_rng(1).normal(size=(4, *shape)).astype(np.float32))
    outputs = {}
    for name, one in (("ours", ours.module), ("paper", paper)):
        ours.load(ours.initial(np.random.default_rng(0)))
        ours.grads.zero_()
        one.train()
        logits = one(x)
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
    made = network(module, smallest, 5, **fields)
    made.reseed(0)
    made.module.train()
    made.module(torch.rand(1, *smallest)).square().sum().backward()
    assert made.grads.isfinite().all() and made.grads.abs().max() > 0
    refused = module.shape_problem(config, smaller)
    assert module.__name__.rpartition(".")[2] in refused and str(smaller) in refused
    with pytest.raises(
        (RuntimeError, ValueError)
    ):  # no pixel is left, or a single one that cannot be normalized
        module.build(config, smaller, 5)(torch.rand(1, *smaller))


@pytest.mark.parametrize(("causal", "sees"), [(True, False), (False, True)])
def test_only_the_causal_net_is_blind_to_the_future(causal, sees):
    """Behind two pools of 2, position j stands for samples 4 j to 4 j + 3."""
    body = network(tcn, (2, 32), 3, causal=causal).module[:-2]
    x, j = images(1, 2, 32).requires_grad_(), 3
    (gradient,) = torch.autograd.grad(body(x)[..., j].sum(), x)
    assert bool(gradient[..., 4 * (j + 1) :].abs().max() > 0) == sees
    assert gradient[..., : 4 * (j + 1)].abs().max() > 0
    made, image = network(tcn, DIGITS, 4), images(3, *DIGITS)  # which is read as one long signal
    assert np.array_equal(
        made.logits(image.numpy()), network(tcn, (1, 64), 4).logits(image.flatten(2).numpy())
    )


# Residual blocks and their initial weights


def plain_copy(block: nn.Module, convolutions: int) -> nn.Sequential:
    """The block's residual branch from torch's own layers; the last ReLU comes after the sum."""
    layers: list[nn.Module] = []
    for i in range(1, convolutions + 1):
        conv = getattr(block, f"conv{i}")
        sizes = conv.in_channels, conv.out_channels, conv.kernel_size
        layers += [
            nn.Conv2d(*sizes, conv.stride, conv.padding, bias=False),
            nn.BatchNorm2d(sizes[1]),
            nn.ReLU(),
        ]
        layers[-3].weight.data.copy_(conv.weight)
    return nn.Sequential(*layers[:-1])


@pytest.mark.parametrize(
    ("inside", "stride", "projects"), [(32, 1, False), (32, 2, True), (16, 1, True)]
)
def test_a_bottleneck_adds_three_convolutions_to_its_projected_input(inside, stride, projects):
    block, x = Bottleneck(inside, 8, stride), images(4, inside, 6, 6)
    inner = plain_copy(block, 3)(x)
    shapes = [tuple(getattr(block, f"conv{i}").weight.shape) for i in (1, 2, 3)]
    assert shapes == [(8, inside, 1, 1), (8, 8, 3, 3), (32, 8, 1, 1)]
    shortcut = x
    if projects:
        shortcut = nn.BatchNorm2d(32)(nn.functional.conv2d(x, block.conv0.weight, stride=stride))
    torch.testing.assert_close(block(x), (inner + shortcut).relu())
    block, x = Basic(8, 8, 1), images(4, 8, 6, 6)
    torch.testing.assert_close(block(x), (plain_copy(block, 2)(x) + x).relu())


def test_the_shortcut_drops_every_other_pixel_and_pads_channels_with_zeros():
    block, x = Basic(4, 8, 2), images(2, 4, 5, 5).abs()
    block.conv2.weight.data.zero_()
    out = block(x)
    assert torch.equal(out[:, 2:6], x[:, :, ::2, ::2])
    assert not out[:, :2].any() and not out[:, 6:].any()


def test_convolutions_of_a_resnet_start_kaiming_normal_in_fan_out():
    """As torch's own initializer draws them, given the same generator."""
    layer = nn.Conv2d(4, 8, 3)
    layer.init = "kaiming_fan_out"
    initialize(layer, torch.Generator().manual_seed(3))
    reference = torch.empty_like(layer.weight)
    nn.init.kaiming_normal_(
        reference, mode="fan_out", nonlinearity="relu", generator=torch.Generator().manual_seed(3)
    )
    torch.testing.assert_close(layer.weight.data, reference)
    assert not layer.bias.any()
    made = network(resnet56, CIFAR, 10).module
    assert made.stage3[0].conv2.weight.detach().std().item() == pytest.approx(
        (2 / (64 * 9)) ** 0.5, rel=0.02
    )
    assert made.linear.weight.abs().max() <= 256**-0.5 and made.linear.bias.any()


@BLOCKS
@pytest.mark.parametrize("width", [0.25, 0.5])
def test_a_narrow_pass_is_that_of_a_hand_made_narrow_net(block, width):
    module = small(block)
    x2 = images(4, 32 * block.expansion, 4, 4).abs()
    inside, planes = int(width * 32 * block.expansion), int(width * 64)
    narrow = Stage(block, 1, inside, planes, 2)
    full = dict(module.stage3.named_parameters())
    for name, parameter in narrow.named_parameters():
        parameter.data.copy_(full[name][tuple(slice(length) for length in parameter.shape)])
    first, out = module(x2, narrow=width)
    assert torch.equal(first, x2[:, :inside])
    torch.testing.assert_close(
        out, narrow(first)
    )  # trains, so its batch normalization uses the batch
