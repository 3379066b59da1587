"""Metric privacy: noise that shrinks where the clients' models lie far apart (Sainz-Pardo Diaz et al. 2025, section 4).

    u_i <- u_i * min(1, C / ||u_i||)                                every client, before averaging
    d   <- max over pairs i < j of  1/|A| sum over arrays a of ||w_i[a] - w_j[a]||
    theta <- aggregate({u_i}) + N(0, sd^2),   sd = (z / d) * C / n

This is no differential privacy: there is no (epsilon, delta) for any z, because d is computed from the updates themselves,
without noise, and divides the noise. d > 1 means less noise than global_dp adds at the same z, and clients who agree (d < 1)
get more, the reverse of what sensitivity would ask for. No epsilon is ever stated.

Differences from the paper: it computes d after clipping, its released code before; ``order`` chooses, and the released order is
the default. Kernels and biases count as arrays of their own, as released; ``arrays: layers`` joins them. The sensitivity is
C max_i w_i unless ``sensitivity: uniform`` asks for the paper's C/n. With a single client in a round, or models that are all
the same, there is no d: 1 is used, which is the noise of global_dp, and ``metric_guard`` is 1.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field

from algorithms.core.gram import distances, gram, scale_products
from algorithms.core.messages import ClientUpdates, Doubles, Floats
from algorithms.core.noise import Normals
from algorithms.privacy import _server_noise
from algorithms.privacy._server_noise import ServerNoiseConfig

NEEDS, NOISY = "updates", True


class Config(ServerNoiseConfig):
    """Fields of metric privacy."""

    arrays: Literal["arrays", "layers"] = Field(
        "arrays", description="what d averages over: every array, or layers (kernel and bias joined)"
    )
    # What the authors released; after clipping d cannot exceed 2 C / sqrt(|A|).
    order: Literal["pre_clip", "post_clip"] = Field("pre_clip", description="d from the updates as sent, or as clipped")


def problems(config: Config, run: Any) -> list[tuple[str, str]]:
    """What cannot be combined: (field, sentence) pairs."""
    if run.data.config.clients == 1:
        return [("", "metric_dp needs at least two clients to measure a distance between models, got data.clients 1")]
    return []


def bound(config: Config, norms: Doubles) -> Doubles:
    """min(1, C / norm) [clients]."""
    return _server_noise.scales(config.clip, norms)


def release(config: Config, params: Floats, received: ClientUpdates, noise: Normals) -> tuple[Floats, dict[str, Any]]:
    """Noisy parameters [d], and both distances beside the noise. Clients start from one model: u_i - u_j = w_i - w_j."""
    assert received.updates is not None  # asked for with NEEDS
    products = gram(received.updates, received.layout.sizes)
    if config.arrays == "layers":
        products = join_layers(products, received.layout.names)
    apart = {"pre_clip": spread(products), "post_clip": spread(scale_products(products, received.scales))}
    guarded = not apart[config.order] > 0
    d = 1.0 if guarded else apart[config.order]
    sd = config.noise_multiplier / d * _server_noise.sensitivity(config, received)
    measured = {"distance": d, "distance_pre_clip": apart["pre_clip"], "distance_post_clip": apart["post_clip"]}
    more = _server_noise.noise_metrics(config, received, sd) | measured | {"metric_guard": float(guarded)}
    return _server_noise.add_noise(params, sd, noise), more


def spread(products: Doubles) -> float:
    """d: largest mean over arrays of the distance of two clients, from ``products`` [arrays, clients, clients].

    >>> spread(gram(np.array([[3, 4, 0], [0, 0, 1]], np.float32), [2, 1]))
    3.0
    """
    return float(distances(products).mean(axis=0).max())


def join_layers(products: Doubles, names: tuple[str, ...]) -> Doubles:
    """``products`` [layers, clients, clients] of arrays whose names are equal up to the last dot: inner products add up."""
    layers: dict[str, Doubles] = {}
    for name, product in zip(names, products, strict=True):
        layer = name.rpartition(".")[0]
        layers[layer] = layers.get(layer, 0.0) + product
    return np.stack(list(layers.values()))


def final(config: Config, run: Any, rows: list[dict[str, Any]], events: list[dict[str, Any]]) -> dict[str, Any]:
    """No epsilon, and why; the mean of d over the rounds, which is the ``noise_divisor`` of the control under global_dp."""
    measured = [row["distance"] for row in rows if row.get("distance") is not None]
    reason, clusters = "none: the noise depends on the distance between updates, which is not protected", []
    if run.clustering.config.clusters > 1:
        clusters = [f"guarantee_cluster_{j}" for j in range(run.clustering.config.clusters)]
    return {
        "epsilon": None,
        **dict.fromkeys(["guarantee", *clusters], reason),
        "distance_mean": float(np.mean(measured)) if measured else None,
    }
