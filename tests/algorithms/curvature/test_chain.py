"""Gradient, Hessian products and examples' gradient lengths of chains of layers, beside torch's
own and by hand.
"""

from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy, one_hot

import algorithms.curvature.chain
import algorithms.curvature.hessian
from algorithms.core.dropout import Dropout
from algorithms.core.network import Network
from algorithms.curvature.chain import Chain, is_chain
from algorithms.curvature.hessian import Graph, LossSurface
from tests.support.stand_ins import StandIn

SHAPE, CLASSES = (3, 8, 8), 4
conv, linear, relu, flat = nn.Conv2d, nn.Linear, nn.ReLU, nn.Flatten
CHAINS = {
    "linear": lambda: (flat(), linear(192, 4)),
    "side by side": lambda: (
        flat(),
        linear(192, 5, bias=False),
        relu(),
        linear(5, 6),
        nn.Identity(),
        linear(6, 4),
    ),
    "padded and strided": lambda: (
        conv(3, 5, (3, 2), (2, 1), (1, 2)),
        relu(),
        flat(),
        linear(220, 4),
    ),
    "dilated": lambda: (
        *(
            conv(3, 5, 3, dilation=2, bias=False),
            nn.MaxPool2d(2),
            relu(),
            conv(5, 6, 2),
            relu(),
            flat(),
            linear(6, 4),
        ),
    ),
    "pools that overlap": lambda: (
        *(conv(3, 5, 3), nn.MaxPool2d(3, stride=1, padding=1), relu(), nn.ZeroPad2d((1, 0, 2, 0))),
        *(conv(5, 6, 3), relu(), nn.MaxPool2d(2), flat(), linear(36, 7), relu(), linear(7, 4)),
    ),
    "mean pools": lambda: (
        *(
            conv(3, 5, 3, padding=1),
            relu(),
            nn.AvgPool2d(2),
            conv(5, 6, 3),
            relu(),
            flat(),
            linear(24, 4),
        ),
    ),
    "series": lambda: (
        *(
            nn.Flatten(2),
            nn.Conv1d(3, 6, 3, stride=2, padding=1, dilation=3),
            nn.MaxPool1d(2),
            relu(),
        ),
        *(
            nn.ZeroPad1d((2, 0)),
            nn.Sequential(nn.Conv1d(6, 5, 3), relu()),
            nn.AvgPool1d(3),
            flat(),
            linear(25, 4),
        ),
    ),
    "steps before and after": lambda: (
        *(
            nn.MaxPool2d(2),
            nn.ZeroPad2d((1, -1, 2, 0)),
            conv(3, 5, 3, bias=False),
            nn.ReLU(inplace=True),
        ),
        *(
            nn.AvgPool2d(2, ceil_mode=True, count_include_pad=False),
            Dropout(0.5),
            flat(),
            linear(10, 4),
            relu(),
        ),
    ),
    "dilated pools": lambda: (
        *(
            conv(3, 5, 1),
            nn.MaxPool2d(2, dilation=3, ceil_mode=True, padding=1),
            flat(),
            linear(80, 4),
        ),
    ),
    "largest of two": lambda: (flat(), linear(192, 6), nn.MaxPool1d(2), relu(), linear(3, 4)),
    "every place by itself": lambda: (
        linear(8, 6),
        relu(),
        linear(6, 3),
        relu(),
        flat(),
        linear(72, 4),
    ),
}


def network(build) -> Network:
    made = Network(StandIn(module=SimpleNamespace(build=build), config=None), SHAPE, CLASSES)
    made.load(made.initial(np.random.default_rng(0)))
    made.module.eval()
    return made


def chained(name: str) -> Network:
    return network(lambda *_: nn.Sequential(*CHAINS[name]()))


def examples(shape=SHAPE, classes: int = CLASSES, n: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, *shape, generator=generator), torch.randint(
        0, classes, (n,), generator=generator
    )


def slopes_one_by_one(net: Network, x: torch.Tensor, y: torch.Tensor) -> np.ndarray:
    found = []
    for example, label in zip(x.split(1), y.split(1), strict=True):
        gradients = torch.autograd.grad(
            cross_entropy(net.module(example), label), list(net.module.parameters())
        )
        found.append(sum(float(gradient.double().square().sum()) for gradient in gradients))
    return np.array(found)


def close(found: torch.Tensor, expected: torch.Tensor, tolerance: float = 2e-6) -> None:
    np.testing.assert_allclose(
        found.numpy(), expected.numpy(), atol=tolerance * float(expected.abs().max())
    )


@pytest.mark.parametrize("name", CHAINS)
def test_gradient_and_products_are_those_of_autograd_in_float64(name):
    net, (x, y) = chained(name), examples()
    assert is_chain(net.module)

    def loss(params: torch.Tensor) -> torch.Tensor:
        return (
            cross_entropy(functional_call(net.module, net.layout.views(params), (x.double(),)), y)
            * 7
            / 10
        )

    chain, at = Chain(net, x, y, examples=10), net.params.double()
    close(chain.gradient(), torch.func.grad(loss)(at))
    vector = torch.randn(len(at), generator=torch.Generator().manual_seed(2))
    expected = torch.autograd.functional.hvp(loss, at, vector.double())[1]
    assert expected.abs().max() > 1e-3
    for _ in range(2):  # nothing is used up
        close(chain.times(vector), expected)


@pytest.mark.parametrize("name", CHAINS)
def test_lengths_are_those_of_a_loop_over_examples(name):
    net, (x, y) = chained(name), examples()
    other = y.roll(1)  # labels may be others than those of the loss
    for point in (Chain(net, x, y, 7), Graph(net, x, y, 7)):
        found = point.squared_lengths(
            torch.stack([point.p - one_hot(own, 4) for own in (other, y)])
        )
        expected = [slopes_one_by_one(net, x, own) for own in (other, y)]
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_a_gradient_known_by_hand():
    net = network(lambda *_: nn.Sequential(nn.Linear(2, 2, bias=False)))
    net.params.zero_()
    chain = Chain(net, torch.tensor([[3.0, 4.0]]), torch.tensor([0]), 1)
    # Both classes have probability 1/2: dL/dz = (-1/2, 1/2) with length^2 = |a|^2 / 2, and H = 1/4
    # (1 -1; -1 1) x a a'.
    assert chain.squared_lengths(torch.tensor([[[-0.5, 0.5]]])).tolist() == [pytest.approx([12.5])]
    assert chain.gradient().tolist() == pytest.approx([-1.5, -2, 1.5, 2])
    assert chain.times(torch.tensor([1.0, 0, 0, 0])).tolist() == pytest.approx(
        [9 / 4, 3, -9 / 4, -3]
    )


def test_of_our_models_those_without_normalization_are_chains():
    shapes = {"mlp": (64,), "tcn": (9, 128), "mnist_cnn": (1, 28, 28), "femnist_cnn": (1, 28, 28)}
    shapes |= dict.fromkeys(("hu_cnn", "keras_cnn", "femnist_net", "vgg", "resnet56"), (3, 32, 32))
    for name, shape in shapes.items():
        module = import_module(f"algorithms.models.{name}")
        with torch.device("meta"):
            built = module.build(module.Config(), shape, 6)
        assert is_chain(built) == (name not in ("femnist_net", "vgg", "resnet56")), name


class Residual(nn.Module):
    """Examples take two ways."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last = nn.Linear(8, 8), nn.Linear(192, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last((x + self.inner(x)).flatten(1))


class Bypassed(nn.Sequential):
    """Examples take two ways, and it calls itself a sequence."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + super().forward(x)


class Standardized(nn.Conv2d):
    """Works with other weights than it holds."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._conv_forward(x, self.weight / self.weight.std(), self.bias)


SHARED = nn.Linear(4, 4)
OTHERS = {
    "groups": nn.Conv2d(4, 4, 3, groups=2),
    "normalization": nn.BatchNorm2d(4),
    "padding by name": nn.Conv2d(4, 4, 3, padding="same"),
    "padding that reflects": nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"),
    "transposed": nn.ConvTranspose2d(4, 4, 3),
    "a curve": nn.Tanh(),
    "two ways": Residual(),
    "two ways in a sequence": Bypassed(nn.Conv2d(4, 4, 1)),
    "other weights than it holds": Standardized(4, 4, 3),
    "parametrised": nn.utils.parametrizations.weight_norm(nn.Conv2d(4, 4, 3)),
    "examples joined": nn.Flatten(0, 1),
    "twice": nn.Sequential(SHARED, nn.ReLU(), SHARED),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_such_chain_is_not_covered(name):
    """Neither are layers without weights, nor those whose hooks may change what a layer takes or
    gives.
    """
    assert not is_chain(nn.Sequential(nn.Conv2d(3, 4, 3), OTHERS[name]))
    assert not is_chain(nn.Sequential(nn.Flatten()))
    layer = nn.Linear(4, 4)
    for hook in ("forward", "forward_pre", "full_backward", "full_backward_pre"):
        handle = getattr(layer, f"register_{hook}_hook")(lambda *_: None)
        assert not is_chain(nn.Sequential(layer))
        handle.remove()
    assert is_chain(nn.Sequential(layer))


@pytest.mark.parametrize(
    ("steps", "places"),
    [((nn.ReLU(),), 36), ((nn.ReLU(), nn.MaxPool2d(2)), 9), ((nn.MaxPool2d(2), nn.ReLU()), 9)],
)
def test_a_zero_in_front_of_a_relu_lets_nothing_through(steps, places):
    """As in torch: blank borders of an image give exact zeros where there is no bias."""
    net = network(
        lambda *_: nn.Sequential(conv(3, 5, 3, bias=False), *steps, flat(), linear(5 * places, 4))
    )
    x, y = examples()
    x[:, :, :5] = 0
    vector = torch.randn(len(net.params), generator=torch.Generator().manual_seed(2))
    close(Chain(net, x, y, 7).times(vector), Graph(net, x, y, 7).times(vector), 1e-5)


def test_large_examples_go_through_autograd(monkeypatch):
    net, (x, y) = chained("pools that overlap"), examples()
    vector = torch.randn(len(net.params), generator=torch.Generator().manual_seed(2))
    expected = Chain(net, x, y, 7).times(vector)
    monkeypatch.setattr(algorithms.curvature.chain, "EXACT", 1)
    monkeypatch.setattr(algorithms.curvature.chain, "_selection", None)
    close(Chain(net, x, y, 7).times(vector), expected)


@pytest.mark.parametrize(("room", "kept"), [(0, 0), (2, 2), (4, 4)])
def test_as_many_batches_are_kept_as_there_is_room_for_and_give_the_same_bits(
    monkeypatch, room, kept
):
    """Gradient, product and trace of four batches; a single batch is always kept."""
    net, data = chained("linear"), examples(n=200)

    def numbers() -> list:
        surface = LossSurface(net, *data)
        gradient = surface.gradient()
        return [
            len(surface.batches),
            gradient,
            surface.times(gradient),
            surface.gauss_newton_trace(np.random.default_rng(0)),
        ]

    everything = numbers()
    monkeypatch.setattr(
        algorithms.curvature.hessian, "ROOM", room * Chain(net, *examples(n=64), 200).nbytes
    )
    again = numbers()
    assert (everything[0], again[0], len(LossSurface(net, *examples(n=64)).batches)) == (4, kept, 1)
    assert all(
        map(torch.equal, map(torch.as_tensor, everything[1:]), map(torch.as_tensor, again[1:]))
    )
