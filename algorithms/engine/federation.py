"""Whole federations in one process: the steps of a round, without actors, choice of models, attacks or files.

Shadow models and replicas of a run are trained this way. `orchestrator.trial.loop` does the same steps for a run.

Federations that differ only in their examples and random numbers are trained at once, as one federation with the clients
of all: of R federations with K clients and M models each, client i of federation r is client r K + i, and its model j is
model r M + j. So the engine trains the clients of one block of all federations together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from algorithms.core.messages import Doubles, Ints, PartialSum, Weights, empty_updates, gather
from algorithms.core.network import Network
from algorithms.engine import block as work
from algorithms.engine import curvatures, server
from algorithms.interfaces import Run, State
from datasets.federation import Examples, Federation

Stream = Callable[..., np.random.Generator]

ABSENT = -1  # in place of the number of its model, for a client that does not take part in a round


def train_model(
    run: Run,
    data: Federation,
    network: Network,
    rounds: int,
    stream: Stream,
    took_part: NDArray[np.bool_] | None = None,
) -> Weights:
    """Train one model on all clients of a federation, from its initial weights.

    Args:
        run: the components, and their fields; its clustering, attacks, seed and number of rounds are ignored.
        data: the federation.
        network: the module to train with.
        rounds: number of rounds.
        stream: ``stream(purpose, *place)`` returns a random generator; the place is the round, then the client.
        took_part: [rounds, clients] who takes part in which round; None: as the run samples clients.

    Returns:
        The model after the last round.

    Raises:
        FloatingPointError: the training diverged.
    """
    network.load(network.initial(stream("initial_weights")))
    model = work.pretrain(run, data, network, stream("pretraining"))
    history = np.full((rounds, data.clients), ABSENT)
    if took_part is not None:
        history[took_part] = 0
    for round_, present in enumerate(history) if took_part is None else ():
        rng = stream("participation", round_)
        present[server.sample_cohort(run.participation, run.participation_rate, data.clients, rng)] = 0
    unnumbered = lambda purpose, *place: stream(purpose, *(place[:1] if purpose == "noise" else place))  # noqa: E731
    return train_models(run, [data], network, [model], history, [unnumbered])[0][0]


def train_models(
    run: Run,
    data: Sequence[Federation],
    network: Network,
    models: Sequence[Weights],
    history: Ints,
    streams: Sequence[Stream],
) -> list[list[Weights]]:
    """Train several federations, in each of which it is known beforehand who trains which model in which round.

    Args:
        run: the components, and their fields; its clustering, attacks, seed, participation and rounds are ignored.
        data: the R federations, of K clients each.
        network: the module to train with.
        models: the M initial models, the same for every federation.
        history: [rounds, K] the model that each client trains, or `ABSENT`.
        streams: R functions; ``stream(purpose, *place)`` returns a random generator of that federation. The place is
            the round, then the client or, for the server's noise, the model; (round, 1) for the participation's order
            of visiting; that of curvatures is the client alone.

    Returns:
        The models of each federation after the last round.

    Raises:
        FloatingPointError: the training of one of them diverged.
    """
    whole, begun = _join(data), list(models) * len(data)
    state = _State(
        begun, [server.begin(run, model) for model in begun], server.initial_statistics(run, whole.clients), {}
    )
    for round_, plan in enumerate(history):
        _round(run, whole, network, state, plan, round_, streams)
        if not np.isfinite([model.params.sum(dtype=np.float64) for model in state.models]).all():
            raise FloatingPointError(f"a weight is no longer finite in round {round_ + 1}")
    own = len(models)
    return [state.models[own * r : own * (r + 1)] for r in range(len(data))]


@dataclass
class _State:
    """What the next round depends on; clients and models are those of all federations, one federation after another.

    Attributes:
        models: the models.
        servers: the aggregation's own state, of each model.
        statistics: client statistics, [clients] by name.
        optimizers: states of the clients' optimizers, [clients, ...] by name.
    """

    models: list[Weights]
    servers: list[State]
    statistics: dict[str, Doubles]
    optimizers: dict[str, np.ndarray]


def _join(data: Sequence[Federation]) -> Federation:
    """Return the federation that has the clients of all."""
    if len(data) == 1:
        return data[0]
    sizes = np.concatenate([one.sizes for one in data])
    return replace(
        data[0],
        train=Examples(np.concatenate([one.train.x for one in data]), np.concatenate([one.train.y for one in data])),
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        groups=np.concatenate([one.groups for one in data]),
        strengths=np.concatenate([one.strengths for one in data]),
        example_strengths=np.concatenate([one.example_strengths for one in data]),
    )


def _round(
    run: Run, whole: Federation, network: Network, state: _State, plan: Ints, round_: int, streams: Sequence[Stream]
) -> None:
    """Train the clients that take part and update the models; ``plan`` is the round's row of the history."""
    own, size = len(state.models) // len(streams), network.layout.size
    noise = [server.draw_noise(run, size, stream("noise", round_, j)) for stream in streams for j in range(own)]
    parts = _train(run, whole, network, state, plan, round_, streams)
    _rank(run, state, plan, round_, streams)
    weights = np.zeros(whole.clients)
    for k, model in enumerate(state.models):
        if mine := [part[k] for part in parts if k in part]:
            received = gather(mine, network.layout, state.statistics)
        elif run.privacy.module.covers_empty_rounds(run.privacy.config):
            received = empty_updates(size, model.buffers, network.layout)
        else:
            continue
        after = server.step(run, state.servers[k], model, received, noise[k])
        state.models[k], state.servers[k] = after.model, after.state
        weights[received.clients] = after.weights
    state.statistics["weight"] = weights


def _train(
    run: Run, whole: Federation, network: Network, state: _State, plan: Ints, round_: int, streams: Sequence[Stream]
) -> list[Mapping[int, PartialSum]]:
    """Train the clients that take part, the same block of all federations at a time; return the blocks' sums."""
    clients, parts = len(plan), list[Mapping[int, PartialSum]]()
    federations, models = np.arange(len(streams))[:, None], len(state.models) // len(streams)
    local = lambda purpose, client: streams[client // clients](purpose, round_, client % clients)  # noqa: E731
    fixed = lambda purpose, client: streams[client // clients](purpose, client % clients)  # noqa: E731
    size, cohort = run.training.config.block_size, np.flatnonzero(plan != ABSENT)
    for at in range(0, clients, size):
        present = cohort[(cohort >= at) & (cohort < at + size)]
        if not len(present):
            continue
        those = (federations * clients + present).ravel()
        chosen = (federations * models + plan[present]).ravel()
        sent = {name: values[those] for name, values in state.statistics.items()}
        states = {name: values[those] for name, values in state.optimizers.items()}
        assigned = work.Assignment(those.tolist(), chosen, round_, sent, states)
        trained = work.train(run, whole, network, state.models, assigned, local)
        measured = curvatures.measure_curvatures(run, whole, network, those.tolist(), trained, fixed)
        server.keep(state.statistics, whole.clients, those, measured | {"train_loss": trained.loss})
        server.keep(state.optimizers, whole.clients, those, trained.optimizer_states)
        parts.append(work.sum_updates(run, trained, those.tolist(), state.models, chosen, whole.sizes[those]))
    return parts


def _rank(run: Run, state: _State, plan: Ints, round_: int, streams: Sequence[Stream]) -> None:
    """Rank the clients that took part, each among those of its own federation that trained the same model."""
    cohort, clients = np.flatnonzero(plan != ABSENT), len(plan)
    if not len(cohort) or not run.measures_curvature:
        return
    ranked = []
    for r, stream in enumerate(streams):
        own = {name: values[r * clients : (r + 1) * clients] for name, values in state.statistics.items()}
        ranked.append(server.rank_clients(run, own, cohort, plan, stream("participation", round_, 1)))
    state.statistics |= {name: np.concatenate([one[name] for one in ranked]) for name in ranked[0]}
