"""``fedpriv list``: every component of every slot, one line each, and a component's fields."""

from __future__ import annotations

import textwrap
from types import ModuleType
from typing import Any

from datasets.components import components
from orchestrator.config.errors import ConfigError, ConfigProblem, unknown_name
from orchestrator.config.run import SLOTS


def listing(name: str | None) -> str:
    """The components of all slots, or the fields of those called ``name``. Raises Refusal for a name that nobody has."""
    if not name:
        return (
            "\n\n".join(_slot(slot.key, components(slot.folder)) for slot in SLOTS)
            + "\n\nfedpriv list --help NAME   fields"
        )
    found = [(slot.key, components(slot.folder)[name]) for slot in SLOTS if name in components(slot.folder)]
    if not found:
        known = sorted({component for slot in SLOTS for component in components(slot.folder)})
        raise ConfigError([ConfigProblem(unknown_name(f"unknown component {name!r}", name, known), file="list")])
    return "\n\n".join(_component(key, name, module) for key, module in found)


def _slot(key: str, modules: dict[str, ModuleType]) -> str:
    lines = [f"  {name:16} {_headline(module)}" for name, module in modules.items()]
    return "\n".join([key, *lines])


def _headline(module: ModuleType) -> str:
    return (module.__doc__ or "").strip().split("\n")[0]


def _component(key: str, name: str, module: ModuleType) -> str:
    lines = [f"{key}: {name}", textwrap.indent((module.__doc__ or "").strip(), "  "), "", "  fields"]
    schema: dict[str, Any] = module.Config.model_json_schema()
    for field, described in module.Config.model_fields.items():
        default = "required" if described.is_required() else f"default {described.default!r}"
        lines.append(
            f"    {field:22} {described.description or ''}  [{_allowed_values(schema['properties'][field])}; {default}]"
        )
    return "\n".join(lines if module.Config.model_fields else [*lines, "    none"])


def _allowed_values(field: dict[str, Any]) -> str:
    """The type and range of a field in a few characters."""
    if "anyOf" in field:
        return " or ".join(_allowed_values(part) for part in field["anyOf"])
    if "enum" in field or "const" in field:
        return " | ".join(map(str, field.get("enum", [field.get("const")])))
    words = [str(field.get("type", "any"))]
    for sign, names in ((">=", "minimum"), (">", "exclusiveMinimum"), ("<=", "maximum"), ("<", "exclusiveMaximum")):
        words += [f"{sign} {field[names]:g}"] if names in field else []
    return " ".join(words)
