"""What attacks must return beyond the types in their contracts: lengths of arrays, and numbers.

Each function is given what was returned, then the arguments of the call, and says what is wrong
(`datasets.guard.Check`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from algorithms.core.metric import Number
from attacks.interfaces import AttackedModel, Audit, Exposure, SeenUpdates


def _no_number(values: Mapping[str, Any], kind: str) -> str | None:
    for name, value in values.items():
        if not isinstance(value, int | float | str | np.generic | None):
            return f"{type(value).__name__} as {kind} {name}; it must be a number"
    return None


def _no_numbers(numbers: Iterable[Any], where: str) -> str | None:
    for one in numbers:
        if not isinstance(one, Number):
            return f"{type(one).__name__} among its {where}; each must be a Number"
        wrong = _no_number({one.metric: one.value}, "the number")
        if wrong:
            return wrong
    return None


def observed(result: Any, _config: Any, seen: Any) -> str | None:
    """Check what was seen of a block's updates: an array [c, ...], or several."""
    if not isinstance(seen, SeenUpdates):
        return None
    count = len(seen.params)
    for array in result.values() if isinstance(result, dict) else [result]:
        shape = getattr(array, "shape", None)
        if not shape or shape[0] != count:
            what = f"an array of shape {list(shape)}" if shape is not None else type(array).__name__
            return (
                f"{what}; it must return an array with a row for each of {count} "
                "clients, or several by name"
            )
    return None


def found(result: Exposure, *_: Any) -> str | None:
    """Check the numbers of what an attack found."""
    wrong = _no_numbers(result.numbers, "numbers")
    return wrong or _no_numbers(result.measures, "measures")


def exposed(result: Exposure, _config: Any, seen: Any) -> str | None:
    """Check these, and the columns [clients] of the clients' table."""
    clients = seen.data.clients
    for name, column in result.clients.items():
        if np.shape(column) != (clients,):
            return (
                f"the column {name} of shape {list(np.shape(column))}; it must be "
                f"[{clients}], a value for each client"
            )
    return found(result)


def audited(result: Audit, _config: Any, model: AttackedModel) -> str | None:
    """Check the numbers of an audit, and the scores [n] of examples."""
    scores = result.scores
    clients = model.cluster.data.clients
    sizes = {name: np.shape(column) for name, column in vars(scores).items() if column is not None}
    if len({*sizes.values()}) > 1 or len(sizes["score"]) != 1:
        return f"scores of shapes {sizes}; they must be [n], all as long"
    if len(scores.client) and not -1 <= scores.client.min() <= scores.client.max() < clients:
        return (
            f"scores of clients up to {scores.client.max()}; there are {clients}, "
            "from 0, and -1 is nobody"
        )
    risks = {"published_risk": result.published_risk, "measured_risk": result.measured_risk}
    return (
        _no_number(risks, "the")
        or _no_numbers(result.numbers, "numbers")
        or _no_numbers(result.measures, "measures")
    )
