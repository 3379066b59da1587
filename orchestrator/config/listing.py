"""The output of ``fedpriv list``: all components by slot, or the fields of one component."""

from __future__ import annotations

import textwrap
from types import ModuleType
from typing import Any

from datasets.components import components, presets, readable
from datasets.outside import broken, offers, why_not
from orchestrator.config.errors import ConfigError, ConfigProblem, unknown_name
from orchestrator.config.slots import SLOTS, Slot


def listing(name: str | None) -> str:
    """The text that ``fedpriv list`` prints.

    Args:
        name: a component or preset whose fields to list; None or empty to list all components.

    Raises:
        ConfigError: no component has that name.
    """
    if not name:
        return "\n\n".join([*map(_slot, SLOTS), "fedpriv list --help NAME   shows the fields of a component"])
    found = [(slot, name) for slot in SLOTS if name in components(slot.folder)]
    found += [(slot, presets(slot.folder)[name][0]) for slot in SLOTS if name in presets(slot.folder)]
    if not found and (reasons := [why for slot in SLOTS if (why := why_not(slot.folder, name))]):
        raise ConfigError([ConfigProblem(reason, file="list") for reason in reasons])
    if not found:
        known = sorted({known for slot in SLOTS for known in (*components(slot.folder), *presets(slot.folder))})
        raise ConfigError([ConfigProblem(unknown_name(f"unknown component {name!r}", name, known), file="list")])
    return "\n\n".join(_component(slot.key, slot.folder, own) for slot, own in found)


def _slot(slot: Slot) -> str:
    headlines = {name: _headline(module) for name, module in components(slot.folder).items()}
    for name, (component, preset) in presets(slot.folder).items():
        fields = ", ".join(f"{field}: {value}" for field, value in preset.fields.items())
        headlines[name] = f"{preset.label}: {component} with {fields}"
    headlines |= {one.name: f"{headlines.get(one.name, '')}  [from {one.origin}]" for one in offers(slot.folder)}
    headlines |= broken(slot.folder)
    return "\n".join([slot.key, *(f"  {name:16} {headlines[name]}" for name in sorted(headlines))])


def _headline(module: ModuleType) -> str:
    return (module.__doc__ or "").strip().split("\n")[0]


def _component(key: str, folder: str, name: str) -> str:
    module = components(folder)[name]
    origin = [f"  from {one.origin}" for one in offers(folder) if one.name == name]
    lines = [f"{key}: {name}", *origin, textwrap.indent((module.__doc__ or "").strip(), "  "), "", "  fields"]
    schema: dict[str, Any] = module.Config.model_json_schema()
    for field, described in module.Config.model_fields.items():
        notes = [_allowed_values(schema["properties"][field])]
        notes.append("required" if described.is_required() else f"default {described.default!r}")
        notes += [f"only if {condition}" for condition in readable(module.Config, field)]
        lines.append(f"    {field:22} {described.description or ''}  [{'; '.join(notes)}]")
    return "\n".join(lines if module.Config.model_fields else [*lines, "    none"])


def _allowed_values(field: dict[str, Any]) -> str:
    """The type and range of a field in short form."""
    if "anyOf" in field:
        return " or ".join(_allowed_values(part) for part in field["anyOf"])
    if "enum" in field or "const" in field:
        return " | ".join(map(str, field.get("enum", [field.get("const")])))
    words = [str(field.get("type", "any"))]
    for sign, names in ((">=", "minimum"), (">", "exclusiveMinimum"), ("<=", "maximum"), ("<", "exclusiveMaximum")):
        words += [f"{sign} {field[names]:g}"] if names in field else []
    return " ".join(words)
