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
    """What the components from outside declare in this process, by the names of `Declaration`, as JSON has it."""
    entries = []
    for folder in (slot.folder for slot in SLOTS):
        for name in sorted(components(folder).keys() - set(own_components(folder))):
            module = complete(folder, name)
            entry = {"room": room(folder), "name": name, "LABEL": module.LABEL}
            entry |= {"METRICS": [asdict(metric) for metric in module.METRICS]}
            entry |= {"PRESETS": {preset: fixed.label for preset, fixed in module.PRESETS.items()}}
            if folder == "attacks":
                entry |= {"KINDS": module.KINDS, "SEES": module.SEES, "ADVERSARY": module.ADVERSARY}
            entries.append(entry)
    plain: list[dict[str, Any]] = json.loads(json.dumps(entries, default=lambda value: value.item()))
    return plain


def believe(entries: Sequence[Mapping[str, Any]]) -> None:
    """Let reports describe components from outside as they were when results were made."""
    declarations = []
    for entry in entries:
        metrics = TypeAdapter(tuple[Metric, ...]).validate_python(entry["METRICS"])
        presets = {name: Preset(label, {}) for name, label in entry["PRESETS"].items()}
        declarations.append(Declaration(**{**entry, "METRICS": metrics, "PRESETS": presets}))
    outside.declare(declarations)
