"""What components from outside the checkout say of themselves, kept with the results as plain data, in the sweep's manifest.

A report runs no code but ours, and the code of an own component may be gone or have changed when a report is written. So
the metrics, labels and attackers that such components declare are saved when a sweep begins to write to its folder, and
whoever reads the folder takes them from there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from algorithms.core.metric import Metric
from datasets import outside
from datasets.components import Preset, complete, components, own_components
from datasets.outside import Declaration, room
from orchestrator.config.slots import SLOTS


class _Saved(BaseModel):
    """An entry: what one component declares."""

    slot: str
    name: str
    label: str = ""
    metrics: tuple[Metric, ...] = ()
    presets: dict[str, str] = {}
    kinds: tuple[Literal["models", "updates", "replicas", "halves"], ...] = ()
    sees: Literal["models", "sum", "updates"] | None = None
    adversary: str | None = None


def declared() -> list[dict[str, Any]]:
    """What the components from outside declare in this process, as JSON has it."""
    entries = [
        _entry(slot.folder, name)
        for slot in SLOTS
        for name in sorted(components(slot.folder).keys() - own_components(slot.folder).keys())
    ]
    plain: list[dict[str, Any]] = json.loads(json.dumps(entries, default=_number))
    return plain


def believe(entries: Iterable[Any]) -> None:
    """Let reports describe components from outside as they were when results were made; an entry that is none is ignored."""
    outside.declare(_declarations(entries))


def _entry(folder: str, name: str) -> dict[str, Any]:
    """What a component declares, in the form of `_Saved`."""
    one = complete(folder, name)
    attack = {"kinds": one.KINDS, "sees": one.SEES, "adversary": one.ADVERSARY} if folder == "attacks" else {}
    return {
        "slot": room(folder),
        "name": name,
        "label": one.LABEL,
        "metrics": [asdict(metric) for metric in one.METRICS],
        "presets": {preset: fixed.label for preset, fixed in one.PRESETS.items()},
        **attack,
    }


def _declarations(entries: Iterable[Any]) -> Iterator[Declaration]:
    for entry in entries:
        with suppress(ValidationError):
            saved = _Saved.model_validate(entry)
            presets = {name: Preset(label, {}) for name, label in saved.presets.items()}
            of_attack = (saved.kinds, saved.sees, saved.adversary)
            yield Declaration(saved.slot, saved.name, saved.label, saved.metrics, presets, *of_attack)


def _number(value: Any) -> Any:
    """A value of NumPy as JSON has it, anything else as its text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
