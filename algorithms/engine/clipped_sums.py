"""Clipping and summing updates, for clients and for the canaries of an audit alike. Does not import torch."""

from __future__ import annotations

import numpy as np

from algorithms.core.gram import lengths
from algorithms.core.messages import Doubles, Floats, Ints, weighted_sum
from algorithms.interfaces import Run


def clip(run: Run, updates: Floats) -> tuple[Doubles, Doubles]:
    """Compute the factors by which the privacy slot scales updates; those that it scales by zero become zero in place.

    Args:
        run: the components, and their fields.
        updates: [clients, d] updates.

    Returns:
        [clients] L2 norms of the updates as they came, and [clients] factors.
    """
    norms = lengths(updates)
    scales = run.privacy.module.bound(run.privacy.config, norms)
    if (dropped := np.flatnonzero(scales == 0)).size:
        updates[dropped] = 0
    return norms, scales


def median_norm(norms: Doubles) -> float:
    """Return the median of the finite ``norms`` [clients] above 0; 0 if there are none.

    >>> median_norm(np.array([1.0, 3.0, 0.0, np.nan]))
    2.0
    """
    sent = norms[np.isfinite(norms) & (norms > 0)]
    return float(np.median(sent)) if len(sent) else 0.0


def weigh(run: Run, examples: Ints) -> Doubles:
    """Return the weights [clients], before normalization, of clients with these numbers of ``examples`` [clients]."""
    return run.aggregation.module.weigh(run.aggregation.config, examples)


def add_up(weights: Doubles, scales: Doubles, updates: Floats) -> Doubles:
    """Return the weighted sum [d] of scaled ``updates`` [clients, d], in the clients' order."""
    return weighted_sum(weights * scales, updates)
