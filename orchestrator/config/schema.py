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
from orchestrator.config.described_fields import fields, headline, sweep_words
from orchestrator.config.resources import Resources
from orchestrator.config.search_space import GRID
from orchestrator.config.slots import SLOTS, RunFields, Slot
from orchestrator.config.sweep_file import Header
from orchestrator.config.tune_section import KINDS, Goal

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DOTTED: Schema = {"type": "string", "pattern": ":", "description": "a callable by its dotted path, package.module:name"}


def sweep_schema() -> Schema:
    """The schema of a whole sweep file, as plain JSON values."""
    definitions: Schema = {}
    for slot in SLOTS:
        strict, loose = _slot(slot)
        definitions[_named(slot)], definitions[f"any {_named(slot)}"] = strict, loose
    base = _properties(RunFields)
    base["curvature"] = _map(CurvatureConfig)
    base |= {slot.key: {} for slot in SLOTS if "." not in slot.key}  # what may be in them is chosen below
    return {
        "$schema": DIALECT,
        "title": "fedpriv sweep file",
        "type": "object",
        "properties": {
            "code": {"description": "a file or folder with components of your own, or a list of them"},
            **_properties(Header),
            "base": {"type": "object", "properties": base, "additionalProperties": False},
            "sweep": _sweep(),
            "tune": _tune(),
            "resources": {**_map(Resources), "type": ["object", "null"]},
        },
        "required": ["name", "base"],
        "additionalProperties": False,
        "allOf": [_chosen(slot) for slot in SLOTS if "." not in slot.key],
        "$defs": definitions,
    }


def _named(slot: Slot) -> str:
    return slot.key.replace(".", " ")


def _properties(model: type[Config]) -> Schema:
    """The fields of a model as JSON Schema says it: conditions become part of the description."""
    found = {}
    for name, field in fields(model).items():
        notes = [field.get("description", ""), *(f"only if {one}" for one in field.get("only_if", ()))]
        plain = {key: value for key, value in field.items() if key not in ("required", "only_if")}
        found[name] = plain | {"description": "; ".join(filter(None, notes))}
    return found


def _map(model: type[Config], more: Schema | None = None) -> Schema:
    """A map with the fields of ``model``, and with ``more`` keys. No field is required, as the sweep may set it."""
    return {"type": "object", "properties": {**(more or {}), **_properties(model)}, "additionalProperties": False}


def _inner(slot: Slot, kind: str = "") -> Schema:
    """The slots inside ``slot``, by key, in their strict form or, with ``"any "``, in their loose one."""
    return {one.field: {"$ref": f"#/$defs/{kind}{_named(one)}"} for one in SLOTS if one.path[:-1] == slot.path}


def _slot(slot: Slot) -> tuple[Schema, Schema]:
    """What may fill ``slot`` where its component is named in base, and where the sweep names it."""
    found, inner = components(slot.folder), _inner(slot)
    short = {name: component for name, (component, _) in presets(slot.folder).items()}
    maps = []
    for name, module in found.items():
        names = [name, *(one for one, component in short.items() if component == name)]
        own = _map(module.Config, {"name": {"enum": names, "description": headline(module)}, **inner})
        maps.append(own | {"required": [] if name == slot.default else ["name"]})
    bare = {"enum": sorted((*found, *short)), "description": f"a component of {slot.key} with its defaults"}
    dotted = {"type": "object", "properties": {"name": DOTTED}, "required": ["name"]}
    every: Schema = {}
    for module in found.values():
        for field, one in _properties(module.Config).items():
            others = [*every.get(field, {}).get("anyOf", ())]
            every[field] = {"anyOf": [*others, *([one] if one not in others else [])]}
    loose = {"type": "object", "properties": {"name": {"type": "string"}, **_inner(slot, "any "), **every}}
    return {"oneOf": [bare, DOTTED, *maps, dotted]}, {
        "oneOf": [{"type": "string"}, loose | {"additionalProperties": False}]
    }


def _chosen(slot: Slot) -> Schema:
    """The strict form of ``slot`` unless the sweep or own code makes the loose one necessary."""
    inner = [one.key for one in SLOTS if one.path[:-1] == slot.path]
    names = [f"{key}.name" for key in (slot.key, *inner)] if not slot.many else []
    swept = [{"properties": {"sweep": {"type": "object", "required": [name]}}, "required": ["sweep"]} for name in names]
    several = {"properties": {"sweep": {"type": "object", "patternProperties": {r"^attacks\..*name$": False}}}}
    free = {"anyOf": [{"required": ["code"]}, *swept, *([{"not": several}] if slot.many else [])]}
    return {"if": free, "then": _at(slot, "any "), "else": _at(slot, "")}


def _at(slot: Slot, kind: str) -> Schema:
    """The schema of a file with ``slot`` of the given kind in base."""
    one: Schema = {"$ref": f"#/$defs/{kind}{_named(slot)}"}
    if slot.many:
        one = {"type": "array", "items": one}
    return {"properties": {"base": {"properties": {slot.key: one}}}}


def _sweep() -> Schema:
    """The section ``sweep``: dotted keys, each with one of the words."""
    words = {
        word: {
            "type": "array",
            "minItems": 1,
            "description": arguments,
            **({"uniqueItems": True} if word == GRID else {}),
        }
        for word, arguments in sweep_words().items()
    }
    axis = {
        "type": "object",
        "properties": words,
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
    }
    section = {"type": ["object", "null"], "additionalProperties": axis}
    return section | {"description": "dotted keys inside base, such as training.lr: {grid_search: [0.1, 0.2]}"}


def _tune() -> Schema:
    """The section ``tune``."""
    chosen = {}
    for kind, models in KINDS.items():
        maps = [_map(model) | {"required": ["name"]} for model in models.values()]
        chosen[kind] = {"oneOf": [{"enum": list(models)}, *maps, {"type": "null"}]}
    return {**_map(Goal, chosen), "type": ["object", "null"]}
