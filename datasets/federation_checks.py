"""What the rest of the program takes for granted of a partition, checked where a split from
outside made it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from datasets.federation import Examples, Federation


def partition_problem(data: Federation, _config: Any, data_config: Any, *_: Any) -> str | None:
    """Return the first thing that a split got wrong, as the end of "it returned ..."; None for a
    sound partition.
    """
    return next(_problems(data, data_config.clients), None)


def _problems(data: Federation, clients: int) -> Iterator[str]:
    """Yield what is wrong with a partition among so many clients, each thing where those before
    it are right.
    """
    offsets = data.offsets
    if not _integers(offsets) or offsets.shape != (clients + 1,):
        yield (
            f"offsets {_seen(offsets)}; they must be {clients + 1} integers for "
            f"data.clients: {clients}"
        )
        return
    if offsets[0] != 0 or (np.diff(offsets) < 1).any() or offsets[-1] != len(data.train):
        yield (
            f"offsets from {offsets[0]} to {offsets[-1]}, clients with "
            f"{np.diff(offsets).min()} or more of "
            f"{len(data.train)} training examples; all must belong to a client, "
            "and each must have one"
        )
    parts = {
        "train": (data.train, None),
        "test": (data.test, data.test_owner),
        "nonmembers": (data.nonmembers, data.nonmember_owner),
        "shadow": (data.shadow, None),
        "validation": (data.validation, data.validation_owner),
    }
    for name, (part, owner) in parts.items():
        yield from _part_problems(name, part, data.classes)
        if owner is not None and (not _integers(owner) or owner.shape != (len(part),)):
            yield f"owners of {name} {_seen(owner)}; they must be [{len(part)}] integers"
        elif owner is not None and len(owner) and not -1 <= owner.min() <= owner.max() < clients:
            yield (
                f"owners of {name} from {owner.min()} to {owner.max()}; there are "
                f"{clients} clients, from 0, and -1"
            )
    for name, size in (
        ("groups", clients),
        ("strengths", clients),
        ("example_strengths", len(data.train)),
    ):
        if np.shape(getattr(data, name)) != (size,):
            yield f"{name} {_seen(getattr(data, name))}; they must be [{size}]"
    if not 0 <= data.groups.min() <= data.groups.max() < len(data.group_names):
        yield (
            f"groups up to {data.groups.max()}; they are numbers into "
            f"{len(data.group_names)} group_names"
        )


def _part_problems(name: str, part: Any, classes: int) -> Iterator[str]:
    x = getattr(part, "x", None)
    y = getattr(part, "y", None)
    if (
        not isinstance(part, Examples)
        or not isinstance(x, np.ndarray)
        or not isinstance(y, np.ndarray)
    ):
        yield f"{type(part).__name__} as {name}; it must be Examples of NumPy arrays x and y"
    elif len(x) != len(y) or y.ndim != 1:
        yield (
            f"{name} with x {list(x.shape)} and y {list(y.shape)}; y must be [n], a "
            "label for each example"
        )
    elif len(y) and (not _integers(y) or not 0 <= y.min() <= y.max() < classes):
        yield (
            f"{name} with labels from {y.min()} to {y.max()}; they must be integers "
            f"from 0 to {classes - 1}"
        )


def _integers(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind in "iu"


def _seen(array: Any) -> str:
    shown = isinstance(array, np.ndarray)
    return f"of {array.dtype} {list(array.shape)}" if shown else f"of type {type(array).__name__}"
