"""The two backends of local training: the loop beside a loop written by hand, and vmap beside
the loop.
"""

from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from algorithms.core.network import Network
from algorithms.engine.backends import loop, vmap
from algorithms.engine.backends.optimizers import Optimizer
from algorithms.models import mlp, mnist_cnn
from algorithms.objectives import plain
from algorithms.training import local_sgd
from algorithms.training.local_sgd import Config, one_pass, schedule
from datasets.federation import Examples
from tests.support.stand_ins import StandIn
from tests.support.torchs_own import TorchsOwn

SHAPE, CLASSES = (6,), 3
SIZES = (
    7,
    12,
    5,
    1,
)  # examples of each client, for batches of 5: partial batches and unequal numbers of steps
KINDS: dict[str, dict[str, Any]] = {
    "sgd": {"lr": 0.3},
    "momentum": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
    "adam": {"optimizer": "adam", "lr": 0.05},
}
every_kind = pytest.mark.parametrize("fields", KINDS.values(), ids=KINDS)
PLAIN = StandIn(module=plain, config=plain.Config())


def a_network(module: Any = mlp, shape: tuple[int, ...] = SHAPE) -> Network:
    fields = {"hidden": (8,)} if module is mlp else {}
    return Network(StandIn(module=module, config=module.Config(**fields)), shape, CLASSES)


def examples(n: int, shape: tuple[int, ...] = SHAPE) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    return rng.normal(size=(n, *shape)).astype(np.float32), rng.integers(0, CLASSES, n)


def config(fields: dict[str, Any]) -> Config:
    return Config(**{"epochs": 3, "batch_size": 5, **fields})


def starts_of(network: Network, count: int = len(SIZES)) -> list[Any]:
    return [network.initial(np.random.default_rng(i)) for i in range(count)]


def by_loop(
    network: Network, start: Any, x: Any, y: Any, plan: Any, training: Config
) -> tuple[np.ndarray, float]:
    network.load(start)
    slot = StandIn(module=local_sgd, config=training)
    gradient = loop.client_gradient(network, slot, PLAIN, Examples(x, y), {})
    loss = loop.train(network, Examples(x, y), plan, Optimizer(training, training.lr), gradient)
    return network.weights().params, loss


def by_vmap(
    network: Network, start: list[Any], x: Any, y: Any, plans: list[Any], training: Config
) -> Any:
    begun = torch.stack([torch.from_numpy(weights.params) for weights in start])
    params, loss = vmap.train(
        network, begun, Examples(x, y), plans, Optimizer(training, training.lr), PLAIN, {}
    )
    return params.numpy(), loss


def by_hand(
    start: np.ndarray, x: np.ndarray, y: np.ndarray, training: Config, seed: int
) -> tuple[np.ndarray, float]:
    """Local training of an 6-8-3 perceptron as one would write it without this project."""
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, CLASSES))
    nn.utils.vector_to_parameters(torch.from_numpy(start.copy()), net.parameters())
    arrays = list(net.parameters())
    optimizer = TorchsOwn(training, arrays)
    rng, losses = np.random.default_rng(seed), []
    for _ in range(training.epochs):
        order = rng.permutation(len(x))
        for first in range(0, len(x), training.batch_size):
            rows = order[first : first + training.batch_size]
            logits = net(torch.from_numpy(x[rows]))
            each = nn.functional.cross_entropy(logits, torch.from_numpy(y[rows]), reduction="none")
            losses += each.tolist()
            optimizer.step(list(torch.autograd.grad(each.mean(), arrays)))
    return nn.utils.parameters_to_vector(net.parameters()).detach().numpy(), float(np.mean(losses))


# The loop


@every_kind
@pytest.mark.parametrize("size", SIZES)
def test_the_loop_is_the_loop_that_one_would_write_by_hand_whatever_the_network_held_before(
    fields, size
):
    training, network, (x, y) = config(fields), a_network(), examples(size)
    (start,) = starts_of(network, 1)
    plan = schedule(training, size, None, np.random.default_rng(size))
    params, loss = by_loop(network, start, x, y, plan, training)
    expected, mean = by_hand(start.params, x, y, training, seed=size)
    np.testing.assert_allclose(params, expected, atol=2e-6)
    assert loss == pytest.approx(mean, rel=1e-5)
    assert not np.allclose(params, start.params, atol=1e-3)
    network.params.fill_(3.0)
    network.grads.fill_(5.0)
    again = by_loop(network, start, x, y, plan, training)
    assert (params.tobytes(), loss) == (again[0].tobytes(), again[1])


def test_one_step_by_hand_on_a_linear_model():
    """Two classes, one example x = 1 of class 0, weights 0: softmax is (1/2, 1/2), so the
    gradients are -1/2 and 1/2.
    """
    network = Network(StandIn(module=mlp, config=mlp.Config(hidden=())), (1,), 2)
    start = SimpleNamespace(params=np.zeros(4, np.float32), buffers=np.zeros(0, np.float32))
    x, y, plan = np.ones((1, 1), np.float32), np.zeros(1, np.int64), np.array([[0]])
    params, loss = by_loop(network, start, x, y, plan, Config(lr=1.0))
    assert params.tolist() == [0.5, -0.5, 0.5, -0.5]
    assert loss == pytest.approx(np.log(2))


def test_passes_are_epochs_of_one_optimizer():
    training, network, (x, y) = config(KINDS["momentum"]), a_network(), examples(12)
    (start,), rng = starts_of(network, 1), np.random.default_rng(5)
    plan = np.concatenate([one_pass(12, 5, rng) for _ in range(3)])
    expected, mean = by_loop(network, start, x, y, plan, training)
    network.load(start)
    slot = StandIn(module=local_sgd, config=training)
    losses = list(islice(loop.passes(network, Examples(x, y), slot, np.random.default_rng(5)), 3))
    assert network.weights().params.tobytes() == expected.tobytes()
    assert np.mean(losses) == pytest.approx(mean, rel=1e-6)
    assert losses[2] < losses[0]


def test_bf16_computes_in_less_precision_and_keeps_float32_weights():
    network, (x, y) = a_network(), examples(12)
    (start,), plan = starts_of(network, 1), schedule(config({}), 12, None, np.random.default_rng(0))
    exact, _ = by_loop(network, start, x, y, plan, config({"lr": 0.3}))
    short, _ = by_loop(network, start, x, y, plan, config({"lr": 0.3, "precision": "bf16"}))
    assert short.dtype == np.float32
    assert 1e-6 < abs(short - exact).max() < 0.05


# vmap


def a_block(training: Config, shape: tuple[int, ...] = SHAPE) -> tuple[Any, Any, list[Any]]:
    """Examples of all clients one after another, and each client's plan in them."""
    own = [schedule(training, size, None, np.random.default_rng([size, 3])) for size in SIZES]
    offsets = np.cumsum([0, *SIZES])
    plans = [np.where(plan < 0, plan, plan + at) for plan, at in zip(own, offsets, strict=False)]
    return *examples(sum(SIZES), shape), plans


@pytest.mark.parametrize(
    ("fields", "module", "shape"),
    [(fields | {"epochs": epochs}, mlp, SHAPE) for fields in KINDS.values() for epochs in (1, 3)]
    + [({"lr": 0.1, "epochs": 2}, mnist_cnn, (1, 8, 8))],
)
def test_vmap_agrees_with_the_loop_for_clients_of_unequal_size(fields, module, shape):
    training, network = config(fields), a_network(module, shape)
    (x, y, plans), starts = a_block(training, shape), starts_of(network)
    params, losses = by_vmap(network, starts, x, y, plans, training)
    for i, plan in enumerate(plans):
        expected, loss = by_loop(network, starts[i], x, y, plan, training)
        np.testing.assert_allclose(params[i], expected, atol=5e-6)
        assert losses[i] == pytest.approx(loss, rel=1e-5)


def test_vmap_repeats_to_the_bit_and_depends_on_the_block_by_rounding_only():
    """Batched products may be cut up by their number, so bytes are promised for a fixed block,
    not for a client alone.
    """
    training, network = config(KINDS["momentum"]), a_network()
    (x, y, plans), starts = a_block(training), starts_of(network)
    kept = [weights.params.tobytes() for weights in starts]
    params, losses = by_vmap(network, starts, x, y, plans, training)
    network.params.fill_(3.0)
    again = by_vmap(network, starts, x, y, plans, training)
    assert (params.tobytes(), losses.tobytes()) == (again[0].tobytes(), again[1].tobytes())
    assert [weights.params.tobytes() for weights in starts] == kept
    alone = by_vmap(network, starts[1:2], x, y, plans[1:2], training)
    np.testing.assert_allclose(alone[0][0], params[1], atol=2e-6)


@pytest.mark.parametrize("last", [np.inf, 1e30])
def test_padding_trains_nobody(last):
    """Padded places point at the last example: it must leave no trace in the clients that do not
    own it.
    """
    training, network = config({"lr": 0.3}), a_network()
    (x, y, plans), starts = a_block(training), starts_of(network, 3)
    expected, losses = by_vmap(network, starts, x, y, plans[:3], training)
    x[-1] = last
    found, same = by_vmap(network, starts, x, y, plans[:3], training)
    assert any((plan < 0).any() for plan in plans[:3])
    assert (found.tobytes(), same.tobytes()) == (expected.tobytes(), losses.tobytes())
