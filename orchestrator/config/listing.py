"""What ``fedpriv list`` shows of components, their fields and the parts of a sweep file: as
text, JSON and a JSON schema.

A field is described by pydantic's own JSON schema, with the conditions under which it is read. The
schema of a sweep file (draft 2020-12), with which editors complete and check, is made of the same,
so a new component is in it. A slot takes a component's name and the fields of all its components;
what is found by looking at several fields at once only the loader checks. Where there is own code
(``code`` at the top of the file), its components and fields are not known here.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping
from typing import Any

from algorithms import releases
from algorithms.core.configs import CurvatureConfig
from algorithms.core.private_search import Draws
from attacks.interfaces import adversary, sees
from datasets.components import Config, complete, components, presets, readable
from datasets.outside import broken, offers, why_not
from orchestrator.config.errors import ConfigError, ConfigProblem, format_value, unknown_name
from orchestrator.config.search_space import GRID, WORDS
from orchestrator.config.slots import SLOTS, RunFields, Slot
from orchestrator.config.sweep_file import Header, Resources
from orchestrator.config.tune_section import KINDS, Tune

Schema = dict[str, Any]

# Parts of a sweep file that are no components: their headline and the models whose fields they
# have, by key.
PARTS: dict[str, tuple[str, dict[str, type[Config]]]] = {
    "file": (
        "The top of a sweep file, beside the sections base, sweep, tune and resources.",
        {"fields": Header},
    ),
    "base": (
        "One run: these fields, and a component for each slot (fedpriv list).",
        {"fields": RunFields, "curvature": CurvatureConfig},
    ),
    "resources": (
        "What a sweep may use of the machine or cluster. Nothing here changes a result.",
        {"fields": Resources},
    ),
    "tune": (
        "Early stopping (scheduler) and search by the results of earlier trials, each "
        "optional, one needed; or draws.",
        {
            "fields": Tune,
            "draws": Draws,
            **{f"{kind}: {name}": model for kind, (name, model) in KINDS.items()},
        },
    ),
}
TYPES = {"string": "text", "boolean": "true or false", "object": "map", "array": "list"}
LIMITS = {
    "minimum": ">= {:.12g}",
    "exclusiveMinimum": "> {:.12g}",
    "maximum": "<= {:.12g}",
    "exclusiveMaximum": "< {:.12g}",
    "multipleOf": "in steps of {:.12g}",
    "minItems": "of at least {}",
    "maxItems": "of at most {}",
}
DOTTED: Schema = {
    "type": "string",
    "pattern": ":",
    "description": "a callable by its dotted path, package.module:name",
}


def fields(model: type[Config]) -> dict[str, dict[str, Any]]:
    """The JSON schema of each field, with ``required: true`` or ``default``, and ``only_if``: in
    words, when it is read.
    """
    whole = model.model_json_schema() if model.model_fields else {}
    described = {}
    for name, schema in whole.get("properties", {}).items():
        field = {
            key: value
            for key, value in _inlined(schema, whole).items()
            if key not in ("read_when", "title")
        }
        if model.model_fields[name].is_required():
            field["required"] = True
        conditions = readable(model, name)
        if conditions:
            field["only_if"] = conditions
        described[name] = field
    return described


def _inlined(part: Any, whole: Mapping[str, Any]) -> Any:
    """A part of a JSON schema with what it refers to in place; a JsonValue, which refers to
    itself, allows anything.
    """
    if isinstance(part, list):
        return [_inlined(entry, whole) for entry in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        return {} if name == "JsonValue" else _inlined(whole["$defs"][name], whole)
    return {key: _inlined(entry, whole) for key, entry in part.items()}


def describe(part: Mapping[str, Any]) -> str:
    """Describe in words what a JSON schema allows; empty if it does not restrict anything.

    >>> share = {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
    >>> describe({"anyOf": [share, {"const": "auto"}]})
    "number > 0 <= 1 or 'auto'"
    """
    ways = part.get("anyOf")
    if ways:
        return " or ".join(filter(None, map(describe, ways)))
    values = part.get("enum") or ([part["const"]] if "const" in part else [])
    if values:
        return " or ".join(map(format_value, values))
    if "properties" in part:
        return f"a map of {', '.join(part['properties'])}"
    entries = part.get("prefixItems") or [part.get("items") or {}]
    limits = {
        key: part[key]
        for key in LIMITS
        if key in part and not (key.endswith("Items") and "prefixItems" in part)
    }
    words = [TYPES.get(str(part.get("type")), str(part.get("type", "")))]
    words += [
        LIMITS[key].format(limit)
        for key, limit in limits.items()
        if limit or not key.endswith("Items")
    ]
    words.append(f"({', '.join(map(describe, entries))})" if any(entries) else "")
    return " ".join(filter(None, words))


def named_components(name: str, command: str) -> list[tuple[Slot, str]]:
    """The components of a name, also that of a preset or ``slot/name``, each with its slot;
    ``command`` is what asks.

    Raises:
        ConfigError: no component has that name; with the reason or the nearest name.
    """
    where, _, bare = name.rpartition("/")
    slots = [
        slot
        for slot in SLOTS
        if where in ("", slot.key, slot.field, slot.folder.rpartition(".")[2])
    ]
    named = [(slot, bare) for slot in slots if bare in components(slot.folder)]
    named += [
        (slot, presets(slot.folder)[bare][0]) for slot in slots if bare in presets(slot.folder)
    ]
    if named:
        return named
    names = {
        other for slot in SLOTS for other in (*components(slot.folder), *presets(slot.folder))
    } | set(PARTS)
    reasons = [why for slot in SLOTS if (why := why_not(slot.folder, bare))]
    sentences = reasons or [unknown_name(f"unknown component {format_value(name)}", bare, names)]
    raise ConfigError([ConfigProblem(sentence, file=command) for sentence in sentences])


def as_data(name: str | None = None) -> dict[str, Any]:
    """All slots and parts of a sweep file, or what ``name`` names (`PARTS`, a slot,
    `named_components`), as JSON values.

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
        whole = [slot for slot in SLOTS if {name, name.removesuffix("s")} & {slot.key, slot.field}]
        named = [
            (slot, one) for slot in whole for one in components(slot.folder)
        ] or named_components(name, "list")
        slots = {
            slot.key: _slot(slot, [one for at, one in named if at is slot]) | {"broken": {}}
            for slot, _ in named
        }
        return {"slots": slots, "parts": parts}
    return {
        "slots": {slot.key: _slot(slot, components(slot.folder)) for slot in SLOTS},
        "parts": parts,
        "sweep": WORDS,
    }


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
    """The text that ``fedpriv list`` prints: a line for each component, or the fields of what
    has the name ``name``.

    Raises:
        ConfigError: nothing has that name.
    """
    data = as_data(name)
    texts = list[str]()
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
        entries = {}
        for component, entry in slot["components"].items():
            origin = f"from {entry['origin']}" if entry["origin"] else ""
            entries[component] = entry["headline"] + (origin and f"  [{origin}]")
            if name:
                head = [f"{key}: {component}", *([f"  {origin}"] if origin else [])]
                described = _lines(entry["fields"]) or ["    none"]
                text = textwrap.indent(entry["description"], "  ")
                texts.append("\n".join([*head, text, "", "  fields", *described]))
        for short, preset in slot["presets"].items():
            values = ", ".join(f"{field}: {value}" for field, value in preset["fields"].items())
            entries[short] = f"{preset['label']}: {preset['component']} with {values}"
        entries |= slot["broken"]
        texts += (
            []
            if name
            else [
                "\n".join([key, *(f"  {other:16} {entries[other]}" for other in sorted(entries))])
            ]
        )
    if not name:
        parts = f"fedpriv list {' | '.join(PARTS)}   shows the fields that belong to no component"
        texts.append(f"fedpriv list NAME   shows the fields of a component\n{parts}")
    return "\n\n".join(texts)


TABLES = {
    "attacks": ("attack", "asks", "attacker", "needs to see", "papers"),
    "defenses": ("defense", "against", "guarantee", "cost", "papers"),
    "guarantees": ("what may leave a client", "when", "seen under `server_sees`", *releases.CLAIMS),
}


def table(which: str) -> str:
    """One of `TABLES` as Markdown: the attacks by what they ask, the defenses, those with a
    guarantee first, or `_released`.
    """
    rows = _released() if which == "guarantees" else _described(which)
    head = TABLES[which]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ("---",) * len(head), *rows))


def _released() -> list[tuple[str, ...]]:
    """What leaves a client, and what each guarantee makes of it."""
    return [
        (
            release.what,
            release.when or "always",
            ", ".join(f"`{view}`" for view in release.views),
            *(release.handling[claim] for claim in releases.CLAIMS),
        )
        for release in releases.RELEASES
    ]


def _described(which: str) -> list[tuple[str, ...]]:
    """What the attacks or the defenses say of themselves."""
    rows = list[tuple[str, ...]]()
    for slot, name, part in (
        (at, it, complete(at.folder, it)) for at in SLOTS for it in components(at.folder)
    ):
        papers = ", ".join(
            f"[{paper}]({address})" for paper, address in getattr(part, "PAPERS", {}).items()
        )
        if slot.many and which == "attacks":
            rows.append((f"`{name}`", part.ASKS, adversary(part), f"`{sees(part)}`", papers))
        elif which == "defenses" and getattr(part, "AGAINST", None):
            rows.append((f"`{slot.key}: {name}`", part.AGAINST, part.GUARANTEE, part.COST, papers))
    rows.sort(key=lambda row: row[1] if which == "attacks" else str(row[2].startswith("none")))
    return rows


def _lines(described: Mapping[str, Any]) -> list[str]:
    """A line for each field: description, type and range, default, and when it is read."""
    lines = []
    for name, field in described.items():
        default = (
            "required" if "required" in field else f"default {format_value(field.get('default'))}"
        )
        notes = [
            describe(field) or "any",
            default,
            *(f"only if {condition}" for condition in field.get("only_if", ())),
        ]
        lines.append(f"    {name:22} {field.get('description', '')}  [{'; '.join(notes)}]")
    return lines


def sweep_schema() -> Schema:
    """The JSON schema of a whole sweep file, as plain JSON values."""
    outer = [slot for slot in SLOTS if len(slot.path) == 1]
    slots = {
        slot.key: {"type": "array", "items": _filled(slot)} if slot.many else _filled(slot)
        for slot in outer
    }
    base = (
        _properties(RunFields)
        | {"curvature": _map(_properties(CurvatureConfig))}
        | {slot: {} for slot in slots}
    )
    words: Schema = {
        word: {"type": "array", "minItems": 1, "description": text} for word, text in WORDS.items()
    }
    words[GRID]["uniqueItems"] = True
    named = {
        kind: {"anyOf": [{"const": name}, _properties(Tune)[kind]]}
        for kind, (name, _) in KINDS.items()
    }
    sections = {
        "code": {"description": "a file or folder with components of your own, or a list of them"},
        "base": _map(base),
        "sweep": {
            "type": ["object", "null"],
            "additionalProperties": _map(words) | {"minProperties": 1, "maxProperties": 1},
            "description": (
                "dotted keys inside base, such as training.lr: {grid_search: [0.1, 0.2]}"
            ),
        },
        "tune": _map(_properties(Tune) | named) | {"type": ["object", "null"]},
        "resources": _map(_properties(Resources)) | {"type": ["object", "null"]},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "fedpriv sweep file",
        **_map(_properties(Header) | sections),
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
        notes = [
            field.pop("description", ""),
            *(f"only if {condition}" for condition in field.pop("only_if", ())),
        ]
        field.pop("required", None)
        properties[name] = field | {"description": "; ".join(filter(None, notes))}
    return properties


def _filled(slot: Slot) -> Schema:
    """What may fill ``slot``: a component's name, or a map with the name and with fields of its
    components.
    """
    names: list[Schema] = [
        {"enum": sorted((*components(slot.folder), *presets(slot.folder)))},
        DOTTED,
    ]
    ways: dict[str, list[Schema]] = {}
    for component, module in components(slot.folder).items():
        for field, schema in _properties(module.Config).items():
            ways.setdefault(field, []).append(
                schema | {"description": f"{component}: {schema['description']}"}
            )
    inner = {other.field: _filled(other) for other in SLOTS if other.path[:-1] == slot.path}
    schemas = {
        field: every[0] if len(every) == 1 else {"anyOf": every} for field, every in ways.items()
    }
    return {"anyOf": [*names, _map({"name": {"anyOf": names}, **inner, **schemas})]}
