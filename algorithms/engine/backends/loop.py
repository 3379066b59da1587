"""Backend ``loop``: clients train one after another.

It is the reference for the vectorized backend.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch

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
from algorithms.interfaces import GradientStep, ObjectiveContract, TrainingContract
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
    x: np.ndarray,
    y: np.ndarray,
    batches: Ints,
    optimizer: Optimizer,
    gradient: GradientStep,
    draws: Draws = NOTHING,
) -> float:
    """Take one optimizer step per batch, starting from the network's weights; return the mean
    loss over examples, in nats.

    ``batches`` [steps, batch] are positions in ``x`` [n, ...] and ``y`` [n], padded with -1;
    ``gradient`` fills the network's gradients for a batch (`client_gradient`).
    """
    network.module.train()
    if draws.dropout is not None:
        network.reseed(draws.dropout)
    examples, labels = as_tensor(x), as_tensor(y)
    total = torch.zeros((), device=network.device)
    count = 0
    for step, row in enumerate(batches):
        real = row != PADDING
        chosen = torch.from_numpy(row[real])
        inputs = examples[chosen].to(network.device)
        targets = labels[chosen].to(network.device)
        if draws.crops is not None:
            inputs = augmentation.crop_flip(
                inputs, draws.crops.moves[step, real], draws.crops.padding
            )
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
    statistics: Mapping[str, torch.Tensor],
    draws: Draws = NOTHING,
) -> GradientStep:
    """Return the function that computes the gradients of a client's steps: private ones if the
    training slot says so.

    The ``network`` holds the weights that the client starts from, and ``statistics`` are those that
    the server sent it about itself; the ``objective`` is that of steps that are not private.
    """
    if training.module.PRIVATE_STEPS:
        assert draws.noise is not None  # drawn for every training with private steps
        return training.module.private_gradient(
            training.config, network, len(examples), draws.noise
        )
    config, module = training.config, objective.module
    assert isinstance(config, Config)  # required of components without private steps
    client = begin_inputs(
        network, objective, network.params, examples.x.shape[1:], statistics, draws.probes
    )
    parameters = own_values.trained(network.module)
    functional = functional_forward(network)
    reduced: AbstractContextManager[Any] = nullcontext()
    if config.precision != "float32":
        reduced = torch.autocast(network.device.type, dtype=torch.bfloat16)

    def forward(arrays: Mapping[str, torch.Tensor], x: torch.Tensor, **options: Any) -> Any:
        return (
            network.module(x, **options)
            if arrays is parameters
            else functional(arrays, x, **options)
        )

    def gradient(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        network.grads.zero_()
        if network.reached is not None:
            network.reached.zero_()
        if client.get("carry"):
            with torch.no_grad():
                client["carry"] = module.advance(
                    objective.config, forward, parameters, client["carry"], inputs
                )
        with reduced:
            loss: torch.Tensor = module.loss(
                objective.config, forward, parameters, inputs, targets, client
            )
        loss.backward()
        if config.clip_gradient is not None:
            network.grads.copy_(clip_gradients(network.grads, config.clip_gradient))
        return loss.detach()

    return gradient


def passes(
    network: Network,
    examples: Examples,
    training: Component[TrainingContract, TrainingConfig],
    rng: np.random.Generator,
    prepare: Preparation = UNPREPARED,
) -> Iterator[float]:
    """Train on one data set, one epoch for each ``next``, until the caller stops; yield its mean
    loss in nats.

    Shadow models train this way. The optimizer lives as long as the iterator, and the training's
    number of epochs is ignored; ``rng`` draws all that is random, and the data set's preparation
    matters if inputs are augmented.
    """
    module, config = training.module, training.config
    optimizer = Optimizer(config, module.learning_rate(config, 0))
    noise = generator(rng, network.device) if module.PRIVATE_STEPS else None
    if network.random:
        network.reseed(int(rng.integers(2**63)))
    while True:
        batches = module.one_epoch(config, len(examples), rng)
        crops = augmentation.draw_crops(config, batches, examples.x.shape[1:], prepare, rng)
        draws = Draws(crops, noise=noise)
        gradient = client_gradient(network, training, EMPIRICAL_RISK, examples, {}, draws)
        yield train(network, examples.x, examples.y, batches, optimizer, gradient, draws)
