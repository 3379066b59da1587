"""DP-SGD beside a loop over examples written by hand, and its noise and lots beside the laws
they should follow.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from algorithms.core.network import Network
from algorithms.interfaces import Run
from algorithms.models import mlp, mnist_cnn
from algorithms.training import dp_sgd
from algorithms.training.dp_sgd import Config, lots, one_epoch, sampling_rate, schedule
from datasets.components import Component
from tests.algorithms.engine.test_block import a_run, trained
from tests.support.stand_ins import network_of

SILENT: dict[str, Any] = {"noise_multiplier": 0.0}
SHUFFLE: dict[str, Any] = {"sampling": "shuffle"}
CLASSES = 3


def a_net(module: Any = mlp, shape: tuple[int, ...] = (6,), **fields: Any) -> Network:
    return network_of(module, shape, CLASSES, **fields)


def examples(n: int, shape: tuple[int, ...] = (6,)) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, *shape)).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(rng.integers(0, CLASSES, n))


def gradient(
    network: Network, x: Any, y: Any, config: Config, seed: int = 0, of: int = 20
) -> tuple[np.ndarray, float]:
    """The gradient that a step of a client with ``of`` examples would follow, and the lot's mean
    loss.
    """
    loss = dp_sgd.private_gradient(config, network, of, torch.Generator().manual_seed(seed))(
        network.inputs(x), y
    )
    return network.grads.numpy().copy(), float(loss)


def by_hand(
    network: Network, x: torch.Tensor, y: torch.Tensor, clip: float
) -> tuple[np.ndarray, float]:
    """The sum of the examples' own gradients, one backward pass each, each cut to ``clip``; and
    the mean loss.
    """
    total, losses = np.zeros(network.layout.size), []
    for example, label in zip(x, y, strict=True):
        network.grads.zero_()
        loss = nn.functional.cross_entropy(network.module(example[None]), label[None])
        loss.backward()
        own = network.grads.double().numpy()
        total += own * min(1, clip / np.linalg.norm(own))
        losses.append(loss.item())
    return total, float(np.mean(losses))


# Clipping


@pytest.mark.parametrize(
    ("module", "shape"), [(mlp, (6,)), (mnist_cnn, (1, 8, 8))], ids=["dense", "convolutions"]
)
@pytest.mark.parametrize("clip", [0.5, 1.5, 1e5])
@pytest.mark.parametrize("at_once", [2**25, 1])
def test_a_lot_is_the_loop_over_examples_that_one_would_write_by_hand(
    monkeypatch, module, shape, clip, at_once
):
    monkeypatch.setattr(dp_sgd, "FLOATS_AT_ONCE", at_once)
    network, (x, y) = a_net(module, shape), examples(7, shape)
    expected, mean = by_hand(network, x, y, clip)
    found, loss = gradient(network, x, y, Config(clip=clip, **SILENT, **SHUFFLE))
    np.testing.assert_allclose(found, expected / 7, atol=1e-6)
    assert loss == pytest.approx(mean, rel=1e-5)


def by_dp(**fields: Any) -> Run:
    """The run of the other tests, trained by DP-SGD with ``fields``."""
    config = Config(**{"lr": 0.5, "epochs": 2, "batch_size": 8, "clients_per_job": 4, **fields})
    return replace(a_run("loop"), training=Component("dp_sgd", config, "algorithms.training"))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"momentum": 0.9, "lr": 0.1, "nesterov": True},
        {"optimizer": "adam", "lr": 0.01},
        {"drop_last": True},
    ],
    ids=["sgd", "nesterov", "adam", "whole batches"],
)
def test_without_noise_and_with_room_it_is_plain_local_sgd(fields):
    clients, assignment = (0, 1, 2, 4), [0, 1, 1, 0, 1, 0]
    expected = trained(a_run("loop", **fields), clients, assignment)
    found = trained(by_dp(clip=1e5, **SILENT, **SHUFFLE, **fields), clients, assignment)
    np.testing.assert_allclose(found.params, expected.params, atol=5e-6)
    np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-5)


@pytest.mark.parametrize("sampling", ["poisson", "shuffle"])
@pytest.mark.parametrize("broken", [float("nan"), float("inf"), -float("inf"), 1e30])
@pytest.mark.parametrize(
    ("module", "shape"), [(mlp, (6,)), (mnist_cnn, (1, 8, 8))], ids=["dense", "convolutions"]
)
def test_an_example_without_a_finite_gradient_moves_nothing(module, shape, broken, sampling):
    """The sum is that of the other examples, although the loss that is reported may be NaN."""
    network, (x, y) = a_net(module, shape), examples(5, shape)
    config = Config(clip=1.5, sampling=sampling, **SILENT)
    others = by_hand(network, x[:-1], y[:-1], 1.5)[0]
    x[-1] = broken
    found, _ = gradient(network, x, y, config, of=5)
    assert np.isfinite(found).all()
    assert np.linalg.norm(found * 5 - others) <= 1.5 * (1 + 1e-4)
    if not np.isfinite(broken):
        np.testing.assert_allclose(found, others / 5, atol=1e-6)


def test_noise_has_its_standard_deviation_in_every_coordinate():
    """Chi-square, two-sided at 1e-4: 4 lots of a net of 3 467 parameters, z C / L = 2 * 1.5 / 5
    each.
    """
    network, (x, y) = a_net(hidden=(64, 40)), examples(5)
    quiet = gradient(network, x, y, Config(clip=1.5, **SILENT, **SHUFFLE))[0]
    noisy = [
        gradient(network, x, y, Config(clip=1.5, noise_multiplier=2, **SHUFFLE), seed)[0]
        for seed in range(4)
    ]
    drawn = (np.array(noisy) - quiet) / 0.6
    low, high = stats.chi2.ppf([5e-5, 1 - 5e-5], drawn.size)
    assert low < np.square(drawn).sum() < high
    assert abs(drawn.mean()) < 4 / np.sqrt(drawn.size)
    assert stats.kstest(drawn.ravel(), "norm").pvalue > 1e-4
    assert np.abs(np.corrcoef(drawn) - np.eye(4)).max() < 5 / np.sqrt(drawn.shape[1])


# Lots


def test_by_hand_lots_and_rates():
    shuffled, whole, poisson = (
        Config(batch_size=10, drop_last=drop, sampling=sampling)
        for drop, sampling in ((False, "shuffle"), (True, "shuffle"), (False, "poisson"))
    )
    assert [lots(config, 25) for config in (shuffled, whole, poisson)] == [3, 2, 3]
    assert (
        lots(poisson.model_copy(update={"drop_last": True}), 25) == 3
    )  # which poisson does not read
    assert sampling_rate(poisson, 25) == 1 / 3
    assert [
        (lots(config, 4), sampling_rate(config, 4)) for config in (shuffled, whole, poisson)
    ] == [(1, 1.0)] * 3
    assert schedule(shuffled, 0, None, np.random.default_rng(0)).shape == (0, 10)
    assert one_epoch(poisson, 4, np.random.default_rng(0)).tolist() == [[0, 1, 2, 3]]


def test_under_poisson_every_example_joins_every_lot_independently():
    config = Config(epochs=2000, batch_size=10, sampling="poisson")
    rows = schedule(config, 40, None, np.random.default_rng(0))
    joined = np.stack([np.isin(np.arange(40), row[row >= 0]) for row in rows])
    assert joined.shape == (8000, 40)
    assert joined.sum() == (rows >= 0).sum()  # nobody joins twice
    assert np.abs(joined.mean(axis=0) - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / 8000)
    sizes = joined.sum(axis=1)
    assert sizes.var() == pytest.approx(40 * 0.25 * 0.75, rel=0.1)
    assert np.abs(np.corrcoef(joined.T) - np.eye(40)).max() < 5 / np.sqrt(8000)


def test_under_poisson_a_lot_is_divided_by_its_expected_size():
    network, (x, y) = a_net(hidden=(64, 40)), examples(3)
    config = Config(clip=1.5, batch_size=10, sampling="poisson", **SILENT)
    expected = by_hand(network, x, y, 1.5)[0] / (25 / 3)
    np.testing.assert_allclose(gradient(network, x, y, config, of=25)[0], expected, atol=1e-6)
    noisy = config.model_copy(update={"noise_multiplier": 1.0})
    noise, loss = gradient(network, x[:0], y[:0], noisy, of=25)
    assert loss == 0
    assert noise.std() == pytest.approx(1.5 / (25 / 3), rel=0.1)
