"""What ``fedpriv list`` shows: components by slot, the fields of one of them or of a part of a sweep file, as data and text.

A field is described by pydantic's own JSON schema, with the conditions under which it is read.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping
from typing import Any

from algorithms.core.configs import CurvatureConfig
from datasets.components import Config, components, presets, readable
from datasets.outside import broken, offers, why_not
from orchestrator.config.errors import ConfigError, ConfigProblem, format_value, unknown_name
from orchestrator.config.search_space import WORDS
from orchestrator.config.slots import SLOTS, RunFields, Slot
from orchestrator.config.sweep_file import Header, Resources
from orchestrator.config.tune_section import KINDS, Tune

# Parts of a sweep file that are no components: their headline and the models whose fields they have, by key.
PARTS: dict[str, tuple[str, dict[str, type[Config]]]] = {
    "file": ("The top of a sweep file, beside the sections base, sweep, tune and resources.", {"fields": Header}),
    "base": (
        "One run: these fields, and a component for each slot (fedpriv list).",
        {"fields": RunFields, "curvature": CurvatureConfig},
    ),
    "resources": (
        "What a sweep may use of the machine or cluster. Nothing here changes a result.",
        {"fields": Resources},
    ),
    "tune": (
        "Early stopping (scheduler) and search by the results of earlier trials; each is optional, one is needed.",
        {"fields": Tune}
        | {f"{kind}: {name}": model for kind, models in KINDS.items() for name, model in models.items()},
    ),
}
TYPES = {"string": "text", "boolean": "true or false", "object": "map", "array": "list"}
SIGNS = {
    "minimum": ">=",
    "exclusiveMinimum": ">",
    "maximum": "<=",
    "exclusiveMaximum": "<",
    "multipleOf": "in steps of",
}
SIZES = {"minItems": "at least", "maxItems": "at most"}


def fields(model: type[Config]) -> dict[str, dict[str, Any]]:
    """The JSON schema of each field, with ``required: true`` or ``default``, and ``only_if``: in words, when it is read."""
    whole = model.model_json_schema() if model.model_fields else {}
    described = {}
    for name, schema in whole.get("properties", {}).items():
        field = {key: value for key, value in _inlined(schema, whole).items() if key not in ("read_when", "title")}
        if model.model_fields[name].is_required():
            field["required"] = True
        if conditions := readable(model, name):
            field["only_if"] = conditions
        described[name] = field
    return described


def _inlined(part: Any, whole: Mapping[str, Any]) -> Any:
    """A part of a JSON schema with what it refers to in place; a JsonValue, which refers to itself, allows anything."""
    if isinstance(part, list):
        return [_inlined(one, whole) for one in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        return {} if name == "JsonValue" else _inlined(whole["$defs"][name], whole)
    return {key: _inlined(one, whole) for key, one in part.items() if key != "discriminator"}


def describe(part: Mapping[str, Any]) -> str:
    """Describe in words what a JSON schema allows; empty if it does not restrict anything.

    >>> describe({"anyOf": [{"type": "number", "exclusiveMinimum": 0, "maximum": 1}, {"const": "auto"}]})
    "number > 0 <= 1 or 'auto'"
    """
    if "anyOf" in part or "oneOf" in part:
        return " or ".join(filter(None, map(describe, part.get("anyOf") or part["oneOf"])))
    if "const" in part:
        return format_value(part["const"])
    if "enum" in part:
        return " or ".join(map(format_value, part["enum"]))
    if "properties" in part:
        return f"a map of {', '.join(part['properties'])}"
    words = [TYPES.get(str(part.get("type")), str(part.get("type", "")))]
    words += [f"{sign} {part[key]:.12g}" for key, sign in SIGNS.items() if key in part]
    words += [f"of {size} {part[key]}" for key, size in SIZES.items() if part.get(key) and "prefixItems" not in part]
    entries = part.get("prefixItems") or [part.get("items") or {}]
    words.append(f"({', '.join(map(describe, entries))})" if any(entries) else "")
    return " ".join(filter(None, words))


def named_components(name: str, command: str) -> list[tuple[Slot, str]]:
    """The components of a name, also that of a preset or ``slot/name``, each with its slot; ``command`` is what asks.

    Raises:
        ConfigError: no component has that name; with the reason or the nearest name.
    """
    where, _, bare = name.rpartition("/")
    slots = [slot for slot in SLOTS if where in ("", slot.key, slot.field, slot.folder.rpartition(".")[2])]
    named = [(slot, bare) for slot in slots if bare in components(slot.folder)]
    named += [(slot, presets(slot.folder)[bare][0]) for slot in slots if bare in presets(slot.folder)]
    if named:
        return named
    known = {one for slot in SLOTS for one in (*components(slot.folder), *presets(slot.folder))} | set(PARTS)
    reasons = [why for slot in SLOTS if (why := why_not(slot.folder, bare))]
    sentences = reasons or [unknown_name(f"unknown component {format_value(name)}", bare, known)]
    raise ConfigError([ConfigProblem(sentence, file=command) for sentence in sentences])


def as_data(name: str | None = None) -> dict[str, Any]:
    """All slots and parts of a sweep file, or what has the name ``name`` (`PARTS`, `named_components`), as JSON values.

    Raises:
        ConfigError: nothing has that name.
    """
    parts = {
        part: {"headline": text, **{key: fields(model) for key, model in models.items()}}
        for part, (text, models) in PARTS.items()
        if name in (None, "", part)
    }
    if name in PARTS:
        return {"slots": {}, "parts": parts}
    if name:
        named = named_components(name, "list")
        return {"slots": {slot.key: _slot(slot, [one]) | {"broken": {}} for slot, one in named}, "parts": parts}
    return {"slots": {slot.key: _slot(slot, components(slot.folder)) for slot in SLOTS}, "parts": parts, "sweep": WORDS}


def _slot(slot: Slot, names: Collection[str]) -> dict[str, Any]:
    """A slot with the components of these names and their presets."""
    origins = {offer.name: offer.origin for offer in offers(slot.folder)}
    texts = {name: (components(slot.folder)[name].__doc__ or "").strip() for name in names}
    return {
        "default": slot.default,
        "many": slot.many,
        "components": {
            name: {
                "headline": text.split("\n")[0],
                "description": text,
                "origin": origins.get(name),
                "fields": fields(components(slot.folder)[name].Config),
            }
            for name, text in texts.items()
        },
        "presets": {
            short: {"component": name, "label": preset.label, "fields": dict(preset.fields)}
            for short, (name, preset) in presets(slot.folder).items()
            if name in names
        },
        "broken": broken(slot.folder),
    }


def listing(name: str | None) -> str:
    """The text that ``fedpriv list`` prints: a line for each component, or the fields of what has the name ``name``.

    Raises:
        ConfigError: nothing has that name.
    """
    data, texts = as_data(name), list[str]()
    if name in PARTS:
        part = data["parts"][name]
        lines = [f"{name}: {part.pop('headline')}"]
        for key, described in part.items():
            lines += ["", f"  {key}", *_lines(described)]
        if name == "file":
            lines += ["", "  words of the section sweep, by dotted key inside base"]
            lines += [f"    {word:22} {arguments}" for word, arguments in WORDS.items()]
        return "\n".join(lines)
    for key, slot in data["slots"].items():
        shown = {}
        for component, one in slot["components"].items():
            if name:
                origin = [f"  from {one['origin']}"] if one["origin"] else []
                lines = [f"{key}: {component}", *origin, textwrap.indent(one["description"], "  "), "", "  fields"]
                texts.append("\n".join([*lines, *(_lines(one["fields"]) or ["    none"])]))
            shown[component] = one["headline"] + (f"  [from {one['origin']}]" if one["origin"] else "")
        for short, preset in slot["presets"].items():
            values = ", ".join(f"{field}: {value}" for field, value in preset["fields"].items())
            shown[short] = f"{preset['label']}: {preset['component']} with {values}"
        shown |= slot["broken"]
        texts += [] if name else ["\n".join([key, *(f"  {one:16} {shown[one]}" for one in sorted(shown))])]
    if not name:
        parts = f"fedpriv list {' | '.join(PARTS)}   shows the fields that belong to no component"
        texts.append(f"fedpriv list NAME   shows the fields of a component\n{parts}")
    return "\n\n".join(texts)


def _lines(described: Mapping[str, Any]) -> list[str]:
    """A line for each field: description, type and range, default, and when it is read."""
    lines = []
    for name, field in described.items():
        default = "required" if "required" in field else f"default {format_value(field.get('default'))}"
        notes = [describe(field) or "any", default, *(f"only if {one}" for one in field.get("only_if", ()))]
        lines.append(f"    {name:22} {field.get('description', '')}  [{'; '.join(notes)}]")
    return lines
