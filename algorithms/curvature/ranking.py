"""How far a client's loss curvature lies from its peers' (Zhao et al. 2025, eq. 1): FinP's rho. No torch at the top.

    lambda_k, H_k <- largest eigenvalue and trace of the Hessian of client k's mean cross-entropy, after local training
    dbar_k = 1/(K-1) sum_j |lambda_k - lambda_j|          hbar_k likewise from the H_k
    rho_k  = 1/2 ( dbar_k / max_j dbar_j + hbar_k / max_j hbar_j )

rho is how unlike the others a client is, not how sharp: of lambda = (1, 10, 10, 10, 10) the flattest gets rho = 1.

Differences from the paper, each a switch: as released, the Hessian is of all examples of a client, its eigenvalue comes from
power iteration and its trace from random probes, and rho is handed out in the order of visiting, that is, to other clients.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from algorithms.core.configs import CurvatureConfig
from algorithms.core.messages import Doubles

INITIAL_RHO = 0.5  # as released: what every client is told before anything has been measured
EQUAL = 1e-12  # peers whose mean distances stay below this do not differ


def wanted(run: Any) -> CurvatureConfig | None:
    """How this run measures curvature, or None where no slot asks for it. `finp_ala` refuses two different answers."""
    objective, aggregation = run.objective.config, run.aggregation.config
    if isinstance(objective, CurvatureConfig):
        return objective
    measured = isinstance(aggregation, CurvatureConfig) and getattr(aggregation, "rho", "measured") == "measured"
    return aggregation if measured else None


def relative_rank(
    lambda_: Doubles, trace: Doubles, config: CurvatureConfig, rng: np.random.Generator | None = None
) -> Doubles:
    """rho [clients] in [0, 1] (Zhao et al. 2025, eq. 1) of clients with these curvatures [clients] each.

    One client, or clients that do not differ, have 0. A curvature that is not finite is as far out as can be: that half of
    its client's rho is 1 and the others are compared without it. ``signed`` looks at ``lambda_`` alone; ties share the mean
    rank. ``rng`` draws the order of visiting. Raises ValueError where that is asked for without ``rng``.

    >>> relative_rank(np.array([1.0, 10, 10, 10, 10]), np.array([2.0, 20, 20, 20, 20]), CurvatureConfig()).tolist()
    [1.0, 0.25, 0.25, 0.25, 0.25]
    """
    signed = config.rho_mode == "signed"
    rho = np.clip(_rank(lambda_) if signed else (_outlyingness(lambda_) + _outlyingness(trace)) / 2, 0, 1)
    if config.rho_alignment == "by_client":
        return rho
    if rng is None:
        raise ValueError("rho by visit order needs a generator to draw the order from; got None")
    return rho[rng.permutation(len(rho))]


def _outlyingness(values: Doubles) -> Doubles:
    """Mean distance from the other clients, as a fraction of the largest one [clients]."""
    shares = np.ones(len(values))
    finite = np.isfinite(values)
    peers = values[finite]
    if not len(peers):
        return shares
    mean = np.abs(peers[:, None] - peers).sum(axis=1) / max(len(peers) - 1, 1)
    shares[finite] = mean / mean.max() if mean.max() >= EQUAL else 0.0
    return shares


def _rank(values: Doubles) -> Doubles:
    """Share of the other clients that lie below, ties counting half [clients]."""
    values = np.where(np.isfinite(values), values, np.inf)
    below = (values[:, None] > values).sum(axis=1) + ((values[:, None] == values).sum(axis=1) - 1) / 2
    return below / max(len(values) - 1, 1)
