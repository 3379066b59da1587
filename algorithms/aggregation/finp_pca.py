"""FinP's server weights by "PCA" (Zhao et al. 2025, eq. 4): the new model equally far from every client's.

    w = argmin_w  || p(w) - mean p(w) ||,     w_k >= 0, sum_k w_k = 1
    p_k(w) = || theta_k - sum_j w_j theta_j ||_2

From the updates' inner products G, which are taken once a round,

    p_k^2 = G_kk - 2 (G w)_k + w'G w,         d p_k / d w = (G w - G_k) / p_k

Equal distances draw the model towards an outlier: for orthogonal updates of lengths r_k the solution is
w_k = 1/2 - (K - 2) / (2 r_k^2 sum_j r_j^-2), as long as these are not negative.

Differences from the paper: its p_k is a "PCA distance". As released, a PCA with K components of the K + 1 models is fitted in
every step of the solver; K + 1 points span at most K dimensions, so nothing is lost and p_k is the distance above. As
released, the objective is the square of eq. 4's first term; eq. 4 and the form of its proof (eq. 10) are switches. The
released search starts at weights 0.1, which is 1/K for ten clients, and 1/K here; its distances include running statistics
and step counters of the network, which swamp the weights. Here they are of trainable parameters, and of updates as far as
the privacy slot lets them count. Where the search fails, weights are by size.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field

from algorithms.core.gram import ROUNDING, center_products, gram, scale_products
from algorithms.core.messages import ClientUpdates, Doubles, Floats, Ints
from datasets.components import Config as SlotConfig

NEEDS = "updates"

Objective = Literal["ssd", "eq4", "eq10"]


class Config(SlotConfig):
    """Fields of FinP's PCA weights."""

    objective: Objective = Field(
        "ssd", description="ssd: sum of squared deviations (as released); eq4: its root + mean; eq10: + sqrt(K) mean"
    )
    # The released 1e-6 is of distances on their own scale; here they are of size one, and a better optimum is cheap.
    tolerance: float = Field(1e-9, gt=0, le=1e-2, description="precision of the objective at which the search stops")
    iterations: int = Field(200, ge=1, le=10_000, description="steps of the search at most; it takes ten or so")


def begin(config: Config, params: Floats) -> dict[str, np.ndarray]:
    """The server keeps nothing between rounds."""
    return {}


def weigh(config: Config, examples: Ints) -> Doubles:
    """The numbers of examples [clients]: the weights where `reweigh` finds no others."""
    return examples.astype(np.float64)


def reweigh(config: Config, received: ClientUpdates) -> tuple[Doubles, dict[str, Any]]:
    """Weights [clients] that sum to one and minimize the objective, and metrics.

    ``pca_objective`` is its value with distances in units of their root mean square from the mean model; ``pca_fallback`` is 1
    where the search failed, or an update is not finite, and the weights are by size. One client, or all updates equal: there
    is nothing to search for, the weights are by size and the objective is 0.
    """
    assert received.updates is not None  # asked for with NEEDS
    products = scale_products(gram(received.updates)[0], received.scales)
    whole = float(np.trace(products))
    if not np.isfinite(whole):
        return received.weights, {"pca_objective": float("nan"), "pca_fallback": 1.0}
    # Distances do not depend on where the origin lies; from the mean, the unit is the clients' spread.
    products = center_products(products)
    spread = float(np.trace(products))
    if spread <= ROUNDING * whole:
        return received.weights, {"pca_objective": 0.0, "pca_fallback": 0.0}
    products = products * (len(products) / spread)
    found = search(config, products)
    weights = received.weights if found is None else found
    value, _ = value_and_gradient(config.objective, products, weights)
    return weights, {"pca_objective": value, "pca_fallback": float(found is None)}


def search(config: Config, products: Doubles) -> Doubles | None:
    """Weights [clients] on the simplex, from uniform ones on; None where the solver reports a failure."""
    from scipy.optimize import minimize

    clients = len(products)
    found = minimize(
        lambda w: value_and_gradient(config.objective, products, w),
        np.full(clients, 1 / clients),
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * clients,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(clients)},
        options={"ftol": config.tolerance, "maxiter": config.iterations},
    )
    weights = np.clip(found.x, 0, 1)  # SLSQP may miss a bound or the sum by a rounding
    if not found.success or not np.isfinite(weights).all() or weights.sum() <= 0:
        return None
    return weights / weights.sum()


def value_and_gradient(objective: Objective, products: Doubles, w: Doubles) -> tuple[float, Doubles]:
    """The objective at ``w`` and its gradient [clients].

    Where distances or all deviations are 0 the objective has a kink; their share of the gradient is then 0.
    """
    p, gradients = distances(products, w)
    deviations = p - p.mean()  # they sum to zero, so the mean's own gradient drops out of their square's
    squared = float(deviations @ deviations)
    if objective == "ssd":
        return squared, 2 * deviations @ gradients
    root = np.sqrt(squared)
    share = 1.0 if objective == "eq4" else np.sqrt(len(w))
    towards = deviations / root if root > 0 else deviations
    return float(root + share * p.mean()), towards @ gradients + share * gradients.mean(axis=0)


def distances(products: Doubles, w: Doubles) -> tuple[Doubles, Doubles]:
    """p(w) [clients] and its gradients dp_k / dw_j [clients k, clients j], 0 for a client that the model coincides with."""
    ours = products @ w
    p = np.sqrt(np.maximum(np.diagonal(products) - 2 * ours + w @ ours, 0))
    return p, (ours - products) / np.where(p > 0, p, np.inf)[:, None]


def apply(
    config: Config, state: dict[str, np.ndarray], params: Floats, received: ClientUpdates
) -> tuple[Floats, dict[str, np.ndarray], dict[str, Any]]:
    """New parameters [d] (float32, added in float64), the server's state, and nothing to report."""
    return (params + received.mean).astype(np.float32), state, {}
