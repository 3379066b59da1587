"""FedProx: the pull towards the weights that were sent, and its inactive reading."""

from __future__ import annotations

import math

import pytest
import torch
from torch.func import functional_call, vmap

from algorithms.models import mlp
from algorithms.objectives import fedprox, plain

pytestmark = pytest.mark.usefixtures("one_thread")

ACTIVE = fedprox.Config(mode="active", mu=0.3)


def arrays(seed: int, *lead: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"weight": (4, 3), "bias": (3,)}
    return {name: torch.randn(*lead, *shape, generator=generator) for name, shape in shapes.items()}


def batch(*lead: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(9)
    return torch.randn(*lead, 5, 4, generator=generator), torch.randint(0, 3, (*lead, 5), generator=generator)


def linear(given: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return x @ given["weight"] + given["bias"]


def uninformed(given: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """The same logits for everything: the cross-entropy is log 3 and its gradient zero."""
    return torch.zeros(len(x), 3)


def test_on_a_constant_loss_it_is_the_quadratic_in_closed_form():
    x, y = batch()
    own, sent = arrays(0), arrays(1)
    for parameter in own.values():
        parameter.requires_grad_()
    loss = fedprox.loss(ACTIVE, uninformed, own, x, y, {"sent": sent})
    squared = sum(((own[name] - sent[name]) ** 2).sum().item() for name in own)
    assert loss.item() == pytest.approx(math.log(3) + 0.15 * squared, rel=1e-6)
    for name, gradient in zip(own, torch.autograd.grad(loss, list(own.values())), strict=True):
        torch.testing.assert_close(gradient, 0.3 * (own[name] - sent[name]).detach())


def test_clients_are_pulled_each_to_its_own_start_under_vmap():
    own, sent = arrays(0, 3), arrays(1, 3)
    x, y = batch(3)

    def one(mine, x, y, start):
        return fedprox.loss(ACTIVE, linear, mine, x, y, {"sent": start})

    together = vmap(one)(own, x, y, sent)
    pick = lambda group, i: {name: values[i] for name, values in group.items()}  # noqa: E731
    alone = torch.stack([one(pick(own, i), x[i], y[i], pick(sent, i)) for i in range(3)])
    torch.testing.assert_close(together, alone)
    assert len(set(alone.tolist())) == 3


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
    gradients, expected = (torch.autograd.grad(each, list(own.values())) for each in (loss, empirical))
    assert loss.item() == pytest.approx(
        empirical.item() + mu / 2 * sum(each.numel() for each in own.values()), rel=1e-5
    )
    for gradient, base in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, base + mu, rtol=1e-5 if mu else 0, atol=1e-5 if mu else 0)
