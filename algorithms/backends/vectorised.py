"""Backend ``vmap``: all clients of a cohort take each step together, as one batched computation (torch.func)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.func import functional_call, vmap

from algorithms.backends.optimizers import Optimizer
from algorithms.network import Network, as_tensor
from algorithms.training.local_sgd import PADDING, Ints

IGNORED = -100  # the label that torch's cross-entropy leaves out of its mean


def train(
    network: Network,
    start: torch.Tensor,
    x: np.ndarray,
    y: np.ndarray,
    batches: list[Ints],
    optimizer: Optimizer,
    objective: Any,
    context: dict[str, torch.Tensor],
) -> tuple[torch.Tensor, np.ndarray]:
    """Step every client of a cohort through its own ``batches`` (positions in ``x``, padded with -1).

    Args:
        start: [clients, d] the weights that each client starts from.
        batches: one [steps, batch] array for each client; they may differ in steps.
        context: what the objective knows of the clients, [clients, ...] each.

    Returns:
        The trained weights [clients, d] and each client's mean loss over its records, [clients].
    """
    steps = np.array([len(rows) for rows in batches])
    # Clients that finish early come last, so that those at work are always the first rows.
    order = torch.from_numpy(np.argsort(-steps, kind="stable"))
    params, context = start[order].clone(), {name: values[order] for name, values in context.items()}
    plan = _stacked([batches[i] for i in order])
    losses_of = vmap(_loss(network, objective), randomness="error")
    total, seen = torch.zeros(len(order), device=network.device), torch.from_numpy((plan != PADDING).sum(axis=(1, 2)))
    network.module.train()
    for step in range(plan.shape[1]):
        active = int((steps > step).sum())
        inputs, targets = _batch(network, as_tensor(x), as_tensor(y), torch.from_numpy(plan[:active, step]))
        # A client's loss depends on its own row alone, so one backward pass through the sum gives every client's gradient.
        moving = params[:active].requires_grad_()
        losses = losses_of(network.layout.views(moving), inputs, targets, {n: v[:active] for n, v in context.items()})
        (grads,) = torch.autograd.grad(losses.sum(), moving)
        optimizer.step(moving.requires_grad_(False), grads)
        total[:active] += losses.detach() * (targets != IGNORED).sum(1)
    back = order.argsort()
    return params[back], (total.cpu() / seen.clamp(min=1))[back].double().numpy()


def _batch(
    network: Network, records: torch.Tensor, labels: torch.Tensor, rows: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs [clients, batch, ...] and targets [clients, batch] for the positions ``rows``, padding marked in the targets."""
    inputs = records[rows.clamp(min=0)].to(network.device)
    return inputs, torch.where(rows == PADDING, IGNORED, labels[rows]).to(network.device)


def _loss(network: Network, objective: Any) -> Any:
    def forward(arrays: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return functional_call(network.module, arrays, (x,))

    def loss(
        arrays: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor, context: dict[str, torch.Tensor]
    ) -> Any:
        return objective.module.loss(objective.config, forward, arrays, x, y, context)

    return loss


def _stacked(batches: list[Ints]) -> Ints:
    """[clients, most steps, widest batch], padded with -1."""
    steps, width = max(len(rows) for rows in batches), max(rows.shape[1] for rows in batches)
    plan = np.full((len(batches), steps, width), PADDING, dtype=np.int64)
    for i, rows in enumerate(batches):
        plan[i, : rows.shape[0], : rows.shape[1]] = rows
    return plan
