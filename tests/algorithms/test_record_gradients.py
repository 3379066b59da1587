"""The squared length of every record's gradient against a loop over records, for layers and for the models here."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from algorithms.record_gradients import covered, squared_lengths

NETS = {
    "linear": lambda: nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4)),
    "without a bias": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(3 * 8 * 8, 5, bias=False), nn.ReLU(), nn.Linear(5, 4)
    ),
    "padded and strided": lambda: nn.Sequential(
        nn.Conv2d(3, 5, (3, 2), stride=(2, 1), padding=(1, 2)), nn.ReLU(), nn.Flatten(), nn.LazyLinear(4)
    ),
    "dilated": lambda: nn.Sequential(nn.Conv2d(3, 5, 3, dilation=2, bias=False), nn.Flatten(), nn.LazyLinear(4)),
    "series": lambda: nn.Sequential(
        nn.Flatten(2), nn.Conv1d(3, 6, 3, stride=2, padding=1, dilation=3), nn.Tanh(), nn.Flatten(), nn.LazyLinear(4)
    ),
}


class Twice(nn.Module):
    """One layer is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last = nn.Linear(8, 8), nn.Linear(3 * 8 * 8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.inner(self.inner(x)).flatten(1))


def _records(n: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, 3, 8, 8, generator=generator), torch.randint(0, 4, (n,), generator=generator)


def _slow(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> np.ndarray:
    found = []
    for record, label in zip(x.split(1), y.split(1), strict=True):
        slopes = torch.autograd.grad(cross_entropy(net(record), label), list(net.parameters()))
        found.append(sum(float(slope.double().square().sum()) for slope in slopes))
    return np.array(found)


@pytest.mark.parametrize("name", NETS)
def test_lengths_are_those_of_a_loop_over_records(name):
    torch.manual_seed(0)
    net = NETS[name]()
    x, y = _records()
    net(x)
    assert covered(net)
    found = squared_lengths(net, x, lambda logits: cross_entropy(logits, y, reduction="sum"))
    np.testing.assert_allclose(found.numpy(), _slow(net, x, y), rtol=1e-5)


def test_a_gradient_known_by_hand():
    net = nn.Linear(2, 2, bias=False)
    nn.init.zeros_(net.weight)
    # Both classes have probability 1/2: dL/dz = (-1/2, 1/2), so the squared length is 1/2 * |a|^2.
    found = squared_lengths(
        net, torch.tensor([[3.0, 4.0]]), lambda z: cross_entropy(z, torch.tensor([0]), reduction="sum")
    )
    assert found.tolist() == pytest.approx([12.5])


@pytest.mark.parametrize(
    "layer",
    [nn.Conv2d(4, 4, 3, groups=2), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3, padding="same"), nn.ConvTranspose2d(4, 4, 3)],
)
def test_other_layers_are_not_covered(layer):
    assert not covered(nn.Sequential(nn.Conv2d(3, 4, 3), layer))


def test_a_layer_that_is_used_twice_is_refused():
    x, y = _records()
    with pytest.raises(ValueError, match="used twice"):
        squared_lengths(Twice(), x, lambda logits: cross_entropy(logits, y, reduction="sum"))
