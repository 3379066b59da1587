"""The unit of work: what a fixed block of clients does in a round, as pure functions of what the server sent.

Whoever runs a block, and however often, the bytes are the same: every client has a generator of its own, the backends are
deterministic, and sums are taken in the order of client ids, in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from algorithms.core.gram import lengths
from algorithms.core.messages import Doubles, Evaluation, Ints, PartialSum, Weights, weighted_sum
from algorithms.core.network import Network, as_tensor
from algorithms.curvature import hessian, ranking
from algorithms.engine.augmentation import draw_crops
from algorithms.engine.backends import loop, vmap
from algorithms.engine.backends.context import NOTHING, Draws, generator
from algorithms.engine.backends.optimizers import Optimizer, optimizer_state, resume_optimizer
from algorithms.training import local_sgd
from datasets.federation import DataError, Federation

Stream = Callable[[str, int], np.random.Generator]


@dataclass(frozen=True)
class TrainedBlock:
    """A block after local training: ``params`` [clients, d], ``buffers`` [clients, b], mean training ``loss`` [clients].

    ``carried`` is what the clients' optimizers keep for the next round, [clients, ...] each by name; mostly nothing.
    """

    params: NDArray[np.float32]
    buffers: NDArray[np.float32]
    loss: Doubles
    carried: dict[str, np.ndarray] = field(default_factory=dict)


def selection_examples(run: Any, sizes: Sequence[int], stream: Stream, clients: Sequence[int]) -> Sequence[Ints | None]:
    """Positions of each client's examples, ``sizes`` many, on which it compares models; None stands for all of them."""
    clustering = run.clustering.config
    if getattr(clustering, "selection", "full") == "full":
        return [None] * len(clients)
    return [
        stream("selection", client).choice(examples, size=min(examples, clustering.selection_batch), replace=False)
        for client, examples in zip(clients, sizes, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class LocalWork:
    """A block's local training; all but ``models`` has one entry for each client.

    Attributes:
        models: what was sent out.
        begins_with: the model that each of them starts from, positions in ``models``.
        batches: positions in their own examples, [steps, batch] each, padded with -1.
        told: what the server told them, [clients] each by name.
        carried: what their optimizers kept from the round before, [clients, ...] each by name.
        begin: the optimizer for what was ``carried`` and a shape, (d,) or (clients, d).
    """

    clients: Sequence[int]
    models: Sequence[Weights]
    begins_with: Ints
    batches: list[Ints]
    draws: Sequence[Draws]
    objective: Any
    told: dict[str, torch.Tensor]
    carried: Mapping[str, np.ndarray]
    begin: Callable[..., Optimizer]


def train(
    run: Any,
    data: Federation,
    network: Network,
    clients: Sequence[int],
    models: Sequence[Weights],
    assignment: Ints,
    round_: int,
    stream: Stream,
    told: Mapping[str, Any],
    carried: Mapping[str, np.ndarray] | None = None,
) -> TrainedBlock:
    """Local training of ``clients``, each from ``models[assignment[i]]`` (both in the block's order).

    ``stream(purpose, client)`` gives the generator of one client and purpose in this round, ``told`` is what the server knows
    of each client by name, [clients] each, ``carried`` what `TrainedBlock` held of their optimizers after the round before.
    Raises ValueError where these examples cannot be trained on as the run wants.
    """
    training, component, objective = run.training.config, run.training.module, run.objective
    sizes = data.sizes[list(clients)].tolist()
    batches = [
        component.schedule(training, examples, chosen_with, stream("batches", client))
        for client, examples, chosen_with in zip(
            clients, sizes, selection_examples(run, sizes, stream, clients), strict=True
        )
    ]
    draws = _draws(run, data, network, batches, clients, stream)
    wanted = set(getattr(objective.module, "CONTEXT", ())) & set(told)
    known = {name: torch.as_tensor(told[name], dtype=torch.float32, device=network.device) for name in wanted}
    begin = partial(resume_optimizer, training, component.learning_rate(training, round_), device=network.device)
    work = LocalWork(clients, models, assignment, batches, draws, objective, known, carried or {}, begin)
    return (_train_together if getattr(training, "backend", "loop") == "vmap" else _train_in_turn)(work, data, network)


def _train_in_turn(work: LocalWork, data: Federation, network: Network) -> TrainedBlock:
    each = []
    for i, client in enumerate(work.clients):
        network.load(work.models[work.begins_with[i]])
        told = {name: values[i] for name, values in work.told.items()}
        optimizer = work.begin({name: values[i] for name, values in work.carried.items()}, (network.layout.size,))
        mine = data.client(client)
        loss = loop.train(network, mine.x, mine.y, work.batches[i], optimizer, work.objective, told, work.draws[i])
        each.append((network.weights(), loss, optimizer_state(optimizer)))
    return TrainedBlock(
        np.stack([weights.params for weights, _, _ in each]),
        np.stack([weights.buffers for weights, _, _ in each]),
        np.array([loss for _, loss, _ in each]),
        {name: np.stack([memory[name] for _, _, memory in each]) for name in each[0][2]},
    )


def _train_together(work: LocalWork, data: Federation, network: Network) -> TrainedBlock:
    sent = torch.stack([as_tensor(weights.params) for weights in work.models]).to(network.device)
    start = sent[torch.as_tensor(work.begins_with, device=network.device)]
    first = data.offsets[list(work.clients)]
    rows = [np.where(own < 0, own, own + at) for own, at in zip(work.batches, first, strict=True)]
    optimizer, examples = work.begin(work.carried, tuple(start.shape)), data.train
    params, loss = vmap.train(
        network, start, examples.x, examples.y, rows, optimizer, work.objective, work.told, work.draws
    )
    return TrainedBlock(params.cpu().numpy(), np.zeros((len(start), 0), np.float32), loss, optimizer_state(optimizer))


def _draws(
    run: Any, data: Federation, network: Network, plans: Sequence[Ints], clients: Sequence[int], stream: Stream
) -> list[Draws]:
    """What each client draws in this round besides its batches, the ``plans``."""
    noisy, probing = hasattr(run.training.module, "private_gradient"), hasattr(run.objective.module, "carry")
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


def measure_curvatures(
    run: Any, data: Federation, network: Network, clients: Sequence[int], trained: TrainedBlock, stream: Stream
) -> dict[str, Doubles]:
    """Top eigenvalue and trace of the Hessian at each client's trained model, [clients] each; nothing unless a component asks.

    Every client measures on a subset of its examples that is the same in every round.
    """
    wanted = ranking.wanted(run)
    if wanted is None:
        return {}
    found = []
    for i, client in enumerate(clients):
        network.load(Weights(trained.params[i], trained.buffers[i]))
        mine, most = data.client(client), wanted.curvature_examples
        chosen = np.sort(stream("curvature_examples", client).permutation(len(mine))[:most])
        found.append(
            hessian.spectrum(network, mine.x[chosen], mine.y[chosen], wanted, stream("curvature_probes", client))
        )
    lambda_max, trace = np.array(found, np.float64).reshape(-1, 2).T
    return {"lambda_max": lambda_max, "hessian_trace": trace}


def pretrain(run: Any, data: Federation, network: Network, rng: np.random.Generator) -> Weights:
    """What `network` holds, trained further on the server's own examples where the aggregation starts warm."""
    config = run.aggregation.config
    epochs = getattr(config, "warm_start_epochs", 0)
    if epochs and not len(data.shadow):
        raise DataError(
            f"{run.aggregation.name} starts from a model trained on the server's own examples, and {data.name} was dealt so "
            f"that there are none; set data.shadow_size, or aggregation.warm_start_epochs to 0"
        )
    if epochs:
        own, lr, batch_size = run.training.config, config.warm_start_lr, config.warm_start_batch
        given = {"optimizer": "adam", "lr": lr, "batch_size": batch_size}
        training = local_sgd.Config.model_validate(given | {"device": own.device, "precision": own.precision})
        examples = data.prepare(data.shadow.x, data.draw_strengths(np.arange(len(data.shadow)) % data.clients, rng))
        for _ in islice(loop.passes(network, examples, data.shadow.y, training, rng, data.prepare), epochs):
            pass
    return network.weights()


def evaluate(
    run: Any,
    data: Federation,
    network: Network,
    clients: Sequence[int],
    models: Sequence[Weights],
    stream: Stream,
) -> Evaluation:
    """Loss and accuracy of every model on the training examples of ``clients``, in evaluation mode."""
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
    run: Any,
    trained: TrainedBlock,
    clients: Sequence[int],
    models: Sequence[Weights],
    assignment: Ints,
    examples: Ints,
) -> dict[int, PartialSum]:
    """The block's updates, bounded by the privacy slot and summed for each cluster that any of its clients chose."""
    updates = np.empty_like(trained.params)
    for update, params, j in zip(updates, trained.params, assignment, strict=True):
        np.subtract(params, models[j].params, out=update)
    norms = lengths(updates)
    scales = run.privacy.module.bound(run.privacy.config, norms)
    weights = run.aggregation.module.weigh(run.aggregation.config, examples)
    needed = "updates" in (run.aggregation.module.NEEDS, run.privacy.module.NEEDS)
    parts = {}
    for j in np.unique(assignment):
        mine: Any = np.flatnonzero(assignment == j)
        mine = slice(None) if len(mine) == len(assignment) else mine  # all of them are a view, not a copy
        parts[int(j)] = PartialSum(
            clients=np.asarray(clients)[mine],
            weights=weights[mine],
            norms=norms[mine],
            scales=scales[mine],
            total=weighted_sum(weights[mine] * scales[mine], updates[mine]),
            buffers=weighted_sum(weights[mine], trained.buffers[mine]),
            updates=updates[mine] if needed else None,
            own_buffers=trained.buffers[mine] if needed else None,
        )
    return parts
