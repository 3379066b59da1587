"""Clipping of gradients to a largest L2 norm: of a step's gradient, and of examples' gradients for privacy."""

from __future__ import annotations

import torch


def clip_gradients(grads: torch.Tensor, clip: float) -> torch.Tensor:
    """Scale every gradient that is longer than ``clip`` down to that L2 norm.

    A gradient with a NaN or an infinite entry becomes NaN in that place, so that a run that diverges is noticed.

    Args:
        grads: [d] one gradient, or [n, d] one gradient in each row.
        clip: the largest L2 norm.

    Returns:
        The clipped gradients, of the shape of ``grads``.
    """
    return grads * (clip / grads.norm(dim=-1, keepdim=True)).clamp(max=1)


def clip_for_privacy(grads: torch.Tensor, clip: float) -> torch.Tensor:
    """Clip every gradient as `clip_gradients` does, and replace each whose norm is not finite by zero.

    So no input, however broken, moves the sum of the rows by more than ``clip``. This also concerns finite gradients
    whose squares exceed the largest float, or so long that ``clip`` / norm loses digits, as floats below 1e-38 do.

    Args:
        grads: [n, d] the gradient of an example in each row.
        clip: the largest L2 norm.

    Returns:
        The clipped gradients [n, d], all finite, each of norm ``clip`` at most (up to rounding).
    """
    norms = grads.norm(dim=-1, keepdim=True)
    factors = (clip / norms).clamp(max=1)
    usable = norms.isfinite() & (factors >= torch.finfo(factors.dtype).tiny)
    return torch.where(usable, grads * factors, 0)
