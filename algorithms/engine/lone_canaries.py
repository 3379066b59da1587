"""An audit for noise that depends on the updates: canaries that take part one at a time (for
metric privacy).

Many canaries at once would change the noise that is examined: they lie far from each other, and
noise that shrinks with
distance would shrink for all. So each of some canaries of norm C, in a random direction c, is
thought to join the round alone. Whoever sees the released model then tells by two signs that it was
there:

    direction   <c, theta' - theta> is N(0, sd^2) without it, N(w C, sd'^2) with it:
                                                                    mu^2 = (w C)^2 / (sd sd')
    scale       the d coordinates have deviation sd without it, sd' with it:
                                                                    mu^2 = 2 d ln(sd' / sd)^2
    both        mu^2 is the sum of the two

The noise without canaries is measured in a fork of the round, with noise of its own, so noise that
is left out or too small shows. What a canary would change is computed by the privacy component from
inner products. Both mu are those of two normal distributions that differ little, as their
log-likelihood ratio is normal if d is large. They add up over rounds. The norm C is that of a
modest outlier: where distances are taken before clipping, a client may send any length, and turn
the noise off.

The level of the noise also tells of the clients that are there. Only the two that lie farthest
apart set it: without one of them it would be higher, by a factor that follows from the distances of
the others. So for every client

    presence    mu^2 = 2 d ln(sd without it / sd)^2, added up over rounds
                                                        0 for all who never set the level

in the eyes of somebody who knows everything but whether the client is there, its update's part in
the mean left aside. Of every model it is counted in how many rounds a client was there, because one
that never was has nothing to be told.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from algorithms.auditing.canaries import CanaryPlan, Directions, number_of_directions
from algorithms.core.messages import ClientUpdates, Doubles, Floats
from algorithms.core.noise import Normals
from algorithms.engine import server
from algorithms.engine.canary_audit import Round, root_mean_square
from algorithms.interfaces import Run, State

LONE = 32  # canaries of a round, unless the model has fewer directions


def begin(run: Run, d: int, clients: int) -> State:
    """Return what is known of ``clients`` before the first round, by name.

    A model has ``d`` parameters.
    """
    models = run.clustering.config.clusters
    lone = min(LONE, number_of_directions(d))
    return {
        "direction": np.zeros((models, lone)),
        "scale": np.zeros((models, lone)),
        "presence": np.zeros((models, clients)),
        "set": np.zeros((models, clients), np.int64),
        "there": np.zeros((models, clients), np.int64),
        "audited": np.zeros(models, np.int64),
        "released": np.zeros(models, np.int64),
    }


def observe(
    run: Run,
    plan: CanaryPlan,
    scores: State,
    j: int,
    directions: Directions,
    now: Round,
    noise: Normals | None,
) -> State:
    """Add what a round tells to the squared mu of each canary and sign, and of each presence.

    Nothing that is given is changed. The canaries take the first of the ``directions``; ``noise``
    is for the fork alone.
    """
    assert plan.norm is not None  # only canaries among many may take that of the round
    privacy = run.privacy
    clients = now.received.clients
    params = _aggregated(run, now, now.received)
    released, measured = privacy.module.release(
        privacy.config,
        params,
        now.received,
        noise,
    )
    level = measured["noise_std"]
    # Without noise, nothing but the clients' own updates hides a direction.
    hidden = released - params if level else params - now.model.params
    sd = root_mean_square(hidden.astype(np.float64))
    lone = range(scores["direction"].shape[1])
    others = (np.float32(plan.norm) * directions.row(i) for i in lone)
    beside = privacy.module.noise_beside(privacy.config, now.received, others)
    ratio = beside / level if level else np.ones(len(lone))  # [canaries]
    moved = _moves(
        run,
        plan.norm,
        map(directions.row, lone),
        now,
        params,
    )
    after = {name: array.copy() for name, array in scores.items()}
    after["direction"][j] += moved**2 / (sd * sd * ratio)
    after["scale"][j] += _told_by_scale(ratio, len(params))
    if level and len(clients) > 1:
        less = privacy.module.noise_without(privacy.config, now.received) / level
        after["presence"][j, clients] += _told_by_scale(less, len(params))
        after["set"][j, clients] += less != 1
        after["there"][j, clients] += 1
    after["audited"][j] += 1
    return after


def _told_by_scale(ratio: Doubles, d: int) -> Doubles:
    """Return the squared mu of deviations that differ by these factors, in ``d`` coordinates."""
    return 2 * d * np.log(ratio) ** 2


def _moves(
    run: Run,
    norm: float,
    rows: Iterable[Floats],
    now: Round,
    params: Floats,
) -> Doubles | float:
    """Return how far each canary moves the model, as the largest client with its direction would.

    ``params`` [d] are those without a canary.
    """
    weights = server.weigh(run, now.sizes[now.received.clients])
    length = norm * float(weights.max() / weights.sum())
    if run.aggregation.module.SENSITIVITY == "mean":
        return length
    moved = []
    for row in rows:
        mean = now.received.mean + length * row.astype(np.float64)
        other = _aggregated(run, now, replace(now.received, mean=mean))
        difference = other.astype(np.float64) - params
        moved.append(float(np.linalg.norm(difference)))
    return np.array(moved)


def _aggregated(run: Run, now: Round, received: ClientUpdates) -> Floats:
    """Return the parameters [d] before noise that the server makes of what it ``received``."""
    config = run.aggregation.config
    return run.aggregation.module.apply(config, now.state, now.model.params, received)[0]
