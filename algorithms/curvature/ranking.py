"""FinP's statistic rho: how far a client's loss curvature lies from its peers' (Zhao et al.
2025, eq. 1).

    lambda_k, H_k <- largest eigenvalue and trace of the Hessian of client k's mean cross-entropy, after local training
    dbar_k = 1/(K-1) sum_j |lambda_k - lambda_j|          hbar_k likewise from the H_k
    rho_k  = 1/2 ( dbar_k / max_j dbar_j + hbar_k / max_j hbar_j )

rho measures how much a client differs from the others, not how sharp its loss is: of lambda = (1,
10, 10, 10, 10) the
flattest gets rho = 1. This module does not import torch.

Differences from the paper, each an option: in the released code, the Hessian covers all examples of
a client, however
many, its eigenvalue comes from power iteration and its trace from random probes, and rho is
assigned in the order of visiting, that is, to other clients.

How well rho is measured is known from rho of two halves of each client's examples:

    r   = Spearman's rank correlation, over the clients that are compared, of rho of the first and rho of the second half
    r'  = 2 r / (1 + |r|)          reliability: rho of all examples with rho of as many others (Spearman 1910, Brown 1910)

The formula is exact for averages with independent errors of equal variance, as the curvatures of
halves nearly are. Rho measures distances between them, whatever their sign, and where clients lie
on both sides of the others it falls faster with the errors: there r' is too low (for normal
curvatures 0.40 instead of 0.49), and too high nowhere. The absolute value keeps a negative r above
-1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from algorithms.core.columns import column, of_each_model
from algorithms.core.configs import CurvatureConfig
from algorithms.core.messages import Doubles

INITIAL_RHO = 0.5  # as released: every client's rho before the first measurement
EQUAL = 1e-12  # peers whose mean distances stay below this do not differ


def relative_rank(
    lambda_: Doubles,
    trace: Doubles,
    config: CurvatureConfig,
    rng: np.random.Generator | None = None,
) -> Doubles:
    """Compute rho for clients with these curvatures (Zhao et al. 2025, eq. 1).

    A single client, or clients that do not differ, have rho 0. A curvature that is not finite
    counts as the most distant: that half of its client's rho is 1, and the others are compared
    without it. ``signed`` looks at ``lambda_`` only; ties share the mean rank, so that equal
    clients have 1/2, and what is not finite shares the highest.

    >>> relative_rank(np.array([1.0, 10, 10, 10, 10]), np.array([2.0, 20, 20, 20, 20]), CurvatureConfig()).tolist()
    [1.0, 0.25, 0.25, 0.25, 0.25]

    ``lambda_`` [clients] are top eigenvalues, and ``trace`` [clients] traces; ``rng`` draws the
    order of visiting, if rho is aligned by it.
    """
    rho = stand_out(lambda_, trace, config)
    if config.rho_alignment == "by_client":
        return rho
    assert rng is not None  # drawn for every run
    return rho[rng.permutation(len(rho))]


def stand_out(lambda_: Doubles, trace: Doubles, config: CurvatureConfig) -> Doubles:
    """Compute every client's own rho, whatever the alignment; arguments and result as in
    `relative_rank`.
    """
    signed = config.rho_mode == "signed"
    return np.clip(
        _rank(lambda_) if signed else (_outlyingness(lambda_) + _outlyingness(trace)) / 2, 0, 1
    )


def _outlyingness(values: Doubles) -> Doubles:
    """Compute each client's mean distance from the others, as a fraction of the largest one
    [clients].
    """
    shares = np.ones(len(values))
    finite = np.isfinite(values)
    peers = values[finite]
    if not len(peers):
        return shares
    mean = np.abs(peers[:, None] - peers).sum(axis=1) / max(len(peers) - 1, 1)
    shares[finite] = mean / mean.max() if mean.max() >= EQUAL else 0.0
    return shares


def _rank(values: Doubles) -> Doubles:
    """Compute the share of the other clients that lie below each client, ties counting half
    [clients].
    """
    values = np.where(np.isfinite(values), values, np.inf)
    below = (values[:, None] > values).sum(axis=1) + (
        (values[:, None] == values).sum(axis=1) - 1
    ) / 2
    return below / max(len(values) - 1, 1)


FEWEST = 3  # two clients always agree or disagree
CURVATURES, HALVES, RELIABILITY = "rho_spearman", "rho_halves", "rho_reliability"
POOLED = "rho_spearman_all"


def rank_agreement(first: Doubles, second: Doubles) -> float:
    """Compute Spearman's rank correlation (1904) of ``first`` and ``second`` [clients] over the
    clients that have both.

    Ties share their mean rank. NaN for fewer than three such clients, or if one of the two is the
    same for all.

    >>> rank_agreement(np.array([1.0, 2, 3, 4, 5]), np.array([10, 100, 30, 1000, np.nan]))
    0.8
    """
    import pandas as pd

    both = pd.DataFrame({0: first, 1: second}).replace([np.inf, -np.inf], np.nan)
    return float(both.corr("spearman", min_periods=FEWEST).iat[0, 1])


def step_up(correlation: float) -> float:
    """Compute the reliability of a whole from the correlation of its halves.

    >>> round(step_up(0.5), 3), step_up(1.0), step_up(0.0), round(step_up(-0.5), 3)
    (0.667, 1.0, 0.0, -0.667)
    """
    return 2 * correlation / (1 + abs(correlation))


def agreement(
    lambda_: Doubles, trace: Doubles, halves: Doubles | None, config: CurvatureConfig
) -> dict[str, float]:
    """Compare the curvatures [clients] of clients that have the same model.

    ``halves`` [clients, halves, 2] are both of two halves of each client's examples; None if they
    were not measured. A client without one of the four numbers is not compared. Alignment is
    ignored: what counts is a client's own rho.

    Returns:
        ``rho_spearman`` (eigenvalue with trace), ``rho_halves`` (r) and ``rho_reliability`` (r'),
        as far as defined.
    """
    correlations = {CURVATURES: rank_agreement(lambda_, trace)}
    if halves is not None:
        measured = halves[np.isfinite(halves).all(axis=(1, 2))]
        first, second = (
            stand_out(measured[:, half, 0], measured[:, half, 1], config) for half in (0, 1)
        )
        correlations[HALVES] = rank_agreement(first, second)
        correlations[RELIABILITY] = step_up(correlations[HALVES])
    return {name: value for name, value in correlations.items() if not math.isnan(value)}


def over_rounds(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Average the correlations over the rounds that have them; the reliability is stepped up
    from the mean of the halves'.

    With several models, each has columns of its own, ``rho_halves_<model>``.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    means: dict[str, float] = {}
    for metric in (CURVATURES, HALVES):
        for name in of_each_model(metric, names).values():
            values = [row[name] for row in rows if row.get(name) is not None]
            if not np.isnan(values).all():
                means[name] = float(np.nanmean(values))
    for of, name in of_each_model(HALVES, list(means)).items():
        means[column(RELIABILITY, of)] = step_up(means[name])
    return means
