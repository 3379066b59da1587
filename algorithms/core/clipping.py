"""Clipping of gradients to a largest L2 norm."""

from __future__ import annotations

import torch


def clip_gradients(grads: torch.Tensor, clip: float) -> torch.Tensor:
    """Scale every gradient that is longer than ``clip`` down to that L2 norm.

    Args:
        grads: [d] one gradient, or [n, d] one gradient in each row.
        clip: the largest L2 norm.

    Returns:
        The clipped gradients, of the shape of ``grads``.
    """
    return grads * (clip / grads.norm(dim=-1, keepdim=True)).clamp(max=1)
