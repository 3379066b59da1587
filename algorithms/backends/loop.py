"""Backend ``loop``: clients train one after another. The plain way, and the oracle of the vectorised one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch

from algorithms.backends.optimizers import Optimizer
from algorithms.network import Network, as_tensor
from algorithms.objectives import plain
from algorithms.training.local_sgd import PADDING, Config, Ints, learning_rate, one_pass


def train(
    network: Network,
    x: np.ndarray,
    y: np.ndarray,
    batches: Ints,
    optimizer: Optimizer,
    objective: Any,
    context: dict[str, torch.Tensor],
) -> float:
    """Step through ``batches`` [steps, batch] (positions in ``x``, padded with -1) from what ``network`` holds.

    Returns the mean loss over the records, in nats. ``objective`` has ``module.loss`` and ``config``; ``context`` is what the
    objective knows of this client.
    """
    network.module.train()
    records, labels = as_tensor(x), as_tensor(y)
    arrays = dict(network.module.named_parameters())
    total, seen = torch.zeros((), device=network.device), 0
    for row in batches:
        chosen = torch.from_numpy(row[row != PADDING])
        inputs, targets = network.inputs(records[chosen]), labels[chosen].to(network.device)
        network.grads.zero_()
        with _precision(optimizer.config, network):
            loss = objective.module.loss(
                objective.config, lambda _, x: network.module(x), arrays, inputs, targets, context
            )
        loss.backward()
        optimizer.step(network.params, network.grads)
        total += loss.detach() * len(chosen)
        seen += len(chosen)
    return float(total) / max(seen, 1)


def passes(
    network: Network, x: np.ndarray, y: np.ndarray, training: Config, rng: np.random.Generator
) -> Iterator[float]:
    """Train on one data set, one epoch at each ``next``, for as long as the caller asks. Yields the epoch's mean loss.

    The optimiser lives as long as the iterator. This is how shadow models are trained.
    """
    optimizer = Optimizer(training, learning_rate(training, 0))
    objective = _Plain()
    while True:
        yield train(network, x, y, one_pass(len(y), training.batch_size, rng), optimizer, objective, {})


class _Plain:
    module, config = plain, plain.Config()


def _precision(training: Config, network: Network) -> AbstractContextManager:
    if training.precision == "float32":
        return nullcontext()
    return torch.autocast(network.device.type, dtype=torch.bfloat16)
