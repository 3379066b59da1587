"""The server's half of a round: turning the updates of a cluster's clients into the cluster's next model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.core.accounting import PrivacyEvent
from algorithms.core.gram import lengths
from algorithms.core.messages import ClientUpdates, Doubles, Floats, Ints, Weights, reweight, weighted_sum
from algorithms.core.noise import Normals, Zeros
from algorithms.curvature import ranking
from algorithms.curvature.ranking import agreement
from algorithms.interfaces import Metrics, Run, State


@dataclass(frozen=True)
class Step:
    """One cluster after a round.

    Attributes:
        model: the model that is sent next.
        state: the aggregation's own state.
        weights: [clients] weights that the aggregation gave to the clients.
        metrics: metrics reported by the slots.
        event: the round's privacy event; None if there is no account.
    """

    model: Weights
    state: State
    weights: Doubles
    metrics: Metrics
    event: PrivacyEvent | None


def begin(run: Run, model: Weights) -> State:
    """Return the aggregation's own state before the first round."""
    return run.aggregation.module.begin(run.aggregation.config, model.params)


def draw_noise(run: Run, size: int, rng: np.random.Generator) -> Normals | None:
    """Start to draw the noise for a model of ``size`` parameters, in the background while clients train.

    Returns:
        The noise, or None if the privacy component adds none.
    """
    return Normals(size, rng) if run.privacy.module.NOISY else None


def no_noise(run: Run, size: int) -> Normals | None:
    """Return zeros in place of the noise of `draw_noise`, for a model that is trained without it."""
    return Zeros(size) if run.privacy.module.NOISY else None


def step(run: Run, state: State, model: Weights, received: ClientUpdates, noise: Normals | None) -> Step:
    """Compute a cluster's next model: weigh the clients, aggregate, and apply the privacy slot.

    Running statistics are averaged with the same weights.

    Args:
        run: the components, and their fields.
        state: the aggregation's own state.
        model: the model that the clients were sent.
        received: the clients' updates.
        noise: noise from `draw_noise`.
    """
    aggregation, privacy = run.aggregation, run.privacy
    metrics: Metrics = {}
    if (chosen := aggregation.module.reweigh(aggregation.config, received)) is not None:
        weights, metrics = chosen
        received = reweight(received, weights)
    params, state, more = aggregation.module.apply(aggregation.config, state, model.params, received)
    params, added = privacy.module.release(privacy.config, params, received, noise)
    event = privacy.module.event(privacy.config, received, run)
    after = Weights(params, received.buffers.astype(np.float32))
    return Step(after, state, received.weights, metrics | more | added, event)


def initial_statistics(run: Run, clients: int) -> dict[str, Doubles]:
    """Return the client statistics before the first round: [clients] rho if a component reads it, otherwise nothing."""
    return {"rho": np.full(clients, ranking.INITIAL_RHO)} if run.measures_curvature else {}


def keep(where: dict[str, NDArray[Any]], clients: int, those: Ints, values: Mapping[str, Any]) -> None:
    """Write ``values`` [c, ...] by name into the arrays of all clients; a client never measured is NaN (or 0).

    Args:
        where: arrays [clients, ...] by name, which are replaced, because a job may still read the old ones.
        clients: number of clients.
        those: [c] ids of the clients that the values belong to.
        values: arrays [c, ...] by name.
    """
    for name, own in values.items():
        blank = np.nan if np.issubdtype(own.dtype, np.floating) else 0
        held = where.get(name)
        where[name] = np.full((clients, *own.shape[1:]), blank, own.dtype) if held is None else held.copy()
        where[name][those] = own


def sample_cohort(how: str, rate: float, clients: int, rng: np.random.Generator) -> Ints:
    """Sample the clients that take part in a round.

    Args:
        how: ``all``; ``fixed``: a share ``rate`` of the clients (rounded, at least one), drawn without replacement; or
            ``poisson``: each client independently with probability ``rate``, which may select none.
        rate: the share or probability.
        clients: number of clients.
        rng: draws the clients.

    Returns:
        [cohort] ids, ascending.
    """
    if how == "all":
        return np.arange(clients)
    if how == "poisson":
        return np.flatnonzero(rng.random(clients) < rate)
    return np.sort(rng.choice(clients, size=max(1, round(rate * clients)), replace=False))


def rank_clients(
    run: Run,
    statistics: Mapping[str, Doubles],
    cohort: Ints,
    assignment: Ints,
    visiting: Sequence[np.random.Generator],
) -> dict[str, Doubles]:
    """Compute ``rho`` of every client after a round (Zhao et al. 2025, eq. 1) from the curvatures measured in it.

    Clients are compared within their own cluster, because curvatures of different models have no common scale; clients
    that are not in the cohort keep their value.

    Args:
        run: the components, and their fields.
        statistics: client statistics so far, [clients] by name.
        cohort: [cohort] ids of the clients that took part.
        assignment: [clients] the model of each client.
        visiting: for each model, the generator of the order of visiting, if rho is aligned by it; models may share one.

    Returns:
        ``rho`` [clients] by name; empty if no component reads it.
    """
    if not run.measures_curvature:
        return {}
    rho = statistics["rho"].copy()
    for cluster in np.unique(assignment[cohort]):
        peers = cohort[assignment[cohort] == cluster]
        curvatures = statistics["lambda_max"][peers], statistics["hessian_trace"][peers]
        rho[peers] = ranking.relative_rank(*curvatures, run.curvature, visiting[cluster])
    return {"rho": rho}


def reliability_due(run: Run, round_: int) -> bool:
    """Return whether the reliability of rho is measured in round ``round_``, counted from 0; in the last it always is."""
    every, done = run.curvature.reliability_every, round_ + 1
    return run.measures_curvature and every > 0 and (done % every == 0 or done == run.rounds)


def compare_curvatures(
    run: Run, statistics: Mapping[str, Doubles], halves: Doubles | None, cohort: Ints, assignment: Ints
) -> dict[int, Metrics]:
    """Compute how well rho was measured in a round, in each cluster: see `algorithms.curvature.ranking`.

    Args:
        run: the components, and their fields.
        statistics: client statistics, [clients] by name.
        halves: [clients, halves, 2] curvatures on two halves of each client's examples; None if they were not measured.
        cohort: [cohort] ids of the clients that took part.
        assignment: [clients] the model of each client.

    Returns:
        The metrics by cluster; empty if no component reads rho.
    """
    found: dict[int, Metrics] = {}
    for cluster in np.unique(assignment[cohort]) if run.measures_curvature else ():
        peers = cohort[assignment[cohort] == cluster]
        curvatures = statistics["lambda_max"][peers], statistics["hessian_trace"][peers]
        found[int(cluster)] = agreement(*curvatures, None if halves is None else halves[peers], run.curvature)
    return found


def clip(run: Run, updates: Floats) -> tuple[Doubles, Doubles]:
    """Compute the factors by which the privacy slot scales updates; those that it scales by zero become zero in place.

    Args:
        run: the components, and their fields.
        updates: [clients, d] updates.

    Returns:
        [clients] L2 norms of the updates as they came, and [clients] factors.
    """
    norms = lengths(updates)
    scales = run.privacy.module.bound(run.privacy.config, norms)
    if (dropped := np.flatnonzero(scales == 0)).size:
        updates[dropped] = 0
    return norms, scales


def median_norm(norms: Doubles) -> float:
    """Return the median of the finite ``norms`` [clients] above 0; 0 if there are none.

    >>> median_norm(np.array([1.0, 3.0, 0.0, np.nan]))
    2.0
    """
    sent = norms[np.isfinite(norms) & (norms > 0)]
    return float(np.median(sent)) if len(sent) else 0.0


def weigh(run: Run, examples: Ints) -> Doubles:
    """Return the weights [clients], before normalization, of clients with these numbers of ``examples`` [clients]."""
    return run.aggregation.module.weigh(run.aggregation.config, examples)


def add_up(weights: Doubles, scales: Doubles, updates: Floats) -> Doubles:
    """Return the weighted sum [d] of scaled ``updates`` [clients, d], in the clients' order."""
    return weighted_sum(weights * scales, updates)
