"""FinP's penalty: its value and gradient by hand, its norms beside singular value
decompositions, vmap beside the loop.
"""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from algorithms.core.network import Network
from algorithms.engine.backends import loop, vmap
from algorithms.engine.backends.client_inputs import Draws
from algorithms.engine.backends.optimizers import Optimizer
from algorithms.models import mlp, tcn
from algorithms.objectives import _lipschitz, finp, plain
from algorithms.training import local_sgd
from algorithms.training.local_sgd import Config as Training
from algorithms.training.local_sgd import schedule
from datasets.federation import Examples
from orchestrator.config.run import check
from tests.support.stand_ins import StandIn

REGULARISERS = ("row_norm_product", "spectral_product", "input_jacobian")
every_regularizer = pytest.mark.parametrize("regularizer", REGULARISERS)
RHO = torch.tensor(0.8)


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def net(arrays, x):
    """Two layers with a smooth activation; x [n, 4] to logits [n, 3]."""
    return torch.tanh(x @ arrays["in"].T + arrays["bias"]) @ arrays["out"].T


def some_arrays() -> dict[str, torch.Tensor]:
    arrays = {"in": drawn(5, 4), "bias": drawn(5, seed=1), "out": drawn(3, 5, seed=2)}
    return {name: array.requires_grad_() for name, array in arrays.items()}


def some_examples(n: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    return drawn(n, 4, seed=3), torch.arange(n) % 3


def penalized(config, arrays, x, y, forward=net, **client):
    """The loss at the start of a client's iterations."""
    with torch.no_grad():
        carry = finp.carry(
            config, forward, arrays, tuple(x.shape[1:]), torch.Generator().manual_seed(0)
        )
    return finp.loss(config, forward, arrays, x, y, {"rho": RHO, "carry": carry} | client)


def value_and_gradients(config, arrays, x, y, forward=net):
    value = penalized(config, arrays, x, y, forward)
    return value, dict(zip(arrays, torch.autograd.grad(value, list(arrays.values())), strict=True))


# Value and gradient


@every_regularizer
def test_the_added_term_is_beta_rho_times_the_cross_entropy(regularizer):
    arrays, (x, y) = some_arrays(), some_examples()
    config = finp.Config(beta=0.3, regularizer=regularizer)
    entropy = cross_entropy(net(arrays, x), y).item()
    assert penalized(config, arrays, x, y).item() == pytest.approx((1 + 0.3 * 0.8) * entropy)
    assert penalized(config, arrays, x, y, rho=0.5).item() == pytest.approx(
        (1 + 0.3 * 0.5) * entropy
    )


@every_regularizer
def test_the_gradient_is_beta_rho_cross_entropy_times_that_of_log_lip(regularizer):
    arrays, (x, y) = some_arrays(), some_examples()
    entropy = cross_entropy(net(arrays, x), y)
    plainly = torch.autograd.grad(entropy, list(arrays.values()))
    kinds = {
        kind: finp.Config(beta=0.5, regularizer=regularizer, normalize=kind)
        for kind in ("ce_over_lip", "none")
    }
    scaled = value_and_gradients(kinds["ce_over_lip"], arrays, x, y)
    raw = value_and_gradients(kinds["none"], arrays, x, y)
    lip = (raw[0].item() - entropy.item()) / (0.5 * 0.8)
    assert lip > 0
    if regularizer == "row_norm_product":
        norms = [arrays[name].detach().norm(dim=1).max().item() for name in ("in", "out")]
        assert lip == pytest.approx(norms[0] * norms[1], rel=1e-4)
    for name, without in zip(arrays, plainly, strict=True):
        torch.testing.assert_close(
            scaled[1][name] - without, (raw[1][name] - without) * entropy.item() / lip
        )
    assert (scaled[1]["in"] - plainly[0]).abs().max() > 1e-3


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_a_product_beyond_float32_has_a_gradient(scale):
    arrays = {str(i): (scale * torch.eye(2)[:, [1, 0]]).requires_grad_() for i in range(60)}
    forward = lambda given, x: x + 0 * given["0"].sum()  # noqa: E731
    x, y = drawn(4, 2), torch.tensor([0, 1, 0, 1])
    value, gradients = value_and_gradients(finp.Config(beta=1), arrays, x, y, forward)
    entropy = cross_entropy(x, y).item()
    assert value.item() == pytest.approx(1.8 * entropy)
    for gradient in gradients.values():
        assert gradient.norm().item() == pytest.approx(0.8 * entropy / scale, rel=1e-4)


@every_regularizer
def test_weights_of_zero_have_no_gradient_that_is_no_number(regularizer):
    arrays = {
        name: torch.zeros_like(array).requires_grad_() for name, array in some_arrays().items()
    }
    _, gradients = value_and_gradients(
        finp.Config(beta=1, regularizer=regularizer), arrays, *some_examples()
    )
    assert all(gradient.isfinite().all() for gradient in gradients.values())


# The norms


def test_spectral_norms_are_the_largest_singular_values():
    arrays = {"a": drawn(6, 4), "b": drawn(3, 2, 5, seed=1), "bias": drawn(7)}
    directions = _lipschitz.directions(arrays, torch.Generator().manual_seed(0))
    for _ in range(200):
        directions = _lipschitz.advance(arrays, directions)
    expected = [torch.linalg.svdvals(arrays[name].flatten(1))[0].log().item() for name in "ab"]
    assert _lipschitz.spectral(arrays, directions).item() == pytest.approx(sum(expected), abs=1e-5)


def jacobian_norms(arrays, x) -> list[float]:
    each = [
        torch.autograd.functional.jacobian(lambda one: net(arrays, one[None])[0], example)
        for example in x
    ]
    return [torch.linalg.svdvals(jacobian)[0].item() for jacobian in each]


@pytest.mark.parametrize("n", [7, 20])
def test_the_jacobians_norm_is_that_of_its_singular_value_decomposition(n):
    arrays, (x, _) = some_arrays(), some_examples(n)
    start = _lipschitz.starts((4,), x, torch.Generator().manual_seed(0))
    found = _lipschitz.jacobian(net, arrays, x, torch.ones(n, dtype=torch.bool), start).exp().item()
    expected = np.mean(jacobian_norms(arrays, x[:16]))
    assert 0.95 * expected < found <= expected * (1 + 1e-6)


def test_the_jacobians_gradient_is_that_through_an_svd():
    """Of a linear net J is the weight itself, and three steps are exact where its singular
    values are far apart.
    """
    weight = torch.diag(torch.tensor([9.0, 0.3, 0.1]))[:, [2, 0, 1]].requires_grad_()
    x = drawn(5, 3)
    start = _lipschitz.starts((3,), x, torch.Generator().manual_seed(0))
    found = _lipschitz.jacobian(
        lambda given, z: z @ given["w"].T, {"w": weight}, x, torch.ones(5, dtype=bool), start
    )
    expected = torch.linalg.svdvals(weight)[0].log()
    assert found.item() == pytest.approx(expected.item(), abs=1e-5)
    ours, theirs = torch.autograd.grad(found, weight)[0], torch.autograd.grad(expected, weight)[0]
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("n", [5, 16, 18])
def test_padding_has_no_jacobian(n):
    arrays, (x, y) = some_arrays(), some_examples(20)
    config = finp.Config(beta=1, regularizer="input_jacobian", normalize="none")
    padded = torch.where(torch.arange(20) < n, y, -100)
    short = penalized(config, arrays, x[:n], y[:n]).item()
    assert penalized(config, arrays, x, padded).item() == pytest.approx(short, rel=1e-5)


# In training


def a_network(module, shape, **fields) -> Network:
    return Network(StandIn(module=module, config=module.Config(**fields)), shape, 3)


def trained(network: Network, config, rho: float, backend: str, sizes=(7, 20, 33)) -> np.ndarray:
    """Weights of three clients after an epoch each, [3, d]."""
    module = finp if isinstance(config, finp.Config) else plain
    objective, training = (
        StandIn(module=module, config=config),
        Training(lr=0.05, epochs=1, batch_size=20),
    )
    shape = (*network.shape_of_record,)
    start = network.initial(np.random.default_rng(0))
    begin, told = np.concatenate([[0], np.cumsum(sizes)]), torch.tensor([rho, 1.0, 0.3])
    x = np.random.default_rng(1).normal(size=(sum(sizes), *shape)).astype(np.float32)
    y = np.random.default_rng(2).integers(0, 3, sum(sizes))
    plans = [schedule(training, size, None, np.random.default_rng(size)) for size in sizes]
    draws = [Draws(probes=torch.Generator().manual_seed(i)) for i in range(3)]
    if backend == "vmap":
        rows = [
            np.where(plan < 0, plan, plan + first)
            for plan, first in zip(plans, begin, strict=False)
        ]
        begun = torch.from_numpy(np.stack([start.params] * 3))
        optimizer = Optimizer(training, training.lr)
        params, _ = vmap.train(
            network, begun, Examples(x, y), rows, optimizer, objective, {"rho": told}, draws
        )
        return params.numpy()
    found = []
    for i, plan in enumerate(plans):
        network.load(start)
        mine = slice(begin[i], begin[i + 1])
        optimizer = Optimizer(training, training.lr)
        slot = StandIn(module=local_sgd, config=training)
        own = Examples(x[mine], y[mine])
        gradient = loop.client_gradient(network, slot, objective, own, {"rho": told[i]}, draws[i])
        loop.train(network, own, plan, optimizer, gradient, draws[i])
        found.append(network.weights().params)
    return np.stack(found)


NETS = {"mlp": (mlp, (6,), {"hidden": (8,)}), "tcn": (tcn, (2, 12), {})}


@pytest.fixture(params=NETS)
def network(request) -> Network:
    module, shape, fields = NETS[request.param]
    made = a_network(module, shape, **fields)
    made.shape_of_record = shape
    return made


@every_regularizer
def test_vmap_agrees_with_the_loop(network, regularizer):
    config = finp.Config(beta=1, regularizer=regularizer)
    by_loop, by_vmap = (trained(network, config, 0.9, backend) for backend in ("loop", "vmap"))
    np.testing.assert_allclose(by_vmap, by_loop, atol=2e-5)
    assert np.abs(by_loop - trained(network, plain.Config(), 0.9, "loop")).max(axis=1).min() > 1e-3


@every_regularizer
@pytest.mark.parametrize("backend", ["loop", "vmap"])
def test_beta_zero_is_plain_training_bit_for_bit(network, regularizer, backend):
    without = finp.Config(beta=0, regularizer=regularizer)
    expected = trained(network, plain.Config(), 0.9, backend)
    assert trained(network, without, 0.9, backend).tobytes() == expected.tobytes()


# What is refused


BF16 = {"precision": "bf16", "backend": "loop"}


@pytest.mark.parametrize(
    ("model", "training", "sentence"),
    [
        ("resnet56", {}, "batch normalization"),
        ("keras_cnn", {}, "draws random numbers"),
        ("mlp", BF16, "bf16"),
    ],
)
def test_a_jacobian_is_refused_where_there_is_none_of_a_single_example(model, training, sentence):
    run = {"rounds": 1, "data": "digits", "model": model, "training": training}
    _, found = check(run | {"objective": {"name": "finp", "regularizer": "input_jacobian"}})
    assert any(sentence in str(problem) for problem in found)
    _, others = check(run | {"objective": "finp"})
    assert not any(sentence in str(problem) for problem in others)
