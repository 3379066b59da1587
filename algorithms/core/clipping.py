"""Bounding the length of gradients."""

from __future__ import annotations

import torch


def clip_gradients(grads: torch.Tensor, clip: float) -> torch.Tensor:
    """``grads`` [d] or [n, d], each gradient that is longer than ``clip`` brought to that L2 norm."""
    return grads * (clip / grads.norm(dim=-1, keepdim=True)).clamp(max=1)
