"""The unit of work: what a fixed block of clients does in a round, as pure functions of what the server sent.

Whoever runs a cohort, and however often, the bytes are the same: every client has a generator of its own, the backends are
deterministic, and sums are taken in the order of client ids, in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from algorithms.backends import loop, vectorised
from algorithms.backends.optimizers import Optimizer
from algorithms.messages import Doubles, Evaluated, Ints, Partial, Weights
from algorithms.network import Network, as_tensor
from algorithms.training.local_sgd import learning_rate, schedule
from datasets.federation import Federation

Stream = Callable[[str, int], np.random.Generator]


@dataclass(frozen=True)
class Trained:
    """A cohort after local training: ``params`` [clients, d], ``buffers`` [clients, b], mean training ``loss`` [clients]."""

    params: NDArray[np.float32]
    buffers: NDArray[np.float32]
    loss: Doubles


def selection_records(run: Any, records: int, rng: np.random.Generator) -> Ints | None:
    """Positions of a client's records on which it compares models; None stands for all of them."""
    clustering = run.clustering.config
    if getattr(clustering, "selection", "full") == "full":
        return None
    return rng.choice(records, size=min(records, clustering.selection_batch), replace=False)


def train(
    run: Any,
    data: Federation,
    network: Network,
    clients: Sequence[int],
    models: Sequence[Weights],
    assignment: Ints,
    round_: int,
    stream: Stream,
    context: dict[str, torch.Tensor],
) -> Trained:
    """Local training of ``clients``, each from ``models[assignment[i]]`` (both in the cohort's order).

    ``stream(purpose, client)`` gives the generator of one client and purpose in this round.
    """
    training = run.training.config
    plans = []
    for client in clients:
        records = int(data.sizes[client])
        chosen_with = selection_records(run, records, stream("selection", client))
        plans.append(schedule(training, records, chosen_with, stream("batches", client)))
    optimizer = lambda: Optimizer(training, learning_rate(training, round_))  # noqa: E731
    if training.backend == "vmap":
        return _together(data, network, clients, models, assignment, plans, optimizer(), run.objective, context)
    trained = []
    for i, client in enumerate(clients):
        network.load(models[assignment[i]])
        own = {name: values[i] for name, values in context.items()}
        mine = data.client(client)
        loss = loop.train(network, mine.x, mine.y, plans[i], optimizer(), run.objective, own)
        trained.append((network.weights(), loss))
    return Trained(
        np.stack([weights.params for weights, _ in trained]),
        np.stack([weights.buffers for weights, _ in trained]),
        np.array([loss for _, loss in trained]),
    )


def _together(
    data: Federation,
    network: Network,
    clients: Sequence[int],
    models: Sequence[Weights],
    assignment: Ints,
    plans: list[Ints],
    optimizer: Optimizer,
    objective: Any,
    context: dict[str, torch.Tensor],
) -> Trained:
    start = torch.stack([as_tensor(models[j].params) for j in assignment]).to(network.device)
    rows = [np.where(plan < 0, plan, plan + data.offsets[client]) for plan, client in zip(plans, clients, strict=True)]
    params, loss = vectorised.train(network, start, data.train.x, data.train.y, rows, optimizer, objective, context)
    return Trained(params.cpu().numpy(), np.zeros((len(clients), 0), np.float32), loss)


def evaluate(
    run: Any,
    data: Federation,
    network: Network,
    clients: Sequence[int],
    models: Sequence[Weights],
    stream: Stream,
) -> Evaluated:
    """Loss and accuracy of every model on the training records of ``clients``, in evaluation mode."""
    first, last = data.offsets[clients[0]], data.offsets[clients[-1] + 1]
    x, y = data.train.x[first:last], data.train.y[first:last]
    starts = data.offsets[list(clients)] - first
    shape = (len(clients), len(models))
    losses, accuracies, selection = np.empty(shape), np.empty(shape), np.empty(shape)
    chosen = [selection_records(run, int(data.sizes[c]), stream("selection", c)) for c in clients]
    for j, weights in enumerate(models):
        network.load(weights)
        logits = network.logits(x)
        record_losses, hits = cross_entropies(logits, y), (logits.argmax(1) == y).astype(np.float64)
        losses[:, j] = np.add.reduceat(record_losses, starts) / data.sizes[list(clients)]
        accuracies[:, j] = np.add.reduceat(hits, starts) / data.sizes[list(clients)]
        selection[:, j] = [
            losses[i, j] if picked is None else record_losses[starts[i] + picked].mean()
            for i, picked in enumerate(chosen)
        ]
    return Evaluated(losses, accuracies, selection)


def cross_entropies(logits: NDArray[np.float32], y: Ints) -> Doubles:
    """Cross-entropy [n] in nats of each record, in float64, from logits [n, classes]."""
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    return np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(y)), y]


def summed(
    run: Any,
    trained: Trained,
    clients: Sequence[int],
    models: Sequence[Weights],
    assignment: Ints,
    examples: Ints,
) -> dict[int, Partial]:
    """The cohort's updates, bounded by the privacy slot and summed for each cluster that any of its clients chose."""
    sent = np.stack([weights.params for weights in models])
    updates = run.privacy.module.bound(run.privacy.config, trained.params - sent[assignment])
    weights = run.aggregation.module.weigh(run.aggregation.config, examples)
    parts = {}
    for j in np.unique(assignment):
        mine = np.flatnonzero(assignment == j)
        parts[int(j)] = Partial(
            clients=np.asarray(clients)[mine],
            weights=weights[mine],
            total=_weighted_sum(weights[mine], updates[mine]),
            buffers=_weighted_sum(weights[mine], trained.buffers[mine]),
            updates=updates[mine] if run.aggregation.module.NEEDS == "updates" else None,
        )
    return parts


def _weighted_sum(weights: Doubles, rows: NDArray[np.float32]) -> Doubles:
    total = np.zeros(rows.shape[1])
    for weight, row in zip(weights, rows, strict=True):
        total += weight * row
    return total
