"""Global differential privacy of clients: a trusted server clips their updates and adds Gaussian noise (McMahan et al. 2018).

    u_i   <- u_i * min(1, C / ||u_i||)                every client, before averaging
    theta <- aggregate({u_i}) + N(0, sd^2),           sd = z * C * max_i w_i     (C/n where all weights are equal)
    account: what the rounds spent, as the epsilon of one client at delta

An epsilon is stated only where C max w is what one client can move, otherwise None and the reason in ``guarantee``. It protects
one client (all of its examples) against whoever sees every model that was sent, and it takes for granted that the number of
clients and of their examples is public:

    participation all      add_or_remove_one: a client that is absent counts as one that sends zero, so that no denominator
                           changes; it can move the mean by C w_i. replace_one: by 2 C w_i.
    participation fixed    replace_one, uniform weights: 2 C / n, sampled without replacement.
    participation poisson  add_or_remove_one, uniform weights: C / (rate * clients). The sum is divided by the number of clients
                           that is expected (McMahan et al. 2018, the first estimator of section 2.2): the number that came
                           would tell who took part.

Differences from the paper (Sainz-Pardo Diaz et al. 2025): it takes C/n for the sensitivity of any weighted mean, median or
server optimizer (``sensitivity: uniform``, as released by Flower). As there, noise is added to parameters after the server
optimizer, which keeps its own copy without noise. What other slots publish (risks, tables of results) is not accounted for.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from algorithms.core import accounting
from algorithms.core.messages import ClientUpdates, Doubles, Floats
from algorithms.core.noise import Normals
from algorithms.privacy import _server_noise
from algorithms.privacy._server_noise import ServerNoiseConfig

NEEDS, NOISY = "mean", True
# Aggregations under which the next model is the sent one plus the mean update and nothing else.
MEANS = ("fedavg", "fedopt")
RESTARTED = "none: initializations are compared by losses without noise; clustering.restarts 1 compares none"
SEVERAL = "none: clients choose among models by their data, which is seen; the epsilon per cluster leaves that out"


class Config(ServerNoiseConfig):
    """Fields of global differential privacy."""

    # The control of metric_dp: as much less noise as that adds on average, but the same in every round.
    noise_divisor: float = Field(
        1.0, gt=0, description="z is divided by it: mean distance of a metric_dp run as control"
    )
    neighboring: Literal["auto", "add_or_remove_one", "replace_one"] = Field(
        "auto", description="federations that must look alike; auto: replace_one where participation is fixed"
    )
    delta: float = Field(1e-5, gt=0, lt=1, description="probability with which epsilon may be exceeded, roughly")
    divisor: Literal["auto", "received"] | Annotated[float, Field(gt=0)] = Field(
        "auto", description="what a poisson round's sum is divided by: clients expected (auto) or received, or a number"
    )


def resolved(config: Config, run: Any) -> Config:
    """``neighboring`` by the participation; ``divisor`` the expected number of clients where the account needs it."""
    neighboring, divisor = config.neighboring, config.divisor
    if neighboring == "auto":
        neighboring = "replace_one" if _sampler(run) == "fixed" else "add_or_remove_one"
    if divisor == "auto":
        poisson = _sampler(run) == "poisson" and _divisible(run)
        divisor = run.participation_rate * run.data.config.clients if poisson else "received"
    return config.model_copy(update={"neighboring": neighboring, "divisor": divisor})


def problems(config: Config, run: Any) -> list[tuple[str, str]]:
    """What cannot be combined: (field, sentence) pairs."""
    found = []
    if refusal := accounting.unsupported(_sampler(run), config.neighboring):
        found.append(("neighboring", refusal))
    if isinstance(config.divisor, float) and not (_sampler(run) == "poisson" and _divisible(run)):
        only = "may be a number only for poisson participation, a plain mean with uniform weights and a single model"
        found.append(("divisor", f"{only}; got {config.divisor:g}"))
    return found


def bound(config: Config, norms: Doubles) -> Doubles:
    """min(1, C / norm) [clients]."""
    return _server_noise.scales(config.clip, norms)


def release(config: Config, params: Floats, received: ClientUpdates, noise: Normals) -> tuple[Floats, dict[str, Any]]:
    """Noisy parameters [d], and the noise beside the norms of the updates."""
    sd = _standard_deviation(config, received)
    if isinstance(config.divisor, float):
        share = len(received.clients) / config.divisor
        params = (params + (share - 1) * received.mean).astype(np.float32)
    return _server_noise.add_noise(params, sd, noise), _server_noise.noise_metrics(config, received, sd)


def event(config: Config, received: ClientUpdates, run: Any) -> dict[str, Any]:
    """What a round adds to the account: its noise over what one client can truly move, and how clients were sampled."""
    sampler, clients = _sampler(run), len(received.clients)
    moved = _largest_move(config, received) * (2 if config.neighboring == "replace_one" else 1)
    sampling = {"all": 1.0, "poisson": getattr(run, "participation_rate", 1.0)}
    return {
        "noise_multiplier": _standard_deviation(config, received) / moved,
        "sampler": sampler,
        "sampling": sampling[sampler] if sampler in sampling else clients / run.data.config.clients,
        "clients": clients,
    }


def final(config: Config, run: Any, rows: list[dict[str, Any]], events: list[dict[str, Any]]) -> dict[str, Any]:
    """Epsilon of one client at ``delta`` after the run, or None and the reason.

    With several models, ``epsilon_cluster_<j>`` is that of a client that used model j in every round, if all stayed.
    """
    reason = guarantee(config, run)
    told: dict[str, Any] = {"epsilon": None, "delta": config.delta, "guarantee": reason}
    if run.clustering.config.clusters > 1:
        told |= {f"guarantee_cluster_{j}": reason for j in range(run.clustering.config.clusters)}
    if reason == SEVERAL and _sampler(run) == "all":
        for j in sorted({one["cluster"] for one in events}):
            told[f"epsilon_cluster_{j}"] = _epsilon(config, [one for one in events if one["cluster"] == j])
    if reason != "dp":
        return told
    if len(events) < run.rounds:
        return told | {"guarantee": "none: nobody came to a round, and the model was sent on without noise"}
    epsilon = _epsilon(config, events)
    return told | ({"guarantee": "none: next to no noise is added"} if epsilon is None else {"epsilon": epsilon})


def guarantee(config: Config, run: Any) -> str:
    """``dp``, or ``none:`` and the first reason why no epsilon holds for the run."""
    aggregation, sampler = run.aggregation, _sampler(run)
    reasons = (
        (config.noise_multiplier == 0, "none: no noise is added"),
        (aggregation.name not in MEANS, f"none: {aggregation.name} has no known sensitivity; fedavg has"),
        (run.model.module.BATCH_NORM, "none: running statistics of batch normalization are averaged without noise"),
        (
            "rho" in getattr(run.objective.module, "CONTEXT", ()),
            f"none: {run.objective.name} tells clients how they rank among others, without noise",
        ),
        (getattr(run.clustering.config, "restarts", 1) > 1, RESTARTED),
        (run.clustering.config.clusters > 1, SEVERAL),
        (
            sampler != "all" and _weights(run) != "uniform",
            f"none: {sampler} participation needs aggregation.weights uniform; others depend on who takes part",
        ),
        (
            sampler == "poisson" and not isinstance(config.divisor, float),
            "none: dividing by the number of clients that came tells who took part; use another privacy.divisor",
        ),
    )
    return next((reason for holds, reason in reasons if holds), "dp")


def _epsilon(config: Config, events: list[dict[str, Any]]) -> float | None:
    epsilon = accounting.epsilon(events, config.delta, config.neighboring)
    return epsilon if math.isfinite(epsilon) else None


def _largest_move(config: Config, received: ClientUpdates) -> float:
    """L2 distance by which the aggregate moves, at most, when one client sends zero; true whatever `sensitivity` says."""
    if isinstance(config.divisor, float):
        return config.clip / config.divisor
    return config.clip * float(received.weights.max())


def _standard_deviation(config: Config, received: ClientUpdates) -> float:
    multiplier = config.noise_multiplier / config.noise_divisor
    if isinstance(config.divisor, float):
        return multiplier * config.clip / config.divisor
    return multiplier * _server_noise.sensitivity(config, received)


def _sampler(run: Any) -> str:
    return getattr(run, "participation", "all")


def _weights(run: Any) -> str:
    return getattr(run.aggregation.config, "weights", "examples")


def _divisible(run: Any) -> bool:
    """Whether a round's mean can be turned into a sum that is divided by a fixed number."""
    return run.aggregation.name in MEANS and _weights(run) == "uniform" and run.clustering.config.clusters == 1
