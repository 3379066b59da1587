"""The JSON schema of a sweep file (draft 2020-12), with which editors complete and check while somebody writes.

It is made of the components' own fields, so a new component is in it. A slot takes a component's name and the fields of
all its components, which say whose they are; what is found by looking at several fields at once `fedpriv run --dry-run`
checks, too. Where there is own code (``code`` at the top of the file), its components and fields are not known here.
"""

from __future__ import annotations

from typing import Any

from algorithms.core.configs import CurvatureConfig
from datasets.components import Config, components, presets
from orchestrator.config.listing import fields
from orchestrator.config.search_space import GRID, WORDS
from orchestrator.config.slots import SLOTS, RunFields, Slot
from orchestrator.config.sweep_file import Header, Resources
from orchestrator.config.tune_section import KINDS, Tune

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DOTTED: Schema = {"type": "string", "pattern": ":", "description": "a callable by its dotted path, package.module:name"}


def sweep_schema() -> Schema:
    """The schema of a whole sweep file, as plain JSON values."""
    outer = [slot for slot in SLOTS if len(slot.path) == 1]
    base = _map(
        {**_properties(RunFields), "curvature": _map(_properties(CurvatureConfig))} | {s.key: {} for s in outer}
    )
    slots = {slot.key: {"type": "array", "items": _slot(slot)} if slot.many else _slot(slot) for slot in outer}
    words: Schema = {word: {"type": "array", "minItems": 1, "description": text} for word, text in WORDS.items()}
    words[GRID]["uniqueItems"] = True
    named = {kind: {"anyOf": [{"enum": [*models, None]}, _properties(Tune)[kind]]} for kind, models in KINDS.items()}
    return {
        "$schema": DIALECT,
        "title": "fedpriv sweep file",
        **_map(
            {
                **_properties(Header),
                "code": {"description": "a file or folder with components of your own, or a list of them"},
                "base": base,
                "sweep": {
                    "type": ["object", "null"],
                    "additionalProperties": _map(words) | {"minProperties": 1, "maxProperties": 1},
                    "description": "dotted keys inside base, such as training.lr: {grid_search: [0.1, 0.2]}",
                },
                "tune": _map(_properties(Tune) | named) | {"type": ["object", "null"]},
                "resources": _map(_properties(Resources)) | {"type": ["object", "null"]},
            }
        ),
        "required": ["name", "base"],
        "if": {"required": ["code"]},
        "else": {"properties": {"base": {"properties": slots}}},
    }


def _map(properties: Schema) -> Schema:
    """A map with these keys and no others. None is required, as the sweep may set it."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _properties(model: type[Config]) -> Schema:
    """The fields of a model as JSON Schema says it: conditions become part of the description."""
    properties = {}
    for name, field in fields(model).items():
        notes = [field.pop("description", ""), *(f"only if {one}" for one in field.pop("only_if", ()))]
        field.pop("required", None)
        properties[name] = field | {"description": "; ".join(filter(None, notes))}
    return properties


def _slot(slot: Slot) -> Schema:
    """What may fill ``slot``: a component's name, or a map with the name and with fields of its components."""
    name: Schema = {"anyOf": [{"enum": sorted((*components(slot.folder), *presets(slot.folder)))}, DOTTED]}
    ways: dict[str, list[Schema]] = {}
    for component, module in components(slot.folder).items():
        for field, one in _properties(module.Config).items():
            ways.setdefault(field, []).append(one | {"description": f"{component}: {one['description']}"})
    inner = {other.field: _slot(other) for other in SLOTS if other.path[:-1] == slot.path}
    known = {field: every[0] if len(every) == 1 else {"anyOf": every} for field, every in ways.items()}
    return {"anyOf": [*name["anyOf"], _map({"name": name, **inner, **known})]}
