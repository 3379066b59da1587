"""What components from outside the checkout say of themselves, kept with the results as plain data, in the sweep's manifest.

A report runs no code but ours, and the code of an own component may be gone or have changed when a report is written. So
the metrics, labels and attackers that such components declare are saved when a sweep begins to write to its folder, and
whoever reads the folder takes them from there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter

from algorithms.core.metric import Metric
from datasets import outside
from datasets.components import Preset, complete, components, own_components
from datasets.outside import Declaration, room
from orchestrator.config.slots import SLOTS


def declared() -> list[dict[str, Any]]:
    """What the components from outside declare in this process, as JSON has it."""
    names = [(slot.folder, name) for slot in SLOTS for name in sorted(components(slot.folder))]
    entries = [_entry(folder, name) for folder, name in names if name not in own_components(folder)]
    plain: list[dict[str, Any]] = json.loads(json.dumps(entries, default=lambda value: value.item()))
    return plain


def believe(entries: Sequence[Mapping[str, Any]]) -> None:
    """Let reports describe components from outside as they were when results were made."""
    outside.declare(Declaration(**{**entry, **_restored(entry)}) for entry in entries)


def _entry(folder: str, name: str) -> dict[str, Any]:
    """What a component declares, by the names of `Declaration`; of its presets, the labels."""
    one = complete(folder, name)
    attack = {"KINDS": one.KINDS, "SEES": one.SEES, "ADVERSARY": one.ADVERSARY} if folder == "attacks" else {}
    metrics = [asdict(metric) for metric in one.METRICS]
    presets = {preset: fixed.label for preset, fixed in one.PRESETS.items()}
    return {"room": room(folder), "name": name, "LABEL": one.LABEL, "METRICS": metrics, "PRESETS": presets, **attack}


def _restored(entry: Mapping[str, Any]) -> dict[str, Any]:
    metrics = TypeAdapter(tuple[Metric, ...]).validate_python(entry["METRICS"])
    return {"METRICS": metrics, "PRESETS": {name: Preset(label, {}) for name, label in entry["PRESETS"].items()}}
