"""FedProx: the pull towards the weights that were sent, and its inactive reading."""

from __future__ import annotations

import math

import pytest
import torch
from pydantic import ValidationError
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


def test_descent_on_the_quadratic_shrinks_the_distance_by_1_minus_lr_mu():
    x, y = batch()
    sent, weight = {"weight": torch.tensor([[2.0]])}, torch.tensor([[5.0]])
    for step in range(1, 4):
        weight = weight.detach().requires_grad_()
        loss = fedprox.loss(ACTIVE, uninformed, {"weight": weight}, x, y, {"sent": sent})
        weight = weight - 0.5 * torch.autograd.grad(loss, weight)[0]
        assert weight.item() == pytest.approx(2 + 3 * (1 - 0.5 * 0.3) ** step, rel=1e-6)


def test_active_adds_its_gradient_to_that_of_the_plain_loss():
    x, y = batch()
    own, sent = arrays(0), arrays(1)
    for parameter in own.values():
        parameter.requires_grad_()
    full = torch.autograd.grad(fedprox.loss(ACTIVE, linear, own, x, y, {"sent": sent}), list(own.values()))
    empirical = torch.autograd.grad(plain.loss(plain.Config(), linear, own, x, y, {}), list(own.values()))
    for name, gradient, base in zip(own, full, empirical, strict=True):
        assert base.abs().max() > 0.01
        torch.testing.assert_close(gradient, base + 0.3 * (own[name] - sent[name]).detach())


def test_inactive_is_fedavg_bit_for_bit_whatever_mu():
    x, y = batch()
    own = arrays(0)
    for parameter in own.values():
        parameter.requires_grad_()
    empirical = plain.loss(plain.Config(), linear, own, x, y, {})
    expected = torch.autograd.grad(empirical, list(own.values()))
    for config in (fedprox.Config(mode="inactive"), fedprox.Config(mode="inactive", mu=5.0)):
        loss = fedprox.loss(config, linear, own, x, y, {"sent": arrays(1)})
        assert torch.equal(loss, empirical)
        assert all(map(torch.equal, torch.autograd.grad(loss, list(own.values())), expected))


def test_the_default_is_the_method():
    assert fedprox.Config().mode == "active"


def test_with_mu_0_active_is_the_plain_loss():
    x, y = batch()
    config = fedprox.Config(mode="active", mu=0.0)
    loss = fedprox.loss(config, linear, arrays(0), x, y, {"sent": arrays(1)})
    assert torch.equal(loss, plain.loss(plain.Config(), linear, arrays(0), x, y, {}))


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


def test_every_parameter_of_a_network_is_pulled():
    module = mlp.build(mlp.Config(hidden=(3,)), (4,), 3)
    own = dict(module.named_parameters())
    sent = {name: parameter.detach() - 1 for name, parameter in own.items()}
    x, y = batch()
    forward = lambda given, x: functional_call(module, given, (x,))  # noqa: E731
    loss = fedprox.loss(ACTIVE, forward, own, x, y, {"sent": sent})
    extra = (loss - plain.loss(plain.Config(), forward, own, x, y, {})).item()
    assert extra == pytest.approx(0.15 * sum(parameter.numel() for parameter in own.values()), rel=1e-5)


def test_a_negative_mu_is_refused():
    with pytest.raises(ValidationError):
        fedprox.Config(mu=-0.1)
