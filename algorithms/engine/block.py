"""The unit of work: what a fixed block of clients computes in a round.

Its functions are pure: they depend on what the server sent alone. The bytes are the same no matter
which process runs a block, and how often: every client has its own generator, the backends are
deterministic, and sums are taken in the order of client ids, in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from algorithms.engine.backends.optimizers import Optimizer, optimizer_state, resume_optimizer
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
    """Draw the examples on which each client compares models.

    They are positions in its own examples, or None for all of them. ``sizes`` are the clients'
    numbers of examples; ``stream(purpose, client)`` returns a client's generator.
    """
    most = run.clustering.module.selection_size(run.clustering.config)
    if most is None:
        return [None] * len(clients)
    drawn = []
    for client, examples in zip(clients, sizes, strict=True):
        rng = stream("selection", client)
        drawn.append(
            rng.choice(
                examples,
                size=min(examples, most),
                replace=False,
            )
        )
    return drawn


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
    sizes = data.sizes[list(assigned.clients)].tolist()
    selected = selection_examples(run, sizes, stream, assigned.clients)
    batches = []
    draws = []
    for client, examples, positions in zip(assigned.clients, sizes, selected, strict=True):
        rng = stream("batches", client)
        plan = run.training.module.schedule(
            run.training.config,
            examples,
            positions,
            rng,
        )
        batches.append(plan)
        draws.append(_draws(run, data, network, plan, client, stream))
    train_clients = _train_together if trains_together(run) else _train_one_by_one
    return train_clients(run, data, network, models, assigned, batches, draws)


def _train_together(
    run: Run,
    data: Federation,
    network: Network,
    models: Sequence[Weights],
    assigned: Assignment,
    batches: Sequence[Ints],
    draws: Sequence[Draws],
) -> TrainedBlock:
    """Train the clients of a block at once."""
    sent = torch.stack([as_tensor(weights.params) for weights in models])
    chosen = torch.as_tensor(assigned.chosen, device=network.device)
    start = sent.to(network.device)[chosen]
    rows = []
    for client, plan in zip(assigned.clients, batches, strict=True):
        first = data.offsets[client]
        rows.append(np.where(plan < 0, plan, plan + first))
    optimizer = _resumed(
        run,
        network,
        assigned.round,
        assigned.optimizer_states,
        len(start),
    )
    statistics = _statistics_read(run, assigned, network.device)
    params, losses = vmap.train(
        network, start, data.train, rows, optimizer, run.objective, statistics, draws
    )
    buffers = np.zeros((len(start), 0), np.float32)
    return TrainedBlock(
        params.cpu().numpy(),
        buffers,
        losses,
        optimizer_state(optimizer),
    )


def _train_one_by_one(
    run: Run,
    data: Federation,
    network: Network,
    models: Sequence[Weights],
    assigned: Assignment,
    batches: Sequence[Ints],
    draws: Sequence[Draws],
) -> TrainedBlock:
    """Train the clients of a block one after another."""
    statistics = _statistics_read(run, assigned, network.device)
    each = []
    for i, client in enumerate(assigned.clients):
        network.load(models[assigned.chosen[i]])
        examples = data.client(client)
        states = {name: values[i] for name, values in assigned.optimizer_states.items()}
        optimizer = _resumed(run, network, assigned.round, states)
        own = {name: values[i] for name, values in statistics.items()}
        gradient = loop.client_gradient(
            network, run.training, run.objective, examples, own, draws[i]
        )
        loss = loop.train(
            network,
            examples,
            batches[i],
            optimizer,
            gradient,
            draws[i],
        )
        weights = network.weights()
        kept = {name: values[None] for name, values in optimizer_state(optimizer).items()}
        one = TrainedBlock(
            weights.params[None],
            weights.buffers[None],
            np.array([loss]),
            kept,
        )
        each.append(one)
    return joined(each)


def _statistics_read(
    run: Run,
    assigned: Assignment,
    device: torch.device,
) -> dict[str, torch.Tensor]:
    """Return the client statistics that the objective reads, [clients] by name."""
    statistics = {}
    for name in _needed(run, assigned):
        values = torch.as_tensor(assigned.statistics[name], dtype=torch.float32)
        statistics[name] = values.to(device)
    return statistics


def _needed(run: Run, assigned: Assignment) -> list[str]:
    """Return the names of the client statistics that the objective reads."""
    return sorted(set(run.objective.module.NEEDS) & set(assigned.statistics))


def _resumed(
    run: Run,
    network: Network,
    round_: int,
    states: Mapping[str, np.ndarray],
    *clients: int,
) -> Optimizer:
    """Return the optimizer of one client, or of so many ``clients``, in a round."""
    config = run.training.config
    lr = run.training.module.learning_rate(config, round_)
    shape = (*clients, network.layout.size)
    return resume_optimizer(config, lr, states, shape, network.device)


def joined(blocks: Sequence[TrainedBlock]) -> TrainedBlock:
    """Return the block that has the clients of all."""
    states = blocks[0].optimizer_states
    return TrainedBlock(
        np.concatenate([block.params for block in blocks]),
        np.concatenate([block.buffers for block in blocks]),
        np.concatenate([block.loss for block in blocks]),
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
    """Return all that `train` depends on besides models and generators: JSON values, and arrays."""
    parts = (run.model, run.training, run.objective)
    slots = [part.to_dict() for part in parts]
    selected = run.clustering.module.selection_size(run.clustering.config)
    named = {name: assigned.statistics[name] for name in _needed(run, assigned)}
    named |= dict(sorted(assigned.optimizer_states.items()))
    place = list(assigned.clients), assigned.chosen.tolist(), assigned.round
    plain: list[Any] = [slots, selected, place]
    plain += [data.classes, repr(data.prepare), list(named)]
    arrays = []
    for client in assigned.clients:
        examples = data.client(client)
        arrays += [examples.x, examples.y]
    arrays += map(np.asarray, named.values())
    return plain, arrays


def _draws(
    run: Run,
    data: Federation,
    network: Network,
    plan: Ints,
    client: int,
    stream: Stream,
) -> Draws:
    """Draw a client's random numbers of this round, except for its batches, which are ``plan``."""
    config = run.training.config
    noisy = run.training.module.PRIVATE_STEPS
    probing = run.objective.module.ITERATES
    if not (noisy or probing or network.random or config.augment != "none"):
        return NOTHING
    rng = stream("augmentation", client)
    return Draws(
        dropout=int(rng.integers(2**63)) if network.random else None,
        crops=draw_crops(config, plan, data.shape, data.prepare, rng),
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
    """Repeat what the client at ``position`` of a block does; return the parameters [d] it sends.

    With the generators that it had, the result is the same, bit for bit where clients are trained
    one after another. So whoever imitates a client adds the noise of its private update, too.
    """
    single = alone(assigned, position)
    trained = train(run, data, network, models, single, stream)
    return protect(run, trained, single, models, stream).params[0]


def silence(
    trained: TrainedBlock,
    assigned: Assignment,
    models: Sequence[Weights],
    silent: Collection[int],
) -> TrainedBlock:
    """Give the ``silent`` clients (ids) of a trained block the model that they were sent.

    That includes running statistics. Their weight in the mean, their loss and their optimizer state
    stay.
    """
    params = trained.params.copy()
    buffers = trained.buffers.copy()
    for i, client in enumerate(assigned.clients):
        if client in silent:
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
    """Return the block as its clients send it: with private updates, if the privacy slot has any.

    An update that is not finite counts as zero, and is protected like the others. What a client
    sends is rounded to float32 after the noise was added. Where ``noisy`` (all, or [clients]) is
    not, the noise is zero.
    """
    privacy = run.privacy
    if not privacy.module.PRIVATE_UPDATES:
        return trained
    params = trained.params.copy()
    buffers = trained.buffers.copy()
    d = params.shape[1]
    adds = np.broadcast_to(noisy, len(params))
    for i, client in enumerate(assigned.clients):
        sent = models[assigned.chosen[i]]
        with np.errstate(over="ignore", invalid="ignore"):
            update = trained.params[i] - sent.params
        if not np.isfinite(update).all():
            update = np.zeros_like(update)
            params[i] = sent.params
            buffers[i] = sent.buffers
        noise = Normals(d, stream("update_noise", client)) if adds[i] else Zeros(d)
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
    """Return the weights before the first round.

    They are the network's, trained on the server's examples if aggregation starts warm. Without
    such examples, as in a shadow federation, they are not trained; a run without them is refused
    beforehand.
    """
    warm = run.aggregation.module.warm_start(run.aggregation.config)
    if warm is None or not len(data.shadow):
        return network.weights()
    local = run.training.config
    config = local_sgd.Config(
        optimizer="adam",
        lr=warm.lr,
        batch_size=warm.batch_size,
        device=local.device,
        adam_epsilon=local.adam_epsilon,
        drop_last=local.drop_last,
        precision=local.precision if isinstance(local, local_sgd.Config) else "float32",
    )
    training: Component[TrainingContract, TrainingConfig] = Component(
        "local_sgd", config, "algorithms.training"
    )
    owners = np.arange(len(data.shadow)) % data.clients
    strengths = data.draw_strengths(owners, rng)
    x = data.prepare(data.shadow.x, strengths)
    examples = Examples(x, data.shadow.y)
    epochs = loop.passes(network, examples, training, rng, data.prepare)
    for _ in range(warm.epochs):
        next(epochs)
    return network.weights()


def evaluate(
    run: Run,
    data: Federation,
    network: Network,
    clients: Sequence[int],
    models: Sequence[Weights],
    stream: Stream,
) -> Evaluation:
    """Compute loss and accuracy of every model on the training examples of ``clients``.

    The clients are consecutive; models are in evaluation mode.
    """
    first = data.offsets[clients[0]]
    last = data.offsets[clients[-1] + 1]
    x = data.train.x[first:last]
    y = data.train.y[first:last]
    starts = data.offsets[list(clients)] - first
    sizes = data.sizes[list(clients)]
    selected = selection_examples(run, sizes.tolist(), stream, clients)
    shape = (3, len(clients), len(models))
    found = Evaluation(*np.empty(shape))
    for j, weights in enumerate(models):
        network.load(weights)
        logits = network.logits(x)
        losses = cross_entropies(logits, y)
        hits = (logits.argmax(1) == y).astype(np.float64)
        means = np.add.reduceat(losses, starts) / sizes
        found.losses[:, j] = means
        right = np.add.reduceat(hits, starts)
        found.accuracies[:, j] = right / sizes
        found.selection[:, j] = means
        for i, positions in enumerate(selected):
            if positions is not None:
                few = losses[starts[i] + positions]
                found.selection[i, j] = few.mean()
    return found


def sum_updates(
    run: Run,
    trained: TrainedBlock,
    clients: Sequence[int],
    models: Sequence[Weights],
    assignment: Ints,
    examples: Ints,
) -> dict[int, PartialSum]:
    """Clip the block's updates with the privacy slot, and sum them for each chosen cluster.

    An update that the privacy slot scales by zero, such as one that is not finite, counts as none:
    it is zero, and the client's running statistics are those that it was sent. ``clients`` ascend;
    ``assignment`` is the model of each, and ``examples`` its number of training examples.
    """
    updates = np.empty_like(trained.params)
    for i, j in enumerate(assignment.tolist()):
        sent = models[j].params
        np.subtract(trained.params[i], sent, out=updates[i])
    norms, scales = server.clip(run, updates)
    buffers = trained.buffers.copy()
    for dropped in np.flatnonzero(scales == 0):
        buffers[dropped] = models[assignment[dropped]].buffers
    weights = server.weigh(run, examples)
    needed = server.needs_updates(run)
    parts = {}
    for j in np.unique(assignment):
        here = assignment == j
        # A slice of all clients is a view and not a copy.
        mine: Any = slice(None) if here.all() else np.flatnonzero(here)
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
    """Measure the Hessian at each client's trained model, on the same examples in every round.

    They are divided into so many ``parts``: the even and the odd places of the order in which they
    were drawn are two halves, with start vectors and labels of their own.

    Returns:
        [clients, parts, 3] top eigenvalue, trace and the trace's standard error
        (`hessian.spectrum`); NaN for a client with fewer examples than parts.
    """
    shape = (len(clients), parts, 3)
    spectra = np.full(shape, np.nan)
    for i, client in enumerate(clients):
        weights = Weights(trained.params[i], trained.buffers[i])
        network.load(weights)
        examples = data.client(client)
        order = stream("curvature_examples", client).permutation(len(examples))
        order = order[: run.curvature.examples]
        if len(order) < parts:
            continue
        for part in range(parts):
            chosen = np.sort(order[part::parts])
            place = (1 + part,) if parts > 1 else ()
            rng = stream("curvature_probes", client, *place)
            spectra[i, part] = hessian.spectrum(
                network,
                examples.x[chosen],
                examples.y[chosen],
                run.curvature,
                rng,
            )
    return spectra
