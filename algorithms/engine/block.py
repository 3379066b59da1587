"""The unit of work: what a fixed block of clients computes in a round, as pure functions of what the server sent.

The bytes are the same no matter which process runs a block, and how often: every client has its own generator, the
backends are deterministic, and sums are taken in the order of client ids, in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from algorithms.core.configs import TrainingConfig
from algorithms.core.messages import Assignment, Doubles, Evaluation, Floats, Ints, PartialSum, Weights, weighted_sum
from algorithms.core.network import Network, as_tensor
from algorithms.curvature import hessian
from algorithms.engine import server
from algorithms.engine.augmentation import draw_crops
from algorithms.engine.backends import loop, vmap
from algorithms.engine.backends.client_inputs import NOTHING, Draws, generator
from algorithms.engine.backends.optimizers import Optimizer, optimizer_state, resume_optimizer
from algorithms.interfaces import Run, TrainingContract
from algorithms.training import local_sgd
from datasets.components import Component
from datasets.federation import DataError, Examples, Federation

Stream = Callable[..., np.random.Generator]


@dataclass(frozen=True)
class TrainedBlock:
    """A block after local training.

    Attributes:
        params: [clients, d] trained parameters.
        buffers: [clients, b] running statistics.
        loss: [clients] mean training loss in nats.
        optimizer_states: the clients' optimizer states for the next round, [clients, ...] by name; usually empty.
    """

    params: NDArray[np.float32]
    buffers: NDArray[np.float32]
    loss: Doubles
    optimizer_states: dict[str, np.ndarray] = field(default_factory=dict)


def selection_examples(run: Run, sizes: Sequence[int], stream: Stream, clients: Sequence[int]) -> Sequence[Ints | None]:
    """Draw the examples on which each client compares models: positions in its own examples, or None for all of them.

    ``sizes`` are the clients' numbers of examples; ``stream(purpose, client)`` returns a client's generator.
    """
    most = run.clustering.module.selection_size(run.clustering.config)
    if most is None:
        return [None] * len(clients)
    return [
        stream("selection", client).choice(examples, size=min(examples, most), replace=False)
        for client, examples in zip(clients, sizes, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class LocalWork:
    """The inputs of a block's local training, with everything random already drawn; one entry per client.

    Attributes:
        batches: positions in the client's own examples, [steps, batch] each, padded with -1.
        draws: the other random numbers.
        statistics: client statistics that the objective reads, [clients] by name.
        begin: creates the optimizer from a stored state and a shape, (d,) or (clients, d).
    """

    batches: list[Ints]
    draws: Sequence[Draws]
    statistics: dict[str, torch.Tensor]
    begin: Callable[..., Optimizer]


def train(
    run: Run, data: Federation, network: Network, models: Sequence[Weights], assigned: Assignment, stream: Stream
) -> TrainedBlock:
    """Train a block, each client from the model that it chose.

    Args:
        run: the components, and their fields.
        data: all clients' examples.
        network: the module to train with.
        models: the models that the server sent.
        assigned: the clients and their inputs.
        stream: ``stream(purpose, client)`` returns the generator of one client and purpose in this round.

    Raises:
        ValueError: the training component cannot train on examples of this shape.
    """
    training, module, clients = run.training.config, run.training.module, assigned.clients
    sizes = data.sizes[list(clients)].tolist()
    batches = [
        module.schedule(training, examples, chosen_with, stream("batches", client))
        for client, examples, chosen_with in zip(
            clients, sizes, selection_examples(run, sizes, stream, clients), strict=True
        )
    ]
    draws = _draws(run, data, network, batches, clients, stream)
    needed = set(run.objective.module.NEEDS) & set(assigned.statistics)
    statistics = {
        name: torch.as_tensor(assigned.statistics[name], dtype=torch.float32, device=network.device) for name in needed
    }
    begin = partial(resume_optimizer, training, module.learning_rate(training, assigned.round), device=network.device)
    work = LocalWork(batches, draws, statistics, begin)
    train_block = _train_together if trains_together(run) else _train_in_turn
    return train_block(run, data, network, models, assigned, work)


def trains_together(run: Run) -> bool:
    """Return whether a block's clients are trained at once and not one after another."""
    training = run.training.config
    return isinstance(training, local_sgd.Config) and training.backend == "vmap"


def _train_in_turn(
    run: Run, data: Federation, network: Network, models: Sequence[Weights], assigned: Assignment, work: LocalWork
) -> TrainedBlock:
    each = []
    for i, client in enumerate(assigned.clients):
        network.load(models[assigned.chosen[i]])
        statistics = {name: values[i] for name, values in work.statistics.items()}
        state = {name: values[i] for name, values in assigned.optimizer_states.items()}
        optimizer, mine = work.begin(state, (network.layout.size,)), data.client(client)
        gradient = loop.client_gradient(network, run.training, run.objective, mine, statistics, work.draws[i])
        loss = loop.train(network, mine.x, mine.y, work.batches[i], optimizer, gradient, work.draws[i])
        each.append((network.weights(), loss, optimizer_state(optimizer)))
    return TrainedBlock(
        np.stack([weights.params for weights, _, _ in each]),
        np.stack([weights.buffers for weights, _, _ in each]),
        np.array([loss for _, loss, _ in each]),
        {name: np.stack([state[name] for _, _, state in each]) for name in each[0][2]},
    )


def _train_together(
    run: Run, data: Federation, network: Network, models: Sequence[Weights], assigned: Assignment, work: LocalWork
) -> TrainedBlock:
    sent = torch.stack([as_tensor(weights.params) for weights in models]).to(network.device)
    start = sent[torch.as_tensor(assigned.chosen, device=network.device)]
    first = data.offsets[list(assigned.clients)]
    rows = [np.where(own < 0, own, own + at) for own, at in zip(work.batches, first, strict=True)]
    optimizer, examples = work.begin(assigned.optimizer_states, tuple(start.shape)), data.train
    params, loss = vmap.train(
        network, start, examples.x, examples.y, rows, optimizer, run.objective, work.statistics, work.draws
    )
    return TrainedBlock(params.cpu().numpy(), np.zeros((len(start), 0), np.float32), loss, optimizer_state(optimizer))


def _draws(
    run: Run, data: Federation, network: Network, plans: Sequence[Ints], clients: Sequence[int], stream: Stream
) -> list[Draws]:
    """Draw each client's random numbers of this round, except for its batches, which are ``plans``."""
    noisy, probing = run.training.module.PRIVATE_STEPS, run.objective.module.ITERATES
    augmenting = run.training.config.augment != "none"
    if not (noisy or probing or augmenting or network.random):
        return [NOTHING] * len(clients)

    def own(client: int, plan: Ints) -> Draws:
        chance = stream("augmentation", client)
        return Draws(
            dropout=int(chance.integers(2**63)) if network.random else None,
            crops=draw_crops(run.training.config, plan, data.shape, data.prepare, chance),
            noise=generator(stream("gradient_noise", client), network.device) if noisy else None,
            probes=generator(stream("probes", client), network.device) if probing else None,
        )

    return [own(client, plan) for client, plan in zip(clients, plans, strict=True)]


def pretrain(run: Run, data: Federation, network: Network, rng: np.random.Generator) -> Weights:
    """Train the network's weights on the server's own examples if the aggregation starts warm.

    Args:
        run: the components, and their fields.
        data: the federation, with the server's examples in ``shadow``.
        network: holds the initial weights.
        rng: draws everything random.

    Returns:
        The weights before the first round.

    Raises:
        DataError: the server has no examples.
    """
    warm = run.aggregation.module.warm_start(run.aggregation.config)
    if warm is None:
        return network.weights()
    if not len(data.shadow):
        raise DataError(
            f"{run.aggregation.name} starts from a model trained on the server's own examples, but the partition of "
            f"{data.name} gives it none; set data.shadow_size, or aggregation.warm_start_epochs to 0"
        )
    own = run.training.config
    fields = {"optimizer": "adam", "lr": warm.lr, "batch_size": warm.batch_size, "device": own.device}
    if isinstance(own, local_sgd.Config):
        fields["precision"] = own.precision
    config = local_sgd.Config.model_validate(fields)
    training: Component[TrainingContract, TrainingConfig] = Component("local_sgd", config, "algorithms.training")
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
    """Compute loss and accuracy of every model on the training examples of ``clients``, in evaluation mode.

    Args:
        run: the components, and their fields.
        data: all clients' examples.
        network: the module to compute with.
        clients: consecutive ids of clients.
        models: the models to evaluate.
        stream: ``stream(purpose, client)`` returns a client's generator.
    """
    first, last = data.offsets[clients[0]], data.offsets[clients[-1] + 1]
    x, y = data.train.x[first:last], data.train.y[first:last]
    starts = data.offsets[list(clients)] - first
    shape = (len(clients), len(models))
    losses, accuracies, selection = np.empty(shape), np.empty(shape), np.empty(shape)
    sizes = data.sizes[list(clients)]
    chosen = selection_examples(run, sizes.tolist(), stream, clients)
    for j, weights in enumerate(models):
        network.load(weights)
        logits = network.logits(x)
        example_losses, hits = cross_entropies(logits, y), (logits.argmax(1) == y).astype(np.float64)
        losses[:, j] = np.add.reduceat(example_losses, starts) / sizes
        accuracies[:, j] = np.add.reduceat(hits, starts) / sizes
        selection[:, j] = [
            losses[i, j] if picked is None else example_losses[starts[i] + picked].mean()
            for i, picked in enumerate(chosen)
        ]
    return Evaluation(losses, accuracies, selection)


def cross_entropies(logits: NDArray[np.float32], y: Ints) -> Doubles:
    """Cross-entropy [n] in nats of each example, in float64, from logits [n, classes]."""
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    return np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(y)), y]


def sum_updates(
    run: Run,
    trained: TrainedBlock,
    clients: Sequence[int],
    models: Sequence[Weights],
    assignment: Ints,
    examples: Ints,
) -> dict[int, PartialSum]:
    """Clip the block's updates with the privacy slot and sum them by cluster, for each cluster that a client chose.

    An update that the privacy slot scales by zero, such as one that is not finite, counts as none: it is zero, and the
    client's running statistics are those that it was sent.

    Args:
        run: the components, and their fields.
        trained: the clients' models.
        clients: ids of the clients, ascending.
        models: the models that the server sent.
        assignment: [clients] the model of each client.
        examples: [clients] numbers of training examples.
    """
    updates = np.empty_like(trained.params)
    for update, params, j in zip(updates, trained.params, assignment, strict=True):
        np.subtract(params, models[j].params, out=update)
    (norms, scales), buffers = server.clip(run, updates), trained.buffers
    if (dropped := np.flatnonzero(scales == 0)).size:
        buffers = buffers.copy()
        for i in dropped:
            buffers[i] = models[assignment[i]].buffers
    weights = server.weigh(run, examples)
    needed = "updates" in (run.aggregation.module.NEEDS, run.privacy.module.NEEDS)
    parts = {}
    for j in np.unique(assignment):
        mine: Any = np.flatnonzero(assignment == j)
        mine = slice(None) if len(mine) == len(assignment) else mine  # a slice of all clients is a view, not a copy
        parts[int(j)] = PartialSum(
            clients=np.asarray(clients)[mine],
            weights=weights[mine],
            norms=norms[mine],
            scales=scales[mine],
            total=server.add_up(weights[mine], scales[mine], updates[mine]),
            buffers=weighted_sum(weights[mine], buffers[mine]),
            updates=updates[mine] if needed else None,
            own_buffers=buffers[mine] if needed else None,
        )
    return parts


def measure_curvatures(
    run: Run, data: Federation, network: Network, clients: Sequence[int], trained: TrainedBlock, stream: Stream
) -> dict[str, Doubles]:
    """Measure the Hessian's top eigenvalue and trace at each client's trained model.

    Every client measures on examples that are the same in every round.

    Args:
        run: the components, and their fields.
        data: all clients' examples.
        network: the module to compute with.
        clients: ids of the clients.
        trained: their models.
        stream: ``stream(purpose, client)`` returns a client's generator.

    Returns:
        ``lambda_max``, ``hessian_trace`` and its standard error, ``hessian_trace_error``, [clients] each; empty if no
        component reads rho.
    """
    if not run.measures_curvature:
        return {}
    spectra = []
    for i, client in enumerate(clients):
        network.load(Weights(trained.params[i], trained.buffers[i]))
        mine, rng = data.client(client), stream("curvature_probes", client)
        chosen = np.sort(_drawn(run, len(mine), stream("curvature_examples", client)))
        spectra.append(hessian.spectrum(network, mine.x[chosen], mine.y[chosen], run.curvature, rng))
    lambda_max, trace, error = np.array(spectra, np.float64).reshape(-1, 3).T
    return {"lambda_max": lambda_max, "hessian_trace": trace, "hessian_trace_error": error}


def measure_halves(
    run: Run,
    data: Federation,
    network: Network,
    clients: Sequence[int],
    trained: TrainedBlock,
    stream: Stream,
    round_: int,
) -> Doubles | None:
    """Measure the same on two halves of each client's examples, in the rounds in which this is due.

    Nothing of the run depends on it. The halves are the even and the odd places of the order in which the examples of
    `measure_curvatures` were drawn, and have start vectors and labels of their own.

    Args:
        run: the components, and their fields.
        data: all clients' examples.
        network: the module to compute with.
        clients: ids of the clients.
        trained: their models.
        stream: ``stream(purpose, client, half)`` returns a generator, ``stream(purpose, client)`` that of the draw.
        round_: the round, counted from 0.

    Returns:
        [clients, halves, 2] top eigenvalue and trace, NaN for a client with a single example; None if it is not due.
    """
    if not server.reliability_due(run, round_):
        return None
    found = np.full((len(clients), 2, 2), np.nan)
    for i, client in enumerate(clients):
        network.load(Weights(trained.params[i], trained.buffers[i]))
        mine = data.client(client)
        drawn = _drawn(run, len(mine), stream("curvature_examples", client))
        for half in range(2) if len(drawn) > 1 else ():
            chosen, rng = np.sort(drawn[half::2]), stream("curvature_probes", client, 1 + half)
            found[i, half] = hessian.spectrum(network, mine.x[chosen], mine.y[chosen], run.curvature, rng)[:2]
    return found


def _drawn(run: Run, examples: int, rng: np.random.Generator) -> Ints:
    """Draw the positions of the examples on which a client measures, in the order of the draw."""
    return rng.permutation(examples)[: run.curvature.examples]


def only(assigned: Assignment, position: int) -> Assignment:
    """Return what one client of a block receives, given its position in the block."""
    here = slice(position, position + 1)
    return replace(
        assigned,
        clients=assigned.clients[here],
        chosen=assigned.chosen[here],
        statistics={name: values[here] for name, values in assigned.statistics.items()},
        optimizer_states={name: values[here] for name, values in assigned.optimizer_states.items()},
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
    """Repeat what one client of a block does in a round: the same examples and model, trained in the same way.

    With the generators that it had, the result is the same, bit for bit where clients are trained one after another.

    Args:
        run: the components, and their fields.
        data: all clients' examples.
        network: the module to train with, which afterwards holds some other weights.
        models: the models that the server sent.
        assigned: what the block received in this round.
        position: the client's position in the block.
        stream: ``stream(purpose, client)`` returns a generator.

    Returns:
        [d] the trained parameters.
    """
    return train(run, data, network, models, only(assigned, position), stream).params[0]


def silence(
    trained: TrainedBlock, assigned: Assignment, models: Sequence[Weights], silent: Collection[int]
) -> TrainedBlock:
    """Return the trained block in which silent clients have the model that they were sent, running statistics included.

    Their weight in the mean, their loss and their optimizer state stay.

    Args:
        trained: the block after local training.
        assigned: its clients and the models that they chose.
        models: the models that the server sent.
        silent: ids of the silent clients.
    """
    params, buffers = trained.params.copy(), trained.buffers.copy()
    for i in np.flatnonzero(np.isin(assigned.clients, list(silent))):
        sent = models[assigned.chosen[i]]
        params[i], buffers[i] = sent.params, sent.buffers
    return replace(trained, params=params, buffers=buffers)
