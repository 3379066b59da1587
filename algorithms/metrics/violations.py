"""Violations (Jung et al. 2025, section 5): whose model is attacked with more success than its user tolerates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NAN = float("nan")


def is_violated(thresholds: Doubles, risks: Doubles, assignment: Ints) -> Bools:
    """Which clients [clients] use a model whose attack accuracy is strictly above what they tolerate.

    ``thresholds`` [clients] and ``risks`` [clusters] are fractions; ``assignment`` [clients] is the model of each.
    """
    return thresholds < risks[assignment]


def violations(thresholds: Doubles, risks: Doubles, assignment: Ints, among: Bools | None = None) -> float:
    """Number of clients (of those ``among`` [clients], if given) whose tolerance is exceeded.

    NaN where the risk of a model in use among them is unknown.
    """
    chosen = np.ones(len(assignment), bool) if among is None else among
    if np.isnan(risks[assignment[chosen]]).any():
        return NAN
    return float(is_violated(thresholds, risks, assignment)[chosen].sum())


def expected_violations(clients: int, risk: float, lowest: float = 0.5, highest: float = 0.8) -> float:
    """Violations to expect of ``clients`` with tolerances uniform between ``lowest`` and ``highest`` under one model.

    >>> round(expected_violations(170, 0.521) + expected_violations(30, 0.761))
    38
    """
    return clients * float(np.clip((risk - lowest) / (highest - lowest), 0, 1))
