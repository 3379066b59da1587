"""The server's half of a round: turning the updates of a cluster's clients into the cluster's
next model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.core.accounting import PrivacyEvent
from algorithms.core.gram import lengths
from algorithms.core.messages import ClientUpdates, Doubles, Floats, Ints, Weights, reweight
from algorithms.core.noise import Normals, Zeros
from algorithms.curvature import ranking
from algorithms.interfaces import Metrics, Run, State


@dataclass(frozen=True)
class Step:
    """One cluster after a round: the model that is sent next, and the state and weights
    [clients] of the aggregation.

    ``metrics`` are those that the slots report; without an account there is no ``event``.
    """

    model: Weights
    state: State
    weights: Doubles
    metrics: Metrics
    event: PrivacyEvent | None


def begin(run: Run, model: Weights) -> State:
    """Return the aggregation's own state before the first round."""
    return run.aggregation.module.begin(run.aggregation.config, model.params)


def draw_noise(
    run: Run,
    size: int,
    rng: np.random.Generator,
) -> Normals | None:
    """Start to draw the noise for a model of ``size`` parameters, while clients train; None if
    there is to be none.
    """
    return Normals(size, rng) if run.privacy.module.NOISY else None


def no_noise(run: Run, size: int) -> Normals | None:
    """Return zeros in place of the noise of `draw_noise`, for a model that is trained without
    it.
    """
    return Zeros(size) if run.privacy.module.NOISY else None


def step(
    run: Run,
    state: State,
    model: Weights,
    received: ClientUpdates,
    noise: Normals | None,
) -> Step:
    """Compute a cluster's next model: weigh the clients, aggregate, and apply the privacy slot
    with ``noise``.

    ``model`` is the one that the clients were sent. Running statistics are averaged with the same
    weights.
    """
    aggregation, privacy = run.aggregation, run.privacy
    metrics: Metrics = {}
    chosen = aggregation.module.reweigh(aggregation.config, received)
    if chosen is not None:
        weights, metrics = chosen
        received = reweight(received, weights)
    params, state, more = aggregation.module.apply(
        aggregation.config, state, model.params, received
    )
    params, added = privacy.module.release(privacy.config, params, received, noise)
    event = privacy.module.event(privacy.config, received, run)
    after = Weights(params, received.buffers.astype(np.float32))
    return Step(after, state, received.weights, metrics | more | added, event)


def needs_updates(run: Run) -> bool:
    """Return whether the server needs each client's own update, and not only their sum."""
    return "updates" in (run.aggregation.module.NEEDS, run.privacy.module.NEEDS)


def weigh(run: Run, examples: Ints) -> Doubles:
    """Return the weights [clients], before normalization, of clients with these numbers of
    ``examples`` [clients].
    """
    return run.aggregation.module.weigh(run.aggregation.config, examples)


def clip(run: Run, updates: Floats) -> tuple[Doubles, Doubles]:
    """Return the L2 norms [clients] of updates [clients, d] as they came, and the privacy slot's
    factors [clients].

    Those that it scales by zero become zero in place.
    """
    norms = lengths(updates)
    scales = run.privacy.module.bound(run.privacy.config, norms)
    dropped = np.flatnonzero(scales == 0)
    if dropped.size:
        updates[dropped] = 0
    return norms, scales


def sample_cohort(
    how: str,
    rate: float,
    clients: int,
    rng: np.random.Generator,
) -> Ints:
    """Sample the clients that take part in a round; return their ids [cohort], ascending.

    ``all``; ``fixed``: a share ``rate`` of the clients (rounded, at least one), drawn without
    replacement; or ``poisson``: each client independently with probability ``rate``, which may
    select none.
    """
    if how == "all":
        return np.arange(clients)
    if how == "poisson":
        return np.flatnonzero(rng.random(clients) < rate)
    return np.sort(
        rng.choice(
            clients,
            size=max(1, round(rate * clients)),
            replace=False,
        )
    )


def initial_statistics(run: Run, clients: int) -> dict[str, Doubles]:
    """Return the client statistics before the first round: [clients] rho if a component reads
    it, otherwise nothing.
    """
    return {"rho": np.full(clients, ranking.INITIAL_RHO)} if run.measures_curvature else {}


def keep(
    where: dict[str, NDArray[Any]],
    clients: int,
    members: Ints,
    values: Mapping[str, Any],
) -> None:
    """Write ``values`` [c, ...] of the clients ``members`` [c] into the arrays ``where``
    [clients, ...], all by name.

    A client never measured is NaN (or 0). The arrays are replaced, because a job may still read the
    old ones.
    """
    for name, rows in values.items():
        blank = np.nan if np.issubdtype(rows.dtype, np.floating) else 0
        old = where.get(name)
        where[name] = (
            np.full((clients, *rows.shape[1:]), blank, rows.dtype) if old is None else old.copy()
        )
        where[name][members] = rows


def rank_clients(
    run: Run,
    statistics: Mapping[str, Doubles],
    cohort: Ints,
    assignment: Ints,
    visiting: Sequence[np.random.Generator],
) -> dict[str, Doubles]:
    """Compute ``rho`` [clients] of every client after a round (Zhao et al. 2025, eq. 1) from the
    curvatures measured in it.

    Clients of the ``cohort`` are compared within their own cluster, because curvatures of different
    models have no common scale; others keep their value. It is empty if no component reads rho.

    ``assignment`` is the model of each client, and ``visiting`` for each model the generator of the
    order of visiting, if rho is aligned by it; models may share one.
    """
    if not run.measures_curvature:
        return {}
    rho = statistics["rho"].copy()
    for cluster in np.unique(assignment[cohort]):
        peers = cohort[assignment[cohort] == cluster]
        curvatures = statistics["lambda_max"][peers], statistics["hessian_trace"][peers]
        rho[peers] = ranking.relative_rank(
            *curvatures,
            run.curvature,
            visiting[cluster],
        )
    return {"rho": rho}


def reliability_due(run: Run, round_: int) -> bool:
    """Return whether the reliability of rho is measured in round ``round_``, counted from 0; in
    the last it always is.
    """
    every, done = run.curvature.reliability_every, round_ + 1
    return run.measures_curvature and every > 0 and (done % every == 0 or done == run.rounds)
