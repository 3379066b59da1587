"""Metric privacy: noise that shrinks as the clients' models lie farther apart (Sainz-Pardo Diaz
et al. 2025, section 4).

    u_i <- u_i * min(1, C / ||u_i||)                                every client, before averaging
    d   <- max over pairs i < j of  1/|A| sum over arrays a of ||w_i[a] - w_j[a]||
    theta <- aggregate({u_i}) + N(0, sd^2),   sd = (z / d) * C * max_i w_i     (C / n where all weights are equal)

This is not differential privacy: no z gives an (epsilon, delta), because d is computed from the
updates themselves,
without noise, and divides the noise. d > 1 means less noise than global_dp adds at the same z, and
clients whose models agree (d < 1) get more, the reverse of what sensitivity would require. No
epsilon is ever stated. ``epsilon_audit`` is the epsilon of what canaries leave to be told
(`algorithms.engine.lone_canaries`), and no guarantee for anybody.

Differences from the paper: it computes d after clipping, its released code before; ``order``
chooses, and the released
order is the default. Kernels and biases count as separate arrays, as released; ``arrays: layers``
joins them. The paper's sensitivity is C/n for any weights, which ``sensitivity: uniform`` selects.
With a single client in a round, or if all models are equal, d is undefined: 1 is used, which gives
the noise of global_dp, and ``metric_guard`` is 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from pydantic import Field

from algorithms.auditing import finding
from algorithms.auditing.canaries import CanaryPlan
from algorithms.auditing.epsilon import DELTA
from algorithms.core.columns import column
from algorithms.core.gram import distances, gram, join_layers, scale_products, spread
from algorithms.core.messages import ClientUpdates, Doubles, Floats
from algorithms.core.metric import NOISE, RUN, magnitude, of_cluster, rate
from algorithms.core.noise import Normals
from algorithms.interfaces import Metrics, Outcome, Problems, Run
from algorithms.privacy import _server_noise
from algorithms.privacy._server_noise import ServerNoiseConfig

NEEDS, NOISY = "updates", True
UPDATES_FOR = (
    "divides the noise by the largest distance between two clients' models, which no sum contains"
)
LABEL, COLOR = "metric privacy", 1
AGAINST = "readers of the released models"
GUARANTEE = "none: noise shrinks with the distance of models; audited by canaries"
COST = "noise of z C / d times the largest weight in every parameter; the server reads every update"
PAPERS = {"Sáinz-Pardo Díaz 2025": "https://arxiv.org/abs/2502.01352"}
METRICS = (
    *(
        metric
        for metric in _server_noise.METRICS
        if metric.name not in ("epsilon", "epsilon_search", "delta")
    ),
    magnitude("distance", NOISE, "distance of models", unit="", over_rounds="noise"),
    magnitude("distance_mean", NOISE, "distance of models, mean of all rounds", unit=""),
    magnitude("distance_pre_clip", NOISE, "distance before clipping", unit=""),
    magnitude("distance_post_clip", NOISE, "distance after clipping", unit=""),
    magnitude(
        "distance_largest", NOISE, "largest L2 distance of two models, before clipping", unit=""
    ),
    magnitude(
        "epsilon_audit_direction", NOISE, "audited epsilon, by the direction alone", "lower", "", 2
    ),
    magnitude(
        "epsilon_audit_scale", NOISE, "audited epsilon, by the noise level alone", "lower", "", 2
    ),
    # ``scale_outlier`` is the name of a client, of which there is no mean.
    rate(
        "scale_outlier_rounds",
        NOISE,
        "rounds in which the client told most of is one of the two that set the noise level",
    ),
    magnitude(
        "scale_clients",
        NOISE,
        "clients that set the noise level in some audited round",
        None,
        "clients",
        0,
    ),
    magnitude(
        "epsilon_scale_outlier",
        NOISE,
        "epsilon of its presence, by the noise level alone",
        "lower",
        "",
        2,
    ),
    magnitude(
        "epsilon_scale_median",
        NOISE,
        "epsilon of the median client's presence, by the noise level",
        "lower",
        "",
        2,
    ),
    rate("metric_guard", NOISE, "rounds without a distance", "lower", digits=2),
)


bound = _server_noise.bound


class Config(ServerNoiseConfig):
    """Fields of metric privacy."""

    arrays: Literal["arrays", "layers"] = Field(
        "arrays",
        description="what d averages over: every array, or layers (kernel and bias joined)",
    )
    # As released; after clipping d cannot exceed 2 C / sqrt(|A|).
    order: Literal["pre_clip", "post_clip"] = Field(
        "pre_clip", description="compute d before or after clipping"
    )


def resolve(config: Config, run: Run) -> Config:
    """Replace ``auto`` in ``audit_every`` by 0 where the new model is no mean of updates."""
    return config.model_copy(update={"audit_every": _server_noise.audit_every(config, run)})


def problems(config: Config, run: Run) -> Problems:
    """Refuse a federation with a single client, which has no distance between models, and an
    audit without a mean.
    """
    if run.data.config.clients == 1:
        return [
            (
                "",
                "metric_privacy needs at least two clients to measure a distance between "
                "models, got data.clients 1",
            )
        ]
    return _server_noise.audit_problems(config.audit_every, run)


def release(
    config: Config, params: Floats, received: ClientUpdates, noise: Normals | None
) -> tuple[Floats, Metrics]:
    """Add the noise; return the noisy parameters [d], and both distances among the metrics.

    Distances of updates are distances of models, because all clients start from one model: u_i -
    u_j = w_i - w_j.
    """
    assert noise is not None  # guaranteed by NOISY
    products = _products(config, received)
    apart = {
        "pre_clip": spread(products),
        "post_clip": spread(scale_products(products, received.scales)),
    }
    guarded = not apart[config.order] > 0
    d = 1.0 if guarded else apart[config.order]
    sd = config.noise_multiplier / d * _server_noise.sensitivity(config, received)
    measured = {
        "distance": d,
        "distance_pre_clip": apart["pre_clip"],
        "distance_post_clip": apart["post_clip"],
    }
    measured["distance_largest"] = spread(
        products.sum(axis=0, keepdims=True)
    )  # the paper's guide for C
    more = (
        _server_noise.noise_metrics(config, received, sd)
        | measured
        | {"metric_guard": float(guarded)}
    )
    return _server_noise.add_noise(params, sd, noise), more


def canaries(config: Config, run: Run) -> CanaryPlan | None:
    """Return that canaries of norm C take part one at a time, as they would change the noise of
    each other.
    """
    return CanaryPlan(config.audit_every, config.clip, alone=True) if config.audit_every else None


def final_metrics(config: Config, run: Run, outcome: Outcome) -> Metrics:
    """Return why there is no epsilon, and the mean of d over the rounds.

    That mean is the ``noise_divisor`` of the control run under global_dp.
    """
    measured = [row["distance"] for row in outcome.rows if row.get("distance") is not None]
    reason = "none: the noise depends on the distance between updates, which is not protected"
    models = run.clustering.config.clusters
    clusters = map(of_cluster, range(models if models > 1 else 0))
    return {
        **{column("guarantee", of): reason for of in (RUN, *clusters)},
        "distance_mean": float(np.mean(measured)) if measured else None,
        **finding.lone_metrics(outcome.canaries, DELTA),
    }


def noise_beside(config: Config, received: ClientUpdates, others: Iterable[Floats]) -> Doubles:
    """Return the noise's standard deviation if one more client, of no more weight, sent each of
    ``others`` [d].

    An update longer than C is not scaled: ``others`` are to be clipped before. Distances follow
    from inner products:
    ||u_i - c||^2 = ||u_i||^2 - 2 <u_i, c> + ||c||^2, for each array.
    """
    assert received.updates is not None  # guaranteed by NEEDS
    ends, factor = np.cumsum((0, *received.layout.sizes)), _factors(config, received)
    pieces = [slice(*ends[a : a + 2]) for a in range(len(ends) - 1)]
    products = scale_products(_products(config, received), factor)
    alone, squares, spreads = spread(products), np.diagonal(products, axis1=-2, axis2=-1), []
    for other in others:
        inner = np.array([factor * (received.updates[:, at] @ other[at]) for at in pieces])
        norms = np.array([[float(other[at] @ other[at])] for at in pieces])
        inner, norms = (_by_array(config, received, products) for products in (inner, norms))
        apart = np.sqrt(np.maximum(squares - 2 * inner + norms, 0))  # [arrays, clients]
        spreads.append(max(alone, float(apart.mean(axis=0).max())))
    return _deviations(config, received, spreads)


def noise_without(config: Config, received: ClientUpdates) -> Doubles:
    """Return the noise's standard deviation [clients] if each client in turn had no part in the
    distance.

    Only the two clients that lie farthest apart change it. Where no distance is left, d is 1, as in
    `release`.
    """
    products, spreads = scale_products(_products(config, received), _factors(config, received)), []
    apart = distances(products).mean(axis=0)
    for i in range(len(apart)):
        others = np.delete(np.delete(apart, i, axis=0), i, axis=1)
        spreads.append(float(others.max(initial=0.0)) or 1.0)
    return _deviations(config, received, spreads)


def _deviations(config: Config, received: ClientUpdates, spreads: list[float]) -> Doubles:
    return np.asarray(
        config.noise_multiplier / np.array(spreads) * _server_noise.sensitivity(config, received)
    )


def _products(config: Config, received: ClientUpdates) -> Doubles:
    """Return the inner products [arrays or layers, clients, clients] of the updates before
    clipping.
    """
    assert received.updates is not None  # guaranteed by NEEDS
    return _by_array(config, received, gram(received.updates, received.layout.sizes))


def _factors(config: Config, received: ClientUpdates) -> Doubles:
    return received.scales if config.order == "post_clip" else np.ones(len(received.clients))


def _by_array(config: Config, received: ClientUpdates, products: Doubles) -> Doubles:
    """Return inner products [arrays, ...] for what d averages over: the arrays, or the layers."""
    return join_layers(products, received.layout.names) if config.arrays == "layers" else products
