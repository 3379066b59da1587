"""What the rest of the program takes for granted of a data set, checked once after its reader has read it."""

from __future__ import annotations

from typing import Any

import numpy as np

from datasets.federation import Examples, Source

AT_ONCE = 10_000  # examples; bounds the additional memory


def source_problems(source: Any) -> list[str]:
    """Return what a reader got wrong, one sentence each; empty for a sound data set.

    Args:
        source: what the reader's ``load`` returned.
    """
    if not isinstance(source, Source):
        return [f"load must return a datasets.federation.Source; it returned {type(source).__name__}"]
    found = []
    if not isinstance(source.classes, int | np.integer) or source.classes < 2:
        found.append(f"classes must be an integer of at least 2; it is {source.classes!r}")
    for name, part in ("train", source.train), ("test", source.test):
        found += [f"{name}{sentence}" for sentence in _wrong_with(part, source.classes)]
    if found:
        return found
    if source.train.x.shape[1:] != source.test.x.shape[1:] or source.train.x.dtype != source.test.x.dtype:
        pair = " and ".join(f"{part.x.dtype} {list(part.x.shape[1:])}" for part in (source.train, source.test))
        found.append(f"train.x and test.x must have examples of one type and shape; they have {pair}")
    if not len(source.train):
        found.append("train has no example")
    if source.subjects is not None and len(source.subjects) != len(source):
        found.append(f"subjects must have one entry for each of {len(source)} examples; it has {len(source.subjects)}")
    return found


def _wrong_with(part: Any, classes: int) -> list[str]:
    if not isinstance(part, Examples):
        return [f" must be datasets.federation.Examples; it is {type(part).__name__}"]
    x, y = part.x, part.y
    if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray):
        return [f" must hold NumPy arrays; x is {type(x).__name__} and y is {type(y).__name__}"]
    found = []
    if x.dtype not in (np.uint8, np.float32):
        found.append(f".x must be uint8 (pixels) or float32; it is {x.dtype}")
    if x.ndim < 2:
        found.append(f".x must be [n, ...], one example in a row; its shape is {list(x.shape)}")
    if y.ndim != 1 or len(x) != len(y):
        found.append(f".y must be [n], one label for each example; x is {list(x.shape)} and y {list(y.shape)}")
    if y.dtype != np.int64:
        found.append(f".y must be int64; it is {y.dtype}")
    elif len(y) and not (y.min() >= 0 and y.max() < classes):
        found.append(f".y must be labels from 0 to {classes - 1}; they are from {y.min()} to {y.max()}")
    if x.dtype == np.float32 and not found:
        for start in range(0, len(x), AT_ONCE):
            finite = np.isfinite(x[start : start + AT_ONCE])
            if not finite.all():
                place = np.argwhere(~finite)[0]
                found.append(f".x has {x[start + place[0]][tuple(place[1:])]} in example {start + place[0]} (from 0)")
                break
    return found
