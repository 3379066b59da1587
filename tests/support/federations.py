"""Federations made by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from datasets.federation import Examples, Federation


def rows(x: np.ndarray) -> set[bytes]:
    """Which examples there are, whatever their order."""
    return {one.tobytes() for one in x}


def federation(train: Examples, sizes: Sequence[int] | np.ndarray, **fields: Any) -> Federation:
    """Clients with so many of the examples each, in order; what ``fields`` do not say is empty
    or zero.
    """
    clients, nothing, nobody = len(sizes), train[:0], np.empty(0, np.int64)
    made: dict[str, Any] = {
        "name": "made up",
        "classes": 2,
        "train": train,
        "test": nothing,
        "test_owner": nobody,
    }
    made |= {
        "offsets": np.concatenate([[0], np.cumsum(sizes)]),
        "nonmembers": nothing,
        "nonmember_owner": nobody,
    }
    made |= {
        "groups": np.zeros(clients, np.int64),
        "group_names": ("all",),
        "strengths": np.zeros(clients, np.float32),
    }
    made |= {"example_strengths": np.zeros(len(train), np.float32), "shadow": nothing}
    return Federation(**made | fields)


def streams(seed: int = 0) -> Callable[..., np.random.Generator]:
    return lambda purpose, *place: np.random.default_rng([seed, *purpose.encode(), *place])


def numbers(examples: Examples) -> list[int]:
    """The numbers of examples whose first stored value it is."""
    return [int(values.flat[0]) for values in examples.x]
