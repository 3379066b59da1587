"""FedProx: the pull towards the weights that were sent, and its inactive reading."""

from __future__ import annotations

import pytest
import torch
from torch.func import functional_call

from algorithms.models import mlp
from algorithms.objectives import fedprox, plain

ACTIVE = fedprox.Config(mode="active", mu=0.3)


def batch(*lead: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(9)
    return torch.randn(*lead, 5, 4, generator=generator), torch.randint(
        0, 3, (*lead, 5), generator=generator
    )


@pytest.mark.parametrize(
    ("config", "mu"),
    [
        (ACTIVE, 0.3),
        (fedprox.Config(), 0.01),
        (fedprox.Config(mu=0.0), 0),
        (fedprox.Config(mode="inactive"), 0),  # FedAvg, bit for bit, whatever mu
        (fedprox.Config(mode="inactive", mu=5.0), 0),
    ],
)
def test_active_adds_its_gradient_to_that_of_the_plain_loss(config, mu):
    """In every parameter of a network."""
    x, y = batch()
    module = mlp.build(mlp.Config(hidden=(3,)), (4,), 3)
    own = dict(module.named_parameters())
    sent = {name: parameter.detach() - 1 for name, parameter in own.items()}
    forward = lambda given, x: functional_call(module, given, (x,))  # noqa: E731
    loss = fedprox.loss(config, forward, own, x, y, {"sent": sent})
    empirical = plain.loss(plain.Config(), forward, own, x, y, {})
    gradients, expected = (
        torch.autograd.grad(each, list(own.values())) for each in (loss, empirical)
    )
    proximal = mu / 2 * sum(each.numel() for each in own.values())
    assert loss.item() == pytest.approx(empirical.item() + proximal, rel=1e-5)
    for gradient, base in zip(gradients, expected, strict=True):
        torch.testing.assert_close(
            gradient, base + mu, rtol=1e-5 if mu else 0, atol=1e-5 if mu else 0
        )
