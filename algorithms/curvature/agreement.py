"""How well rho is measured: rho of two halves of each client's examples, and the two curvatures that it is made of.

    r   = Spearman's rank correlation, over the clients that are compared, of rho of the first and rho of the second half
    r'  = 2 r / (1 + |r|)          reliability: rho of all examples with rho of as many others (Spearman 1910, Brown 1910)

The formula is exact for averages with independent errors of equal variance, as the curvatures of halves nearly are. Rho
measures distances between them, whatever their sign, and where clients lie on both sides of the others it falls faster
with the errors: there r' is too low (for normal curvatures 0.40 instead of 0.49), and too high nowhere. The absolute
value keeps a negative r above -1. This module does not import torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from algorithms.core.configs import CurvatureConfig
from algorithms.core.messages import Doubles
from algorithms.core.ranks import NAN, spearman
from algorithms.curvature.ranking import stand_out

FEWEST = 3  # two clients always agree or disagree
CURVATURES, HALVES, RELIABILITY = "rho_spearman", "rho_halves", "rho_reliability"
POOLED = "rho_spearman_all"


def rank_agreement(first: Doubles, second: Doubles) -> float:
    """Compute the rank correlation of ``first`` [clients] and ``second`` [clients] over the clients that have both.

    NaN for fewer than three such clients, or if one of the two is the same for all.
    """
    both = np.isfinite(first) & np.isfinite(second)
    return spearman(first[both], second[both]) if both.sum() >= FEWEST else NAN


def step_up(correlation: float) -> float:
    """Compute the reliability of a whole from the correlation of its halves.

    >>> round(step_up(0.5), 3), step_up(1.0), step_up(0.0), round(step_up(-0.5), 3)
    (0.667, 1.0, 0.0, -0.667)
    """
    return 2 * correlation / (1 + abs(correlation))


def agreement(lambda_: Doubles, trace: Doubles, halves: Doubles | None, config: CurvatureConfig) -> dict[str, float]:
    """Compare the curvatures of clients that have the same model.

    Args:
        lambda_: [clients] top eigenvalues.
        trace: [clients] traces.
        halves: [clients, halves, 2] both of two halves of each client's examples; None if they were not measured. A
            client without one of the four numbers is not compared.
        config: the mode of rho. Its alignment is ignored: what counts is how well a client's own rho is measured.

    Returns:
        ``rho_spearman`` (eigenvalue with trace), ``rho_halves`` (r) and ``rho_reliability`` (r'), as far as defined.
    """
    found = {CURVATURES: rank_agreement(lambda_, trace)}
    if halves is not None:
        measured = halves[np.isfinite(halves).all(axis=(1, 2))]
        first, second = (stand_out(measured[:, half, 0], measured[:, half, 1], config) for half in (0, 1))
        found[HALVES] = rank_agreement(first, second)
        found[RELIABILITY] = step_up(found[HALVES])
    return {name: value for name, value in found.items() if not math.isnan(value)}


def over_everything(lambda_: Doubles, trace: Doubles) -> dict[str, float]:
    """Compute ``rho_spearman_all``, the agreement over the clients of all rounds, as the paper prints it (App. C.4).

    It says little of rho, which compares clients of one round: both curvatures change from round to round, and that alone
    makes them agree.

    Args:
        lambda_: [clients of all rounds] top eigenvalues.
        trace: [clients of all rounds] traces.

    Returns:
        The metric; empty if it is not defined.
    """
    found = rank_agreement(lambda_, trace)
    return {} if math.isnan(found) else {POOLED: found}


def over_rounds(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Average the correlations over the rounds that have them; the reliability is stepped up from the mean of the halves'.

    Args:
        rows: the rows of ``rounds.parquet``. With several models, each has its own columns, ``rho_halves_<model>``.
    """
    names = dict.fromkeys(name for row in rows for name in row if name.startswith((CURVATURES, HALVES)))
    values = {name: [row[name] for row in rows if row.get(name) is not None] for name in names}
    found = {name: float(np.nanmean(own)) for name, own in values.items() if not np.isnan(own).all()}
    whole = {name.replace(HALVES, RELIABILITY): step_up(r) for name, r in found.items() if name.startswith(HALVES)}
    return found | whole
