"""The JSON schema of a sweep file (draft 2020-12), with which editors complete and check while somebody writes.

It is made of the components' own fields, so a new component is in it. It knows the keys, components, types and ranges,
and not what is found by looking at several fields at once: `fedpriv run --dry-run` checks that, too.

A slot is one of its components, each with its own fields. Three things make a slot less strict: a sweep over the slot's
``name``, because base may then have the fields of all components that are tried; ``code`` at the top of the file, because
its components are not known here; and a name with a colon, a callable by its dotted path.
"""

from __future__ import annotations

from typing import Any

from algorithms.core.configs import CurvatureConfig
from datasets.components import Config, components, presets
from orchestrator.config.listing import WORDS, fields, headline
from orchestrator.config.search_space import GRID
from orchestrator.config.slots import SLOTS, RunFields, Slot
from orchestrator.config.sweep_file import Header, Resources
from orchestrator.config.tune_section import KINDS, Goal

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DOTTED: Schema = {"type": "string", "pattern": ":", "description": "a callable by its dotted path, package.module:name"}


def sweep_schema() -> Schema:
    """The schema of a whole sweep file, as plain JSON values."""
    definitions: Schema = {}
    for slot in SLOTS:
        definitions[_name(slot)], definitions[f"any {_name(slot)}"] = _slot(slot)
    outer = [slot for slot in SLOTS if "." not in slot.key]
    base = _properties(RunFields) | {"curvature": _map(CurvatureConfig)}
    base |= {slot.key: {} for slot in outer}  # what may be in them is chosen below
    words = {word: {"type": "array", "minItems": 1, "description": arguments} for word, arguments in WORDS.items()}
    words[GRID]["uniqueItems"] = True
    axis = {"properties": words, "minProperties": 1, "maxProperties": 1, "additionalProperties": False}
    chosen = {}
    for kind, models in KINDS.items():
        maps = [_map(model) | {"required": ["name"]} for model in models.values()]
        chosen[kind] = {"oneOf": [{"enum": list(models)}, *maps, {"type": "null"}]}
    return {
        "$schema": DIALECT,
        "title": "fedpriv sweep file",
        "type": "object",
        "properties": {
            **_properties(Header),
            "code": {"description": "a file or folder with components of your own, or a list of them"},
            "base": {"type": "object", "properties": base, "additionalProperties": False},
            "sweep": {
                "type": ["object", "null"],
                "additionalProperties": {"type": "object", **axis},
                "description": "dotted keys inside base, such as training.lr: {grid_search: [0.1, 0.2]}",
            },
            "tune": _map(Goal, chosen) | {"type": ["object", "null"]},
            "resources": _map(Resources) | {"type": ["object", "null"]},
        },
        "required": ["name", "base"],
        "additionalProperties": False,
        "allOf": [_chosen(slot) for slot in outer],
        "$defs": definitions,
    }


def _name(slot: Slot) -> str:
    return slot.key.replace(".", " ")


def _properties(model: type[Config]) -> Schema:
    """The fields of a model as JSON Schema says it: conditions become part of the description."""
    properties = {}
    for name, field in fields(model).items():
        notes = [field.pop("description", ""), *(f"only if {one}" for one in field.pop("only_if", ()))]
        field.pop("required", None)
        properties[name] = field | {"description": "; ".join(filter(None, notes))}
    return properties


def _map(model: type[Config], more: Schema | None = None) -> Schema:
    """A map with the fields of ``model``, and with ``more`` keys. No field is required, as the sweep may set it."""
    return {"type": "object", "properties": {**(more or {}), **_properties(model)}, "additionalProperties": False}


def _slot(slot: Slot) -> tuple[Schema, Schema]:
    """What may fill ``slot``: strictly, where its component is named in base, and loosely, where the sweep names it."""
    inside = [one for one in SLOTS if one.path[:-1] == slot.path]
    strict, any_ = ({one.field: {"$ref": f"#/$defs/{kind}{_name(one)}"} for one in inside} for kind in ("", "any "))
    short = {name: component for name, (component, _) in presets(slot.folder).items()}
    maps, every = [], dict[str, list[Schema]]()
    for name, module in components(slot.folder).items():
        names = [name, *(one for one, component in short.items() if component == name)]
        own = _map(module.Config, {"name": {"enum": names, "description": headline(module)}, **strict})
        maps.append(own | {"required": [] if name == slot.default else ["name"]})
        for field, one in _properties(module.Config).items():
            every.setdefault(field, []).append(one)
    bare = {
        "enum": sorted((*components(slot.folder), *short)),
        "description": f"a component of {slot.key} with its defaults",
    }
    dotted = {"type": "object", "properties": {"name": DOTTED}, "required": ["name"]}
    loose = {"name": {"type": "string"}, **any_, **{field: {"anyOf": ways} for field, ways in every.items()}}
    return {"oneOf": [bare, DOTTED, *maps, dotted]}, {
        "oneOf": [{"type": "string"}, {"type": "object", "properties": loose, "additionalProperties": False}]
    }


def _chosen(slot: Slot) -> Schema:
    """The strict form of ``slot`` unless the sweep or own code makes the loose one necessary."""
    names = [f"{one.key}.name" for one in SLOTS if slot.path in (one.path, one.path[:-1])]
    swept: list[Schema] = [{"properties": {"sweep": {"required": [name]}}, "required": ["sweep"]} for name in names]
    if slot.many:
        no_name = {"properties": {"sweep": {"patternProperties": {r"^attacks\..*name$": False}}}}
        swept = [{"not": no_name}]
    strict, loose = (
        {"type": "array", "items": one} if slot.many else one
        for one in ({"$ref": f"#/$defs/{kind}{_name(slot)}"} for kind in ("", "any "))
    )
    free = {"anyOf": [{"required": ["code"]}, *swept]}
    then, otherwise = ({"properties": {"base": {"properties": {slot.key: one}}}} for one in (loose, strict))
    return {"if": free, "then": then, "else": otherwise}
