"""Backend ``loop``: clients train one after another.

It is the reference for the vectorized backend.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from algorithms.core import own_values
from algorithms.core.configs import TrainingConfig
from algorithms.core.gradients import clip_gradients
from algorithms.core.messages import Ints
from algorithms.core.network import Network, as_tensor
from algorithms.engine import augmentation
from algorithms.engine.backends.client_inputs import (
    NOTHING,
    Draws,
    begin_inputs,
    functional_forward,
    generator,
)
from algorithms.engine.backends.optimizers import Optimizer
from algorithms.interfaces import Forward, GradientStep, ObjectiveContract, TrainingContract
from algorithms.objectives import plain
from algorithms.training.local_sgd import PADDING, Config
from datasets.components import Component
from datasets.components import Config as SlotConfig
from datasets.federation import Examples, Preparation

UNPREPARED = Preparation()
EMPIRICAL_RISK: Component[ObjectiveContract, SlotConfig] = Component(
    "plain", plain.Config(), "algorithms.objectives"
)


def train(
    network: Network,
    examples: Examples,
    batches: Ints,
    optimizer: Optimizer,
    gradient: GradientStep,
    draws: Draws = NOTHING,
) -> float:
    """Take an optimizer step per batch from the network's weights; return the examples' mean loss.

    ``batches`` [steps, batch] are positions in ``examples``, padded with -1; ``gradient`` fills the
    network's gradients for a batch (`client_gradient`). The loss is in nats.
    """
    network.module.train()
    if draws.dropout is not None:
        network.reseed(draws.dropout)
    x = as_tensor(examples.x)
    y = as_tensor(examples.y)
    total = torch.zeros((), device=network.device)
    count = 0
    for step, row in enumerate(batches):
        real = row != PADDING
        chosen = torch.from_numpy(row[real])
        inputs = x[chosen].to(network.device)
        targets = y[chosen].to(network.device)
        if draws.crops is not None:
            moves = draws.crops.moves[step, real]
            inputs = augmentation.crop_flip(inputs, moves, draws.crops.padding)
        loss = gradient(network.inputs(inputs), targets)
        optimizer.step(network.params, network.grads, network.reached)
        total += loss * len(chosen)
        count += len(chosen)
    return float(total) / max(count, 1)


def client_gradient(
    network: Network,
    training: Component[TrainingContract, TrainingConfig],
    objective: Component[ObjectiveContract, SlotConfig],
    examples: Examples,
    statistics: Mapping[str, Tensor],
    draws: Draws = NOTHING,
) -> GradientStep:
    """Return the function that computes the gradients of a client's steps.

    They are private ones if the training slot says so; the ``objective`` is that of other steps.
    The ``network`` holds the weights that the client starts from, and ``statistics`` are those that
    the server sent it about itself.
    """
    config = training.config
    if training.module.PRIVATE_STEPS:
        assert draws.noise is not None  # drawn for every training with private steps
        return training.module.private_gradient(config, network, len(examples), draws.noise)
    assert isinstance(config, Config)  # required of components without private steps
    client = begin_inputs(network, objective, network.params, examples, statistics, draws.probes)
    parameters = own_values.trained(network.module)
    forward = _forward(network, parameters)
    loss_of = partial(objective.module.loss, objective.config, forward, parameters)
    advance = partial(objective.module.advance, objective.config, forward, parameters)
    reduced: AbstractContextManager[Any] = nullcontext()
    if config.precision != "float32":
        reduced = torch.autocast(network.device.type, dtype=torch.bfloat16)

    def gradient(inputs: Tensor, targets: Tensor) -> Tensor:
        network.grads.zero_()
        if network.reached is not None:
            network.reached.zero_()
        if client.get("carry"):
            with torch.no_grad():
                client["carry"] = advance(client["carry"], inputs)
        with reduced:
            loss: Tensor = loss_of(inputs, targets, client)
        loss.backward()
        if config.clip_gradient is not None:
            network.grads.copy_(clip_gradients(network.grads, config.clip_gradient))
        return loss.detach()

    return gradient


def _forward(network: Network, parameters: Mapping[str, Tensor]) -> Forward:
    """Return the network's forward pass, which is the module's own with its ``parameters``."""
    functional = functional_forward(network)

    def forward(arrays: Mapping[str, Tensor], x: Tensor, **options: Any) -> Any:
        if arrays is parameters:
            return network.module(x, **options)
        return functional(arrays, x, **options)

    return forward


def passes(
    network: Network,
    examples: Examples,
    training: Component[TrainingContract, TrainingConfig],
    rng: np.random.Generator,
    prepare: Preparation = UNPREPARED,
) -> Iterator[float]:
    """Train on one data set, one epoch for each ``next``; yield its mean loss in nats.

    Shadow models train this way, until the caller stops. The optimizer lives as long as the
    iterator, and the training's number of epochs is ignored; ``rng`` draws all that is random, and
    the data set's preparation matters if inputs are augmented.
    """
    module = training.module
    config = training.config
    optimizer = Optimizer(config, module.learning_rate(config, 0))
    noise = generator(rng, network.device) if module.PRIVATE_STEPS else None
    if network.random:
        network.reseed(int(rng.integers(2**63)))
    while True:
        batches = module.one_epoch(config, len(examples), rng)
        crops = augmentation.draw_crops(
            config,
            batches,
            examples.x.shape[1:],
            prepare,
            rng,
        )
        draws = Draws(crops, noise=noise)
        gradient = client_gradient(network, training, EMPIRICAL_RISK, examples, {}, draws)
        yield train(network, examples, batches, optimizer, gradient, draws)
