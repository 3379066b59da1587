"""What a passive server measures of every client's update on every record, in one round.

before the round the server sent theta; client k answers theta_k;  Delta_k = theta - theta_k
g_x = gradient of CE(theta; x, y) at the model that was sent, in evaluation mode: one for all clients who got it

confidence   -ln(exp(CE(theta_k; x, y)) - 1)              the loss of the trained model, on the logit scale
cosine       cos(g_x, Delta_k)                            0 if either is 0 or not finite
difference   2 <Delta_k, g_x> - ||g_x||^2                 = ||Delta_k||^2 - ||Delta_k - g_x||^2
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attacks.metrics.membership import confidences_of_losses

if TYPE_CHECKING:
    from attacks.interfaces import SeenUpdates
    from datasets.federation import Examples

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


def confidences(*losses: Doubles) -> Floats:
    """Return the confidences [c, R] of losses [c, r] of several sets of records, side by side."""
    return np.concatenate([confidences_of_losses(part) for part in losses], axis=1).astype(np.float32)


def against_gradients(seen: SeenUpdates, records: Examples) -> dict[str, NDArray[Any]]:
    """Compare a block's c updates with the gradients of R records.

    Returns:
        ``cosines`` and ``differences``, [c, R] each.
    """
    found = {name: np.zeros((len(seen.clients), len(records)), np.float32) for name in ("cosines", "differences")}
    for j in np.unique(seen.assignment):
        who = np.flatnonzero(seen.assignment == j)
        seen.network.load(seen.sent[j])
        updates = seen.sent[j].params - seen.params[who]
        inner, lengths = _inner_products(seen, records, updates)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            cosines = inner / (lengths * np.linalg.norm(updates.astype(np.float64), axis=1)[:, None])
            differences = 2 * inner - lengths**2
        found["cosines"][who] = np.clip(np.nan_to_num(cosines, nan=0.0, posinf=0.0, neginf=0.0), -1, 1)
        found["differences"][who] = np.nan_to_num(differences)
    return found


def _inner_products(seen: SeenUpdates, records: Examples, updates: Floats) -> tuple[Doubles, Doubles]:
    """Return the inner products of updates [c, d] and the records' gradients, [c, R], and the gradients' norms [R]."""
    import torch

    directions = torch.from_numpy(updates).to(seen.network.device)
    inner, lengths = [], []
    for gradients in seen.network.example_gradients(records.x, records.y):
        inner.append((directions @ gradients.T).double().cpu().numpy())
        lengths.append(torch.linalg.vector_norm(gradients, dim=1).double().cpu().numpy())
    return np.concatenate(inner, axis=1), np.concatenate(lengths)
