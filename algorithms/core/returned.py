"""What components must return in a round beyond the types in their contracts: shapes, ranges.

Each function is given what was returned, then the arguments of the call, and says what is wrong
(`datasets.guard.Check`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from algorithms.core.choices import View
from algorithms.core.messages import ClientUpdates, Doubles, Floats, Ints

SUM = 1e-6  # how far weights may add up to another number than one


def _shape(array: Any, shape: tuple[int, ...], what: str) -> str | None:
    if array.shape == shape:
        return None
    return f"{what} of shape {list(array.shape)}; it must return {list(shape)}"


def _factors(array: Any, shape: tuple[int, ...], what: str) -> str | None:
    wrong = _shape(array, shape, what)
    if wrong:
        return wrong
    if (np.isfinite(array) & (array >= 0)).all():
        return None
    return f"{what} {array.min():g} to {array.max():g}; they must be finite and not negative"


def step(result: Any, _config: Any, state: Any, params: Floats, _received: Any) -> str | None:
    """Check the parameters [d] and the state of an aggregation."""
    moved, after, _ = result
    held, left = ({name: array.shape for name, array in one.items()} for one in (state, after))
    if held != left:
        return f"a state with {left}; it must have the arrays that begin made: {held}"
    return _shape(moved, params.shape, "parameters")


def released(result: Any, _config: Any, params: Floats, *_: Any) -> str | None:
    """Check the parameters [d] that are sent."""
    return _shape(result[0], params.shape, "parameters")


def update(result: Any, _config: Any, update: Floats, _noise: Any) -> str | None:
    """Check the update [d] that a client sends."""
    return _shape(result, update.shape, "an update")


def weights(result: Any, _config: Any, examples: Ints) -> str | None:
    """Check weights [clients] before normalization."""
    return _factors(result, examples.shape, "weights")


def chosen_weights(result: Any, _config: Any, received: ClientUpdates) -> str | None:
    """Check weights [clients] that add up to one."""
    if result is None:
        return None
    wrong = _factors(result[0], received.weights.shape, "weights")
    if wrong:
        return wrong
    total = float(result[0].sum())
    return None if abs(total - 1) <= SUM else f"weights that add up to {total:g}; it must be 1"


def factors(result: Any, _config: Any, norms: Doubles) -> str | None:
    """Check the factors [clients] of updates."""
    return _factors(result, norms.shape, "factors")


def choice(result: Any, _config: Any, view: View, _preferences: Any) -> str | None:
    """Check the models [clients] that clients choose, and what each costs them [clients,
    clusters].
    """
    chosen, costs = result
    models = view.losses.shape[1]
    wrong = _shape(chosen, view.previous.shape, "models") or _shape(
        costs, view.losses.shape, "costs"
    )
    if wrong:
        return wrong
    if len(chosen) and not 0 <= chosen.min() <= chosen.max() < models:
        return f"models {chosen.min()} to {chosen.max()}; they must be from 0 to {models - 1}"
    return None


def batches(result: Any, _config: Any, examples: int, *_: Any) -> str | None:
    """Check positions [steps, batch] in a client's examples."""
    if result.ndim != 2:
        return f"batches of shape {list(result.shape)}; they must be [steps, batch]"
    if result.size and not -1 <= result.min() <= result.max() < examples:
        return (
            f"positions {result.min()} to {result.max()}; they must be from 0 to "
            f"{examples - 1}, or -1 for padding"
        )
    return None


def loss(result: Any, *_: Any, **__: Any) -> str | None:
    """Check the loss of a batch."""
    if hasattr(result, "backward") and result.dim() == 0:
        return None
    found = (
        f"a tensor of shape {list(result.shape)}"
        if hasattr(result, "backward")
        else type(result).__name__
    )
    return f"{found}; it must return a scalar tensor, the batch's loss"


def module(result: Any, *_: Any) -> str | None:
    """Check what a model builds."""
    if hasattr(result, "named_parameters"):
        return None
    return f"{type(result).__name__}; it must return a torch.nn.Module"
