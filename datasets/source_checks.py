"""What the rest of the program takes for granted of a data set, checked once after its reader
has read it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from datasets.federation import Source


def source_problems(source: Any) -> list[str]:
    """Return what a reader, whose ``load`` returned ``source``, got wrong, one sentence each;
    empty for a sound data set.
    """
    if not isinstance(source, Source):
        return [
            f"load must return a datasets.federation.Source; it returned {type(source).__name__}"
        ]
    problems = []
    if not isinstance(source.classes, int | np.integer) or source.classes < 2:
        problems.append(f"classes must be an integer of at least 2; it is {source.classes!r}")
    for name, part in ("train", source.train), ("test", source.test):
        problems += [f"{name}{sentence}" for sentence in _problems_of(part, source.classes)]
    if problems:
        return problems
    if (
        source.train.x.shape[1:] != source.test.x.shape[1:]
        or source.train.x.dtype != source.test.x.dtype
    ):
        pair = " and ".join(
            f"{part.x.dtype} {list(part.x.shape[1:])}" for part in (source.train, source.test)
        )
        problems.append(
            f"train.x and test.x must have examples of one type and shape; they have {pair}"
        )
    if not len(source.train):
        problems.append("train has no example")
    if source.subjects is not None and len(source.subjects) != len(source):
        problems.append(
            f"subjects must have one entry for each of {len(source)} examples; it has "
            f"{len(source.subjects)}"
        )
    return problems


def _problems_of(part: Any, classes: int) -> list[str]:
    x = getattr(part, "x", None)
    y = getattr(part, "y", None)
    if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray):
        return [
            " must be datasets.federation.Examples of NumPy arrays x and y; it is "
            f"{type(part).__name__}"
        ]
    problems = []
    if x.dtype not in (np.uint8, np.float32):
        problems.append(f".x must be uint8 (pixels) or float32; it is {x.dtype}")
    if x.ndim < 2:
        problems.append(f".x must be [n, ...], one example in a row; its shape is {list(x.shape)}")
    if y.ndim != 1 or len(x) != len(y):
        problems.append(
            f".y must be [n], one label for each example; x is {list(x.shape)} and y "
            f"{list(y.shape)}"
        )
    if y.dtype != np.int64:
        problems.append(f".y must be int64; it is {y.dtype}")
    elif len(y) and not (y.min() >= 0 and y.max() < classes):
        problems.append(
            f".y must be labels from 0 to {classes - 1}; they are from {y.min()} to {y.max()}"
        )
    if not problems and len(infinite := np.argwhere(~np.isfinite(x))):
        problems.append(f".x has {x[tuple(infinite[0])]} in example {infinite[0][0]} (from 0)")
    return problems
