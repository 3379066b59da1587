"""The output of ``fedpriv list``: all components by slot, or the fields of one component or part of a sweep file."""

from __future__ import annotations

import textwrap
from typing import Any

from datasets.components import Config, components, presets, readable
from datasets.outside import broken, offers, why_not
from orchestrator.config.described_fields import PARTS, headline, sweep_words
from orchestrator.config.errors import ConfigError, ConfigProblem, unknown_name
from orchestrator.config.slots import SLOTS, Slot


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
        return _part(name)
    found = [(slot, name) for slot in SLOTS if name in components(slot.folder)]
    found += [(slot, presets(slot.folder)[name][0]) for slot in SLOTS if name in presets(slot.folder)]
    if not found and (reasons := [why for slot in SLOTS if (why := why_not(slot.folder, name))]):
        raise ConfigError([ConfigProblem(reason, file="list") for reason in reasons])
    if not found:
        known = names()
        raise ConfigError([ConfigProblem(unknown_name(f"unknown component {name!r}", name, known), file="list")])
    return "\n\n".join(_component(slot.key, slot.folder, own) for slot, own in found)


def names() -> list[str]:
    """Every name that `listing` knows: components, presets and parts of a sweep file."""
    found = {one for slot in SLOTS for one in (*components(slot.folder), *presets(slot.folder))}
    return sorted(found | set(PARTS))


def _part(name: str) -> str:
    text, models = PARTS[name]
    lines = [f"{name}: {text}"]
    for key, model in models.items():
        lines += ["", f"  {key or 'fields'}", *_fields(model, but=("name",) if key else ())]
    if name == "file":
        lines += ["", "  words of the section sweep, by dotted key inside base"]
        lines += [f"    {word:22} {arguments}" for word, arguments in sweep_words().items()]
    return "\n".join(lines)


def _slot(slot: Slot) -> str:
    headlines = {name: headline(module) for name, module in components(slot.folder).items()}
    for name, (component, preset) in presets(slot.folder).items():
        fields = ", ".join(f"{field}: {value}" for field, value in preset.fields.items())
        headlines[name] = f"{preset.label}: {component} with {fields}"
    headlines |= {one.name: f"{headlines.get(one.name, '')}  [from {one.origin}]" for one in offers(slot.folder)}
    headlines |= broken(slot.folder)
    return "\n".join([slot.key, *(f"  {name:16} {headlines[name]}" for name in sorted(headlines))])


def _component(key: str, folder: str, name: str) -> str:
    module = components(folder)[name]
    origin = [f"  from {one.origin}" for one in offers(folder) if one.name == name]
    lines = [f"{key}: {name}", *origin, textwrap.indent((module.__doc__ or "").strip(), "  "), "", "  fields"]
    return "\n".join([*lines, *(_fields(module.Config) or ["    none"])])


def _fields(model: type[Config], but: tuple[str, ...] = ()) -> list[str]:
    """A line for each field of ``model`` ``but`` those: description, range, default, and when it is read."""
    schema: dict[str, Any] = model.model_json_schema()
    lines = []
    for field, described in model.model_fields.items():
        if field in but:
            continue
        notes = [_allowed_values(schema["properties"][field])]
        notes.append("required" if described.is_required() else f"default {described.default!r}")
        notes += [f"only if {condition}" for condition in readable(model, field)]
        lines.append(f"    {field:22} {described.description or ''}  [{'; '.join(notes)}]")
    return lines


def _allowed_values(field: dict[str, Any]) -> str:
    """The type and range of a field in short form."""
    if "anyOf" in field:
        return " or ".join(_allowed_values(part) for part in field["anyOf"])
    if "enum" in field or "const" in field:
        return " | ".join(map(str, field.get("enum", [field.get("const")])))
    if field.get("type") == "array":
        entries = [_allowed_values(one) for one in field.get("prefixItems", [field.get("items", {})])]
        return f"list of {entries[0]}" if len(set(entries)) == 1 else f"list of {', '.join(entries)}"
    words = [str(field.get("type", "any"))]
    for sign, names in ((">=", "minimum"), (">", "exclusiveMinimum"), ("<=", "maximum"), ("<", "exclusiveMaximum")):
        words += [f"{sign} {field[names]:g}"] if names in field else []
    return " ".join(words)
