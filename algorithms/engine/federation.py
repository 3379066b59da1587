"""Federations in one process that train models as they are given: shadow models and replicas.

The round is that of a run (`algorithms.engine.round`), without choice of models, attacks or files.

Federations that differ only in their examples and random numbers are trained at once, as one
federation with the clients of all: of R federations with K clients and M models each, client i of
federation r is client r K + i, and its model j is model r M + j. So the engine trains the clients
of one block of all federations together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from algorithms.core.messages import Assignment, BlockResult, Ints, Weights
from algorithms.core.network import Network
from algorithms.engine import block as work
from algorithms.engine import server
from algorithms.engine.round import (
    EVERYTHING,
    Clients,
    LocalStreams,
    RoundState,
    Sending,
    Stream,
    advance,
    begin,
    train_block,
)
from algorithms.interfaces import Run
from datasets.federation import Examples, Federation

ABSENT = -1  # in place of the number of its model, for a client that does not take part in a round


def train_one_each(
    run: Run,
    data: Sequence[Federation],
    network: Network,
    rounds: int,
    streams: Sequence[Stream],
    took_part: NDArray[np.bool_] | None = None,
    begun: RoundState | None = None,
) -> RoundState:
    """Train one model on all clients of each of several federations.

    Args:
        run: the run; its clustering, attacks, seed and number of rounds are ignored.
        data: the R federations, of K clients each.
        network: the module to train with.
        rounds: number of rounds.
        streams: R functions; ``stream(purpose, *place)`` returns a random generator; the place is
            the round, then the client.
        took_part: [rounds, K] who takes part in which round; None: as the run samples clients, in
            each by itself.
        begun: the state after fewer rounds, from which the rest follows as it would without; None:
            the initial weights.

    Returns:
        Their state after so many ``rounds``.

    Raises:
        FloatingPointError: the training of one of them diverged.
    """
    clients = data[0].clients
    if begun is None:
        models = [
            initial_model(run, part, network, stream)
            for part, stream in zip(data, streams, strict=True)
        ]
        begun = begin(run, models, clients * len(data))
    if took_part is None:
        each = [cohorts(run, clients, rounds, stream) for stream in streams]
        history = np.stack(each, axis=1)
    else:
        history = np.where(took_part, 0, ABSENT)
    unnumbered = [partial(_unnumbered, stream) for stream in streams]
    everything = [EVERYTHING] * len(data)
    return _train(run, data, network, begun, history, unnumbered, everything)


def _unnumbered(stream: Stream, purpose: str, *place: int) -> np.random.Generator:
    """Return a generator whose place leaves out the number of the only model."""
    return stream(purpose, *(place[:1] if purpose == "noise" else place))


def initial_model(
    run: Run,
    data: Federation,
    network: Network,
    stream: Stream,
) -> Weights:
    """Return the model that a federation begins with, see `train_one_each`.

    It is pre-trained if the aggregation asks for it.
    """
    network.load(network.initial(stream("initial_weights")))
    return work.pretrain(run, data, network, stream("pretraining"))


def cohorts(
    run: Run,
    clients: int,
    rounds: int,
    stream: Stream,
) -> Ints:
    """Sample who trains the only model, 0, and who does not, `ABSENT`: [rounds, clients]."""
    history = np.full((rounds, clients), ABSENT)
    for round_, present in enumerate(history):
        rng = stream("participation", round_)
        cohort = server.sample_cohort(run.participation, run.participation_rate, clients, rng)
        present[cohort] = 0
    return history


def train_models(
    run: Run,
    data: Sequence[Federation],
    network: Network,
    models: Sequence[Weights],
    history: Ints,
    streams: Sequence[Stream],
    sending: Sequence[Sending] = (),
    after: Callable[[int, list[list[Weights]]], None] | None = None,
) -> list[list[Weights]]:
    """Train several federations in which it is known beforehand who trains which model.

    Args:
        run: the run; its clustering, attacks, seed, participation and rounds are ignored.
        data: the R federations, of K clients each.
        network: the module to train with.
        models: the M initial models, the same for every federation.
        history: [rounds, K] the model that each client trains, or `ABSENT`.
        streams: R functions; ``stream(purpose, *place)`` returns a random generator of that
            federation. The place is the round, then the client or, for the server's noise, the
            model; (round, 1) for the participation's order of visiting; that of curvatures is the
            client alone.
        sending: R; what the clients of each send, all with the same ``train``; () is everything. In
            a federation that is not noisy (one answer for all), the server adds no noise either.
        after: ``after(rounds, models)`` is told the models of each federation after so many rounds.

    Returns:
        The models of each federation.

    Raises:
        FloatingPointError: the training of one of them diverged.
    """
    clients = sum(part.clients for part in data)
    state = begin(run, list(models) * len(data), clients)

    def divided() -> list[list[Weights]]:
        firsts = range(0, len(state.models), len(models))
        return [state.models[first : first + len(models)] for first in firsts]

    told = (lambda: after(state.round, divided())) if after else None
    sending = sending or [EVERYTHING] * len(data)
    _train(run, data, network, state, history, streams, sending, told)
    return divided()


def _train(
    run: Run,
    data: Sequence[Federation],
    network: Network,
    state: RoundState,
    history: Ints,
    streams: Sequence[Stream],
    sending: Sequence[Sending],
    after: Callable[[], None] | None = None,
) -> RoundState:
    """Train the rounds of ``history``, [rounds, K] or [rounds, R, K], after ``state``.

    The state is changed; see `train_models`.
    """
    # Nothing of a federation depends on how well its curvatures are measured.
    curvature = run.curvature.model_copy(update={"reliability_every": 0})
    run = replace(run, curvature=curvature)
    joint = _join(data)
    models = len(state.models) // len(data)
    size = network.layout.size

    def train(
        sent: list[Weights],
        assigned: list[Assignment],
    ) -> list[BlockResult]:
        generators = _generators(streams, data[0].clients, state.round)
        together = _joint_sending(sending, data[0].clients)
        return [
            train_block(run, joint, network, sent, block, generators, sending=together)
            for block in assigned
        ]

    blocks = _blocks(
        run.training.config.block_size,
        data[0].clients,
        len(data),
    )
    clients = Clients(blocks, train, network.layout)
    first = models * np.arange(len(data))[:, None]  # the number of each federation's first model
    for round_, plan in list(enumerate(history))[state.round :]:
        state.assignment = np.where(
            plan == ABSENT,
            ABSENT,
            first + plan,
        ).ravel()
        noise = []
        visiting = []
        for stream, one in zip(streams, sending, strict=True):
            for j in range(models):
                if one.noisy:
                    noise.append(
                        server.draw_noise(
                            run,
                            size,
                            stream("noise", round_, j),
                        )
                    )
                else:
                    noise.append(server.no_noise(run, size))
            visiting += [stream("participation", round_, 1)] * models
        present = np.flatnonzero(state.assignment != ABSENT)
        advance(run, clients, state, present, noise, visiting)
        for model in state.models:
            if not np.isfinite(model.params.sum(dtype=np.float64)):
                raise FloatingPointError(f"a weight is no longer finite in round {state.round}")
        if after:
            after()
    return state


def _generators(
    streams: Sequence[Stream],
    clients: int,
    round_: int,
) -> LocalStreams:
    """Return the generators of the joint federation's clients: of this round, and of every."""

    def of_round(purpose: str, client: int) -> np.random.Generator:
        return streams[client // clients](purpose, round_, client % clients)

    def fixed(purpose: str, client: int) -> np.random.Generator:
        return streams[client // clients](purpose, client % clients)

    return of_round, fixed


def _joint_sending(sending: Sequence[Sending], clients: int) -> Sending:
    """Return what the clients of the joint federation send."""
    silent: set[int] = set()
    noisy = np.zeros((len(sending), clients), bool)
    for r, one in enumerate(sending):
        silent.update(clients * r + client for client in one.silent)
        noisy[r] = one.noisy
    return Sending(silent, noisy.ravel(), sending[0].train)


def _blocks(
    width: int,
    clients: int,
    federations: int,
) -> list[Ints]:
    """Divide the joint federation's clients: the same block of all federations trains at once."""
    offsets = clients * np.arange(federations)[:, None]
    blocks = []
    for at in range(0, clients, width):
        block = np.arange(at, min(at + width, clients))
        blocks.append((offsets + block).ravel())
    return blocks


def _join(data: Sequence[Federation]) -> Federation:
    """Return the federation that trains the clients of all; the rest is that of the first."""
    if len(data) == 1:
        return data[0]
    sizes = np.concatenate([part.sizes for part in data])
    return replace(
        data[0],
        train=Examples(
            np.concatenate([part.train.x for part in data]),
            np.concatenate([part.train.y for part in data]),
        ),
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        example_strengths=np.concatenate([part.example_strengths for part in data]),
    )
