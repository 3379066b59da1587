"""Backend ``vmap``: all clients of a block take each step together, as one batched computation
(torch.func).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch.func import vmap as torch_vmap

from algorithms.core.gradients import IGNORED, clip_gradients
from algorithms.core.messages import Ints
from algorithms.core.network import Network, as_tensor
from algorithms.engine.augmentation import crop_flip
from algorithms.engine.backends.client_inputs import (
    NOTHING,
    Draws,
    begin_inputs,
    functional_forward,
    stack,
    take_first,
)
from algorithms.engine.backends.optimizers import Optimizer
from algorithms.interfaces import ClientInputs, ObjectiveContract
from algorithms.training.local_sgd import PADDING, Config
from datasets.components import Component
from datasets.components import Config as SlotConfig


def train(
    network: Network,
    start: torch.Tensor,
    x: np.ndarray,
    y: np.ndarray,
    batches: list[Ints],
    optimizer: Optimizer,
    objective: Component[ObjectiveContract, SlotConfig],
    statistics: Mapping[str, torch.Tensor],
    draws: Sequence[Draws] = (),
) -> tuple[torch.Tensor, np.ndarray]:
    """Train all clients of a block, each on its own batches and from its own row of ``start``
    [clients, d].

    ``batches`` holds one array [steps, batch] per client with positions in ``x`` and ``y`` [n,
    ...], padded with -1; steps may differ. ``statistics`` are what the server sent the clients
    about themselves, [clients, ...] by name; ``draws``, one for each client, may be left out.

    Returns:
        The trained weights [clients, d], and each client's mean loss over its examples [clients] in
        nats.
    """
    training = optimizer.config
    steps = np.array([len(rows) for rows in batches])
    assert isinstance(training, Config)  # the only component with this backend
    # Clients that finish early come last, so that the active clients are always the first rows.
    order = torch.from_numpy(np.argsort(-steps, kind="stable"))
    places = order.tolist()
    draws = [draws[i] for i in places] if draws else [NOTHING] * len(order)
    params, client = start[order], ClientInputs()
    if statistics or "sent" in objective.module.NEEDS or objective.module.ITERATES:
        each = [{name: values[i] for name, values in statistics.items()} for i in places]
        triples = zip(params, each, draws, strict=True)
        client = stack(
            [
                begin_inputs(network, objective, w, x.shape[1:], arrays, d.probes)
                for w, arrays, d in triples
            ]
        )
    plan = _stack_batches([batches[i] for i in places], PADDING)
    # batches may be larger than any client
    used = np.flatnonzero((plan != PADDING).any(axis=(0, 1)))
    plan = plan[:, :, : used[-1] + 1] if len(used) else plan
    crops = [draw.crops for draw in draws if draw.crops is not None]
    moves = _stack_batches([crop.moves[:, : plan.shape[2]] for crop in crops], 0) if crops else None
    module, forward = objective.module, functional_forward(network)
    losses_of = torch_vmap(partial(module.loss, objective.config, forward), randomness="error")
    advance = torch_vmap(partial(module.advance, objective.config, forward), randomness="error")
    total = torch.zeros(len(order), device=network.device)
    counts = torch.from_numpy((plan != PADDING).sum(axis=(1, 2)))
    network.module.train()
    optimizer.reorder(order)
    previous = len(order)
    for step in range(plan.shape[1]):
        active = int((steps > step).sum())
        if active < previous:
            client, previous = take_first(client, active), active
        inputs, targets = _batch(
            network, as_tensor(x), as_tensor(y), torch.from_numpy(plan[:active, step])
        )
        if moves is not None:
            flat = crop_flip(
                inputs.flatten(0, 1), moves[:active, step].reshape(-1, 3), crops[0].padding
            )
            inputs = flat.unflatten(0, inputs.shape[:2])
        if client.get("carry"):
            with torch.no_grad():
                client["carry"] = advance(
                    network.layout.views(params[:active]), client["carry"], inputs
                )
        # A client's loss depends on its own row alone, so one backward pass through the sum gives
        # every client's gradient.
        moving = params[:active].requires_grad_()
        arrays = network.layout.views(moving)
        losses = losses_of(arrays, inputs, targets, client)
        grads = _gradients(network, losses, moving, arrays)
        if training.clip_gradient is not None:
            grads = clip_gradients(grads, training.clip_gradient)
        optimizer.step(moving.requires_grad_(False), grads, network.reached)
        total[:active] += losses.detach() * (targets != IGNORED).sum(1)
    back = order.argsort()
    optimizer.reorder(back)
    return params[back], (total.cpu() / counts.clamp(min=1))[back].double().numpy()


def _gradients(
    network: Network,
    losses: torch.Tensor,
    moving: torch.Tensor,
    arrays: Mapping[str, torch.Tensor],
) -> torch.Tensor:
    """Return the gradients [clients, d] of the clients' losses, and note which arrays they reach."""
    if network.reached is None:
        return torch.autograd.grad(losses.sum(), moving)[0]
    wanted = [moving, *arrays.values()]
    grads, *of_arrays = torch.autograd.grad(losses.sum(), wanted, allow_unused=True)
    views = network.layout.views(network.reached).values()
    for view, found in zip(views, of_arrays, strict=True):
        view.fill_(found is not None)
    return grads


def _batch(
    network: Network,
    examples: torch.Tensor,
    labels: torch.Tensor,
    rows: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs [clients, batch, ...] and targets [clients, batch] at the positions
    ``rows``; targets mark padding.
    """
    # index_select is faster than an index of several dimensions.
    chosen = examples.flatten(1).index_select(0, rows.clamp(min=0).flatten())
    inputs = chosen.view(*rows.shape, *examples.shape[1:]).to(network.device)
    return inputs, torch.where(rows == PADDING, IGNORED, labels[rows]).to(network.device)


def _stack_batches(batches: Sequence[np.ndarray], blank: int) -> np.ndarray:
    """Stack arrays to [clients, most steps, widest batch, ...], filling up with ``blank``."""
    steps = max(len(rows) for rows in batches)
    width = max(rows.shape[1] for rows in batches)
    plan = np.full((len(batches), steps, width, *batches[0].shape[2:]), blank, batches[0].dtype)
    for i, rows in enumerate(batches):
        plan[i, : rows.shape[0], : rows.shape[1]] = rows
    return plan
