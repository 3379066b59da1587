"""Violations (Jung et al. 2025, section 5): clients whose model is attacked more successfully
than they tolerate.

``thresholds`` [clients] are tolerated attack accuracies, ``risks`` [clusters] measured ones (NaN
where unknown), both fractions; ``assignment`` [clients] is each client's model.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from algorithms.core.messages import Bools, Doubles, Ints


def violations(
    thresholds: Doubles, risks: Doubles, assignment: Ints, among: Bools | None = None
) -> float:
    """Count the clients (of those ``among``) whose model's risk is strictly above their
    tolerance; NaN if one is unknown.
    """
    chosen = np.ones(len(assignment), bool) if among is None else among
    if np.isnan(risks[assignment[chosen]]).any():
        return np.nan
    return float((thresholds < risks[assignment])[chosen].sum())


def violations_null(
    thresholds: Doubles, assignment: Ints, exceeds: Callable[[int, Doubles], Doubles]
) -> float:
    """Compute the expected number of violations by chance, NaN if that is unknown of a model.

    Even an attack that knows nothing is measured above 0.5 on about half of the models, and the
    fewer the examples, the farther above. The expectation is a sum over clients, so it does not
    matter that clients share a model's risk. ``exceeds(cluster, thresholds [n])`` is the
    probability [n] that by chance the attack on this model is measured strictly above each.
    """
    expected = 0.0
    for j in np.unique(assignment):
        expected += exceeds(int(j), thresholds[assignment == j]).sum()
    return float(expected)
