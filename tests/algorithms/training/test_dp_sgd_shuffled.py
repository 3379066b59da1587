"""Shuffled lots attacked by an optimal distinguisher: it sees more than Poisson's epsilon allows, and no more than ours."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from torch import nn

from algorithms.core.accounting import dp_sgd_epsilon
from algorithms.core.network import Network
from algorithms.engine.backends import loop
from algorithms.engine.backends.optimizers import Optimizer
from algorithms.training import dp_sgd
from algorithms.training.dp_sgd import Config
from tests.support.stand_ins import StandIn

pytestmark = pytest.mark.usefixtures("one_thread")

EXAMPLES, PASSES, Z = 11, 24, 0.6
LOTS = np.array([2, 2, 2, 2, 2, 1])  # examples in each lot of a pass
FIELDS: dict[str, Any] = {"batch_size": 2, "noise_multiplier": Z, "epochs": PASSES, "clip": 0.01, "lr": 1e-4}


class OneWeight(nn.Linear):
    """A network with a single weight w and the logits (w x, 0): an example x = 1 of class 0 pulls w up, x = -1 down."""

    def __init__(self) -> None:
        super().__init__(1, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.pad(super().forward(x), (0, 1))


def seen_in_training(seed: int) -> np.ndarray:
    """All noisy sums of gradients [passes, lots] of a client's round, in units of C, each plus the size of its lot.

    The first example pushes the sum by +1, all others by -1. In the neighboring world the first is empty (x = 0) and
    pushes by 0. So the sums are 2 or, in the other world, 1 in the lot with the first example and 0 in all others.
    """
    config = Config(sampling="shuffle", **FIELDS)
    model = StandIn(module=SimpleNamespace(build=lambda *_: OneWeight(), CONVOLUTIONAL=False, BATCH_NORM=False))
    network, rng = Network(model, (1,), 2), np.random.default_rng(seed)
    network.params.zero_()
    x = np.ones((EXAMPLES, 1), np.float32)
    x[0] = -1
    sums: list[float] = []
    step = dp_sgd.private_gradient(config, network, EXAMPLES, torch.Generator().manual_seed(seed))

    def watched(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        loss = step(inputs, targets)
        sums.append(float(network.grads[0]) * len(targets) / config.clip + len(targets))
        return loss

    rows = dp_sgd.schedule(config, EXAMPLES, None, rng)
    loop.train(network, x, np.zeros(EXAMPLES, np.int64), rows, Optimizer(config, config.lr), watched)
    return np.array(sums).reshape(PASSES, len(LOTS))


def simulated(runs: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The same sums [runs, passes, lots] from their law, and the lot with the first example [runs, passes]."""
    lot = rng.choice(len(LOTS), p=LOTS / LOTS.sum(), size=(runs, PASSES))
    sums = rng.normal(0, Z, (runs, PASSES, len(LOTS)))
    return sums + 2 * (np.arange(len(LOTS)) == lot[..., None]), lot


def privacy_loss(sums: np.ndarray) -> np.ndarray:
    """The logarithm of the ratio of the two worlds' densities at ``sums`` [..., passes, lots], which nobody can beat."""
    here = logsumexp((2 * sums - 2) / Z**2, axis=-1, b=LOTS)
    return (here - logsumexp((sums - 0.5) / Z**2, axis=-1, b=LOTS)).sum(-1)


def loss_with_known_lots(sums: np.ndarray, lot: np.ndarray) -> np.ndarray:
    """The same for an attacker who is told in which lot the first example was."""
    return ((np.take_along_axis(sums, lot[..., None], -1)[..., 0] - 1.5) / Z**2).sum(-1)


def excess(losses: np.ndarray, epsilon: float) -> np.ndarray:
    """Numbers [runs] whose mean is the smallest delta with which ``epsilon`` holds."""
    return np.maximum(-np.expm1(epsilon - losses), 0)


@pytest.mark.slow
def test_what_real_training_shows_is_more_than_poissons_epsilon_and_less_than_ours():
    """36 runs: in one of seven or so, the loss is above the number that was printed for shuffled lots before."""
    losses = privacy_loss(np.stack([seen_in_training(seed) for seed in range(36)]))
    stated, printed_before = dp_sgd.epsilon(Config(sampling="shuffle", **FIELDS), EXAMPLES, 1), poissons(1e-5)
    assert excess(losses, printed_before).mean() > 0.03 > 1e-5
    assert losses.max() < stated
    expected = privacy_loss(simulated(4000, np.random.default_rng(0))[0])
    assert losses.mean() == pytest.approx(expected.mean(), abs=4 * expected.std() / math.sqrt(len(losses)))
    assert losses.std() == pytest.approx(expected.std(), rel=0.35)


def test_our_epsilon_is_exact_for_known_lots_and_an_upper_bound_for_unknown_ones():
    """At delta 0.01, where 20 000 runs of the law settle it; Poisson's number would need a delta 20 times as large."""
    delta, runs = 0.01, 20_000
    config = Config(sampling="shuffle", delta=delta, **FIELDS)
    sums, lot = simulated(runs, np.random.default_rng(1))
    stated = dp_sgd.epsilon(config, EXAMPLES, rounds=1)
    known, unknown = excess(loss_with_known_lots(sums, lot), stated), excess(privacy_loss(sums), stated)
    assert known.mean() == pytest.approx(delta, abs=4 * known.std() / math.sqrt(runs))
    assert unknown.mean() < delta
    assert excess(privacy_loss(sums), poissons(delta)).mean() > 10 * delta


def poissons(delta: float) -> float:
    """The epsilon of lots drawn by Poisson sampling, as many in a pass."""
    return dp_sgd_epsilon(Z, 1 / len(LOTS), PASSES * len(LOTS), delta)
