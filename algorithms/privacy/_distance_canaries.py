"""How the noise of metric privacy would change with one client more, or without one: for canaries (`engine.lone_canaries`).

Everything follows from the inner products of the updates, so these are read once. ``config`` is that of the component.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from algorithms.core.gram import distances, gram, join_layers, scale_products, spread
from algorithms.core.messages import ClientUpdates, Doubles, Floats
from algorithms.privacy import _server_noise


def noise_beside(config: Any, received: ClientUpdates, others: Iterable[Floats]) -> Doubles:
    """Return the noise's standard deviation if one more client, of no more weight, sent each of ``others`` [d].

    An update longer than C is not scaled: ``others`` are to be clipped before. Distances follow from inner products:
    ||u_i - c||^2 = ||u_i||^2 - 2 <u_i, c> + ||c||^2, for each array.
    """
    assert received.updates is not None  # guaranteed by NEEDS
    ends, factor = np.cumsum((0, *received.layout.sizes)), _factors(config, received)
    products = _products(config, received)
    alone, squares, spreads = spread(products), np.diagonal(products, axis1=-2, axis2=-1), []
    for other in others:
        pieces = [slice(*ends[a : a + 2]) for a in range(len(ends) - 1)]
        inner = np.array([factor * (received.updates[:, at] @ other[at]) for at in pieces])
        own = np.array([[float(other[at] @ other[at])] for at in pieces])
        inner, own = (_by_array(config, received, one[..., None])[..., 0] for one in (inner, own))
        apart = np.sqrt(np.maximum(squares - 2 * inner + own, 0))  # [arrays, clients]
        spreads.append(max(alone, float(apart.mean(axis=0).max())))
    deviations: Doubles = config.noise_multiplier / np.array(spreads) * _server_noise.sensitivity(config, received)
    return deviations


def noise_without(config: Any, received: ClientUpdates) -> Doubles:
    """Return the noise's standard deviation [clients] if each client in turn had no part in the distance.

    Only the two clients that lie farthest apart change it. Where no distance is left, d is 1, as in `release`.
    """
    apart, spreads = distances(_products(config, received)).mean(axis=0), []
    for i in range(len(apart)):
        others = np.delete(np.delete(apart, i, axis=0), i, axis=1)
        spreads.append(float(others.max(initial=0.0)) or 1.0)
    deviations: Doubles = config.noise_multiplier / np.array(spreads) * _server_noise.sensitivity(config, received)
    return deviations


def _products(config: Any, received: ClientUpdates) -> Doubles:
    """Return the inner products [arrays or layers, clients, clients] of which d is computed."""
    assert received.updates is not None  # guaranteed by NEEDS
    products = _by_array(config, received, gram(received.updates, received.layout.sizes))
    return scale_products(products, _factors(config, received))


def _factors(config: Any, received: ClientUpdates) -> Doubles:
    return received.scales if config.order == "post_clip" else np.ones(len(received.clients))


def _by_array(config: Any, received: ClientUpdates, products: Doubles) -> Doubles:
    """Return inner products [arrays, ...] for what d averages over: the arrays, or the layers."""
    return join_layers(products, received.layout.names) if config.arrays == "layers" else products
