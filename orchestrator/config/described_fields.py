"""Configuration models as plain data: fields with descriptions, ranges, defaults and the conditions under which they are read.

`fedpriv list` prints them, ``--json`` hands them to programs, and the JSON schema for editors is made of them.
"""

from __future__ import annotations

from copy import deepcopy
from types import ModuleType
from typing import Any

from algorithms.core.configs import CurvatureConfig
from datasets.components import Config, components, presets, readable
from orchestrator.config.resources import Resources
from orchestrator.config.search_space import GRID, RANDOM
from orchestrator.config.slots import SLOTS, RunFields, Slot
from orchestrator.config.sweep_file import Header
from orchestrator.config.tune_section import KINDS, Goal

# Parts of a sweep file that are no components: their headline and the models whose fields they have, by key.
PARTS: dict[str, tuple[str, dict[str, type[Config]]]] = {
    "file": ("The top of a sweep file, beside the sections base, sweep, tune and resources.", {"": Header}),
    "base": (
        "One run: these fields, and a component for each slot (fedpriv list).",
        {"": RunFields, "curvature": CurvatureConfig},
    ),
    "resources": ("What a sweep may use of the machine or cluster. Nothing here changes a result.", {"": Resources}),
    "tune": (
        "Early stopping (scheduler) and search by the results of earlier trials; each is optional, one is needed.",
        {"": Goal} | {f"{kind}: {name}": model for kind, models in KINDS.items() for name, model in models.items()},
    ),
}


def sweep_words() -> dict[str, str]:
    """The words of the section ``sweep``, each with its arguments."""
    return {GRID: "[value, value, ...]"} | {word: arguments for word, (_, arguments) in RANDOM.items()}


def fields(model: type[Config]) -> dict[str, dict[str, Any]]:
    """The fields of a configuration as JSON schemas, by name.

    Args:
        model: the component's ``Config``, or a section's.

    Returns:
        For each field its type and range, ``description``, ``default`` or ``required: true``, and ``only_if``, the
        conditions in words under which it is read.
    """
    schema = model.model_json_schema()
    shared = schema.get("$defs", {})
    found = {}
    for name, declared in model.model_fields.items():
        field = _inlined(
            {key: value for key, value in schema["properties"][name].items() if key != "read_when"}, shared
        )
        field.pop("title", None)
        if declared.is_required():
            field["required"] = True
        if conditions := readable(model, name):
            field["only_if"] = conditions
        found[name] = field
    return found


def _inlined(part: Any, shared: dict[str, Any]) -> Any:
    """``part`` with its references replaced by what they refer to."""
    if isinstance(part, dict):
        if "$ref" in part:
            rest = {key: value for key, value in part.items() if key != "$ref"}
            return _inlined(deepcopy(shared[part["$ref"].rsplit("/", 1)[-1]]) | rest, shared)
        return {key: _inlined(value, shared) for key, value in part.items()}
    return [_inlined(one, shared) for one in part] if isinstance(part, list) else part


def headline(module: ModuleType) -> str:
    """The first line of a component's docstring."""
    return (module.__doc__ or "").strip().split("\n")[0]


def slot_as_data(slot: Slot) -> dict[str, Any]:
    """A slot with its components, fields and presets, as plain JSON values."""
    return {
        "default": slot.default,
        "many": slot.many,
        "components": {
            name: {
                "headline": headline(module),
                "description": (module.__doc__ or "").strip(),
                "fields": fields(module.Config),
            }
            for name, module in components(slot.folder).items()
        },
        "presets": {
            name: {"component": component, "label": preset.label, "fields": dict(preset.fields)}
            for name, (component, preset) in presets(slot.folder).items()
        },
    }


def part_as_data(name: str) -> dict[str, Any]:
    """A part of the sweep file that is no component (`PARTS`), as plain JSON values."""
    text, models = PARTS[name]
    found = {(key or "fields"): fields(model) for key, model in models.items()}
    return {"headline": text, **found}


def as_data(name: str | None = None) -> dict[str, Any]:
    """All slots and parts of a sweep file, or what has the name ``name``, as plain JSON values.

    Args:
        name: a component, a preset or a part; None or empty for everything. An unknown name gives empty maps.
    """
    slots = {slot.key: slot_as_data(slot) for slot in SLOTS}
    if not name:
        return {"slots": slots, "parts": {part: part_as_data(part) for part in PARTS}, "sweep": sweep_words()}
    kept = {}
    for key, slot in slots.items():
        wanted = {name, slot["presets"].get(name, {}).get("component")}
        if own := {one: data for one, data in slot["components"].items() if one in wanted}:
            kept[key] = slot | {
                "components": own,
                "presets": {one: preset for one, preset in slot["presets"].items() if preset["component"] in own},
            }
    return {"slots": kept, "parts": {name: part_as_data(name)} if name in PARTS else {}}
