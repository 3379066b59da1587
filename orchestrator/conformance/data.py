"""What a data set and a split must do: valid examples, a partition in which every client has some, and the same twice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import datasets
from datasets.federation import Federation, Source
from orchestrator.config.run import resolve
from orchestrator.config.slots import Slot
from orchestrator.config.sweep_file import DATA_ROOT, DATA_VARIABLE
from orchestrator.conformance.example_runs import described, module_of
from orchestrator.results.fingerprints import data_hash
from orchestrator.trial.random_streams import stream


def source_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield what is wrong with the examples that a data set loads. Raises DataError where its files are not here."""
    module = module_of(slot.key, name)
    root = Path(os.environ.get(DATA_VARIABLE) or DATA_ROOT).expanduser()
    loaded = [module.load(module.Config(), root, False) for _ in range(2)]
    source = loaded[0]
    if not isinstance(source, Source):
        yield f"load must return a datasets.federation.Source, got {type(source).__name__}"
        return
    for part, examples in (("train", source.train), ("test", source.test)):
        x, y = examples.x, examples.y
        if len(x) != len(y) or y.ndim != 1:
            yield f"{part} has {len(x)} examples and labels of shape {list(y.shape)}; it must have one label for each"
        if x.dtype not in (np.uint8, np.float32):
            yield f"{part} has examples of type {x.dtype}; it must be uint8 or float32"
        elif not np.isfinite(x).all():
            yield f"{part} has examples that are not finite"
        if y.dtype.kind not in "iu" or (len(y) and not (y.min() >= 0 and y.max() < source.classes)):
            yield f"{part} has labels that are not integers from 0 to {source.classes - 1}"
    if source.train.x.shape[1:] != source.test.x.shape[1:]:
        yield f"train has examples of shape {source.train.x.shape[1:]}, test of {source.test.x.shape[1:]}"
    if data_hash(loaded[1]) != data_hash(source):
        yield "load gave other bytes when it was called again"


def split_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield what is wrong with a partition of the digits."""
    run = resolve(described(slot, name))
    made = [
        datasets.build_federation(run.data, run.split, Path(), lambda purpose: stream(0, purpose)) for _ in range(2)
    ]
    first = made[0]
    if first.clients != run.data.config.clients:
        yield f"it made {first.clients} clients instead of {run.data.config.clients}"
    if (np.diff(first.offsets) < 1).any() or first.offsets[0] != 0 or first.offsets[-1] != len(first.train):
        yield "every client must have examples, and all of train must belong to one"
    if _bytes(first) != _bytes(made[1]):
        yield "the same seeds gave another federation"


def _bytes(data: Federation) -> list[bytes]:
    parts = (data.train, data.test, data.nonmembers, data.shadow)
    arrays = [array for part in parts for array in (part.x, part.y)] + [data.offsets, data.groups]
    return [array.tobytes() for array in arrays]
