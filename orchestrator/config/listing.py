"""What ``fedpriv list`` shows: components by slot, the fields of one of them or of a part of a sweep file, as text or data.

A field is shown as pydantic's own JSON schema says it, with the conditions under which it is read.
"""

from __future__ import annotations

import textwrap
from types import ModuleType
from typing import Any

from algorithms.core.configs import CurvatureConfig
from datasets.components import Config, components, presets, readable
from datasets.outside import broken, offers, why_not
from orchestrator.config.errors import ConfigError, ConfigProblem, describe, unknown_name
from orchestrator.config.search_space import GRID, RANDOM
from orchestrator.config.slots import SLOTS, RunFields, Slot
from orchestrator.config.sweep_file import Header, Resources
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
WORDS = {GRID: "[value, value, ...]"} | {word: arguments for word, (_, arguments) in RANDOM.items()}
"""The words of the section ``sweep``, each with its arguments."""


def fields(model: type[Config]) -> dict[str, dict[str, Any]]:
    """The fields of a configuration as JSON schemas, by name.

    Returns:
        For each field its type and range, ``description``, ``default`` or ``required: true``, and ``only_if``, the
        conditions in words under which it is read.
    """
    described = {}
    for name, schema in model.model_json_schema()["properties"].items() if model.model_fields else ():
        field = {key: value for key, value in schema.items() if key not in ("read_when", "title")}
        if "$ref" in str(field.get("additionalProperties")):  # pydantic's JsonValue: anything
            field["additionalProperties"] = {}
        if model.model_fields[name].is_required():
            field["required"] = True
        if conditions := readable(model, name):
            field["only_if"] = conditions
        described[name] = field
    return described


def headline(module: ModuleType) -> str:
    """The first line of a component's docstring."""
    return (module.__doc__ or "").strip().split("\n")[0]


def names() -> list[str]:
    """Every name that `listing` knows: components, presets and parts of a sweep file."""
    return sorted({one for slot in SLOTS for one in (*components(slot.folder), *presets(slot.folder))} | set(PARTS))


def named_components(name: str) -> list[tuple[Slot, str]]:
    """The components of a name, each with its slot.

    Args:
        name: a component or a preset, also as ``slot/name``.
    """
    where, _, bare = name.rpartition("/")
    slots = [slot for slot in SLOTS if where in ("", slot.key, slot.field, slot.folder.rpartition(".")[2])]
    named = [(slot, bare) for slot in slots if bare in components(slot.folder)]
    return named + [(slot, presets(slot.folder)[bare][0]) for slot in slots if bare in presets(slot.folder)]


def unknown_component(name: str, command: str) -> ConfigError:
    """The refusal of a ``command`` for a name that no component has: why one is none, or the nearest name."""
    bare = name.rpartition("/")[2]
    reasons = [why for slot in SLOTS if (why := why_not(slot.folder, bare))]
    sentences = reasons or [unknown_name(f"unknown component {name!r}", bare, names())]
    return ConfigError([ConfigProblem(sentence, file=command) for sentence in sentences])


def as_data(name: str | None = None) -> dict[str, Any]:
    """All slots and parts of a sweep file, or what has the name ``name``, as plain JSON values.

    Args:
        name: a component, a preset or a part; None or empty for everything. An unknown name gives empty maps.
    """
    wanted = {(slot.key, component) for slot, component in named_components(name)} if name else None
    slots: dict[str, Any] = {}
    for slot in SLOTS:
        shown = {
            one: module for one, module in components(slot.folder).items() if not wanted or (slot.key, one) in wanted
        }
        if not shown or (name and not wanted):
            continue
        slots[slot.key] = {
            "default": slot.default,
            "many": slot.many,
            "components": {
                one: {
                    "headline": headline(module),
                    "description": (module.__doc__ or "").strip(),
                    "fields": fields(module.Config),
                }
                for one, module in shown.items()
            },
            "presets": {
                one: {"component": component, "label": preset.label, "fields": dict(preset.fields)}
                for one, (component, preset) in presets(slot.folder).items()
                if component in shown
            },
        }
    parts = {
        part: {"headline": text, **{(key or "fields"): fields(model) for key, model in models.items()}}
        for part, (text, models) in PARTS.items()
        if name in (None, "", part)
    }
    return {"slots": slots, "parts": parts} | ({} if name else {"sweep": WORDS})


def listing(name: str | None) -> str:
    """The text that ``fedpriv list`` prints.

    Args:
        name: a component, preset or part of a sweep file (`PARTS`) whose fields to list; None or empty to list all
            components.

    Raises:
        ConfigError: nothing has that name.
    """
    if not name:
        parts = f"fedpriv list {' | '.join(PARTS)}   shows the fields that belong to no component"
        return "\n\n".join([*map(_slot, SLOTS), f"fedpriv list NAME   shows the fields of a component\n{parts}"])
    if name in PARTS:
        text, models = PARTS[name]
        lines = [f"{name}: {text}"]
        for key, model in models.items():
            lines += ["", f"  {key or 'fields'}", *_fields(model, but=("name",) if key else ())]
        if name == "file":
            lines += ["", "  words of the section sweep, by dotted key inside base"]
            lines += [f"    {word:22} {arguments}" for word, arguments in WORDS.items()]
        return "\n".join(lines)
    named = named_components(name)
    if not named:
        raise unknown_component(name, "list")
    texts = []
    for slot, component in named:
        module = components(slot.folder)[component]
        origin = [f"  from {one.origin}" for one in offers(slot.folder) if one.name == component]
        lines = [f"{slot.key}: {component}", *origin, textwrap.indent((module.__doc__ or "").strip(), "  "), ""]
        texts.append("\n".join([*lines, "  fields", *(_fields(module.Config) or ["    none"])]))
    return "\n\n".join(texts)


def _slot(slot: Slot) -> str:
    headlines = {name: headline(module) for name, module in components(slot.folder).items()}
    for name, (component, preset) in presets(slot.folder).items():
        values = ", ".join(f"{field}: {value}" for field, value in preset.fields.items())
        headlines[name] = f"{preset.label}: {component} with {values}"
    headlines |= {one.name: f"{headlines.get(one.name, '')}  [from {one.origin}]" for one in offers(slot.folder)}
    headlines |= broken(slot.folder)
    return "\n".join([slot.key, *(f"  {name:16} {headlines[name]}" for name in sorted(headlines))])


def _fields(model: type[Config], but: tuple[str, ...] = ()) -> list[str]:
    """A line for each field of ``model`` ``but`` those: description, range, default, and when it is read."""
    lines = []
    for name, field in fields(model).items():
        if name not in but:
            default = "required" if "required" in field else f"default {model.model_fields[name].default!r}"
            notes = [
                describe(field) or "any",
                default,
                *(f"only if {condition}" for condition in field.get("only_if", ())),
            ]
            lines.append(f"    {name:22} {field.get('description', '')}  [{'; '.join(notes)}]")
    return lines
