"""One round, the box that FedAvg, IFCA, FinP and their relatives have in common.

    choose   every client i chooses a model j_i          IFCA: the one with the lowest loss
    train    the cohort, block by block:  w_i <- local training of theta_{j_i} on D_i
                                          u_i <- clip(w_i - theta_{j_i})
             w_i is what the client sends: with a noise of its own, where the privacy slot protects
             updates
    gather   the server records what they measured, and joins the blocks' sums:
                                          u_j <- mean of u_i over j_i = j
    step     theta_j <- release(aggregate(theta_j, u_j))     for every model that has clients

A run, its replicas and shadow federations differ in who chooses, and in where blocks are trained
(`Clients.train`: on actors, or in this process); the round is this one. This module does not import
torch, so the server need not load it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from algorithms.core import messages
from algorithms.core.choices import Preferences, View
from algorithms.core.layout import Layout
from algorithms.core.messages import Assignment, BlockResult, ClientUpdates, Doubles, Ints, Weights
from algorithms.core.noise import Normals
from algorithms.curvature import ranking
from algorithms.engine import server
from algorithms.interfaces import Metrics, Run, State
from datasets.federation import Federation

if TYPE_CHECKING:
    from algorithms.core.network import Network
    from algorithms.engine.block import TrainedBlock

Stream = Callable[..., np.random.Generator]
LocalStreams = tuple[Stream, Stream]
"""A block's generators: those of this round, and those of every round.

``(purpose, client)`` gives one of either; to the second, a place may follow.
"""

Fork = Callable[[int, ClientUpdates], None]
"""``fork(model, received)`` sees what the server received for a model, before the model changes."""


@dataclass(frozen=True)
class Sending:
    """What clients send of what they have trained, which is less in some replicas.

    The clients ``silent`` (ids) send back the model that they were sent. Who is not ``noisy`` (all,
    or [clients]) clips private updates and adds no noise to them. ``train`` replaces `block.train`,
    with the same result, where somebody may know it already.
    """

    silent: Collection[int] = ()
    noisy: bool | NDArray[np.bool_] = True
    train: Callable[..., TrainedBlock] | None = None


EVERYTHING = Sending()


@dataclass
class RoundState:
    """What the next round depends on.

    Attributes:
        models: one `Weights` per cluster.
        servers: the aggregation's own arrays, per cluster.
        assignment: [clients] model of each client, -1 before the first choice.
        statistics: client statistics by name (``rho``, ``weight``, ...), [clients] each.
        optimizer_states: arrays of the local optimizers by name, [clients, ...]; empty unless the
            training keeps them.
        round: the next round, counted from 0.
    """

    models: list[Weights]
    servers: list[State]
    assignment: Ints
    statistics: dict[str, Doubles] = field(default_factory=dict)
    optimizer_states: dict[str, NDArray[Any]] = field(default_factory=dict)
    round: int = 0


def packed(state: RoundState) -> dict[str, NDArray[Any]]:
    """The state as named arrays, from which `unpacked` makes its fields again."""
    arrays = {"assignment": state.assignment, "round": np.array(state.round)}
    for group in "statistics", "optimizer_states":
        for name, array in getattr(state, group).items():
            arrays[f"{group}.{name}"] = array
    for j, model in enumerate(state.models):
        arrays[f"model.{j}.params"] = model.params
        arrays[f"model.{j}.buffers"] = model.buffers
        for name, array in state.servers[j].items():
            arrays[f"server.{j}.{name}"] = array
    return {name: np.asarray(array, order="C") for name, array in arrays.items()}


def unpacked(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """The fields of a `RoundState` that `packed` made ``arrays`` of."""
    models: list[Weights] = []
    servers = []
    while f"model.{len(models)}.params" in arrays:
        j = len(models)
        models.append(Weights(arrays[f"model.{j}.params"], arrays[f"model.{j}.buffers"]))
        servers.append(under(f"server.{j}.", arrays))
    return {
        "models": models,
        "servers": servers,
        "assignment": arrays["assignment"],
        "statistics": under("statistics.", arrays),
        "optimizer_states": under("optimizer_states.", arrays),
        "round": int(arrays["round"]),
    }


def under(
    prefix: str,
    arrays: Mapping[str, NDArray[Any]],
) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin with ``prefix``, without it, in the order of their names."""
    names = sorted(name for name in arrays if name.startswith(prefix))
    return {name.removeprefix(prefix): arrays[name] for name in names}


@dataclass(frozen=True)
class Clients:
    """The clients as the server sees them.

    Attributes:
        blocks: ids of the clients, in the fixed blocks in which they are trained and summed.
        train: ``train(models, assigned)`` returns the result of `train_block` for each assignment,
            in their order.
        layout: where the model's arrays lie in its parameters [d].
    """

    blocks: Sequence[Sequence[int] | Ints]
    train: Callable[[list[Weights], list[Assignment]], list[BlockResult]]
    layout: Layout


def begin(
    run: Run,
    models: list[Weights],
    clients: int,
) -> RoundState:
    """Return the state before the first round of so many ``clients`` with these ``models``."""
    servers = [server.begin(run, model) for model in models]
    statistics = server.initial_statistics(run, clients)
    return RoundState(models, servers, np.full(clients, -1), statistics)


def choose(
    run: Run,
    view: View,
    preferences: Preferences,
    by_loss_alone: bool = False,
) -> tuple[Ints, Doubles]:
    """Let every client choose its model.

    ``by_loss_alone``: nobody minds the risk, as long as none has been measured.

    Returns:
        The choice [clients], and the cost of each model [clients, clusters].
    """
    if by_loss_alone:
        view = replace(view, risk_counts=False)
        preferences = replace(preferences, beta=np.zeros(len(view.losses)))
    return run.clustering.module.choose(run.clustering.config, view, preferences)


def advance(
    run: Run,
    clients: Clients,
    state: RoundState,
    cohort: Ints,
    noise: Sequence[Normals | None],
    visiting: Sequence[np.random.Generator],
    fork: Fork | None = None,
) -> tuple[list[BlockResult], dict[int, server.Step]]:
    """Do a round in which the clients of ``cohort`` train the models that they have chosen.

    The ``state`` is changed. The server has drawn for each model its ``noise``
    (`server.draw_noise`), and the generator of the order of ``visiting``, if rho is aligned by it.

    Returns:
        The blocks' results, and the steps of the models that were updated.
    """
    assigned = assign(clients.blocks, state, cohort)
    results = clients.train(state.models, assigned)
    record(run, state, results, visiting)
    received = gather(run, clients.layout, state, results)
    steps = step(run, state, received, noise, fork)
    state.round += 1
    return results, steps


def assign(
    blocks: Sequence[Sequence[int] | Ints],
    state: RoundState,
    cohort: Ints,
) -> list[Assignment]:
    """Return what each block is sent besides the models, where somebody takes part."""
    present = np.zeros(len(state.assignment), bool)
    present[cohort] = True
    assigned = []
    for block in map(np.asarray, blocks):
        clients = block[present[block]]
        if not len(clients):
            continue
        assigned.append(
            Assignment(
                tuple(clients.tolist()),
                state.assignment[clients],
                state.round,
                {name: values[clients] for name, values in state.statistics.items()},
                {name: values[clients] for name, values in state.optimizer_states.items()},
            )
        )
    return assigned


def train_block(
    run: Run,
    data: Federation,
    network: Network,
    models: Sequence[Weights],
    assigned: Assignment,
    streams: LocalStreams,
    observe: Callable[[TrainedBlock], Mapping[str, Any]] | None = None,
    sending: Sending = EVERYTHING,
) -> BlockResult:
    """Train a block of clients, measure the result, and sum the updates up.

    It is a pure function, wherever it is called. ``observe`` returns what attacks record of what
    the server receives, by attack; ``sending`` is what clients send.
    """
    from algorithms.engine import block

    clients = list(assigned.clients)
    of_round, fixed = streams
    train = sending.train or block.train
    trained = train(run, data, network, models, assigned, of_round)
    statistics = {}
    halves = None
    if run.measures_curvature:
        measure = partial(block.measure_curvatures, run, data, network, clients, trained, fixed)
        spectra = measure()[:, 0]
        statistics["lambda_max"] = spectra[:, 0]
        statistics["hessian_trace"] = spectra[:, 1]
        statistics["hessian_trace_error"] = spectra[:, 2]
        # Nothing depends on the halves but how well rho is known.
        if server.reliability_due(run, assigned.round):
            halves = measure(parts=2)[..., :2]
    statistics["train_loss"] = trained.loss
    sent = trained
    if sending.silent:
        sent = block.silence(sent, assigned, models, sending.silent)
    noisy = np.broadcast_to(sending.noisy, data.clients)[clients]
    sent = block.protect(run, sent, assigned, models, of_round, noisy)
    observed = observe(sent) if observe else {}
    sizes = data.sizes[clients]
    parts = block.sum_updates(run, sent, clients, models, assigned.chosen, sizes)
    return BlockResult(
        np.array(clients),
        parts,
        statistics,
        observed,
        trained.optimizer_states,
        halves,
    )


def record(
    run: Run,
    state: RoundState,
    results: Sequence[BlockResult],
    visiting: Sequence[np.random.Generator],
) -> None:
    """Record what the blocks sent besides their sums, and the ranks that follow.

    These are client statistics and states of optimizers.
    """
    if not results:
        return
    clients = len(state.assignment)
    cohort = np.concatenate([result.clients for result in results])
    for group in "statistics", "optimizer_states":
        each = [getattr(result, group) for result in results]
        joined = {name: np.concatenate([one[name] for one in each]) for name in each[0]}
        # Once, because it copies what all clients keep.
        server.keep(getattr(state, group), clients, cohort, joined)
    state.statistics |= server.rank_clients(
        run, state.statistics, cohort, state.assignment, visiting
    )


def gather(
    run: Run,
    layout: Layout,
    state: RoundState,
    results: Sequence[BlockResult],
) -> Iterator[tuple[int, ClientUpdates]]:
    """Join the blocks' sums, model by model.

    A model without clients is left out, unless the privacy component must hide that.
    """
    covers = run.privacy.module.covers_empty_rounds(run.privacy.config)
    for j, model in enumerate(state.models):
        parts = [result.parts[j] for result in results if j in result.parts]
        if parts:
            yield j, messages.gather(parts, layout, state.statistics)
        elif covers:
            yield j, messages.empty_updates(model.buffers, layout)


def step(
    run: Run,
    state: RoundState,
    gathered: Iterable[tuple[int, ClientUpdates]],
    noise: Sequence[Normals | None],
    fork: Fork | None = None,
) -> dict[int, server.Step]:
    """Update every model that received something, and record the weights of its clients."""
    steps = {}
    weights = np.zeros(len(state.assignment))
    for j, received in gathered:
        if fork is not None:
            fork(j, received)
        after = server.step(
            run,
            state.servers[j],
            state.models[j],
            received,
            noise[j],
        )
        state.models[j] = after.model
        state.servers[j] = after.state
        weights[received.clients] = after.weights
        steps[j] = after
    state.statistics["weight"] = weights
    return steps


def compare_curvatures(
    run: Run,
    state: RoundState,
    results: Sequence[BlockResult],
) -> dict[int, Metrics]:
    """Return how well the curvatures of a round were measured, by model (`ranking.agreement`).

    Nothing depends on it.
    """
    if not (results and run.measures_curvature):
        return {}
    kept: dict[str, NDArray[Any]] = {}
    for result in results:
        if result.halves is not None:
            server.keep(
                kept,
                len(state.assignment),
                result.clients,
                {"halves": result.halves},
            )
    halves = kept.get("halves")
    cohort = np.concatenate([result.clients for result in results])
    compared = {}
    for cluster, peers in server.peers(state.assignment, cohort):
        compared[cluster] = ranking.agreement(
            state.statistics["lambda_max"][peers],
            state.statistics["hessian_trace"][peers],
            None if halves is None else halves[peers],
            run.curvature,
        )
    return compared
