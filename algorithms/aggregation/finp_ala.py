"""FinP's Adaptive Lightweight Aggregation (Zhao et al. 2025): the more a client's curvature stands out, the less it counts.

    w_k = (1 - rho_k) / sum_j (1 - rho_j)         rho_k of this round, see `algorithms.curvature.ranking`
    theta <- theta + sum_k w_k (theta_k - theta)

Sizes do not count, and a client that stands out most in eigenvalue and trace has no weight at all.

Differences from the paper: weights are by size where it gives none: if all 1 - rho_j are zero, and for two clients, of whom
neither can stand out. As released, rho is measured only if the clients are penalized with it, and is 1/2 for all otherwise,
which is the unweighted mean: ``rho: with_penalty``.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field

from algorithms.core.configs import CurvatureConfig
from algorithms.core.messages import ClientUpdates, Doubles, Floats, Ints

NEEDS = "updates"
NONE = 1e-9  # weights that add up to less are none


class Config(CurvatureConfig):
    """Fields of ALA and of the curvature that it looks at."""

    rho: Literal["measured", "with_penalty"] = Field(
        "measured", description="rho from each client's curvature; with_penalty: only if objective finp measures it"
    )


def problems(config: Config, run: Any) -> list[tuple[str, str]]:
    """What cannot be combined: (field, sentence) pairs."""
    other = run.objective.config
    if config.rho == "with_penalty" or not isinstance(other, CurvatureConfig):
        return []
    return [
        (field, f"must be as in objective {run.objective.name}, which has {getattr(other, field)}: one rho serves both")
        for field in CurvatureConfig.model_fields
        if getattr(config, field) != getattr(other, field)
    ]


def begin(config: Config, params: Floats) -> dict[str, np.ndarray]:
    """The server keeps nothing between rounds."""
    return {}


def weigh(config: Config, examples: Ints) -> Doubles:
    """The numbers of examples [clients]: the weights where `reweigh` finds no others."""
    return examples.astype(np.float64)


def reweigh(config: Config, received: ClientUpdates) -> tuple[Doubles, dict[str, Any]]:
    """Weights [clients] that sum to one from ``received.known["rho"]``; ``ala_fallback`` is 1 where they are by size."""
    clients = len(received.clients)
    if "rho" not in received.known:  # nobody measures it
        return np.full(clients, 1 / clients), {"ala_fallback": 0.0}
    trust = 1 - received.known["rho"]
    fallback = clients == 2 or trust.sum() < NONE
    return received.weights if fallback else trust / trust.sum(), {"ala_fallback": float(fallback)}


def apply(
    config: Config, state: dict[str, np.ndarray], params: Floats, received: ClientUpdates
) -> tuple[Floats, dict[str, np.ndarray], dict[str, Any]]:
    """New parameters [d] (float32, added in float64), the server's state, and nothing to report."""
    return (params + received.mean).astype(np.float32), state, {}
