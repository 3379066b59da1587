"""A whole federation with a single model in one process: the steps of a round, without actors, choice, attacks or files.

Shadow models that imitate a run are trained this way. `orchestrator.trial.loop` does the same steps for a run.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from algorithms.core.messages import Doubles, Weights, empty_updates, gather
from algorithms.core.network import Network
from algorithms.engine import block as work
from algorithms.engine import curvatures, server
from algorithms.interfaces import Run, State
from datasets.federation import Federation

Stream = Callable[..., np.random.Generator]


def train_model(run: Run, data: Federation, network: Network, rounds: int, stream: Stream) -> Weights:
    """Train one model on all clients of a federation, from its initial weights.

    Args:
        run: the components, and their fields; its clustering, attacks, seed and number of rounds are ignored.
        data: the federation.
        network: the module to train with.
        rounds: number of rounds.
        stream: ``stream(purpose, *place)`` returns a random generator; the place is the round, then the client.

    Returns:
        The model after the last round.

    Raises:
        FloatingPointError: the training diverged.
    """
    network.load(network.initial(stream("initial_weights")))
    model = work.pretrain(run, data, network, stream("pretraining"))
    state, optimizers = server.begin(run, model), dict[str, np.ndarray]()
    statistics = server.initial_statistics(run, data.clients)
    for round_ in range(rounds):
        model, state = _round(run, data, network, (model, state), (statistics, optimizers), round_, stream)
        if not np.isfinite(model.params.sum(dtype=np.float64)):
            raise FloatingPointError(f"a weight is no longer finite in round {round_ + 1}")
    return model


def _round(
    run: Run,
    data: Federation,
    network: Network,
    held: tuple[Weights, State],
    kept: tuple[dict[str, Doubles], dict[str, np.ndarray]],
    round_: int,
    stream: Stream,
) -> tuple[Weights, State]:
    """Train the sampled clients and update the model; ``kept``, the clients' statistics and optimizers, is updated."""
    (model, state), (statistics, optimizers) = held, kept
    rng = stream("participation", round_)
    cohort = server.sample_cohort(run.participation, run.participation_rate, data.clients, rng)
    noise = server.draw_noise(run, network.layout.size, stream("noise", round_))
    parts, size = [], run.training.config.block_size
    for at in range(0, data.clients, size):
        clients = cohort[(cohort >= at) & (cohort < at + size)]
        if not len(clients):
            continue
        sent = {name: values[clients] for name, values in statistics.items()}
        states = {name: values[clients] for name, values in optimizers.items()}
        alone = np.zeros(len(clients), np.int64)
        assigned = work.Assignment(clients.tolist(), alone, round_, sent, states)
        own = lambda purpose, client: stream(purpose, round_, client)  # noqa: E731
        trained = work.train(run, data, network, [model], assigned, own)
        measured = curvatures.measure_curvatures(run, data, network, clients.tolist(), trained, stream)
        server.keep(statistics, data.clients, clients, measured)
        server.keep(optimizers, data.clients, clients, trained.optimizer_states)
        parts.append(work.sum_updates(run, trained, clients.tolist(), [model], alone, data.sizes[clients])[0])
    if parts:
        everyone = np.zeros(data.clients, np.int64)
        statistics |= server.rank_clients(run, statistics, cohort, everyone, stream("participation", round_, 1))
        received = gather(parts, network.layout, statistics)
    elif run.privacy.module.covers_empty_rounds(run.privacy.config):
        received = empty_updates(network.layout.size, model.buffers, network.layout)
    else:
        return model, state
    after = server.step(run, state, model, received, noise)
    return after.model, after.state
