"""An audit for noise that depends on the updates: canaries that take part one at a time (for
metric privacy).

Many canaries at once would change the noise that is examined: they lie far from each other, and
noise that shrinks with
distance would shrink for all. So each of some canaries of norm C, in a random direction c, is
thought to join the round alone. Whoever sees the released model then tells by two signs that it was
there:

    direction   <c, theta' - theta>  is N(0, sd^2) without it, N(w C, sd'^2) with it:    mu^2 = (w C)^2 / (sd sd')
    scale       the d coordinates have deviation sd without it, sd' with it:             mu^2 = 2 d ln(sd' / sd)^2
    both        mu^2 is the sum of the two

The noise without canaries is measured in a fork of the round, with noise of its own, so noise that
is left out or too small shows. What a canary would change is computed by the privacy component from
inner products. Both mu are those of two normal distributions that differ little, as their
log-likelihood ratio is normal if d is large. They add up over rounds. The norm C is that of a
modest outlier: where distances are taken before clipping, a client may send any length, and turn
the noise off.

The level of the noise also tells of the clients that are there. Only the two that lie farthest
apart set it: without one of
them it would be higher, by a factor that follows from the distances of the others. So for every
client

    presence    mu^2 = 2 d ln(sd without it / sd)^2, added up over rounds        0 for all who never set the level

in the eyes of somebody who knows everything but whether the client is there, its update's part in
the mean left aside. Of every model it is counted in how many rounds a client was there, because one
that never was has nothing to be told.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from algorithms.auditing.canaries import CanaryPlan, Directions, number_of_directions
from algorithms.core.messages import Doubles, Floats
from algorithms.core.noise import Normals
from algorithms.engine import server
from algorithms.engine.canary_audit import Round
from algorithms.interfaces import Run, State

LONE = 32  # canaries of a round, unless the model has fewer directions


def begin(run: Run, d: int, clients: int) -> State:
    """Return what is known of ``clients`` before the first round, by name; a model has ``d``
    parameters.
    """
    models = run.clustering.config.clusters
    lone = min(LONE, number_of_directions(d))
    counts = {name: np.zeros(models, np.int64) for name in ("audited", "released")}
    of_clients = {name: np.zeros((models, clients), np.int64) for name in ("set", "there")}
    squares = {
        "direction": np.zeros((models, lone)),
        "scale": np.zeros((models, lone)),
    }
    return squares | {"presence": np.zeros((models, clients))} | of_clients | counts


def observe(
    run: Run,
    plan: CanaryPlan,
    scores: State,
    j: int,
    directions: Directions,
    now: Round,
    noise: Normals | None,
) -> State:
    """Return the squared mu of each canary and sign, and of each client's presence, added up
    with those of this round.

    Nothing that is given is changed. The canaries take the first of the ``directions``; ``noise``
    is for the fork alone.
    """
    aggregation = run.aggregation
    privacy = run.privacy
    received = now.received
    norm = plan.norm
    assert norm is not None  # only canaries among many may take that of the round
    params, _, _ = aggregation.module.apply(
        aggregation.config, now.state, now.model.params, received
    )
    released, measured = privacy.module.release(privacy.config, params, received, noise)
    level = measured["noise_std"]
    rows = range(scores["direction"].shape[1])
    # Without noise, nothing but the clients' own updates hides a direction.
    added = (released - params if level else params - now.model.params).astype(np.float64)
    sd = math.sqrt(float(np.mean(added**2))) or float(np.finfo(np.float32).tiny)
    beside = privacy.module.noise_beside(
        privacy.config,
        received,
        (np.float32(norm) * directions.row(i) for i in rows),
    )
    ratio = beside / level if level else np.ones(len(rows))  # [canaries]
    weights = server.weigh(run, now.sizes[received.clients])
    # how far the largest client moves a mean, in any direction
    length = norm * float(weights.max() / weights.sum())
    moved: Doubles | float = length
    if aggregation.module.SENSITIVITY != "mean":
        moved = np.array(
            [_move(run, now, params, length * directions.row(i).astype(np.float64)) for i in rows]
        )
    after = {name: array.copy() for name, array in scores.items()}
    after["direction"][j] += moved**2 / (sd * sd * ratio)
    after["scale"][j] += 2 * len(params) * np.log(ratio) ** 2
    if level and len(received.clients) > 1:
        less = privacy.module.noise_without(privacy.config, received) / level
        after["presence"][j, received.clients] += 2 * len(params) * np.log(less) ** 2
        after["set"][j, received.clients] += less != 1
        after["there"][j, received.clients] += 1
    after["audited"][j] += 1
    return after


def _move(
    run: Run,
    now: Round,
    params: Floats,
    more: Doubles,
) -> float:
    """Return how far the aggregated ``params`` [d] move if the mean has ``more`` [d] in it."""
    joined = replace(now.received, mean=now.received.mean + more)
    moved, _, _ = run.aggregation.module.apply(
        run.aggregation.config, now.state, now.model.params, joined
    )
    return float(np.linalg.norm(moved.astype(np.float64) - params))
