"""FinP's server weights by "PCA" (Zhao et al. 2025, eq. 4): the new model has the same distance
from every client's model.

    w = argmin_w  || p(w) - mean p(w) ||,     w_k >= 0, sum_k w_k = 1
    p_k(w) = || theta_k - sum_j w_j theta_j ||_2

All terms follow from the updates' inner products G, which are computed once a round:

    p_k^2 = G_kk - 2 (G w)_k + w'G w,         d p_k / d w = (G w - G_k) / p_k

Equal distances draw the model towards an outlier: for orthogonal updates of lengths r_k the
solution is w_k = 1/2 - (K
- 2) / (2 r_k^2 sum_j r_j^-2), as long as these are not negative.

Differences from the paper: its p_k is a "PCA distance". The released code fits a PCA with K
components to the K + 1 models in every step of the solver; K + 1 points span at most K dimensions,
so nothing is lost and p_k is the distance above. As released, the objective is the square of eq.
4's first term; eq. 4 itself and the form in its proof (eq. 10) are options. The released search
starts at weights 0.1, which is 1/K for ten clients; here it starts at 1/K. The released distances
include the network's running statistics and step counters, which swamp the weights; here they cover
the trainable parameters only, and updates after clipping by the privacy slot. If the search fails,
weights are proportional to numbers of examples.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from algorithms.aggregation import fedavg
from algorithms.core.gram import ROUNDING, center_products, gram, scale_products
from algorithms.core.messages import ClientUpdates, Doubles
from algorithms.core.metric import AGGREGATION, Metric, magnitude, rate
from algorithms.interfaces import Metrics
from datasets.components import Config as SlotConfig

NEEDS = "updates"
UPDATES_FOR = (
    "solves for weights from the inner products of the clients' updates, which no sum contains"
)
LABEL = "FinP-PCA"
AGAINST = "source inference on updates"
GUARANTEE = "none: aims at equal exposure of clients"
COST = "more weight to outliers; the server reads every update"
PAPERS = {"FinP": "https://arxiv.org/abs/2502.17748"}
METHODS = {"plain": ("FinP_server (PCA)", 4)}
METRICS = (
    Metric("pca_objective", AGGREGATION, "PCA objective", "lower", "", 4),
    rate("pca_fallback", AGGREGATION, "PCA weights by size", "lower", digits=2),
    magnitude("pca_cov", AGGREGATION, "CoV of PCA distances", "lower", ""),
    magnitude("pca_cov_by_size", AGGREGATION, "CoV of PCA distances, weights by size", "lower", ""),
    rate("pca_fi", AGGREGATION, "FI of PCA distances", "higher", ""),
)

Objective = Literal["ssd", "eq4", "eq10"]


class Config(SlotConfig):
    """Fields of FinP's PCA weights."""

    objective: Objective = Field(
        "ssd",
        description=(
            "ssd: sum of squared deviations (as released); eq4: its root + mean; eq10: + "
            "sqrt(K) mean"
        ),
    )
    # The released 1e-6 applies to unscaled distances; here distances are about one, and a better
    # optimum is cheap.
    tolerance: float = Field(
        1e-9, gt=0, le=1e-2, description="precision of the objective at which the search stops"
    )
    iterations: int = Field(
        200, ge=1, le=10_000, description="largest number of search steps; ten or so are enough"
    )


weigh = fedavg.by_examples
apply = fedavg.apply


def reweigh(config: Config, received: ClientUpdates) -> tuple[Doubles, Metrics]:
    """Find the weights that minimize the objective.

    With a single client, or if all updates are equal, there is nothing to search for: weights are
    proportional to numbers of examples and the objective is 0.

    Returns:
        Weights [clients] that sum to one, and the metrics ``pca_objective``, the objective with
        distances in units of their root mean square from the mean model, and ``pca_fallback``,
        which is 1 if the search failed or an update is not finite and the weights are therefore
        proportional to numbers of examples. With several clients also ``pca_cov`` and ``pca_fi``,
        coefficient of variation of the distances from the new model and the fairness index made
        from it (Fig. 6), and ``pca_cov_by_size``, what the first would be with weights by numbers
        of examples.
    """
    assert received.updates is not None  # guaranteed by NEEDS
    products = scale_products(gram(received.updates)[0], received.scales)
    total = float(np.trace(products))
    if not np.isfinite(total):
        return received.weights, {"pca_objective": float("nan"), "pca_fallback": 1.0}
    # Distances do not depend on the origin; relative to the mean, their unit is the clients'
    # spread.
    products = center_products(products)
    spread = float(np.trace(products))
    if spread <= ROUNDING * total:
        return received.weights, {"pca_objective": 0.0, "pca_fallback": 0.0}
    products = products * (len(products) / spread)
    solution = search(config, products)
    weights = received.weights if solution is None else solution
    value, _ = value_and_gradient(config.objective, products, weights)
    found, _ = distances(products, weights)
    by_size, _ = distances(products, received.weights)
    cov = float(found.std() / found.mean())
    return weights, {
        "pca_objective": value,
        "pca_fallback": float(solution is None),
        "pca_cov": cov,
        "pca_fi": 1 / (1 + cov**2),
        "pca_cov_by_size": float(by_size.std() / by_size.mean()),
    }


def search(config: Config, products: Doubles) -> Doubles | None:
    """Search the simplex for the best weights [clients], starting from uniform ones; None if the
    solver fails.

    ``products`` [clients, clients] are the updates' inner products.
    """
    from scipy.optimize import minimize

    clients = len(products)
    result = minimize(
        lambda w: value_and_gradient(config.objective, products, w),
        np.full(clients, 1 / clients),
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * clients,
        constraints={
            "type": "eq",
            "fun": lambda w: w.sum() - 1,
            "jac": lambda w: np.ones(clients),
        },
        options={"ftol": config.tolerance, "maxiter": config.iterations},
    )
    weights = np.clip(result.x, 0, 1)  # SLSQP may miss a bound or the sum by a rounding error
    total = weights.sum()
    found = result.success and np.isfinite(weights).all() and total > 0
    return weights / total if found else None


def value_and_gradient(
    objective: Objective, products: Doubles, w: Doubles
) -> tuple[float, Doubles]:
    """Compute the objective at the weights ``w`` [clients] and its gradient [clients].

    Where distances or all deviations are 0 the objective has a kink; the gradient of those terms is
    then set to 0.
    """
    p, gradients = distances(products, w)
    # they sum to zero, so the mean's own gradient drops out of their square's
    deviations = p - p.mean()
    squared = float(deviations @ deviations)
    if objective == "ssd":
        return squared, 2 * deviations @ gradients
    root = np.sqrt(squared)
    share = 1.0 if objective == "eq4" else np.sqrt(len(w))
    towards = deviations / root if root > 0 else deviations
    gradient = towards @ gradients + share * gradients.mean(axis=0)
    return float(root + share * p.mean()), gradient


def distances(products: Doubles, w: Doubles) -> tuple[Doubles, Doubles]:
    """Compute the distances p(w) [clients] of the clients from the model with weights ``w``, and
    their gradients.

    dp_k / dw_j [clients k, clients j] is 0 for a client whose model coincides with the new one.
    """
    ours = products @ w
    squares = np.diagonal(products) - 2 * ours + w @ ours
    p = np.sqrt(np.maximum(squares, 0))
    divisors = np.where(p > 0, p, np.inf)
    return p, (ours - products) / divisors[:, None]
