"""The server's half of a round: from the updates of a cluster's clients to its next model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    """One cluster after a round.

    The model is sent next; state and weights [clients] are those of the aggregation. ``metrics``
    are those that the slots report; without an account there is no ``event``.
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
    """Start to draw the noise for a model of ``size`` parameters, while clients train.

    None if there is to be none.
    """
    return Normals(size, rng) if run.privacy.module.NOISY else None


def no_noise(run: Run, size: int) -> Normals | None:
    """Return zeros in place of the noise of `draw_noise`, for a model that is trained without."""
    return Zeros(size) if run.privacy.module.NOISY else None


def step(
    run: Run,
    state: State,
    model: Weights,
    received: ClientUpdates,
    noise: Normals | None,
) -> Step:
    """Compute a cluster's next model: weigh the clients, aggregate, and protect the result.

    The privacy slot protects it, with ``noise``. ``model`` is the one that the clients were sent.
    Running statistics are averaged with the same weights.
    """
    aggregation = run.aggregation
    privacy = run.privacy
    metrics: Metrics = {}
    chosen = aggregation.module.reweigh(aggregation.config, received)
    if chosen is not None:
        weights, metrics = chosen
        received = reweight(received, weights)
    applied = aggregation.module.apply(aggregation.config, state, model.params, received)
    params, added = privacy.module.release(
        privacy.config,
        applied[0],
        received,
        noise,
    )
    return Step(
        Weights(params, received.buffers.astype(np.float32)),
        applied[1],
        received.weights,
        metrics | applied[2] | added,
        privacy.module.event(privacy.config, received, run),
    )


def needs_updates(run: Run) -> bool:
    """Return whether the server needs each client's own update, and not only their sum."""
    return "updates" in (run.aggregation.module.NEEDS, run.privacy.module.NEEDS)


def weigh(run: Run, examples: Ints) -> Doubles:
    """Return weights before normalization, from clients' numbers of ``examples`` [clients]."""
    return run.aggregation.module.weigh(run.aggregation.config, examples)


def clip(run: Run, updates: Floats) -> tuple[Doubles, Doubles]:
    """Return the L2 norms [clients] of updates [clients, d], and the privacy slot's factors.

    The norms are those of the updates as they came. Updates that the slot scales by zero become
    zero in place.
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
    size = max(1, round(rate * clients))
    return np.sort(rng.choice(clients, size=size, replace=False))


def initial_statistics(run: Run, clients: int) -> dict[str, Doubles]:
    """Return the statistics before the first round: rho [clients], if a component reads it."""
    if not run.measures_curvature:
        return {}
    return {"rho": np.full(clients, ranking.INITIAL_RHO)}


def keep(
    where: dict[str, NDArray[Any]],
    clients: int,
    members: Ints,
    values: Mapping[str, Any],
) -> None:
    """Write ``values`` [c, ...] of the clients ``members`` [c] into the arrays ``where``.

    Both are by name; the arrays are [clients, ...]. A client never measured is NaN (or 0). The
    arrays are replaced, because a job may still read the old ones.
    """
    for name, rows in values.items():
        if name in where:
            where[name] = where[name].copy()
        else:
            blank = np.nan if np.issubdtype(rows.dtype, np.floating) else 0
            where[name] = np.full(
                (clients, *rows.shape[1:]),
                blank,
                rows.dtype,
            )
        where[name][members] = rows


def peers(
    assignment: Ints,
    cohort: Ints,
) -> Iterator[tuple[int, Ints]]:
    """Yield each model that clients of the ``cohort`` chose, and those who did.

    Only they are compared, because curvatures of different models have no common scale.
    """
    chosen = assignment[cohort]
    for cluster in np.unique(chosen):
        yield int(cluster), cohort[chosen == cluster]


def rank_clients(
    run: Run,
    statistics: Mapping[str, Doubles],
    cohort: Ints,
    assignment: Ints,
    visiting: Sequence[np.random.Generator],
) -> dict[str, Doubles]:
    """Compute ``rho`` [clients] of every client after a round (Zhao et al. 2025, eq. 1).

    It follows from the curvatures measured in the round. Clients outside the ``cohort`` keep their
    value. It is empty if no component reads rho. ``assignment`` is the model of each client, and
    ``visiting`` for each model the generator of the order of visiting, if rho is aligned by it;
    models may share one.
    """
    if not run.measures_curvature:
        return {}
    rho = statistics["rho"].copy()
    for cluster, clients in peers(assignment, cohort):
        rho[clients] = ranking.relative_rank(
            statistics["lambda_max"][clients],
            statistics["hessian_trace"][clients],
            run.curvature,
            visiting[cluster],
        )
    return {"rho": rho}


def reliability_due(run: Run, round_: int) -> bool:
    """Return whether the reliability of rho is measured in round ``round_``, counted from 0.

    In the last round it always is.
    """
    every = run.curvature.reliability_every
    if not run.measures_curvature or every == 0:
        return False
    done = round_ + 1
    return done % every == 0 or done == run.rounds
