"""Softmax regression, as an example of a callable for `imported`: an ordinary function that
returns a torch module.
"""

from __future__ import annotations

import math

from torch import nn


def linear(
    shape: tuple[int, ...],
    classes: int,
) -> nn.Module:
    """Build one linear layer on flattened examples of ``shape``."""
    features = math.prod(shape)
    return nn.Sequential(nn.Flatten(), nn.Linear(features, classes))
