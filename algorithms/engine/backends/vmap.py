"""Backend ``vmap``: all clients of a block take each step as one computation (torch.func)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap as torch_vmap

from algorithms.core.configs import TrainingConfig
from algorithms.core.gradients import IGNORED, clip_gradients
from algorithms.core.messages import Ints
from algorithms.core.network import Network, as_tensor
from algorithms.engine.augmentation import Crops, crop_flip
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
from datasets.federation import Examples


def train(
    network: Network,
    start: Tensor,
    examples: Examples,
    batches: Sequence[Ints],
    optimizer: Optimizer,
    objective: Component[ObjectiveContract, SlotConfig],
    statistics: Mapping[str, Tensor],
    draws: Sequence[Draws] = (),
) -> tuple[Tensor, np.ndarray]:
    """Train all clients of a block, each on its own batches from its own row of ``start``.

    ``start`` are weights [clients, d]. ``batches`` holds one array [steps, batch] per client with
    positions in ``examples``, padded with -1; steps may differ. ``statistics`` are what the server
    sent the clients about themselves, [clients, ...] by name; ``draws``, one for each client, may
    be left out.

    Returns:
        The trained weights [clients, d], and each client's mean loss over its examples [clients] in
        nats.
    """
    # Clients that finish early come last, so that the active clients are always the first rows.
    steps = np.array([len(rows) for rows in batches])
    order = torch.from_numpy(np.argsort(-steps, kind="stable"))
    places = order.tolist()
    draws = [draws[i] for i in places] if draws else [NOTHING] * len(places)
    params = start[order]
    statistics = {name: values[order] for name, values in statistics.items()}
    client = _begin_block(network, objective, params, examples, statistics, draws)
    plan = _trimmed(_stack_batches([batches[i] for i in places], PADDING))
    crops = _stack_crops(draws)
    gradients_of = _block_gradient(network, objective, optimizer.config)

    total = torch.zeros(len(order), device=network.device)
    network.module.train()
    optimizer.reorder(order)
    for step in range(plan.shape[1]):
        active = int((steps > step).sum())
        moving = params[:active]
        client = take_first(client, active)
        inputs, targets = _batch(network, examples, plan[:active, step])
        if crops is not None:
            inputs = _moved(inputs, crops, step)
        losses, grads = gradients_of(moving, client, inputs, targets)
        optimizer.step(moving, grads, network.reached)
        counted = (targets != IGNORED).sum(1)
        total[:active] += losses * counted

    trained = torch.from_numpy((plan != PADDING).sum(axis=(1, 2)))
    means = total.cpu() / trained.clamp(min=1)
    back = order.argsort()
    optimizer.reorder(back)
    return params[back], means[back].double().numpy()


def _begin_block(
    network: Network,
    objective: Component[ObjectiveContract, SlotConfig],
    start: Tensor,
    examples: Examples,
    statistics: Mapping[str, Tensor],
    draws: Sequence[Draws],
) -> ClientInputs:
    """Prepare the inputs of the objective, [clients, ...] each; see `begin_inputs`."""
    if not (statistics or "sent" in objective.module.NEEDS or objective.module.ITERATES):
        return {}
    each = []
    for i, draw in enumerate(draws):
        own = {name: values[i] for name, values in statistics.items()}
        each.append(
            begin_inputs(
                network,
                objective,
                start[i],
                examples,
                own,
                draw.probes,
            )
        )
    return stack(each)


def _block_gradient(
    network: Network,
    objective: Component[ObjectiveContract, SlotConfig],
    training: TrainingConfig,
) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return the function that computes the losses and gradients of a step of all clients."""
    assert isinstance(training, Config)  # the only component with this backend
    module = objective.module
    bound = (objective.config, functional_forward(network))
    losses_of = torch_vmap(partial(module.loss, *bound), randomness="error")
    advance = torch_vmap(partial(module.advance, *bound), randomness="error")
    views = network.layout.views

    def gradients(
        params: Tensor,
        client: ClientInputs,
        inputs: Tensor,
        targets: Tensor,
    ) -> tuple[Tensor, Tensor]:
        if client.get("carry"):
            with torch.no_grad():
                client["carry"] = advance(views(params), client["carry"], inputs)
        # A client's loss depends on its own row alone, so one backward pass through the sum gives
        # every client's gradient.
        params.requires_grad_()
        arrays = views(params)
        losses = losses_of(arrays, inputs, targets, client)
        grads = _gradients(network, losses, params, arrays)
        params.requires_grad_(False)
        if training.clip_gradient is not None:
            grads = clip_gradients(grads, training.clip_gradient)
        return losses.detach(), grads

    return gradients


def _gradients(
    network: Network,
    losses: Tensor,
    moving: Tensor,
    arrays: Mapping[str, Tensor],
) -> Tensor:
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
    examples: Examples,
    places: Ints,
) -> tuple[Tensor, Tensor]:
    """Return inputs [clients, batch, ...] and targets [clients, batch], which mark padding."""
    x = as_tensor(examples.x)
    rows = torch.from_numpy(places)
    # index_select is faster than an index of several dimensions.
    known = rows.clamp(min=0).flatten()
    chosen = x.flatten(1).index_select(0, known)
    inputs = chosen.view(*rows.shape, *x.shape[1:])
    labels = as_tensor(examples.y)[rows]
    targets = torch.where(rows == PADDING, IGNORED, labels)
    return inputs.to(network.device), targets.to(network.device)


def _moved(inputs: Tensor, crops: Crops, step: int) -> Tensor:
    """Crop and mirror the images [clients, batch, ...] of a step."""
    clients, width = inputs.shape[:2]
    moves = crops.moves[:clients, step, :width]
    images = crop_flip(
        inputs.flatten(0, 1),
        moves.reshape(-1, 3),
        crops.padding,
    )
    return images.unflatten(0, (clients, width))


def _stack_crops(draws: Sequence[Draws]) -> Crops | None:
    """Stack the moves of all clients' images; None if images are not moved."""
    crops = [draw.crops for draw in draws if draw.crops is not None]
    if not crops:
        return None
    moves = _stack_batches([crop.moves for crop in crops], 0)
    return Crops(moves, crops[0].padding)


def _stack_batches(
    batches: Sequence[np.ndarray],
    blank: int,
) -> np.ndarray:
    """Stack arrays to [clients, most steps, widest batch, ...], filling up with ``blank``."""
    steps = max(len(rows) for rows in batches)
    width = max(rows.shape[1] for rows in batches)
    first = batches[0]
    shape = (len(batches), steps, width, *first.shape[2:])
    plan = np.full(shape, blank, first.dtype)
    for i, rows in enumerate(batches):
        plan[i, : len(rows), : rows.shape[1]] = rows
    return plan


def _trimmed(plan: Ints) -> Ints:
    """Leave out the last places of batches that no client fills."""
    filled = (plan != PADDING).any(axis=(0, 1))
    width = np.flatnonzero(filled).max(initial=-1) + 1
    return plan[:, :, :width]
