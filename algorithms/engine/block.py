"""The unit of work: what a fixed block of clients computes in a round, as pure functions of what
the server sent.

The bytes are the same no matter which process runs a block, and how often: every client has its own
generator, the
backends are deterministic, and sums are taken in the order of client ids, in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from algorithms.core.configs import TrainingConfig
from algorithms.core.messages import (
    Assignment,
    Doubles,
    Evaluation,
    Floats,
    Ints,
    PartialSum,
    Weights,
    weighted_sum,
)
from algorithms.core.network import Network, as_tensor
from algorithms.core.noise import Normals, Zeros
from algorithms.curvature import hessian
from algorithms.engine import server
from algorithms.engine.augmentation import draw_crops
from algorithms.engine.backends import loop, trains_together, vmap
from algorithms.engine.backends.client_inputs import NOTHING, Draws, generator
from algorithms.engine.backends.optimizers import optimizer_state, resume_optimizer
from algorithms.interfaces import Run, TrainingContract
from algorithms.metrics.classification import cross_entropies
from algorithms.training import local_sgd
from datasets.components import Component
from datasets.federation import Examples, Federation

Stream = Callable[..., np.random.Generator]


@dataclass(frozen=True)
class TrainedBlock:
    """A block after local training.

    Attributes:
        params: [clients, d] trained parameters.
        buffers: [clients, b] running statistics.
        loss: [clients] mean training loss in nats.
        optimizer_states: the clients' optimizer states for the next round, [clients, ...] by name;
            usually empty.
    """

    params: NDArray[np.float32]
    buffers: NDArray[np.float32]
    loss: Doubles
    optimizer_states: dict[str, np.ndarray] = field(default_factory=dict)


def selection_examples(
    run: Run,
    sizes: Sequence[int],
    stream: Stream,
    clients: Sequence[int],
) -> Sequence[Ints | None]:
    """Draw the examples on which each client compares models: positions in its own examples, or
    None for all of them.

    ``sizes`` are the clients' numbers of examples; ``stream(purpose, client)`` returns a client's
    generator.
    """
    most = run.clustering.module.selection_size(run.clustering.config)
    if most is None:
        return [None] * len(clients)
    return [
        stream("selection", client).choice(examples, size=min(examples, most), replace=False)
        for client, examples in zip(clients, sizes, strict=True)
    ]


def train(
    run: Run,
    data: Federation,
    network: Network,
    models: Sequence[Weights],
    assigned: Assignment,
    stream: Stream,
) -> TrainedBlock:
    """Train a block, each client from the one of the ``models`` that it chose.

    ``stream(purpose, client)`` returns the generator of one client and purpose in this round.
    """
    training = run.training.config
    module = run.training.module
    clients = assigned.clients
    sizes = data.sizes[list(clients)].tolist()
    chosen_with = selection_examples(run, sizes, stream, clients)
    batches = [
        module.schedule(training, examples, positions, stream("batches", client))
        for client, examples, positions in zip(clients, sizes, chosen_with, strict=True)
    ]
    draws = [
        _draws(run, data, network, plan, client, stream)
        for client, plan in zip(clients, batches, strict=True)
    ]
    statistics = {
        name: torch.as_tensor(assigned.statistics[name], dtype=torch.float32, device=network.device)
        for name in set(run.objective.module.NEEDS) & set(assigned.statistics)
    }
    lr = module.learning_rate(training, assigned.round)
    states = assigned.optimizer_states
    if trains_together(run):
        sent = torch.stack([as_tensor(weights.params) for weights in models]).to(network.device)
        start = sent[torch.as_tensor(assigned.chosen, device=network.device)]
        first = data.offsets[list(clients)]
        examples = data.train
        rows = [
            np.where(batch < 0, batch, batch + at) for batch, at in zip(batches, first, strict=True)
        ]
        optimizer = resume_optimizer(training, lr, states, tuple(start.shape), network.device)
        inputs = network, start, examples.x, examples.y, rows, optimizer
        params, losses = vmap.train(*inputs, run.objective, statistics, draws)
        blank = np.zeros((len(start), 0), np.float32)
        return TrainedBlock(params.cpu().numpy(), blank, losses, optimizer_state(optimizer))
    each = []
    for i, client in enumerate(clients):
        network.load(models[assigned.chosen[i]])
        mine = data.client(client)
        arrays = {name: values[i] for name, values in statistics.items()}
        state = {name: values[i] for name, values in states.items()}
        optimizer = resume_optimizer(training, lr, state, (network.layout.size,), network.device)
        gradient = loop.client_gradient(
            network, run.training, run.objective, mine, arrays, draws[i]
        )
        loss = loop.train(network, mine.x, mine.y, batches[i], optimizer, gradient, draws[i])
        weights = network.weights()
        of_client = {k: values[None] for k, values in optimizer_state(optimizer).items()}
        each.append(
            TrainedBlock(weights.params[None], weights.buffers[None], np.array([loss]), of_client)
        )
    return joined(each)


def joined(blocks: Sequence[TrainedBlock]) -> TrainedBlock:
    """Return the block that has the clients of all."""
    names = "params", "buffers", "loss"
    params, buffers, loss = (
        np.concatenate([getattr(block, name) for block in blocks]) for name in names
    )
    states = blocks[0].optimizer_states
    return TrainedBlock(
        params,
        buffers,
        loss,
        {
            name: np.concatenate([block.optimizer_states[name] for block in blocks])
            for name in states
        },
    )


def alone(assigned: Assignment, position: int) -> Assignment:
    """Return what the client of a block at ``position`` receives, as a block by itself."""
    here = slice(position, position + 1)
    return replace(
        assigned,
        clients=assigned.clients[here],
        chosen=assigned.chosen[here],
        statistics={name: values[here] for name, values in assigned.statistics.items()},
        optimizer_states={name: values[here] for name, values in assigned.optimizer_states.items()},
    )


def read_by_training(
    run: Run, data: Federation, assigned: Assignment
) -> tuple[list[Any], list[NDArray[Any]]]:
    """Return all that the result of `train` depends on besides models and generators: JSON
    values, and arrays.
    """
    slots = [slot.to_dict() for slot in (run.model, run.training, run.objective)]
    selected = run.clustering.module.selection_size(run.clustering.config)
    needed = sorted(set(run.objective.module.NEEDS) & set(assigned.statistics))
    named = {name: assigned.statistics[name] for name in needed} | dict(
        sorted(assigned.optimizer_states.items())
    )
    examples = [data.client(client) for client in assigned.clients]
    arrays = [array for part in examples for array in (part.x, part.y)]
    place = list(assigned.clients), assigned.chosen.tolist(), assigned.round
    plain = [slots, selected, place, data.classes, repr(data.prepare), list(named)]
    return plain, arrays + [np.asarray(values) for values in named.values()]


def _draws(
    run: Run,
    data: Federation,
    network: Network,
    plan: Ints,
    client: int,
    stream: Stream,
) -> Draws:
    """Draw a client's random numbers of this round, except for its batches, which are ``plan``."""
    noisy = run.training.module.PRIVATE_STEPS
    probing = run.objective.module.ITERATES
    if not (noisy or probing or network.random or run.training.config.augment != "none"):
        return NOTHING
    chance = stream("augmentation", client)
    return Draws(
        dropout=int(chance.integers(2**63)) if network.random else None,
        crops=draw_crops(run.training.config, plan, data.shape, data.prepare, chance),
        noise=generator(stream("gradient_noise", client), network.device) if noisy else None,
        probes=generator(stream("probes", client), network.device) if probing else None,
    )


def train_again(
    run: Run,
    data: Federation,
    network: Network,
    models: Sequence[Weights],
    assigned: Assignment,
    position: int,
    stream: Stream,
) -> Floats:
    """Repeat what one client of a block, at ``position``, does in a round; return its parameters
    [d], as it sends them.

    With the generators that it had, the result is the same, bit for bit where clients are trained
    one after another. So whoever imitates a client adds the noise of its private update, too.
    """
    single = alone(assigned, position)
    return protect(
        run, train(run, data, network, models, single, stream), single, models, stream
    ).params[0]


def silence(
    trained: TrainedBlock,
    assigned: Assignment,
    models: Sequence[Weights],
    silent: Collection[int],
) -> TrainedBlock:
    """Return the trained block in which the ``silent`` clients (ids) have the model that they
    were sent, statistics included.

    Their weight in the mean, their loss and their optimizer state stay.
    """
    params = trained.params.copy()
    buffers = trained.buffers.copy()
    for i in np.flatnonzero(np.isin(assigned.clients, list(silent))):
        sent = models[assigned.chosen[i]]
        params[i] = sent.params
        buffers[i] = sent.buffers
    return replace(trained, params=params, buffers=buffers)


def protect(
    run: Run,
    trained: TrainedBlock,
    assigned: Assignment,
    models: Sequence[Weights],
    stream: Stream,
    noisy: bool | NDArray[np.bool_] = True,
) -> TrainedBlock:
    """Return the block as its clients send it: with the private update of each, where the
    privacy slot has any.

    An update that is not finite counts as zero, and is protected like the others. What a client
    sends is rounded to float32 after the noise was added. Where ``noisy`` (all, or [clients]) is
    not, the noise is zero.
    """
    privacy = run.privacy
    if not privacy.module.PRIVATE_UPDATES:
        return trained
    params = trained.params.copy()
    buffers = trained.buffers.copy()
    adds = np.broadcast_to(noisy, len(assigned.clients))
    for i, client in enumerate(assigned.clients):
        sent = models[assigned.chosen[i]]
        with np.errstate(over="ignore", invalid="ignore"):
            update = trained.params[i] - sent.params
        if not np.isfinite(update).all():
            update = np.zeros_like(update)
            params[i] = sent.params
            buffers[i] = sent.buffers
        noise = (
            Normals(len(update), stream("update_noise", client)) if adds[i] else Zeros(len(update))
        )
        private = privacy.module.private_update(privacy.config, update, noise)
        if private is not update:
            params[i] = sent.params + private
    return replace(trained, params=params, buffers=buffers)


def pretrain(
    run: Run,
    data: Federation,
    network: Network,
    rng: np.random.Generator,
) -> Weights:
    """Return the weights before the first round: the network's, trained on the server's examples
    if aggregation starts warm.

    Without such examples, as in a shadow federation, they are the network's; a run without them is
    refused beforehand.
    """
    warm = run.aggregation.module.warm_start(run.aggregation.config)
    if warm is None or not len(data.shadow):
        return network.weights()
    local = run.training.config
    fields = {
        "optimizer": "adam",
        "lr": warm.lr,
        "batch_size": warm.batch_size,
        "device": local.device,
    }
    fields |= {"adam_epsilon": local.adam_epsilon, "drop_last": local.drop_last}
    if isinstance(local, local_sgd.Config):
        fields["precision"] = local.precision
    config = local_sgd.Config.model_validate(fields)
    training: Component[TrainingContract, TrainingConfig] = Component(
        "local_sgd", config, "algorithms.training"
    )
    strengths = data.draw_strengths(np.arange(len(data.shadow)) % data.clients, rng)
    examples = Examples(data.prepare(data.shadow.x, strengths), data.shadow.y)
    for _ in islice(loop.passes(network, examples, training, rng, data.prepare), warm.epochs):
        pass
    return network.weights()


def evaluate(
    run: Run,
    data: Federation,
    network: Network,
    clients: Sequence[int],
    models: Sequence[Weights],
    stream: Stream,
) -> Evaluation:
    """Compute loss and accuracy of every model on the training examples of ``clients``
    (consecutive), in evaluation mode.
    """
    first = data.offsets[clients[0]]
    last = data.offsets[clients[-1] + 1]
    x = data.train.x[first:last]
    y = data.train.y[first:last]
    starts = data.offsets[list(clients)] - first
    sizes = data.sizes[list(clients)]
    losses, accuracies, selection = np.empty((3, len(clients), len(models)))
    chosen = selection_examples(run, sizes.tolist(), stream, clients)
    for j, weights in enumerate(models):
        network.load(weights)
        logits = network.logits(x)
        example_losses = cross_entropies(logits, y)
        hits = (logits.argmax(1) == y).astype(np.float64)
        losses[:, j] = np.add.reduceat(example_losses, starts) / sizes
        accuracies[:, j] = np.add.reduceat(hits, starts) / sizes
        selection[:, j] = [
            losses[i, j] if picked is None else example_losses[starts[i] + picked].mean()
            for i, picked in enumerate(chosen)
        ]
    return Evaluation(losses, accuracies, selection)


def sum_updates(
    run: Run,
    trained: TrainedBlock,
    clients: Sequence[int],
    models: Sequence[Weights],
    assignment: Ints,
    examples: Ints,
) -> dict[int, PartialSum]:
    """Clip the block's updates with the privacy slot and sum them by cluster, for each cluster
    that a client chose.

    An update that the privacy slot scales by zero, such as one that is not finite, counts as none:
    it is zero, and the
    client's running statistics are those that it was sent. ``clients`` ascend; ``assignment`` is
    the model of each, and ``examples`` its number of training examples.
    """
    updates = np.empty_like(trained.params)
    for update, params, j in zip(updates, trained.params, assignment, strict=True):
        np.subtract(params, models[j].params, out=update)
    norms, scales = server.clip(run, updates)
    buffers = trained.buffers.copy()
    for i in np.flatnonzero(scales == 0):
        buffers[i] = models[assignment[i]].buffers
    weights = server.weigh(run, examples)
    needed = "updates" in (run.aggregation.module.NEEDS, run.privacy.module.NEEDS)
    parts = {}
    for j in np.unique(assignment):
        mine: Any = np.flatnonzero(assignment == j)
        # a slice of all clients is a view, not a copy
        mine = slice(None) if len(mine) == len(assignment) else mine
        parts[int(j)] = PartialSum(
            clients=np.asarray(clients)[mine],
            weights=weights[mine],
            norms=norms[mine],
            scales=scales[mine],
            total=weighted_sum(weights[mine] * scales[mine], updates[mine]),
            buffers=weighted_sum(weights[mine], buffers[mine]),
            updates=updates[mine] if needed else None,
            own_buffers=buffers[mine] if needed else None,
        )
    return parts


def measure_curvatures(
    run: Run,
    data: Federation,
    network: Network,
    clients: Sequence[int],
    trained: TrainedBlock,
    stream: Stream,
    parts: int = 1,
) -> Doubles:
    """Measure the Hessian at each client's trained model, on examples that are the same in every
    round.

    They are divided into so many ``parts``: the even and the odd places of the order in which they
    were drawn are two halves, with start vectors and labels of their own.

    Returns:
        [clients, parts, 3] top eigenvalue, trace and the trace's standard error
        (`hessian.spectrum`); NaN for a client with fewer examples than parts.
    """
    spectra = np.full((len(clients), parts, 3), np.nan)
    for i, client in enumerate(clients):
        network.load(Weights(trained.params[i], trained.buffers[i]))
        mine = data.client(client)
        order = stream("curvature_examples", client).permutation(len(mine))[
            : run.curvature.examples
        ]
        for part in range(parts) if len(order) >= parts else ():
            chosen = np.sort(order[part::parts])
            rng = stream("curvature_probes", client, *([1 + part] if parts > 1 else []))
            spectra[i, part] = hessian.spectrum(
                network, mine.x[chosen], mine.y[chosen], run.curvature, rng
            )
    return spectra
