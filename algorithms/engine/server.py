"""The server's half of a round: what the clients of a cluster sent becomes that cluster's next model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from algorithms.core.messages import ClientUpdates, Doubles, Ints, Weights, reweight
from algorithms.core.noise import Normals
from algorithms.curvature import ranking

State = dict[str, np.ndarray]


@dataclass(frozen=True)
class Step:
    """One cluster after a round: the ``model`` that is sent out next, the aggregation's ``state``, the ``weights``
    [clients] that it gave to the clients, the ``metrics`` that its slots report, what was ``spent`` of privacy (or None)."""

    model: Weights
    state: State
    weights: Doubles
    metrics: dict[str, Any]
    spent: dict[str, Any] | None


def begin(run: Any, model: Weights) -> State:
    """The aggregation's own state before the first round."""
    return run.aggregation.module.begin(run.aggregation.config, model.params)


def draw_noise(run: Any, size: int, rng: np.random.Generator) -> Normals | None:
    """The noise for a model of ``size`` parameters, drawn from now on, while clients train; None where none is added."""
    return Normals(size, rng) if run.privacy.module.NOISY else None


def step(run: Any, state: State, model: Weights, received: ClientUpdates, noise: Normals | None) -> Step:
    """Weigh, aggregate, then release under the privacy slot; running statistics are averaged with the same weights."""
    aggregation, privacy = run.aggregation, run.privacy
    metrics: dict[str, Any] = {}
    if hasattr(aggregation.module, "reweigh"):
        weights, metrics = aggregation.module.reweigh(aggregation.config, received)
        received = reweight(received, weights)
    params, state, more = aggregation.module.apply(aggregation.config, state, model.params, received)
    params, added = privacy.module.release(privacy.config, params, received, noise)
    spent = privacy.module.event(privacy.config, received, run) if hasattr(privacy.module, "event") else None
    after = Weights(params, received.buffers.astype(np.float32))
    return Step(after, state, received.weights, metrics | more | added, spent)


def initial_statistics(run: Any, clients: int) -> dict[str, Doubles]:
    """What the server takes for granted of its ``clients`` before the first round: rho, where a component asks for it."""
    return {"rho": np.full(clients, ranking.INITIAL_RHO)} if ranking.wanted(run) else {}


def sample_cohort(how: str, rate: float, clients: int, rng: np.random.Generator) -> Ints:
    """The clients that take part in a round, in the order of their ids.

    ``all``; ``fixed``: ``rate`` of them, rounded, at least one, drawn without replacement; ``poisson``: each with
    probability ``rate`` on its own, which may be nobody.
    """
    if how == "all":
        return np.arange(clients)
    if how == "poisson":
        return np.flatnonzero(rng.random(clients) < rate)
    return np.sort(rng.choice(clients, size=max(1, round(rate * clients)), replace=False))


def rank_clients(
    run: Any, known: Mapping[str, Doubles], took_part: Ints, assignment: Ints, rng: np.random.Generator
) -> dict[str, Doubles]:
    """``rho`` of every client after a round (Zhao et al. 2025, eq. 1), from the curvatures that clients measured in it.

    Clients are compared with those of their own cluster, because curvatures of different models have no common scale; who
    did not take part keeps its value. Nothing is returned where no component of the run asks for it.
    """
    wanted = ranking.wanted(run)
    if wanted is None:
        return {}
    rho = known["rho"].copy()
    for cluster in np.unique(assignment[took_part]):
        peers = took_part[assignment[took_part] == cluster]
        rho[peers] = ranking.relative_rank(known["lambda_max"][peers], known["hessian_trace"][peers], wanted, rng)
    return {"rho": rho}
