"""What clients' updates become on their way through the server, made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from algorithms.core.messages import ClientUpdates, weighted_sum


def received(
    updates: Any, weights: Any = None, scales: Any = None, **statistics: Any
) -> ClientUpdates:
    """Updates [clients, d] with two running statistics each; equal weights and scales 1 unless
    given.
    """
    rows = np.asarray(updates, np.float32)
    shares = np.ones(len(rows)) if weights is None else np.asarray(weights, np.float64)
    shares, factors = (
        shares / shares.sum(),
        np.ones(len(rows)) if scales is None else np.asarray(scales, np.float64),
    )
    buffers = np.arange(2 * len(rows), dtype=np.float32).reshape(len(rows), 2)
    return ClientUpdates(
        clients=np.arange(len(rows)),
        weights=shares,
        mean=weighted_sum(shares * factors, rows),
        buffers=shares @ buffers,
        updates=rows,
        own_buffers=buffers,
        norms=np.linalg.norm(rows, axis=1),
        scales=factors,
        statistics={name: np.array(values) for name, values in statistics.items()},
    )
