"""Whole federations in one process, whose clients train the models that they are given: shadow
models and replicas.

The round is that of a run (`algorithms.engine.round`), without choice of models, attacks or files.

Federations that differ only in their examples and random numbers are trained at once, as one
federation with the clients of all: of R federations with K clients and M models each, client i of
federation r is client r K + i, and its model j is model r M + j. So the engine trains the clients
of one block of all federations together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from algorithms.core.messages import Assignment, BlockResult, Ints, Weights
from algorithms.core.network import Network
from algorithms.engine import block as work
from algorithms.engine import server
from algorithms.engine.round import (
    EVERYTHING,
    Clients,
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
    """Train one model on all clients of each of several federations, and return their state
    after so many ``rounds``.

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
    if took_part is not None:
        history = np.where(took_part, 0, ABSENT)
    else:
        history = np.stack([cohorts(run, clients, rounds, stream) for stream in streams], axis=1)

    def unnumbered(stream: Stream) -> Stream:
        return lambda purpose, *place: stream(
            purpose, *(place[:1] if purpose == "noise" else place)
        )

    return _train(
        run,
        data,
        network,
        begun,
        history,
        list(map(unnumbered, streams)),
        [EVERYTHING] * len(data),
    )


def initial_model(
    run: Run,
    data: Federation,
    network: Network,
    stream: Stream,
) -> Weights:
    """Return the model that a federation begins with, pre-trained if the aggregation asks for
    it; see `train_one_each`.
    """
    network.load(network.initial(stream("initial_weights")))
    return work.pretrain(run, data, network, stream("pretraining"))


def cohorts(
    run: Run,
    clients: int,
    rounds: int,
    stream: Stream,
) -> Ints:
    """Sample who trains the only model in which round, 0, and who does not, `ABSENT`: [rounds,
    clients].
    """
    history = np.full((rounds, clients), ABSENT)
    for round_, present in enumerate(history):
        rng = stream("participation", round_)
        present[server.sample_cohort(run.participation, run.participation_rate, clients, rng)] = 0
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
    """Train several federations, and return the models of each; who trains which model in which
    round is known beforehand.

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

    Raises:
        FloatingPointError: the training of one of them diverged.
    """
    state = begin(
        run,
        list(models) * len(data),
        sum(part.clients for part in data),
    )
    each = len(models)

    def divided() -> list[list[Weights]]:
        return [state.models[each * r : each * (r + 1)] for r in range(len(data))]

    told = (lambda: after(state.round, divided())) if after else None
    _train(
        run,
        data,
        network,
        state,
        history,
        streams,
        sending or [EVERYTHING] * len(data),
        told,
    )
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
    """Train the rounds of ``history``, [rounds, K] or [rounds, R, K], after ``state``, which is
    changed; see `train_models`.
    """
    # Nothing of a federation depends on how well its curvatures are measured.
    run = replace(run, curvature=run.curvature.model_copy(update={"reliability_every": 0}))
    whole = _join(data)
    each = data[0].clients
    models = len(state.models) // len(data)
    offsets = each * np.arange(len(data))[:, None]
    width = run.training.config.block_size
    size = network.layout.size
    # A block of clients that are trained at once: the same block of all federations.
    blocks = [
        (offsets + np.arange(at, min(at + width, each))).ravel() for at in range(0, each, width)
    ]
    silent = {each * r + client for r, one in enumerate(sending) for client in one.silent}
    joint = Sending(
        silent,
        np.repeat([bool(one.noisy) for one in sending], each),
        sending[0].train,
    )

    def train(
        sent: list[Weights],
        assigned: list[Assignment],
    ) -> list[BlockResult]:
        local = lambda purpose, client: streams[client // each](purpose, state.round, client % each)  # noqa: E731
        fixed = lambda purpose, client: streams[client // each](purpose, client % each)  # noqa: E731
        draws = local, fixed
        return [
            train_block(run, whole, network, sent, block, draws, sending=joint)
            for block in assigned
        ]

    clients = Clients(blocks, train, network.layout)
    first = models * np.arange(len(data))[:, None]  # the number of each federation's first model
    for round_, plan in list(enumerate(history))[state.round :]:
        state.assignment = np.where(
            plan == ABSENT,
            ABSENT,
            first + plan,
        ).ravel()
        noise = [
            server.draw_noise(run, size, stream("noise", round_, j))
            if one.noisy
            else server.no_noise(run, size)
            for stream, one in zip(streams, sending, strict=True)
            for j in range(models)
        ]
        visiting = [
            rng for stream in streams for rng in [stream("participation", round_, 1)] * models
        ]
        advance(
            run,
            clients,
            state,
            np.flatnonzero(state.assignment != ABSENT),
            noise,
            visiting,
        )
        if not np.isfinite([model.params.sum(dtype=np.float64) for model in state.models]).all():
            raise FloatingPointError(f"a weight is no longer finite in round {state.round}")
        if after:
            after()
    return state


def _join(data: Sequence[Federation]) -> Federation:
    """Return the federation that trains the clients of all; the rest is that of the first."""
    if len(data) == 1:
        return data[0]

    def join(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in data])

    return replace(
        data[0],
        train=Examples(
            *(np.concatenate([getattr(part.train, name) for part in data]) for name in "xy")
        ),
        offsets=np.concatenate([[0], np.cumsum(join("sizes"))]),
        example_strengths=join("example_strengths"),
    )
