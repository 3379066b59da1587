"""DP-SGD (Abadi et al. 2016, algorithm 1) on every client: limits what a client's model reveals about any one example.

    g_i  <- grad of the loss at example i of the lot              for each example, not for their mean
    g_i  <- g_i * min(1, C / ||g_i||)
    g    <- ( sum_i g_i + N(0, (z C)^2 I) ) / L                  then a step of the local optimizer along g

The guarantee is per example (one added or removed) and towards whoever sees the client's model, the server included. It
covers the training steps only: losses that choose a cluster, curvatures and evaluations are not in the account.

Differences from the paper: by default, batches come from passes over the shuffled examples, as in all other training
here, and the accountant's number is then an approximation; ``sampling: poisson`` draws lots as the proof requires. A
lot's L is its expected size under poisson and its own size under shuffle. Momentum and adam see only noisy gradients,
so they cost no privacy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from algorithms.core.configs import TrainingConfig
from algorithms.core.messages import Ints
from algorithms.core.metric import NOISE, Column, Metric
from algorithms.interfaces import GradientStep, Metrics, Outcome, Problems, Run
from algorithms.training._batches import PADDING, concatenate_passes, learning_rate, one_pass, shape_problem
from datasets.components import inherited

if TYPE_CHECKING:
    import torch

    from algorithms.core.network import Network

__all__ = [
    "PRIVATE_STEPS",
    "Config",
    "learning_rate",
    "one_epoch",
    "private_gradient",
    "problems",
    "resolve",
    "schedule",
    "shape_problem",
]

PRIVATE_STEPS = True
LABEL = "DP-SGD"
METRICS = (
    Metric(
        "epsilon_example", NOISE, "epsilon of an example", "lower", "", 2, table=Column(1, "epsilon\nexample", 1, False)
    ),
    Metric("delta_example", NOISE, "delta of an example", None, "", 6),
)
FLOATS_AT_ONCE = 2**25  # of per-example gradients (128 MB), so that a large model does not exhaust the memory


class Config(TrainingConfig):
    """Fields of local training with DP-SGD."""

    # FinP's baseline takes the 90th percentile of 200 examples' gradients: 5 (HAR), 1.75 (CIFAR-10 CNN), 7.5 (FEMNIST).
    clip: float = Field(5.0, gt=0, le=1e6, description="C, largest L2 norm of one example's gradient")
    # The same baseline compares 0.5, 1 and 2 (FEMNIST: 0.75, 1 and 2).
    noise_multiplier: float = Field(1.0, ge=0, le=1000, description="z, standard deviation of the noise over clip")
    delta: float = Field(1e-5, gt=0, lt=1, description="delta at which epsilon_example is reported")
    sampling: Literal["shuffle", "poisson"] = Field(
        "shuffle",
        description="poisson: each example joins a lot at random, as the account assumes; shuffle: whole passes",
    )
    drop_last: bool = inherited(TrainingConfig, "drop_last", sampling="shuffle")


def resolve(config: Config, run: Run) -> Config:
    """Replace ``auto`` in ``clients_per_job``: clients train one by one, because vmap already runs over examples."""
    return config.model_copy(update={"clients_per_job": 5}) if config.clients_per_job == "auto" else config


def problems(config: Config, run: Run) -> Problems:
    """Refuse models and objectives without per-example gradients."""
    found = []
    model, objective = run.model, run.objective.name
    if model.module.BATCH_NORM:
        found.append(("name", f"dp_sgd clips the gradient of each example, but {model.name} has batch normalization"))
    if model.module.RANDOM:
        found.append(("name", f"dp_sgd has no per-example form of the dropout in {model.name}"))
    if objective != "plain":
        found.append(("name", f"dp_sgd needs a loss that is a sum over examples: objective plain, not {objective}"))
    return found


def lots(config: Config, examples: int) -> int:
    """Compute the number of steps in a pass; under poisson each example joins each lot with probability 1 / steps."""
    full = examples // config.batch_size
    return full if config.drop_last and full else -(-examples // config.batch_size)


def sampling_rate(config: Config, examples: int) -> float:
    """Compute q, the probability that any one of a client's examples is in a step's lot (under shuffle: its share)."""
    return min(1.0, config.batch_size / examples) if config.drop_last else 1 / max(lots(config, examples), 1)


def one_epoch(config: Config, examples: int, rng: np.random.Generator) -> Ints:
    """Draw the lots of one pass, [steps, largest lot], padded with -1; a lot drawn by poisson sampling may be empty."""
    if config.sampling == "shuffle":
        return one_pass(examples, config.batch_size, rng, config.drop_last)
    steps = lots(config, examples)
    joined = rng.random((steps, examples)) < sampling_rate(config, examples)
    rows = np.full((steps, int(joined.sum(axis=1).max(initial=1))), PADDING, np.int64)
    for row, chosen in zip(rows, joined, strict=True):
        row[: chosen.sum()] = np.flatnonzero(chosen)
    return rows


def schedule(config: Config, examples: int, chosen_with: Ints | None, rng: np.random.Generator) -> Ints:
    """Draw all lots of a client's round, [steps, largest lot], padded with -1; ``chosen_with`` is ignored."""
    return concatenate_passes([one_epoch(config, examples, rng) for _ in range(config.epochs)], config.batch_size)


def private_gradient(config: Config, network: Network, examples: int, noise: torch.Generator) -> GradientStep:
    """Return a function of a lot's inputs [n, ...] and targets [n] that writes the noisy gradient to ``network.grads``.

    The function returns the examples' mean loss (0 for an empty lot).

    Args:
        config: the component's fields.
        network: the network that trains.
        examples: number of the client's examples.
        noise: draws the noise.
    """
    import torch
    from torch.func import functional_call, grad_and_value, vmap

    from algorithms.core.clipping import clip_gradients
    from algorithms.core.cross_entropy import mean_cross_entropy

    def loss(params: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return mean_cross_entropy(functional_call(network.module, network.layout.views(params), (x[None],)), y[None])

    of_each = vmap(grad_and_value(loss), in_dims=(None, 0, 0))
    at_once = max(1, FLOATS_AT_ONCE // network.layout.size)
    expected = examples * sampling_rate(config, examples) if config.sampling == "poisson" else None

    def descend(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        total = torch.zeros((), device=network.device)
        network.grads.zero_()
        for x, y in zip(inputs.split(at_once), targets.split(at_once), strict=True) if len(targets) else ():
            grads, losses = of_each(network.params, x, y)
            network.grads.add_(clip_gradients(grads, config.clip).sum(0))
            total += losses.sum()
        if config.noise_multiplier:
            drawn = torch.randn(network.grads.shape, generator=noise, device=network.device)
            network.grads.add_(drawn, alpha=config.noise_multiplier * config.clip)
        network.grads.div_(expected or max(len(targets), 1))
        return total / max(len(targets), 1)

    return descend


def epsilon(config: Config, examples: int, rounds: int) -> float:
    """Compute the epsilon of any one example after training, at ``config.delta``.

    Smaller clients spend more, because their examples are in more of their lots.

    Args:
        config: the component's fields.
        examples: number of the client's examples.
        rounds: number of rounds in which the client trains.

    Returns:
        Epsilon; infinity without noise.
    """
    from algorithms.core.accounting import dp_sgd_epsilon

    steps = rounds * config.epochs * lots(config, examples)
    return dp_sgd_epsilon(config.noise_multiplier, sampling_rate(config, examples), steps, config.delta)


def final_metrics(config: Config, run: Run, outcome: Outcome) -> Metrics:
    """Return ``epsilon_example`` at ``delta_example``, for clients that trained in every round, and ``guarantee_example``.

    The epsilon is that of the client with the fewest training examples, which spends most; None if no epsilon holds.
    """
    spent = epsilon(config, int(outcome.sizes.min()), len(outcome.rows))
    stated: Metrics = {"epsilon_example": None, "delta_example": config.delta}
    if math.isinf(spent):
        return stated | {"guarantee_example": "none: next to no noise is added"}
    if run.clustering.config.clusters > 1:
        return stated | {"guarantee_example": "none: models are chosen by losses without noise"}
    sense = "dp" if config.sampling == "poisson" else "approximation: lots are shuffled, not drawn independently"
    return stated | {"epsilon_example": spent, "guarantee_example": sense}
