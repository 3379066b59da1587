"""DP-SGD (Abadi et al. 2016, algorithm 1) on every client: what its model tells of any one of its examples is bounded.

    g_i  <- grad of the loss at example i of the lot              for each example, not for their mean
    g_i  <- g_i * min(1, C / ||g_i||)
    g    <- ( sum_i g_i + N(0, (z C)^2 I) ) / L                  then a step of the local optimizer along g

The guarantee is per example (one added or removed) and towards whoever sees the client's model, the server included. It covers
the training steps alone: losses that choose a cluster, curvatures and evaluations are not in the account.

Differences from the paper: passes over a shuffled client in batches are the default, as all other training has them, and
the accountant's number is then an approximation; ``sampling: poisson`` draws lots as the proof asks. A lot's L is its
expected size under poisson and its own size under shuffle. Momentum and adam see only noisy gradients, so they cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from algorithms.core.configs import TrainingConfig
from algorithms.core.messages import Ints
from algorithms.training._batches import PADDING, concatenate_passes, conflicts, learning_rate, one_pass, shape_problem

if TYPE_CHECKING:
    import torch

    from algorithms.core.network import Network

__all__ = [
    "Config",
    "learning_rate",
    "one_epoch",
    "private_gradient",
    "problems",
    "resolved",
    "schedule",
    "shape_problem",
]

FLOATS_AT_ONCE = 2**25  # of the examples' own gradients (128 MB), so that a large model does not fill the memory


class Config(TrainingConfig):
    """Fields of local training with DP-SGD."""

    # FinP's baseline takes the 90th percentile of 200 examples' gradients: 5 (HAR), 1.75 (CIFAR-10 CNN), 7.5 (FEMNIST).
    clip: float = Field(5.0, gt=0, le=1e6, description="C, largest L2 norm of one example's gradient")
    # The same baseline compares 0.5, 1 and 2 (FEMNIST: 0.75, 1 and 2).
    noise_multiplier: float = Field(1.0, ge=0, le=1000, description="z, standard deviation of the noise over clip")
    delta: float = Field(1e-5, gt=0, lt=1, description="delta at which epsilon_example is reported")
    sampling: Literal["shuffle", "poisson"] = Field(
        "shuffle",
        description="poisson: each example joins a lot by chance, as the account assumes; shuffle: whole passes",
    )


def resolved(config: Config, run: Any) -> Config:
    """``config`` with ``auto`` replaced. Clients are trained one by one: examples take the place that clients have in vmap."""
    return config.model_copy(update={"clients_per_job": 5}) if config.clients_per_job == "auto" else config


def problems(config: Config, run: Any) -> list[tuple[str, str]]:
    """What cannot be combined: (field, sentence) pairs."""
    found = conflicts(config)
    model, objective = run.model, run.objective.name
    if model.module.BATCH_NORM:
        found.append(("name", f"dp_sgd bounds each example alone, but {model.name} mixes them in batch normalization"))
    if getattr(model.module, "RANDOM", False):
        found.append(("name", f"dp_sgd has no per-example form of the dropout in {model.name}"))
    if objective != "plain":
        found.append(("name", f"dp_sgd needs a loss that is a sum over examples: objective plain, not {objective}"))
    if config.drop_last and config.sampling == "poisson":
        found.append(("drop_last", "is for sampling shuffle; poisson has no last batch of a pass"))
    return found


def lots(config: Config, examples: int) -> int:
    """Steps in a pass over ``examples``; under poisson each example joins each of them with probability 1 / steps."""
    full = examples // config.batch_size
    return full if config.drop_last and full else -(-examples // config.batch_size)


def sampling_rate(config: Config, examples: int) -> float:
    """q, the probability that a given example of ``examples`` is in a given step's lot (under shuffle: its share)."""
    return min(1.0, config.batch_size / examples) if config.drop_last else 1 / max(lots(config, examples), 1)


def one_epoch(config: Config, examples: int, rng: np.random.Generator) -> Ints:
    """The lots of one pass over ``examples``, [steps, largest lot]; padded with -1. A lot of poisson may be empty."""
    if config.sampling == "shuffle":
        return one_pass(examples, config.batch_size, rng, config.drop_last)
    steps = lots(config, examples)
    joined = rng.random((steps, examples)) < sampling_rate(config, examples)
    rows = np.full((steps, int(joined.sum(axis=1).max(initial=1))), PADDING, np.int64)
    for row, chosen in zip(rows, joined, strict=True):
        row[: chosen.sum()] = np.flatnonzero(chosen)
    return rows


def schedule(config: Config, examples: int, chosen_with: Ints | None, rng: np.random.Generator) -> Ints:
    """All lots of a client's round, [steps, largest lot]; padded with -1. ``chosen_with`` has no say."""
    return concatenate_passes([one_epoch(config, examples, rng) for _ in range(config.epochs)], config.batch_size)


def private_gradient(
    config: Config, network: Network, examples: int, noise: torch.Generator
) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """A function of a lot's inputs [n, ...] and targets [n] that leaves the noisy gradient in ``network.grads``.

    It returns the examples' mean loss (0 for an empty lot); ``examples`` is how many the client has.
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
    """What a client of ``examples`` that trains in ``rounds`` spends on any one of them, at ``config.delta``; inf
    without noise.

    Smaller clients spend more: their examples are in more of their lots.
    """
    from algorithms.core.accounting import dp_sgd_epsilon

    steps = rounds * config.epochs * lots(config, examples)
    return dp_sgd_epsilon(config.noise_multiplier, sampling_rate(config, examples), steps, config.delta)


def final(config: Config, run: Any, rows: list[dict[str, Any]], sizes: Ints) -> dict[str, Any]:
    """``epsilon_example`` of an example in any client that trained in every round; ``guarantee_example``, in which sense.

    It is that of the client with the fewest of ``sizes`` [clients] training examples, who spends most. None where there
    is none.
    """
    spent = epsilon(config, int(sizes.min()), len(rows))
    if math.isinf(spent):
        return {"epsilon_example": None, "guarantee_example": "none: next to no noise is added"}
    if getattr(run.clustering.config, "clusters", 1) > 1:
        return {"epsilon_example": None, "guarantee_example": "none: models are chosen by losses without noise"}
    sense = "dp" if config.sampling == "poisson" else "approximation: lots are shuffled, not drawn by chance"
    return {"epsilon_example": spent, "guarantee_example": sense}
