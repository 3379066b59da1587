"""What a data set and a split must do: valid examples, a partition in which every client has some, and the same twice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from datasets import source_checks
from datasets.federation import Examples, Federation, Source
from datasets.source_configs import HeldOutConfig, SourceConfig
from orchestrator.config.run import resolve
from orchestrator.config.slots import Slot
from orchestrator.config.sweep_file import DATA_ROOT, DATA_VARIABLE
from orchestrator.conformance.example_runs import DIGITS, NotChecked, described, module_of
from orchestrator.results.provenance import data_hash
from orchestrator.trial.random_streams import stream

SUBJECTS = 8  # people in the data for splits by person


def source_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield what is wrong with the examples that a data set loads. Raises DataError where its files are not here."""
    module = module_of(slot.key, name)
    root = Path(os.environ.get(DATA_VARIABLE) or DATA_ROOT).expanduser()
    loaded = [module.load(module.Config(), root, False) for _ in range(2)]
    problems = source_checks.source_problems(loaded[0])
    yield from problems
    if not problems and data_hash(loaded[1]) != data_hash(loaded[0]):
        yield "load gave other bytes when it was called again"


def split_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield what is wrong with a partition of the digits; raises NotChecked where it needs data of another kind."""
    module, run = module_of(slot.key, name), resolve(described(slot, name))
    config, reasons = run.split.config, list[str]()
    for fields, source in example_sources(run.data):
        short = module.shortages(config, fields, source)
        if not short:
            break
        reasons += short
    else:
        raise NotChecked("; ".join(dict.fromkeys(reasons)))
    made = [module.partition(config, fields, source, lambda purpose: stream(0, purpose)) for _ in range(2)]
    first = made[0]
    if first.clients != fields.clients:
        yield f"it made {first.clients} clients instead of {fields.clients}"
    if (np.diff(first.offsets) < 1).any() or first.offsets[0] != 0 or first.offsets[-1] != len(first.train):
        yield "every client must have examples, and all of train must belong to one"
    if _bytes(first) != _bytes(made[1]):
        yield "the same seeds gave another federation"
    yield from trained_on(first, source)


def example_sources(data: Any) -> Iterator[tuple[SourceConfig, Source]]:
    """Yield data to partition, with their fields: the digits, as images and as a table, each also with whose they are.

    The test examples are nobody's, or else clients hold out examples of their own. ``data`` is the component digits.
    """
    images = data.module.load(data.config, Path(), False)
    parts = {"train": images.train, "test": images.test}
    flat = {name: Examples(part.x.reshape(len(part), -1) / np.float32(255), part.y) for name, part in parts.items()}
    table = replace(images, **flat)
    held_out = HeldOutConfig.model_validate(
        {key: DIGITS[key] for key in ("clients", "examples_per_client", "shadow_size")}
    )
    for source in (images, table):
        people = np.random.default_rng(0).integers(0, SUBJECTS, len(source))
        named = replace(source, subjects=people, subject_names=tuple(f"person {i}" for i in range(SUBJECTS)))
        for one in (source, named):
            yield data.config, one
            yield held_out, one


def trained_on(data: Federation, source: Source) -> Iterator[str]:
    """Yield which parts of a federation hold examples that clients train on, however they were transformed.

    The examples of ``source``, of which it was made, must differ.
    """
    every = source.examples(np.arange(len(source)))
    stored = {one.tobytes(): row for row, one in enumerate(every.x)}
    prepared: dict[bytes, int] = {}
    for strength in np.unique(np.concatenate([data.example_strengths, data.strengths])):
        seen = data.prepare(every.x, np.full(len(every), strength))
        prepared |= {one.tobytes(): row for row, one in enumerate(seen)}
    members = {prepared.get(one.tobytes()) for one in data.train.x} - {None}
    parts = (("test", prepared), ("validation", prepared), ("nonmembers", stored), ("shadow", stored))
    for part, known in parts:
        rows = [known.get(one.tobytes()) for one in getattr(data, part).x]
        count = sum(row in members for row in rows)
        if count:
            yield f"{count} of the {len(rows)} examples in {part} are training examples of clients; no example serves twice"


def _bytes(data: Federation) -> list[bytes]:
    parts = (data.train, data.test, data.nonmembers, data.shadow)
    arrays = [array for part in parts for array in (part.x, part.y)] + [data.offsets, data.groups]
    return [array.tobytes() for array in arrays]
