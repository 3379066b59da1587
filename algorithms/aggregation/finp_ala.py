"""FinP's Adaptive Lightweight Aggregation (Zhao et al. 2025): clients whose curvature stands out
get less weight.

    w_k = (1 - rho_k) / sum_j (1 - rho_j)    rho_k of this round, see `algorithms.curvature.ranking`
    theta <- theta + sum_k w_k (theta_k - theta)

Numbers of examples do not matter, and a client that stands out most in both eigenvalue and trace
has weight zero.

Differences from the paper: weights are proportional to numbers of examples where it defines none:
if all 1 - rho_j are zero, and for two clients, of whom neither can stand out. In the released code
rho is measured only if the clients are also penalized with it, and is 1/2 for all otherwise, which
gives the unweighted mean; ``rho: with_penalty`` does the same.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from algorithms.aggregation import fedavg
from algorithms.core.messages import ClientUpdates, Doubles
from algorithms.core.metric import AGGREGATION, rate
from algorithms.interfaces import Metrics
from datasets.components import Config as SlotConfig

NEEDS = "updates"
UPDATES_FOR = (
    "weighs each client's update by that client's own curvature, which only the server knows of all"
)
LABEL = "FinP-ALA"
AGAINST = "source inference on updates"
GUARANTEE = "none: aims at equal exposure of clients"
COST = "less weight to clients that stand out; their curvature is sent"
PAPERS = {"FinP": "https://arxiv.org/abs/2502.17748"}
METHODS = {"plain": ("FinP_server (ALA)", 5)}
METRICS = (rate("ala_fallback", AGGREGATION, "ALA weights by size", "lower", digits=2),)
NONE = 1e-9  # weights with a smaller sum count as zero


class Config(SlotConfig):
    """Fields of ALA. The section ``curvature`` of the run sets how curvature is measured."""

    rho: Literal["measured", "with_penalty"] = Field(
        "measured",
        description=(
            "rho from each client's curvature; with_penalty: only if objective finp measures it"
        ),
    )


def statistics(config: Config) -> tuple[str, ...]:
    """Return ``("rho",)`` if rho is measured for these weights even when no other component
    reads it.
    """
    return ("rho",) if config.rho == "measured" else ()


weigh = fedavg.by_examples
apply = fedavg.apply


def reweigh(config: Config, received: ClientUpdates) -> tuple[Doubles, Metrics]:
    """Compute the weights of ALA from the client statistic ``rho``.

    Returns:
        Weights [clients] that sum to one, and the metric ``ala_fallback``, which is 1 if they are
        proportional to numbers of examples.
    """
    clients = len(received.clients)
    if "rho" not in received.statistics:  # no component measures it
        return np.full(clients, 1 / clients), {"ala_fallback": 0.0}
    trust = 1 - received.statistics["rho"]
    fallback = clients == 2 or trust.sum() < NONE
    weights = received.weights if fallback else trust / trust.sum()
    return weights, {"ala_fallback": float(fallback)}
