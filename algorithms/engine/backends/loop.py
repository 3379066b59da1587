"""Backend ``loop``: clients train one after another. The plain way, and the oracle of the vectorized one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch.func import functional_call

from algorithms.core.clipping import clip_gradients
from algorithms.core.configs import TrainingConfig
from algorithms.core.messages import Ints
from algorithms.core.network import Network, as_tensor
from algorithms.engine import augmentation
from algorithms.engine.backends.context import NOTHING, Context, Draws, begin_context, generator
from algorithms.engine.backends.optimizers import Optimizer
from algorithms.objectives import plain
from algorithms.training._batches import PADDING
from algorithms.training.local_sgd import Config
from datasets.federation import Preparation

UNPREPARED = Preparation()
GradientStep = Callable[
    [torch.Tensor, torch.Tensor], torch.Tensor
]  # fills the network's gradients, returns the batch's loss


def train(
    network: Network,
    x: np.ndarray,
    y: np.ndarray,
    batches: Ints,
    optimizer: Optimizer,
    objective: Any,
    told: Mapping[str, torch.Tensor],
    draws: Draws = NOTHING,
) -> float:
    """Step through ``batches`` [steps, batch] (positions in ``x``, padded with -1) from what ``network`` holds.

    Returns the mean loss over the examples, in nats. ``objective`` has ``module.loss`` and ``config``; ``told`` is what the
    server told this client of itself.
    """
    network.module.train()
    if draws.dropout is not None:
        network.reseed(draws.dropout)
    component, training = _component(optimizer.config), optimizer.config
    if hasattr(component, "private_gradient"):
        gradient: GradientStep = component.private_gradient(training, network, len(y), draws.noise)
    else:
        assert isinstance(training, Config)  # what the slot asks of components without a gradient
        context = begin_context(network, objective, network.params, x.shape[1:], told, draws.probes)
        gradient = _batch_gradient(network, training, objective, context)
    examples, labels = as_tensor(x), as_tensor(y)
    total, seen = torch.zeros((), device=network.device), 0
    for step, row in enumerate(batches):
        real = row != PADDING
        chosen = torch.from_numpy(row[real])
        inputs, targets = examples[chosen].to(network.device), labels[chosen].to(network.device)
        if draws.crops is not None:
            inputs = augmentation.crop_flip(inputs, draws.crops.moves[step, real], draws.crops.around)
        loss = gradient(network.inputs(inputs), targets)
        optimizer.step(network.params, network.grads)
        total += loss * len(chosen)
        seen += len(chosen)
    return float(total) / max(seen, 1)


def _batch_gradient(network: Network, training: Config, objective: Any, context: Context) -> GradientStep:
    """The gradient of the objective on the batch as a whole."""
    own, module = dict(network.module.named_parameters()), objective.module

    def forward(arrays: Mapping[str, torch.Tensor], x: torch.Tensor, **options: Any) -> Any:
        if arrays is own:  # what the module holds anyway
            return network.module(x, **options)
        return functional_call(network.module, dict(arrays), (x,), options)

    def gradient(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        network.grads.zero_()
        if context.get("carry"):
            with torch.no_grad():
                context["carry"] = module.advance(objective.config, forward, own, context["carry"], inputs)
        with _precision(training, network):
            loss = module.loss(objective.config, forward, own, inputs, targets, context)
        loss.backward()
        if training.clip_gradient is not None:
            network.grads.copy_(clip_gradients(network.grads, training.clip_gradient))
        return loss.detach()

    return gradient


def passes(
    network: Network,
    x: np.ndarray,
    y: np.ndarray,
    training: TrainingConfig,
    rng: np.random.Generator,
    prepare: Preparation = UNPREPARED,
) -> Iterator[float]:
    """Train on one data set, one epoch at each ``next``, for as long as the caller asks. Yields the epoch's mean loss.

    The optimizer lives as long as the iterator. This is how shadow models are trained. ``prepare`` is how its examples
    came about, which matters where they are augmented.
    """
    component, objective = _component(training), _Plain()
    optimizer = Optimizer(training, component.learning_rate(training, 0))
    noise = generator(rng, network.device) if hasattr(component, "private_gradient") else None
    if network.random:
        network.reseed(int(rng.integers(2**63)))
    while True:
        batches = component.one_epoch(training, len(y), rng)
        crops = augmentation.draw_crops(training, batches, x.shape[1:], prepare, rng)
        yield train(network, x, y, batches, optimizer, objective, {}, Draws(crops, noise=noise))


class _Plain:
    module, config = plain, plain.Config()


def _component(training: TrainingConfig) -> Any:
    """The component of the training slot whose fields these are."""
    return inspect.getmodule(type(training))


def _precision(training: Config, network: Network) -> AbstractContextManager:
    if training.precision == "float32":
        return nullcontext()
    return torch.autocast(network.device.type, dtype=torch.bfloat16)
