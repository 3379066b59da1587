"""Types that the contracts of several slots share; `algorithms.interfaces` re-exports them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from algorithms.core.accounting import Spending
from algorithms.core.messages import Ints

if TYPE_CHECKING:
    import torch

Problems = list[tuple[str, str]]
"""Pairs of a field (dotted; empty for the component as a whole) and a sentence that continues the field's name."""

Metrics = dict[str, Any]
"""Metrics by name."""

State = dict[str, np.ndarray]
"""A component's own arrays by name, kept from round to round."""

ClientInputs = dict[str, Any]
"""Inputs of a client's objective besides a batch: client statistics by name, and dicts of tensors (``sent``, ``carry``)."""

Forward = Callable[..., Any]
"""``forward(arrays, x, **options)``: logits [batch, classes] of a network with parameters ``arrays`` by name."""

GradientStep = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]
"""Fills the network's gradients for a batch of inputs and labels, and returns the batch's loss."""


@dataclass(frozen=True)
class Outcome:
    """The rounds of a finished run, from which components compute their final metrics.

    Attributes:
        rows: the rows of ``rounds.parquet``.
        spent: the privacy events of each round and model.
        sizes: [clients] number of training examples of each client.
        canaries: the scores of the canaries that audited the release, arrays by name (`algorithms.auditing.finding`);
            empty without an audit.
    """

    rows: Sequence[Mapping[str, Any]]
    spent: Sequence[Spending]
    sizes: Ints
    canaries: Mapping[str, np.ndarray] = field(default_factory=dict)
