"""Backend ``vmap``: all clients of a block take each step together, as one batched computation (torch.func)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.func import vmap

from algorithms.core.clipping import clip_gradients
from algorithms.core.cross_entropy import IGNORED
from algorithms.core.messages import Ints
from algorithms.core.network import Network, as_tensor
from algorithms.engine.augmentation import Crops, crop_flip
from algorithms.engine.backends.context import (
    NOTHING,
    Context,
    Draws,
    begin_context,
    functional_forward,
    stack,
    take_first,
)
from algorithms.engine.backends.optimizers import Optimizer
from algorithms.training._batches import PADDING
from algorithms.training.local_sgd import Config


def train(
    network: Network,
    start: torch.Tensor,
    x: np.ndarray,
    y: np.ndarray,
    batches: list[Ints],
    optimizer: Optimizer,
    objective: Any,
    told: Mapping[str, torch.Tensor],
    draws: Sequence[Draws] = (),
) -> tuple[torch.Tensor, np.ndarray]:
    """Step every client of a block through its own ``batches`` (positions in ``x``, padded with -1).

    Args:
        start: [clients, d] the weights that each client starts from.
        batches: one [steps, batch] array for each client; they may differ in steps.
        told: what the server told the clients of themselves, [clients, ...] each.
        draws: one for each client; () stands for nothing.

    Returns:
        The trained weights [clients, d] and each client's mean loss over its examples, [clients].
    """
    training, steps = optimizer.config, np.array([len(rows) for rows in batches])
    assert isinstance(training, Config)  # the one component that has this backend
    # Clients that finish early come last, so that those at work are always the first rows.
    order = torch.from_numpy(np.argsort(-steps, kind="stable"))
    places = order.tolist()
    draws = [draws[i] for i in places] if draws else [NOTHING] * len(order)
    params, context = start[order], _context(network, objective, start, x.shape[1:], told, places, draws)
    plan, crops = _stack_batches([batches[i] for i in places], PADDING), _crops(draws)
    losses_of, advance = _vectorize(network, objective)
    total, seen = torch.zeros(len(order), device=network.device), torch.from_numpy((plan != PADDING).sum(axis=(1, 2)))
    network.module.train()
    optimizer.reorder(order)
    held = len(order)
    for step in range(plan.shape[1]):
        active = int((steps > step).sum())
        if active < held:
            context, held = take_first(context, active), active
        inputs, targets = _batch(network, as_tensor(x), as_tensor(y), torch.from_numpy(plan[:active, step]))
        if crops is not None:
            flat = crop_flip(inputs.flatten(0, 1), crops.moves[:active, step].reshape(-1, 3), crops.around)
            inputs = flat.unflatten(0, inputs.shape[:2])
        if context.get("carry"):
            with torch.no_grad():
                context["carry"] = advance(network.layout.views(params[:active]), context["carry"], inputs)
        # A client's loss depends on its own row alone, so one backward pass through the sum gives every client's gradient.
        moving = params[:active].requires_grad_()
        losses = losses_of(network.layout.views(moving), inputs, targets, context)
        (grads,) = torch.autograd.grad(losses.sum(), moving)
        if training.clip_gradient is not None:
            grads = clip_gradients(grads, training.clip_gradient)
        optimizer.step(moving.requires_grad_(False), grads)
        total[:active] += losses.detach() * (targets != IGNORED).sum(1)
    back = order.argsort()
    optimizer.reorder(back)
    return params[back], (total.cpu() / seen.clamp(min=1))[back].double().numpy()


def _batch(
    network: Network, examples: torch.Tensor, labels: torch.Tensor, rows: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs [clients, batch, ...] and targets [clients, batch] for the positions ``rows``, padding marked in the targets."""
    # Faster than an index of several dimensions.
    chosen = examples.flatten(1).index_select(0, rows.clamp(min=0).flatten())
    inputs = chosen.view(*rows.shape, *examples.shape[1:]).to(network.device)
    return inputs, torch.where(rows == PADDING, IGNORED, labels[rows]).to(network.device)


def _context(
    network: Network,
    objective: Any,
    start: torch.Tensor,
    shape: tuple[int, ...],
    told: Mapping[str, torch.Tensor],
    places: Sequence[int],
    draws: Sequence[Draws],
) -> Context:
    """The context of the clients at these ``places``, in their order, [clients, ...] each; so ``draws`` stand already."""
    if not told and not hasattr(objective.module, "CONTEXT") and not hasattr(objective.module, "carry"):
        return {}
    each = [
        begin_context(
            network, objective, start[i], shape, {name: values[i] for name, values in told.items()}, own.probes
        )
        for i, own in zip(places, draws, strict=True)
    ]
    return stack(each)


def _vectorize(network: Network, objective: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """``loss(arrays, x, y, context)`` and ``advance(arrays, carry, x)`` of all clients at once."""
    module, config, forward = objective.module, objective.config, functional_forward(network)

    def loss(arrays: Context, x: torch.Tensor, y: torch.Tensor, context: Context) -> Any:
        return module.loss(config, forward, arrays, x, y, context)

    def advance(arrays: Context, carry: Context, x: torch.Tensor) -> Any:
        return module.advance(config, forward, arrays, carry, x)

    return vmap(loss, randomness="error"), vmap(advance, randomness="error")


def _crops(draws: Sequence[Draws]) -> Crops | None:
    """Moves [clients, most steps, widest batch, 3], or None where images stay as they are."""
    each = [own.crops for own in draws if own.crops is not None]
    return Crops(_stack_batches([own.moves for own in each], 0), each[0].around) if each else None


def _stack_batches(batches: Sequence[np.ndarray], blank: int) -> np.ndarray:
    """[clients, most steps, widest batch, ...], filled up with ``blank``."""
    steps, width = max(len(rows) for rows in batches), max(rows.shape[1] for rows in batches)
    plan = np.full((len(batches), steps, width, *batches[0].shape[2:]), blank, batches[0].dtype)
    for i, rows in enumerate(batches):
        plan[i, : rows.shape[0], : rows.shape[1]] = rows
    return plan
