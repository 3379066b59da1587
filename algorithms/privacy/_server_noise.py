"""Shared parts of the components in which a trusted server adds noise: clipping, sensitivity,
noise and metrics.

Updates are clipped one by one, and noise is added to the aggregate:

    u_i <- u_i * min(1, C / ||u_i||)          one norm over all arrays, of the update against the
                                              (noisy) model that was sent
    theta <- aggregate({u_i}) + N(0, sd^2)    in every coordinate, sd = multiplier * sensitivity
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from algorithms.auditing import finding
from algorithms.core.configs import PrivacyConfig
from algorithms.core.messages import PIECE, ClientUpdates, Doubles, Floats
from algorithms.core.metric import MINOR, NOISE, Column, Metric, magnitude, rate
from algorithms.core.noise import Normals
from algorithms.interfaces import Metrics, Problems, Run

AuditEvery = Literal["auto"] | Annotated[int, Field(ge=0)]
AUDIT_EVERY = (
    "rounds from one audit by canaries to the next; 0: never; auto: as few as cost 5 %, none "
    "without a mean"
)

READING = "epsilon: for one client and one model at delta {delta}; a dash: there is no guarantee"
EPSILON = Column(1, "epsilon", 1, interval=False)
STD = Column(4, "noise\nstd", 4, interval=False)
METRICS = (
    magnitude(
        "epsilon",
        NOISE,
        "epsilon",
        "lower",
        "",
        2,
        live=4,
        table=EPSILON,
        bound="upper",
        protects="a client",
        reading=READING,
    ),
    magnitude(
        "epsilon_search",
        NOISE,
        "epsilon of a client, search included",
        "lower",
        "",
        2,
        table=Column(1, "epsilon,\nsearch", 1, interval=False),
        bound="upper",
        reading="epsilon, search: towards whoever sees the best trial of the search and no other",
    ),
    magnitude("delta", NOISE, "delta", "lower", "", 5, bound="upper"),
    magnitude(
        "noise_std",
        NOISE,
        "standard deviation of the noise",
        None,
        "",
        5,
        4,
        STD,
        over_rounds="noise",
    ),
    magnitude(
        "noise_to_update", NOISE, "noise over mean update", "lower", "", 2, over_rounds="noise"
    ),
    rate(
        "clip_fraction",
        NOISE,
        "clipped updates",
        live=6,
        table=Column(MINOR, "clipped", 2, interval=False),
    ),
    Metric("updates_dropped", NOISE, "updates that were not finite", "lower", "updates", 2),
    magnitude("update_norm", NOISE, "norm of an update", unit=""),
    magnitude("update_norm_max", NOISE, "largest norm of an update", unit=""),
    *finding.METRICS,
)


class ServerNoiseConfig(PrivacyConfig):
    """Fields of every component that clips updates and adds noise to the aggregate."""

    # About the largest distance between client models in a first round, which guided the paper's
    # choice.
    clip: float = Field(
        5.0, ge=1e-12, le=1e12, description="C, the largest L2 norm of an update after clipping"
    )
    # This is a noise level, not a privacy budget: 0.01 costs an epsilon of thousands in a single
    # round.
    noise_multiplier: float = Field(
        0.01,
        ge=0,
        le=1e6,
        description="z, standard deviation of the noise over the sensitivity; 0 only clips",
    )
    # Clients with more examples can move the mean by more than C/n; C/n, as released, then protects
    # less than it claims.
    sensitivity: Literal["weights", "uniform"] = Field(
        "weights",
        description=(
            "how far one client moves the mean: C times the largest weight, or C/n for any weights"
        ),
    )
    # In every round where it takes less than 5 % of it; it changes nothing of the run, so it is off
    # by choice alone.
    audit_every: AuditEvery = Field("auto", description=AUDIT_EVERY)


def audit_every(config: Any, run: Run) -> AuditEvery:
    """Return the rounds from one audit to the next; 0 where canaries would find too little."""
    every: AuditEvery = config.audit_every
    return 0 if every == "auto" and not is_a_mean(run) else every


def is_a_mean(run: Run) -> bool:
    """Return whether the new model is a mean of updates, which canaries can join.

    They cannot if the aggregation reads every client's update, and under a server optimizer they
    weaken each other, so that an estimate would be too low.
    """
    return run.aggregation.module.NEEDS == "mean" and run.aggregation.module.SENSITIVITY == "mean"


def audit_problems(every: AuditEvery, run: Run) -> Problems:
    """Refuse an audit in every so many rounds, if it is asked for, where canaries have no part."""
    if every in (0, "auto") or run.aggregation.module.NEEDS != "updates":
        return []
    name = run.aggregation.name
    return [("audit_every", f"must be 0: canaries enter a mean, and {name} reads every update")]


def bound(config: Any, norms: Doubles) -> Doubles:
    """Return the factors min(1, C / norm) [clients] that clip the updates.

    An update that is not finite counts as zero.

    >>> bound(ServerNoiseConfig(clip=5.0), np.array([0.0, 2.5, 10.0, np.nan, np.inf])).tolist()
    [1.0, 1.0, 0.5, 0.0, 0.0]
    """
    finite = np.isfinite(norms)
    known = np.where(finite, norms, config.clip)
    factors = config.clip / np.maximum(known, config.clip)
    return np.where(finite, factors, 0.0)


def sensitivity(config: ServerNoiseConfig, received: ClientUpdates) -> float:
    """Compute the largest L2 distance by which the mean moves if one client sends zero instead
    of its update.
    """
    if config.sensitivity == "uniform":
        return config.clip / len(received.clients)
    return config.clip * float(received.weights.max())


def add_noise(params: Floats, sd: float, noise: Normals) -> Floats:
    """Return the aggregated parameters [d] with ``noise`` of standard deviation ``sd``, which is
    used up, in a new array.
    """
    released = noise.take()
    for at in range(0, len(params), PIECE):
        piece = released[at : at + PIECE]
        piece *= np.float32(sd)
        piece += params[at : at + PIECE]
    return released


def noise_metrics(config: Any, received: ClientUpdates, sd: float) -> Metrics:
    """Return the metrics of a round: noise, norms of finite updates before clipping, their ratio.

    ``noise_to_update`` is the expected L2 norm of the noise divided by the norm of the mean update;
    NaN if that is 0.
    """
    finite = np.isfinite(received.norms)
    norms = received.norms[finite]
    if not len(norms):  # a Poisson round may have no clients
        norms = np.zeros(1)
    moved = float(np.linalg.norm(received.mean))
    length = sd * len(received.mean) ** 0.5
    return {
        "noise_std": sd,
        "clip_fraction": float(np.mean(norms > config.clip)),
        "updates_dropped": float((~finite).sum()),
        "update_norm": float(norms.mean()),
        "update_norm_max": float(norms.max()),
        "noise_to_update": length / moved if moved else float("nan"),
    }
