"""FinP's statistic rho: how far a client's loss curvature lies from its peers' (Zhao et al. 2025, eq. 1).

    lambda_k, H_k <- largest eigenvalue and trace of the Hessian of client k's mean cross-entropy, after local training
    dbar_k = 1/(K-1) sum_j |lambda_k - lambda_j|          hbar_k likewise from the H_k
    rho_k  = 1/2 ( dbar_k / max_j dbar_j + hbar_k / max_j hbar_j )

rho measures how much a client differs from the others, not how sharp its loss is: of lambda = (1, 10, 10, 10, 10) the
flattest gets rho = 1. This module does not import torch.

Differences from the paper, each an option: in the released code, the Hessian covers all examples of a client, however
many, its eigenvalue comes from power iteration and its trace from random probes, and rho is assigned in the order of visiting,
that is, to other clients.
"""

from __future__ import annotations

import numpy as np

from algorithms.core.configs import CurvatureConfig
from algorithms.core.messages import Doubles

INITIAL_RHO = 0.5  # as released: every client's rho before the first measurement
EQUAL = 1e-12  # peers whose mean distances stay below this do not differ


def relative_rank(
    lambda_: Doubles, trace: Doubles, config: CurvatureConfig, rng: np.random.Generator | None = None
) -> Doubles:
    """Compute rho for clients with these curvatures (Zhao et al. 2025, eq. 1).

    A single client, or clients that do not differ, have rho 0. A curvature that is not finite counts as the most
    distant: that half of its client's rho is 1, and the others are compared without it. ``signed`` looks at ``lambda_``
    only; ties share the mean rank.

    >>> relative_rank(np.array([1.0, 10, 10, 10, 10]), np.array([2.0, 20, 20, 20, 20]), CurvatureConfig()).tolist()
    [1.0, 0.25, 0.25, 0.25, 0.25]

    Args:
        lambda_: [clients] top eigenvalues.
        trace: [clients] traces.
        config: mode and alignment of rho.
        rng: draws the order of visiting.

    Returns:
        [clients] rho in [0, 1].

    Raises:
        ValueError: rho is aligned by visit order, and ``rng`` is None.
    """
    rho = stand_out(lambda_, trace, config)
    if config.rho_alignment == "by_client":
        return rho
    if rng is None:
        raise ValueError("rho by visit order needs a generator to draw the order from; got None")
    return rho[rng.permutation(len(rho))]


def stand_out(lambda_: Doubles, trace: Doubles, config: CurvatureConfig) -> Doubles:
    """Compute every client's own rho, whatever the alignment; arguments and result as in `relative_rank`."""
    signed = config.rho_mode == "signed"
    return np.clip(_rank(lambda_) if signed else (_outlyingness(lambda_) + _outlyingness(trace)) / 2, 0, 1)


def _outlyingness(values: Doubles) -> Doubles:
    """Compute each client's mean distance from the others, as a fraction of the largest one [clients]."""
    shares = np.ones(len(values))
    finite = np.isfinite(values)
    peers = values[finite]
    if not len(peers):
        return shares
    mean = np.abs(peers[:, None] - peers).sum(axis=1) / max(len(peers) - 1, 1)
    shares[finite] = mean / mean.max() if mean.max() >= EQUAL else 0.0
    return shares


def _rank(values: Doubles) -> Doubles:
    """Compute the share of the other clients that lie below each client, ties counting half [clients]."""
    values = np.where(np.isfinite(values), values, np.inf)
    below = (values[:, None] > values).sum(axis=1) + ((values[:, None] == values).sum(axis=1) - 1) / 2
    return below / max(len(values) - 1, 1)
